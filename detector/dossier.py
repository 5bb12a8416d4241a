"""What is known about one open incident (nodes, onset, description, severity) and the record that says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from detector.describe import Comparison, Onset, compare, onset, pool, pooled_onset
from detector.events import (
    By,
    Change,
    Event,
    IncidentKind,
    Labels,
    NodeRecord,
    NodeState,
    Resolution,
    Severity,
    clock,
    iso,
    rounded,
)
from detector.verdict import Evidence

LEVELS: tuple[Severity, ...] = ("info", "warning", "critical")
MAX_DESCRIBED = 200  # nodes looked at in detail for one record, the strongest first: bounds its cost
SAID = 3  # statements in a summary


class Member(msgspec.Struct):
    """One node of an open incident."""

    since: float
    suspected: bool  # only the evidence pooled around it points here
    onset: Onset | None = None
    change: list[Change] = []


class Incident(msgspec.Struct):
    """An open incident. Everything here is JSON-ready, so that it can be stored as it is."""

    id: str
    opened: float
    members: dict[str, Member]
    sequence: int = 0
    grown: float = 0.0  # when the last node joined
    looked: float = 0.0  # when the evidence was last examined
    quiet: int = 0  # ticks since a node in it or linked to it was hot
    severity: Severity = "info"
    severity_now: Severity | None = None
    statistic: float | None = None
    peak: float | None = None
    threshold: float | None = None
    node_threshold: float | None = None
    onset: Onset | None = None
    description: list[Change] = []
    labels: Labels | None = None
    settled: bool = False  # the onset has left the windows: it can be known no better
    changed: bool = False  # the set of nodes is not the one last announced
    urgent: bool = False  # something happened that no rate limit may hold back
    said_onset: Onset | None = None
    said_headline: str = ""

    @property
    def certain(self) -> bool:
        """Whether any node is named by its own statistic."""
        return any(not member.suspected for member in self.members.values())

    @property
    def headline(self) -> str:
        return (
            " ".join([self.description[0].kind, *self.description[0].components]) if self.description else ""
        )

    @property
    def news(self) -> bool:
        """Whether there is something to say that the last record did not say."""
        return self.changed or self.urgent or self.headline != self.said_headline or self._onset_moved

    @property
    def _onset_moved(self) -> bool:
        """A move within the interval already announced is no news."""
        if self.onset is None or self.said_onset is None:
            return self.onset is not self.said_onset
        earliest = self.said_onset.earliest
        return self.onset.time > self.said_onset.latest or (
            earliest is not None and self.onset.time < earliest
        )

    def examine(
        self, evidence: Evidence, index: Mapping[str, int], names: Sequence[str], time: float
    ) -> None:
        """Look at the windows of the firing nodes ``names`` and renew onsets and descriptions.

        An onset is renewed only while the windows still reach back to it: later they would cut it off. The
        reference is held, so that the description stays a comparison with the time before.
        """
        self.looked = time
        series, comparisons, open_end = [], [], False
        for name in names[:MAX_DESCRIBED]:
            member, v = self.members[name], index[name]
            times = np.asarray(evidence.sample_times(v), dtype=np.float64)
            if not len(times):
                continue
            ratio = np.asarray(evidence.log_ratio(v), dtype=np.float64)
            if times[0] < _reach(member.onset, member.since):
                member.onset, open_end = onset(ratio, times) or member.onset, True
            if times[0] < _reach(self.onset, self.opened):
                series.append((ratio, times))
            begin = _begin(member.onset, member.since)
            comparison = compare(evidence.reference(v), evidence.recent(v)[times >= begin], evidence.scale(v))
            if comparison is not None:
                comparisons.append(comparison)
                member.change = pool([comparison], evidence.components)
        self._conclude(series, comparisons, evidence.components)
        self.settled = bool(names) and not open_end and not series

    def _conclude(self, series: list[tuple[NDArray[Any], NDArray[Any]]], comparisons: list[Comparison],
                  components: Sequence[str]) -> None:  # fmt: skip
        if series:
            self.onset = pooled_onset(series) or self.onset
        if comparisons:
            self.description = pool(comparisons, components) or self.description

    def record(self, kind: IncidentKind, time: float, nodes: Sequence[NodeRecord], by: By = "detector",
               resolution: Resolution | None = None, merged_into: str | None = None) -> Event:  # fmt: skip
        """The next record of this incident; what it says counts as announced."""
        self.sequence += 1
        self.changed = self.urgent = False
        self.said_onset, self.said_headline = self.onset, self.headline
        begin = self.onset
        return Event(
            id=f"{self.id}-{self.sequence}", event=kind, time=time, time_iso=iso(time),
            summary=self.summary(time, nodes, resolution, merged_into), severity=self.severity,
            severity_now=self.severity_now, incident=self.id, sequence=self.sequence, opened=self.opened,
            onset=begin.time if begin else None, onset_iso=iso(begin.time) if begin else None,
            onset_earliest=begin.earliest if begin else None, onset_latest=begin.latest if begin else None,
            nodes=list(nodes), statistic=rounded(self.statistic), peak=rounded(self.peak),
            threshold=rounded(self.threshold), node_threshold=rounded(self.node_threshold),
            description=list(self.description), resolution=resolution, merged_into=merged_into, by=by,
            labels=self.labels,
        )  # fmt: skip

    def summary(self, time: float, nodes: Sequence[NodeRecord], resolution: Resolution | None,
                merged_into: str | None) -> str:  # fmt: skip
        """One sentence: which nodes, since when, how; and how it ended."""
        when = clock(_begin(self.onset, self.opened), time)
        certain = [node.name for node in nodes if node.state != "suspected"]
        if not certain:
            around = nodes[0].name if nodes else "no node"
            what = f"something changed around {around} at {when}, no single node is certain yet"
        else:
            what = f"{_count(certain)} changed at {when}"
        how = ", ".join(change.text for change in self.description[:SAID])
        sentence = f"{what}: {how or 'too few samples yet to say how'}"
        endings = {
            "cleared": "back to before", "accepted": "accepted as the new normal",
            "timed_out": "let go by policy", "merged": f"merged into {merged_into}",
        }  # fmt: skip
        return f"{endings[resolution]}: {sentence}" if resolution else sentence


def node_state(member: Member, silent: bool, stuck: bool, recovered: bool) -> NodeState:
    if silent:
        return "silent"
    if stuck:
        return "stuck"
    return "recovered" if recovered else "suspected" if member.suspected else "alarmed"


def node_record(name: str, member: Member, state: NodeState, statistic: float, peak: float) -> NodeRecord:
    begin = member.onset
    return NodeRecord(
        name=name, state=state, since=member.since, onset=begin.time if begin else None,
        onset_earliest=begin.earliest if begin else None, onset_latest=begin.latest if begin else None,
        statistic=rounded(statistic), peak=rounded(peak), change=list(member.change),
    )  # fmt: skip


def worse(a: Severity, b: Severity) -> Severity:
    return LEVELS[max(LEVELS.index(a), LEVELS.index(b))]


def _reach(estimate: Onset | None, otherwise: float) -> float:
    """How far back windows must go to renew an estimate without cutting its interval off."""
    if estimate is None:
        return otherwise
    return estimate.time if estimate.earliest is None else estimate.earliest


def _begin(estimate: Onset | None, otherwise: float) -> float:
    return otherwise if estimate is None else estimate.time


def _count(names: Sequence[str]) -> str:
    if len(names) <= 2:
        return " and ".join(names)
    return f"{len(names)} nodes around {names[0]}"
