"""Which incident a group of alarmed nodes belongs to: an open one, a new one; and which incidents are one."""

from __future__ import annotations

import numpy as np

from detector.events.model import Event, incident_id
from detector.incidents.belonging import agrees, around, grows, together
from detector.incidents.decision import Decision, Evidence
from detector.incidents.incident import Incident, larger, worse
from detector.incidents.life_cycle import measure
from detector.incidents.membership import reassess
from detector.incidents.open_incidents import OpenIncidents
from estimators.core.types import Indices


def attend(incidents: OpenIncidents, group: Indices, decision: Decision, evidence: Evidence) -> list[Event]:
    """A group of free nodes opens an incident, unless it belongs to one that is open near it."""
    states, settings, time = incidents.states, incidents.settings, decision.time
    # An earlier group of this tick may have drawn some of them in.
    group = np.array([v for v in group.tolist() if v not in states.owner], np.intp)
    if incidents.actions.release:  # who was let go in this tick opens nothing before the next one
        group = group[~np.isin(group, incidents.actions.release)]
    hot = group[states.hot[group] & (states.hot_row[group] >= settings.confirm)]
    joining = group[states.member[group] & (states.member_row[group] >= settings.join_after)]
    fresh = [v for v in joining.tolist() if v not in states.cooling]
    cooling = any(v in states.cooling for v in group.tolist())
    beside = _beside(incidents, group)
    # Pooled evidence alone opens at once, but not where an incident is open or has just ended: there that
    # one may still shine through, so nodes of its own must speak.
    needed = settings.min_nodes if cooling or beside or settings.min_nodes > 1 else 0
    if not len(hot) or len(fresh) < needed:
        return []
    for other in beside:
        growing = grows(other, time, decision.step)
        if growing and together(other, joining.tolist(), evidence, decision.step):  # it is part of that one
            for v in joining.tolist():
                incidents.join(other, v, time, suspected=True)
            reassess(incidents, other, decision, evidence)
            return []
    incident = Incident(id=incident_id(time, [states.names[v] for v in hot]), opened=time, members={})
    incident.beside = [one.id for one in beside]
    incidents.open[incident.id] = incident
    present = hot[~decision.silent[hot]]
    suspects = present if len(present) else hot
    for v in (joining if len(joining) else suspects).tolist():
        incidents.join(incident, v, time, suspected=not len(joining))
    reassess(incidents, incident, decision, evidence)
    measure(incidents, incident, decision)
    incident.examine(evidence, states.index, incidents.firing(incident), time)
    incident.told = not incidents.false_alarms.account_for(incident)
    if not incident.told:
        return []
    incident.reopened = incidents.reopening.open(list(incident.members), time, decision.step)
    return [incidents.record(incident, "incident.opened", time)]


def _beside(incidents: OpenIncidents, group: Indices) -> list[Incident]:
    """The open incidents with a node near the group."""
    owners = {incidents.states.owner.get(v) for v in around(incidents.states.graph, group.tolist())}
    return [incident for incident in incidents.open.values() if incident.id in owners]


def merge_linked(incidents: OpenIncidents, decision: Decision) -> list[Event]:
    """Incidents that are linked and began together are one; into one that grows no more nothing merges."""
    events = []
    for younger in list(incidents.open.values())[:0:-1]:
        near = {
            incidents.states.owner.get(v)
            for v in around(incidents.states.graph, incidents.members(younger), 1)
        }
        for older in incidents.open.values():
            if older is younger or not younger.told:
                break
            if (
                older.told
                and older.id in near
                and younger.onset
                and grows(older, younger.opened, decision.step)
                and agrees(older, younger.onset, decision.step)
            ):
                events.append(_merge(incidents, younger, older, decision.time))
                break
    return events


def _merge(incidents: OpenIncidents, younger: Incident, survivor: Incident, time: float) -> Event:
    record = incidents.record(younger, "incident.resolved", time, resolution="merged", into=survivor.id)
    survivor.members |= younger.members
    survivor.returned |= younger.returned
    survivor.peak = larger(survivor.peak, younger.peak)
    survivor.severity = worse(survivor.severity, younger.severity)
    survivor.urgent = True
    survivor.settled = survivor.settled and younger.settled
    incidents.states.owner |= {incidents.states.index[name]: survivor.id for name in younger.members}
    incidents.close(younger)
    return record
