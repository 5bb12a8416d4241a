"""An open incident from tick to tick: its severity, its updates, the return of its nodes, and its end."""

from __future__ import annotations

import numpy as np

from detector.events.model import Event
from detector.incidents.belonging import back_since
from detector.incidents.decision import Decision, Evidence
from detector.incidents.incident import Incident, larger, worse
from detector.incidents.open_incidents import OpenIncidents
from detector.settings.span import seconds
from estimators.core.types import Floats

ENDING = 8  # samples as before that make a description doubtful
RETURN_EVERY = 5  # ticks between two looks whether members are back


def measure(incidents: OpenIncidents, incident: Incident, decision: Decision) -> None:
    """Statistics and severity of the incident by this decision."""
    nodes = incidents.states.nodes(incident.members)
    incident.threshold, incident.node_threshold = decision.event_threshold, decision.threshold
    pooled, own = _maximum(decision.event_statistic[nodes]), _maximum(decision.statistic[nodes])
    incident.statistic, incident.peak = pooled, larger(incident.peak, pooled)
    if pooled is None and own is None:
        incident.severity_now = None
        return
    alarmed = sum(not incidents.recovered(incidents.states.index[name]) for name in incident.changed)
    incident.severity_now = incidents.settings.level(alarmed, len(incidents.states.names), incident.size)
    if worse(incident.severity_now, incident.severity) != incident.severity:
        incident.severity, incident.urgent = incident.severity_now, True


def follow(
    incidents: OpenIncidents, incident: Incident, decision: Decision, evidence: Evidence
) -> list[Event]:
    """End an incident, or report what is new about it; of a known false alarm nobody is told."""
    measure(incidents, incident, decision)
    if not incident.told and _is_new(incidents, incident, decision, evidence):
        incident.told = True
        return [incidents.record(incident, "incident.opened", decision.time)]
    events = _follow(incidents, incident, decision, evidence)
    if not incident.told and incident.id not in incidents.open:
        incidents.records.pop(incident.id, None)
    return events if incident.told else []


def _is_new(incidents: OpenIncidents, incident: Incident, decision: Decision, evidence: Evidence) -> bool:
    """Whether what seemed a known false alarm is another event after all; not while it is ending."""
    if incident.returned or not incident.members or decision.tick % RETURN_EVERY:
        return False
    if _ending(incidents, incident, evidence):
        return False
    incident.examine(evidence, incidents.states.index, incidents.firing(incident), decision.time)
    return not incidents.false_alarms.account_for(incident)


def _follow(
    incidents: OpenIncidents, incident: Incident, decision: Decision, evidence: Evidence
) -> list[Event]:
    settings, time = incidents.settings, decision.time
    nodes = incidents.states.nodes(incident.members)
    hot = bool(incidents.states.hot[nodes].any())
    if hot:
        incident.quiet = 0
    elif not np.isnan(decision.event_statistic[nodes]).all():
        incident.quiet += 1
    present = nodes[~decision.silent[nodes]]
    cool = len(present) > 0 and bool((incidents.states.cool_row[present] >= settings.clear_after).all())
    if _is_earlier(incidents, incident, decision, evidence):
        return [incidents.resolve(incident, time, "restored", "detector")]
    if (cool and incident.quiet >= settings.clear_after) or _let_return(
        incidents, incident, decision, evidence
    ):
        return [incidents.resolve(incident, time, "cleared", "detector")]
    nodes = incidents.states.nodes(incident.members)
    hold_for = None if settings.hold_for is None else seconds(settings.hold_for, decision.step)
    held = hold_for is not None and time - incident.opened >= hold_for
    if not len(nodes) or held:
        if hot or incidents.states.firing[nodes].any():
            accept = settings.after_hold == "accept"
            return [incidents.resolve(incident, time, "accepted" if accept else "timed_out", "policy")]
        if not len(nodes) or np.isnan(decision.statistic[nodes]).any():
            # Nobody can tell any more: without this it would stay open for ever.
            return [incidents.resolve(incident, time, "timed_out", "policy")]
    due = incident.urgent or time - incident.looked >= seconds(settings.update_every, decision.step)
    due |= not incident.description  # how it changed must not wait either
    if incident.told and due:
        if not _ending(
            incidents, incident, evidence
        ):  # what is half back would be described as something else
            incident.examine(evidence, incidents.states.index, incidents.firing(incident), time)
        if incident.news:
            return [incidents.record(incident, "incident.updated", time)]
    return []


def _is_earlier(incidents: OpenIncidents, incident: Incident, decision: Decision, evidence: Evidence) -> bool:
    """Whether its nodes are back to what was their normal before a change was accepted."""
    latest = incidents.settings.clear_after
    if decision.tick % RETURN_EVERY or not incident.changed:
        return False
    nodes = [incidents.states.index[name] for name in incident.changed]
    if not all(evidence.earlier(v, latest) for v in nodes):
        return False
    incidents.actions.restore |= dict.fromkeys(nodes, decision.time - latest * decision.step)
    return True


def _ending(incidents: OpenIncidents, incident: Incident, evidence: Evidence) -> bool:
    """Whether some of its nodes seem to be coming back."""
    if incident.fading:
        return True
    names = [name for name in incident.changed if not incidents.states.silent[incidents.states.index[name]]]
    nodes = np.array([incidents.states.index[name] for name in names], np.int32)
    if incident.returned or not len(nodes):
        return bool(incident.returned)
    since = np.full(len(nodes), incident.begin)
    return bool(2 * np.count_nonzero(evidence.returned(nodes, since, ENDING)) >= len(nodes))


def _let_return(incidents: OpenIncidents, incident: Incident, decision: Decision, evidence: Evidence) -> bool:
    """Release the members that are as before again; whether nobody is left who is not."""
    latest, states = incidents.settings.clear_after, incidents.states
    if decision.tick % RETURN_EVERY or not incident.members:
        return False
    mute = states.silent | states.stuck  # what they show says nothing about a return
    older = [name for name, member in incident.members.items() if member.since < decision.time]
    names = [name for name in older if not mute[states.index[name]]]
    nodes = np.array([states.index[name] for name in names], np.int32)
    onsets = [incident.members[name].onset for name in names]
    since = np.array([incident.begin if own is None else own.time for own in onsets])
    back = np.asarray(evidence.returned(nodes, since, latest)) if len(nodes) else np.zeros(0, np.bool_)
    if not back.any():
        return False
    # Long enough for all of the latest samples to be as before, and none of the change among them.
    when = back_since(nodes[back].tolist(), incident, evidence)
    begin = decision.time - latest * decision.step
    when = {v: since for v, since in when.items() if since <= begin}
    for v in when:
        incidents.leave(incident, v, when[v])
        incidents.actions.forget[v] = begin  # older samples may still hold the change, wherever it was dated
    rest = states.nodes(incident.members)
    if len(rest) and (states.firing[rest].any() or mute[rest].any() or not when):
        return False
    for v in rest.tolist():  # nobody is left who is changed beyond doubt
        incidents.actions.forget[v] = begin
    return True


def _maximum(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else None
