"""Which nodes belong to an open incident: by their own data or, where these say nothing, by thresholds."""

from __future__ import annotations

import numpy as np

from detector.incidents.belonging import AGE, UNLIKELY, around, assess, grows, linked, together
from detector.incidents.decision import Decision, Evidence
from detector.incidents.incident import Incident
from detector.incidents.open_incidents import POSSIBLE, OpenIncidents
from estimators.core.types import Indices

KEPT, NAMED = 0.8, 0.5  # probability at which a changed node stays so, and one over its own threshold is


def gather(
    incidents: OpenIncidents,
    incident: Incident,
    groups: list[Indices],
    decision: Decision,
    evidence: Evidence,
) -> None:
    """Ask who belongs to an open incident: now and then, and sooner where a node near it is hot."""
    if not grows(incident, decision.time, decision.step):
        return
    near = around(incidents.states.graph, incidents.members(incident))
    hot = any(incidents.states.hot[v] and v in near for group in groups for v in group.tolist())
    age = decision.time - incident.begin
    if decision.time >= incident.assess_at - (AGE - AGE / 3.0) * age * hot:
        reassess(incidents, incident, decision, evidence)


def reassess(incidents: OpenIncidents, incident: Incident, decision: Decision, evidence: Evidence) -> None:
    """Renew onset and standing of the nodes; those that belong join, those that do not are let go."""
    states, time = incidents.states, decision.time
    incident.assess_at = time + AGE * (time - incident.begin)
    incident.date(evidence, states.index, incidents.firing(incident), anew=True)
    standings = assess(incident, states, evidence)
    if standings is None:
        _join_by_threshold(incidents, incident, decision, evidence)
        return
    certain = bool(incident.changed)
    for name, member in incident.members.items():
        if (standing := standings.get(states.index[name])) is not None:
            member.probability, member.p_value = standing.probability, standing.p_value
            kept = not member.suspected and standing.probability >= KEPT
            named = states.member[states.index[name]] and standing.probability >= NAMED
            member.suspected = not (standing.changed or kept or bool(named))
    free = {v for v in standings if v not in states.owner}
    likely = {v for v in free if standings[v].changed or standings[v].probability >= POSSIBLE}
    for v in sorted(linked(states.graph, incidents.members(incident), likely)):
        standing = standings[v]
        if together(incident, [v], evidence, decision.step):
            incidents.join(incident, v, time, not standing.changed)
            member = incident.members[states.names[v]]
            member.probability, member.p_value = standing.probability, standing.p_value
    if incident.changed:
        for v, standing in standings.items():
            out = (
                standing.probability < UNLIKELY and states.cool_row[v] >= incidents.settings.clear_after // 2
            )
            if out and states.owner.get(v) == incident.id:
                incidents.leave(incident, v)
    incident.urgent |= bool(incident.changed) and not certain  # who it is must not wait


def _join_by_threshold(
    incidents: OpenIncidents, incident: Incident, decision: Decision, evidence: Evidence
) -> None:
    """Where only thresholds tell: members next to the incident that changed when it began."""
    states = incidents.states
    incident.assess_at = decision.time
    certain = bool(incident.changed)
    for name, member in incident.members.items():
        member.suspected &= not bool(states.member[states.index[name]])
    if incident.changed:
        for v in incidents.members(incident):
            if incident.members[states.names[v]].suspected and incidents.recovered(v):
                incidents.leave(incident, v)
    ripe = states.member & (states.member_row >= incidents.settings.join_after)
    likely = {v for v in np.flatnonzero(ripe).tolist() if v not in states.owner}
    for v in sorted(linked(states.graph, incidents.members(incident), likely, 1)):
        if together(incident, [v], evidence, decision.step):
            incidents.join(incident, v, decision.time, False)
    incident.urgent |= bool(incident.changed) and not certain
