"""From decisions to incidents: one connected set of alarmed nodes is one incident, from opening to end.

    hot group ──opened──> open ──updated──> open ──resolved──> cleared    all nodes are as before again
                                                               accepted   operator, or policy after `hold_for`
                                                               timed_out  policy after `hold_for`
                                                               merged     linked with an older one, same onset

An incident is one event: its nodes are linked and changed at the same time. A change next to an open incident
that began at another time opens an incident of its own. A node that is as before again is released at once.

Pure: no clock, no file; the same decisions give the same events. What the windows have to do about it is in
`IncidentTracker.actions` after each call. "No decision" (NaN) is never taken for quiet: it opens and clears
nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from detector.events.label import parse_label
from detector.events.model import Event, Labels, NodeKind, iso, node_events, rounded
from detector.incidents.decision import Actions, Decision, Evidence
from detector.incidents.grouping import attend, merge_linked
from detector.incidents.life_cycle import follow
from detector.incidents.membership import gather
from detector.incidents.open_incidents import IncidentError, OpenIncidents
from estimators.core.types import Bools

__all__ = ["IncidentError", "IncidentTracker"]

LABELLED = "; labelled: "  # between what happened and what people say


class IncidentTracker(OpenIncidents):
    """Takes decisions and the commands of operators."""

    def step(self, decision: Decision, evidence: Evidence) -> list[Event]:
        """Take one decision; returns the events in order and sets `actions`."""
        silent, stuck = self.states.silent, self.states.stuck
        active = self.states.take(decision)
        self.actions = Actions()
        events = self._node_events(decision.time, silent, stuck)
        older = list(self.open.values())
        groups = self.states.groups(active)
        for incident in older:
            gather(self, incident, groups, decision, evidence)
        events += merge_linked(self, decision)
        for group in self.states.groups(active):
            events += attend(self, group, decision, evidence)
        for incident in older:
            if incident.id in self.open:
                events += follow(self, incident, decision, evidence)
        return events

    def _node_events(self, time: float, silent: Bools, stuck: Bools) -> list[Event]:
        sides: list[tuple[Bools, Bools, NodeKind, NodeKind]] = [
            (silent, self.states.silent, "node.silent", "node.returned"),
            (stuck, self.states.stuck, "node.stuck", "node.unstuck"),
        ]
        together: dict[tuple[NodeKind, str | None], list[str]] = {}  # by kind and the incident they belong to
        for old, now, began, ended in sides:
            for v in np.flatnonzero(old != now).tolist():
                kind = began if now[v] else ended
                together.setdefault((kind, self.states.owner.get(v)), []).append(self.states.names[v])
        return [
            event for (kind, incident), names in together.items()
            for event in node_events(kind, names, time, incident)
        ]  # fmt: skip

    def accept(self, id: str, time: float) -> list[Event]:
        """An operator says: this is the new normal. Its nodes learn a new reference from the onset on."""
        self.actions = Actions()
        return [self.resolve(self._find(id), float(time), "accepted", "operator")]

    def clear(self, id: str, time: float) -> list[Event]:
        """An operator says: over, or never was. The references go on from where they were held."""
        self.actions = Actions()
        return [self.resolve(self._find(id), float(time), "cleared", "operator")]

    def set_back(self) -> list[Event]:
        """The clock was set back: what is open is let go, since times before and after do not compare."""
        self.actions = Actions()
        time, self.states.time = self.states.time, None
        events = []
        if time is not None:
            ended = [
                (one.told, self.resolve(one, time, "timed_out", "policy")) for one in list(self.open.values())
            ]
            events = [event for told, event in ended if told]
        self.states.cooling.clear()
        return events

    def label(self, id: str, time: float, **said: Any) -> list[Event]:
        """Keep what people say about an open or lately ended incident (the fields of `Label`).

        What is not given stays as it was. A false alarm does not open an incident of its kind again, until it
        is called a true one. IncidentError if it makes no sense.
        """
        self.actions, time = Actions(), float(time)
        if id not in self.records:
            self._find(id)
        try:
            given = parse_label(said).given()
        except ValueError as error:
            raise IncidentError(f"label of {id}: {error}") from None
        unknown = [name for name in given.get("nodes", ()) if name not in self.states.index]
        if unknown:
            raise IncidentError(f"label of {id}: there is no node {unknown[0]!r}")
        latest = self.records[id]
        labels = msgspec.structs.replace(latest.labels or Labels(time=time), time=time, **given)
        words = ", ".join(f"{key} {_said(value)}" for key, value in labels.given().items())
        happened = latest.summary.partition(LABELLED)[0]  # what a label says must not hide what happened
        sequence = (latest.sequence or 0) + 1
        if id in self.open:
            incident = self.open[id]
            incident.labels, incident.sequence = labels, sequence
            # How high it is by now, not when it was last told: a false alarm is known again up to there.
            latest = msgspec.structs.replace(latest, peak=rounded(incident.peak))
        self.records[id] = msgspec.structs.replace(
            latest, id=f"{id}-{sequence}", event="incident.labelled", sequence=sequence, time=time,
            time_iso=iso(time), by="operator", labels=labels, summary=f"{happened}{LABELLED}{words}",
        )  # fmt: skip
        if labels.alarm == "false":
            self.false_alarms.learn(self.records[id])
        else:
            self.false_alarms.forget(id)
        return [self.records[id]]


def _said(value: str | list[str]) -> str:
    return value if isinstance(value, str) else " ".join(value)
