"""From verdicts to incidents: one connected set of alarmed nodes is one incident, from opening to end.

    hot group ──opened──> open ──updated──> open ──resolved──> cleared    cool for `clear_after` ticks
                                                               accepted   operator, or policy after `hold_for`
                                                               timed_out  policy after `hold_for`
                                                               merged     linked with an older incident

Pure: no clock, no file; the same verdicts give the same events. What the windows have to do about it stands
in `Incidents.actions` after each call. "No verdict" (NaN) is never taken for quiet: it opens and clears
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from detector.dossier import Incident, Member, node_record, node_state, worse
from detector.events import (
    Alarm,
    By,
    Event,
    IncidentKind,
    Labels,
    NodeKind,
    Resolution,
    incident_id,
    iso,
    node_event,
)  # fmt: skip
from detector.roster import Nodes, Roster
from detector.verdict import Actions, Bools, Evidence, Floats, IncidentSettings, Verdict
from estimators.graph import Graph

__all__ = ["Actions", "Evidence", "IncidentError", "IncidentSettings", "Incidents", "Verdict"]

LABELLED = "; labelled: "  # between what happened and what people say


class IncidentError(ValueError):
    """A command named an incident that is unknown or has ended, or a node that is unknown."""


class Incidents:
    """The open incidents of a network and the memory they need."""

    def __init__(self, names: Sequence[str], graph: Graph, settings: IncidentSettings | None = None) -> None:
        self.settings = settings or IncidentSettings()
        self.roster = Roster(names, graph)
        self.open: dict[str, Incident] = {}  # in the order of opening
        self.records: dict[str, Event] = {}  # latest record of every open and lately ended incident
        self.actions = Actions()
        self._hot: set[str] = set()  # incidents with a hot node in or next to them, in this step

    @property
    def held(self) -> set[int]:
        """The nodes whose reference is frozen: those of the open incidents."""
        return set(self.roster.owner)

    def step(self, verdict: Verdict, evidence: Evidence) -> list[Event]:
        """Take one verdict; returns the events in order and sets `actions`."""
        silent, stuck = self.roster.silent, self.roster.stuck
        active = self.roster.take(verdict)
        self.actions = Actions()
        events = self._node_events(verdict.time, silent, stuck)
        older = list(self.open.values())
        self._hot.clear()
        for group in self.roster.groups(active):
            events += self._attend(group, verdict, evidence)
        for incident in older:
            if incident.id in self.open:
                events += self._follow(incident, verdict, evidence)
        return events

    def _node_events(self, time: float, silent: Bools, stuck: Bools) -> list[Event]:
        sides: list[tuple[Bools, Bools, NodeKind, NodeKind]] = [
            (silent, self.roster.silent, "node.silent", "node.returned"),
            (stuck, self.roster.stuck, "node.stuck", "node.unstuck"),
        ]
        return [
            node_event(began if now[v] else ended, self.roster.names[v], time, self.roster.owner.get(int(v)))
            for old, now, began, ended in sides
            for v in np.flatnonzero(old != now)
        ]

    def _attend(self, group: Nodes, verdict: Verdict, evidence: Evidence) -> list[Event]:
        """A group without incident may open one; incidents in one group become one; members join."""
        ripe = self.roster.member & (self.roster.member_row >= self.settings.join_after)
        joining = group[ripe[group]]
        inside = {self.roster.owner[v] for v in group.tolist() if v in self.roster.owner}
        if not inside:
            return self._open(group, joining, verdict, evidence)
        survivor, *younger = [incident for incident in self.open.values() if incident.id in inside]
        events = [self._merge(incident, survivor, verdict.time) for incident in younger]
        self._join(survivor, joining, verdict.time, suspected=False)
        if self.roster.hot[group].any():
            self._hot.add(survivor.id)
        return events

    def _open(self, group: Nodes, joining: Nodes, verdict: Verdict, evidence: Evidence) -> list[Event]:
        settings, roster, time = self.settings, self.roster, verdict.time
        hot = group[roster.hot[group] & (roster.hot_row[group] >= settings.confirm)]
        fresh = [v for v in joining.tolist() if v not in roster.cooling]
        cooling = any(v in roster.cooling for v in group.tolist())
        # Pooled evidence alone opens at once, but not where an incident has just ended: there the old one may
        # still shine through, so nodes of its own must speak.
        needed = settings.min_nodes if cooling or settings.min_nodes > 1 else 0
        if not len(hot) or len(fresh) < needed:
            return []
        incident = Incident(id=incident_id(time, [roster.names[v] for v in hot]), opened=time, members={})
        self.open[incident.id] = incident
        present = hot[~verdict.silent[hot]]
        suspects = present if len(present) else hot
        self._join(incident, joining if len(joining) else suspects, time, suspected=not len(joining))
        self._measure(incident, verdict)
        incident.examine(evidence, roster.index, self._firing(incident), time)
        return [self._record(incident, "incident.opened", time)]

    def _merge(self, younger: Incident, survivor: Incident, time: float) -> Event:
        record = self._record(younger, "incident.resolved", time, resolution="merged", into=survivor.id)
        survivor.members |= younger.members
        survivor.peak = _largest(survivor.peak, younger.peak)
        survivor.severity = worse(survivor.severity, younger.severity)
        survivor.changed = survivor.urgent = True
        survivor.grown = time
        survivor.settled = survivor.settled and younger.settled
        self.roster.owner |= {self.roster.index[name]: survivor.id for name in younger.members}
        self._close(younger)
        return record

    def _join(self, incident: Incident, nodes: Nodes, time: float, suspected: bool) -> None:
        certain = incident.certain
        for v in nodes.tolist():
            member = incident.members.get(self.roster.names[v])
            if member is None:
                incident.members[self.roster.names[v]] = Member(since=time, suspected=suspected)
                self.roster.join(v, incident.id)
                self.actions.hold.append(v)
                incident.changed, incident.settled, incident.grown = True, False, time
            elif member.suspected and not suspected:
                member.suspected, incident.changed = False, True
        if incident.certain and not certain:
            incident.urgent = True  # who it is must not wait for the next regular update

    def _measure(self, incident: Incident, verdict: Verdict) -> None:
        """Statistics and severity of the incident by this verdict."""
        nodes = self.roster.nodes(incident.members)
        incident.threshold, incident.node_threshold = verdict.event_threshold, verdict.threshold
        pooled, own = _maximum(verdict.event_statistic[nodes]), _maximum(verdict.statistic[nodes])
        incident.statistic, incident.peak = pooled, _largest(incident.peak, pooled)
        if pooled is None and own is None:
            incident.severity_now = None
            return
        excess = max(_excess(pooled, verdict.event_threshold), _excess(own, verdict.threshold))
        alarmed = sum(
            not member.suspected and not self._recovered(self.roster.index[name])
            for name, member in incident.members.items()
        )
        incident.severity_now = self.settings.level(excess, alarmed)
        if worse(incident.severity_now, incident.severity) != incident.severity:
            incident.severity, incident.urgent = incident.severity_now, True

    def _follow(self, incident: Incident, verdict: Verdict, evidence: Evidence) -> list[Event]:
        """End an incident, or tell its news."""
        settings, time = self.settings, verdict.time
        nodes = self.roster.nodes(incident.members)
        self._measure(incident, verdict)
        hot = incident.id in self._hot
        if hot:
            incident.quiet = 0
        elif not np.isnan(verdict.event_statistic[nodes]).all():
            incident.quiet += 1
        present = nodes[~verdict.silent[nodes]]
        cool = len(present) > 0 and bool((self.roster.cool_row[present] >= settings.clear_after).all())
        if cool and incident.quiet >= settings.clear_after:
            return [self._resolve(incident, time, "cleared", "detector")]
        if not len(nodes) or (settings.hold_for is not None and time - incident.grown >= settings.hold_for):
            if hot or self.roster.firing[nodes].any():
                accept = settings.after_hold == "accept"
                return [self._resolve(incident, time, "accepted" if accept else "timed_out", "policy")]
            if not len(nodes) or np.isnan(verdict.statistic[nodes]).any():
                # Nobody can tell any more: without this it would stay open for ever.
                return [self._resolve(incident, time, "timed_out", "policy")]
        self._drop_suspects(incident)
        if incident.urgent or time - incident.looked >= settings.update_every:
            if incident.changed or incident.urgent or not incident.settled:
                incident.examine(evidence, self.roster.index, self._firing(incident), time)
            if incident.news:
                return [self._record(incident, "incident.updated", time)]
        return []

    def _drop_suspects(self, incident: Incident) -> None:
        """Nodes that only the pooled evidence named leave, once others are certain and they stayed cool."""
        if not incident.certain:
            return
        for name, member in list(incident.members.items()):
            v = self.roster.index[name]
            if member.suspected and self._recovered(v):
                del incident.members[name], self.roster.owner[v]
                self.actions.release.append(v)
                incident.changed = True

    def _resolve(self, incident: Incident, time: float, resolution: Resolution, by: By) -> Event:
        record = self._record(incident, "incident.resolved", time, resolution=resolution, by=by)
        for name, member in incident.members.items():
            v = self.roster.index[name]
            del self.roster.owner[v]
            if self.settings.cool_down > 0.0:
                self.roster.cooling[v] = time + self.settings.cool_down
            if resolution == "accepted" and not self._recovered(v):
                self.actions.rebaseline[v] = member.onset.time if member.onset else member.since
            else:  # a node that came back to before needs no new reference
                self.actions.release.append(v)
        self._close(incident)
        return record

    def _close(self, incident: Incident) -> None:
        del self.open[incident.id]
        ended = [id for id in self.records if id not in self.open]
        for id in ended[: max(0, len(ended) - self.settings.keep)]:
            del self.records[id]

    def accept(self, id: str, time: float) -> list[Event]:
        """An operator says: this is the new normal. Its nodes learn a new reference from the onset on."""
        self.actions = Actions()
        return [self._resolve(self._find(id), float(time), "accepted", "operator")]

    def clear(self, id: str, time: float) -> list[Event]:
        """An operator says: over, or never was. The references go on from where they were held."""
        self.actions = Actions()
        return [self._resolve(self._find(id), float(time), "cleared", "operator")]

    def set_back(self) -> list[Event]:
        """The clock was set back: what is open is let go, since times before and after do not compare."""
        self.actions = Actions()
        time, self.roster.time = self.roster.time, None
        events = []
        if time is not None:
            events = [self._resolve(one, time, "timed_out", "policy") for one in list(self.open.values())]
        self.roster.cooling.clear()
        return events

    def label(self, id: str, time: float, *, alarm: Alarm | None = None, type: str | None = None,
              nodes: Sequence[str] | None = None, note: str | None = None) -> list[Event]:  # fmt: skip
        """Keep what people say about an open or lately ended incident; what is not given stays as it was."""
        self.actions, time = Actions(), float(time)
        if id not in self.records:
            self._find(id)
        unknown = [name for name in nodes or () if name not in self.roster.index]
        if unknown:
            raise IncidentError(f"label of {id}: there is no node {unknown[0]!r}")
        values = {"alarm": alarm, "type": type, "nodes": None if nodes is None else list(nodes), "note": note}
        given = {key: value for key, value in values.items() if value is not None}
        latest = self.records[id]
        labels = msgspec.structs.replace(latest.labels or Labels(time=time), time=time, **given)
        known = {key: getattr(labels, key) for key in values}
        said = ", ".join(f"{key} {_said(value)}" for key, value in known.items() if value is not None)
        happened = latest.summary.partition(LABELLED)[0]  # what a label says must not hide what happened
        sequence = (latest.sequence or 0) + 1
        if id in self.open:
            self.open[id].labels, self.open[id].sequence = labels, sequence
        self.records[id] = msgspec.structs.replace(
            latest, id=f"{id}-{sequence}", event="incident.labelled", sequence=sequence, time=time,
            time_iso=iso(time), by="operator", labels=labels, summary=f"{happened}{LABELLED}{said}",
        )  # fmt: skip
        return [self.records[id]]

    def _find(self, id: str) -> Incident:
        if id in self.open:
            return self.open[id]
        if id in self.records:
            raise IncidentError(f"incident {id} has ended already ({self.records[id].resolution})")
        raise IncidentError(f"incident {id} is not known; open: {', '.join(self.open) or 'none'}")

    def _recovered(self, v: int) -> bool:
        return bool(self.roster.cool_row[v] >= self.settings.clear_after)

    def _ranked(self, incident: Incident) -> list[str]:
        """Its nodes, largest peak first."""
        peak = np.nan_to_num(self.roster.peak, nan=-np.inf)
        return sorted(incident.members, key=lambda name: (-peak[self.roster.index[name]], name))

    def _firing(self, incident: Incident) -> list[str]:
        """The nodes worth a look: not cool, not silent, and certain if any is."""
        at = self.roster.index
        names = [name for name in self._ranked(incident)
                 if self.roster.cool_row[at[name]] == 0 and not self.roster.silent[at[name]]]  # fmt: skip
        return [name for name in names if not incident.members[name].suspected] or names

    def _record(self, incident: Incident, kind: IncidentKind, time: float, *, by: By = "detector",
                resolution: Resolution | None = None, into: str | None = None) -> Event:  # fmt: skip
        nodes = []
        for name in self._ranked(incident):
            v, member = self.roster.index[name], incident.members[name]
            silent, stuck = bool(self.roster.silent[v]), bool(self.roster.stuck[v])
            state = node_state(member, silent, stuck, self._recovered(v))
            nodes.append(node_record(name, member, state, self.roster.statistic[v], self.roster.peak[v]))
        record = incident.record(kind, time, nodes, by, resolution, into)
        self.records.pop(incident.id, None)  # the latest goes to the end: the first ended is forgotten first
        self.records[incident.id] = record
        return record

    def state(self) -> dict[str, Any]:
        """Everything, JSON-ready, by node name; after `restore` the later events are identical."""
        return {
            "version": 1,
            "open": [msgspec.to_builtins(incident) for incident in self.open.values()],
            "records": [record.record() for record in self.records.values()],
            "roster": self.roster.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a `state`. Nodes that the network no longer has are left out."""
        if state.get("version") != 1:
            raise ValueError(f"incidents: state of version {state.get('version')!r} cannot be read, only 1")
        self.actions = Actions()
        self.roster = roster = Roster(self.roster.names, self.roster.graph)
        roster.restore(state["roster"])
        incidents = [msgspec.convert(raw, Incident) for raw in state["open"]]
        for incident in incidents:
            incident.members = {
                name: member for name, member in incident.members.items() if name in roster.index
            }
            roster.owner |= {roster.index[name]: incident.id for name in incident.members}
        self.open = {incident.id: incident for incident in incidents}
        records = [msgspec.convert(raw, Event) for raw in state["records"]]
        self.records = {str(record.incident): record for record in records}


def _said(value: str | list[str]) -> str:
    return value if isinstance(value, str) else " ".join(value)


def _maximum(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else None


def _largest(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else max(a, b)


def _excess(statistic: float | None, threshold: float) -> float:
    """Statistic over threshold; where the threshold is no scale (not positive), by their difference."""
    if statistic is None:
        return 0.0
    return statistic / threshold if threshold > 0.0 else 1.0 + statistic - threshold
