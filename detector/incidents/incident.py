"""What is known about one open incident (nodes, onset, description, severity) and the record that says it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from detector.events.model import (
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
from detector.incidents.decision import Evidence
from detector.incidents.describe import compare, pool
from detector.incidents.onset import Onset, likeliest_onset, onset, pooled_onset
from detector.incidents.reopening import ADVICE
from estimators.core.types import Floats

LEVELS: tuple[Severity, ...] = ("info", "warning", "critical")
MAX_DESCRIBED = 200  # nodes looked at in detail for one record, the strongest first: bounds its cost
SAID = 3  # statements in a summary
STARTS = (8, 25)  # samples back from which a change is tried to have begun
ROUNDS = 2  # of dating a change and looking at it since that date
LATEST = 100  # samples since the onset that are described
GROWTH = 0.3  # of the nodes announced, by which their number must differ to be news
NOT_DATED = {  # why an incident has no onset, by whether windows ever reached back to before it was noticed
    True: "not known: no sample in the windows speaks for a change by itself",
    False: "not known: the windows hold no sample from before it was noticed",
}
TURN, SURELY = 1.5, 4.0  # factor, and standard errors, by which a size must differ to be another change


class Said(msgspec.Struct, frozen=True):
    """What the last record said: what is not different is no news."""

    onset: Onset | None = None
    strongest: Change | None = None
    changed: int = 0


class Member(msgspec.Struct):
    """One node of an open incident."""

    since: float
    suspected: bool  # possibly changed: not certain enough to be counted
    onset: Onset | None = None
    change: list[Change] = []
    probability: float | None = None  # that it changed
    p_value: float | None = None


class Incident(msgspec.Struct):
    """An open incident. Everything here is JSON-ready, so that it can be stored as it is."""

    id: str
    opened: float
    members: dict[str, Member]
    returned: dict[str, Member] = {}  # nodes that were in it and are as before again
    beside: list[str] = []  # incidents that were open next to it when it opened
    reopened: int = 0  # incidents that opened here since a change was accepted, if that is no chance
    sequence: int = 0
    looked: float = 0.0  # when the evidence was last examined
    assess_at: float = 0.0  # when to ask again who belongs
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
    told: bool = True  # False: a known false alarm, of which nobody is told
    reached: bool = False  # windows that reach back to before the opening were asked for the onset
    settled: bool = False  # the onset has left the windows: it can be known no better
    urgent: bool = False  # something happened that no rate limit may hold back
    said: Said = Said()
    named: list[str] = []  # the nodes called changed by the latest record that called any so
    common: str | None = None  # id that it shares with those of adjoining boxes
    common_opened: float | None = None  # when the incident opened that gave it

    @property
    def begin(self) -> float:
        """The onset, or the opening where the onset is not known."""
        return self.opened if self.onset is None else self.onset.time

    @property
    def changed(self) -> list[str]:
        """The nodes that changed, not only possibly."""
        return [name for name, member in self.members.items() if not member.suspected]

    def counts(self, name: str, over: bool = False) -> bool:
        """Whether a record counts this node, a member or one that returned, among those that changed.

        ``over``: all are back. What was called changed before stays so: windows hold the end already.
        """
        if self.fading or (over and name in self.named):
            return name in self.named
        return not (self.members.get(name) or self.returned[name]).suspected

    @property
    def fading(self) -> bool:
        """Whether nodes were called changed, and none is certain any more: windows hold its end already.

        What they show is a mixture of before and after, which was never there.
        """
        return bool(self.named) and not self.changed

    @property
    def strongest(self) -> Change | None:
        """How it changed, in the strongest statement."""
        return self.description[0] if self.description else None

    @property
    def size(self) -> float:
        """The largest change of a node: standard deviations of a mean, or the factor of a spread."""
        changes = [change for name in self.changed for change in self.members[name].change]
        sizes = [abs(change.effect or 0.0) for change in changes if change.kind == "mean"]
        sizes += [max(change.effect, 1.0 / change.effect) for change in changes
                  if change.kind == "spread" and change.effect]  # fmt: skip
        return max(sizes, default=0.0)

    @property
    def news(self) -> bool:
        """Whether there is something of substance that the last record did not say."""
        if self.fading:
            return False
        count, said = len(self.changed), self.said.changed
        grown = abs(count - said) > max(1.0, GROWTH * said)
        return self.urgent or grown or self.turned or self._onset_moved

    @property
    def turned(self) -> bool:
        """Whether it is another change than the one announced: of another kind, direction or size."""
        now, then = self.strongest, self.said.strongest
        if now is None or self.returned:
            return False
        if then is None or then.effect is None:
            return then is None or now.effect is not None
        if now.effect is None:
            return False
        if (now.kind, now.components) != (then.kind, then.components):
            return abs(now.z or 0.0) > TURN * abs(then.z or 0.0)  # two statements of nearly equal strength
        a, b = _signed(now), _signed(then)
        factor = (
            math.exp(abs(a - b)) if now.kind == "spread" else max(a / b, b / a) if a * b > 0.0 else math.inf
        )
        error = max(abs(_signed(one) / one.z) if one.z else 0.0 for one in (now, then))
        return factor > TURN and abs(a - b) > SURELY * error

    @property
    def _onset_moved(self) -> bool:
        """A move within the interval already announced is no news."""
        if self.onset is None or self.said.onset is None:
            return self.onset is not self.said.onset
        earliest = self.said.onset.earliest
        return self.onset.time > self.said.onset.latest or (
            earliest is not None and self.onset.time < earliest
        )

    def date(
        self, evidence: Evidence, index: Mapping[str, int], names: Sequence[str], anew: bool = False
    ) -> None:
        """Renew the onsets from the nodes ``names``, while the windows still reach back to them.

        First each node by itself; then, with the change since that time for a common yardstick, all together.
        ``anew``: what was found before does not count, as long as windows reach back to the opening.
        """
        everyone = np.array([index[name] for name in names[:MAX_DESCRIBED]], np.int32)
        anew = anew and bool(evidence.log_ratios(everyone, self.begin))  # else each node is dated by itself
        series: dict[str, tuple[Floats, Floats]] = {}
        for name in names[:MAX_DESCRIBED]:
            member, v = self.members[name], index[name]
            times = np.asarray(evidence.sample_times(v), dtype=np.float64)
            reach = max(_reach(member.onset, member.since), _reach(self.onset, self.opened))
            if len(times) and times[0] < (self.opened if anew else reach):
                series[name] = np.asarray(evidence.log_ratio(v), np.float64), times
        nodes = np.array([index[name] for name in series], np.int32)
        if series and (anew or self.onset is None):
            found = self._first_onset(evidence, index, nodes, series)
            first = min(times[0] for _, times in series.values())
            # Of a change that may have begun before the windows they say less than while they held its begin.
            cut = self.onset is not None and first >= _reach(self.onset, self.opened)
            if not (cut and found is not None and found.earliest is None):
                self.onset = _no_later(found, self.opened, self.onset)
        for _ in range(ROUNDS if series and self.onset is not None else 0):
            common = evidence.log_ratios(nodes, self.begin)
            for name, (own, times) in series.items():
                series[name] = common.get(index[name], own), times
            self._date(series)
        self.settled = bool(names) and not series
        self.reached |= bool(series)

    def _first_onset(
        self, evidence: Evidence, index: Mapping[str, int], nodes: NDArray[np.int32],
        series: Mapping[str, tuple[Floats, Floats]],
    ) -> Onset | None:  # fmt: skip
        """The likeliest of several begins: the node that stands out most may date the change by chance."""
        own = pooled_onset(list(series.values()))
        starts = {float(times[-min(k, len(times))]) for _, times in series.values() for k in STARTS}
        found = [(own, 0.0)]
        for start in sorted(starts | ({own.time} if own else set())):
            common = evidence.log_ratios(nodes, start)
            told = [
                (common[index[name]], times) for name, (_, times) in series.items() if index[name] in common
            ]
            found.append(likeliest_onset(told))
        best = max(found, key=lambda pair: pair[1])[0]
        return best or own

    def _date(self, series: Mapping[str, tuple[Floats, Floats]]) -> None:
        for name, (ratio, times) in series.items():
            member = self.members[name]
            if times[0] < _reach(member.onset, member.since):
                member.onset = _no_later(onset(ratio, times), member.since, member.onset)
        reaching = [one for one in series.values() if one[1][0] < _reach(self.onset, self.opened)]
        if reaching:
            self.onset = _no_later(pooled_onset(reaching), self.opened, self.onset)

    def examine(
        self, evidence: Evidence, index: Mapping[str, int], names: Sequence[str], time: float
    ) -> None:
        """Look at the windows of the firing nodes ``names`` and renew onsets and descriptions.

        The reference is held, so that the description stays a comparison with the time before; of what came
        since the onset the latest samples are described, so that it follows the course of the incident.
        """
        self.looked = time
        if not self.settled:
            self.date(evidence, index, names)
        comparisons = []
        for name in names[:MAX_DESCRIBED]:
            member, v = self.members[name], index[name]
            times = np.asarray(evidence.sample_times(v), dtype=np.float64)
            after = evidence.recent(v)[times >= _begin(member.onset, member.since)][-LATEST:]
            comparison = compare(evidence.reference(v), after, evidence.scale(v))
            if comparison is not None:
                comparisons.append(comparison)
                member.change = pool([comparison], evidence.components, evidence.units(v))
        if comparisons:
            units = evidence.units(index[names[0]]) if len(comparisons) == 1 else ()
            self.description = pool(comparisons, evidence.components, units) or self.description

    def record(self, kind: IncidentKind, time: float, nodes: Sequence[NodeRecord], by: By = "detector",
               resolution: Resolution | None = None, merged_into: str | None = None) -> Event:  # fmt: skip
        """The next record of this incident; what it says counts as announced."""
        self.sequence += 1
        summary = self.summary(time, nodes, resolution, merged_into)
        self.urgent, self.said = False, Said(self.onset, self.strongest, len(self.changed))
        self.named = self.changed or self.named
        begin = self.onset
        return Event(
            id=f"{self.id}-{self.sequence}", event=kind, time=time, time_iso=iso(time),
            summary=summary, severity=self.severity,
            severity_now=self.severity_now, incident=self.id, common=self.common, sequence=self.sequence,
            opened=self.opened,
            onset=begin.time if begin else None, onset_iso=iso(begin.time) if begin else None,
            onset_earliest=begin.earliest if begin else None, onset_latest=begin.latest if begin else None,
            nodes=list(nodes), statistic=rounded(self.statistic), peak=rounded(self.peak),
            threshold=rounded(self.threshold), node_threshold=rounded(self.node_threshold),
            description=list(self.description), resolution=resolution, merged_into=merged_into, by=by,
            labels=self.labels, details=self._details(),
        )  # fmt: skip

    def _details(self) -> dict[str, Any]:
        """What has no field of its own."""
        details: dict[str, Any] = {"beside": list(self.beside)} if self.beside else {}
        if self.reopened:
            details["reopened"] = {"times": self.reopened, "advice": ADVICE}
        if self.onset is None:
            details["onset"] = NOT_DATED[self.reached]
        return details

    def summary(self, time: float, nodes: Sequence[NodeRecord], resolution: Resolution | None,
                merged_into: str | None) -> str:  # fmt: skip
        """One sentence: which nodes, since when, how; and how it ended."""
        since = f"{' at' if self.onset else ', noticed at'} {clock(self.begin, time)}"
        certain = [node.name for node in nodes if node.changed]
        if not certain:
            around = nodes[0].name if nodes else "no node"
            what = f"something changed around {around}{since}, no single node is certain yet"
        else:
            what = f"{_count(certain)} changed{since}"
        how = ", ".join(change.text for change in self.description[:SAID])
        again = "now " if self.said.strongest is not None and self.turned and not resolution else ""
        sentence = f"{what}: {again}{how or 'too few samples yet to say how'}"
        if self.beside and not resolution:
            sentence += f"; a new change next to {' and '.join(self.beside)}"
        if self.reopened and not resolution:
            sentence += f"; opened {self.reopened} times since a change here was accepted: {ADVICE}"
        endings = {
            "cleared": "back to before", "accepted": "accepted as the new normal",
            "restored": "back to the earlier normal",
            "timed_out": "let go by policy", "merged": f"merged into {merged_into}",
        }  # fmt: skip
        return f"{endings[resolution]}: {sentence}" if resolution else sentence


def node_state(member: Member, silent: bool, stuck: bool, recovered: bool) -> NodeState:
    if silent:
        return "silent"
    if stuck:
        return "stuck"
    return "recovered" if recovered else "suspected" if member.suspected else "alarmed"


def node_record(
    name: str, member: Member, state: NodeState, statistic: float, peak: float, changed: bool
) -> NodeRecord:
    begin = member.onset
    return NodeRecord(
        name=name, state=state, since=member.since, onset=begin.time if begin else None,
        onset_earliest=begin.earliest if begin else None, onset_latest=begin.latest if begin else None,
        statistic=rounded(statistic), peak=rounded(peak), probability=rounded(member.probability),
        p_value=rounded(member.p_value), changed=changed, change=list(member.change),
    )  # fmt: skip


def worse(a: Severity, b: Severity) -> Severity:
    return LEVELS[max(LEVELS.index(a), LEVELS.index(b))]


def _no_later(found: Onset | None, than: float, before: Onset | None) -> Onset | None:
    """``found``, unless it lies after what it led to: then it is the end of a change and ``before`` stays."""
    return before if found is None or (before is not None and found.time > than) else found


def _reach(estimate: Onset | None, otherwise: float) -> float:
    """How far back windows must go to renew an estimate without cutting its interval off."""
    if estimate is None:
        return otherwise
    return estimate.time if estimate.earliest is None else estimate.earliest


def _signed(change: Change) -> float:
    """The size of a change, signed: the logarithm of a ratio of spreads."""
    size = change.effect or 0.0
    if change.kind == "spread":
        return math.log(max(size, 1e-9))
    return size


def _begin(estimate: Onset | None, otherwise: float) -> float:
    return otherwise if estimate is None else estimate.time


def _count(names: Sequence[str]) -> str:
    if len(names) <= 2:
        return " and ".join(names)
    return f"{len(names)} nodes around {names[0]}"


def larger(a: float | None, b: float | None) -> float | None:
    """None is unknown."""
    return b if a is None else a if b is None else max(a, b)
