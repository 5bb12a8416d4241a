"""From statistics to alarms by one rule for all methods, and from alarms to figures.

A node fires when its statistic is above the threshold and was not within the last REARM ticks. A node that
fires joins the alarm of its own or of a linked node that grew at most GRACE ticks ago; else the linked ones
among those that fire together open one. An alarm finds a label if it begins between its start and GRACE ticks
after its end and names one of its nodes; alarms that fit no label are false.

The threshold is swept: recall as a function of false alarms per 1000 quiet ticks, and its mean over RATES,
which are even in the logarithm ("area"). "Within 50" counts labels found within TIMELY ticks: long labels
are found by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from recordings.sets import GRACE, Label, Recording

Floats = NDArray[np.float64]
Alarms = list[tuple[int, set[str]]]

REARM = 25
TIMELY = 50
PER = 1000
RATES = np.geomspace(0.25, 5.0, 25)  # false alarms per 1000 ticks
LEVELS = 50  # thresholds tried


def alarms(S: NDArray[np.floating], threshold: float, network: nx.Graph[str]) -> Alarms:
    """Tick and nodes of every alarm of the statistic S (T, N)."""
    names = list(network.nodes)
    at = {name: v for v, name in enumerate(names)}
    near = [[at[u] for u in network.neighbors(name)] for name in names]
    found: list[tuple[int, set[int]]] = []
    grew: list[int] = []  # tick at which each alarm last gained a node
    member: dict[int, int] = {}  # node: its latest alarm
    for t, firing in _firing(threshold < S):
        waiting = set(firing)
        joining = [
            (v, next(member[u] for u in (v, *near[v]) if u in member and t - grew[member[u]] <= GRACE))
            for v in firing
            if any(u in member and t - grew[member[u]] <= GRACE for u in (v, *near[v]))
        ]
        while waiting:
            if not joining:
                joining.append((min(waiting), len(found)))
                found.append((t, set()))
                grew.append(t)
            v, alarm = joining.pop()
            if v in waiting:
                waiting.discard(v)
                found[alarm][1].add(v)
                grew[alarm], member[v] = t, alarm
                joining += [(u, alarm) for u in near[v] if u in waiting]
    return [(t, {names[v] for v in who}) for t, who in found]


def _firing(over: NDArray[np.bool_]) -> list[tuple[int, list[int]]]:
    """Ticks in which nodes come above after REARM ticks below, and these nodes."""
    if not over.any():
        return []
    ticks = np.arange(len(over))[:, None]
    long_ago = -(REARM + 1)
    latest = np.maximum.accumulate(np.where(over, ticks, long_ago), axis=0)
    before = np.vstack([np.full((1, over.shape[1]), long_ago), latest[:-1]])
    fires = over & (ticks - before > REARM)
    return [(int(t), np.flatnonzero(fires[t]).tolist()) for t in np.flatnonzero(fires.any(axis=1))]


@dataclass
class Outcome:
    """Of one or several streams."""

    delays: list[float] = field(default_factory=list)  # of the labels; inf: missed
    false: int = 0
    quiet: int = 0  # ticks in which an alarm can be false
    promised: float = 0.0  # false alarms that were promised in them

    def add(
        self, found: Alarms, labels: Sequence[Label], n_ticks: int, promised: Floats | None = None
    ) -> None:
        """Labels that ran already when watching began (start < 0) need not be found, but excuse an alarm.

        ``promised`` (T,): false alarms per tick that the detector promises as of each tick.
        """

        def fits(t: int, who: set[str], label: Label) -> bool:
            return label.start <= t < label.end + GRACE and (not label.nodes or bool(who & label.nodes))

        for label in labels:
            if label.start >= 0:
                hits = [t for t, who in found if fits(t, who, label)]
                self.delays.append(min(hits) - label.start + 1.0 if hits else float("inf"))
        self.false += sum(not any(fits(t, who, label) for label in labels) for t, who in found)
        quiet = np.ones(n_ticks, bool)
        for label in labels:
            if not label.nodes:
                quiet[max(label.start, 0) : label.end + GRACE] = False
        self.quiet += int(quiet.sum())
        self.promised += float(np.sum(quiet / PER if promised is None else promised[quiet]))

    @property
    def expected(self) -> float:
        """False alarms that a budget of one per 1000 ticks allows."""
        return self.quiet / PER

    @property
    def recall(self) -> float:
        return float(np.mean(np.isfinite(self.delays))) if self.delays else float("nan")

    @property
    def timely(self) -> float:
        return float(np.mean(np.array(self.delays) <= TIMELY)) if self.delays else float("nan")


def areas(recordings: Sequence[Recording], statistics: Sequence[NDArray[np.floating]]) -> tuple[float, float]:
    """Area and area within 50; ``statistics``: one (T, N) per stream, in the order of the recordings'."""
    streams = [(r.network, x, labels) for r in recordings for x, labels in r.streams]
    clean = [np.where(np.isfinite(S), S, -np.inf) for S in statistics]
    points = []
    for threshold in _thresholds(clean):
        outcome = Outcome()
        for (network, x, labels), S in zip(streams, clean, strict=True):
            outcome.add(alarms(S, threshold, network), labels, len(x))
        rate = outcome.false / max(outcome.expected, 1e-9)
        points.append((rate, outcome.recall, outcome.timely))
        if rate > 2.0 * RATES[-1]:
            break
    rate, recall, timely = np.array(points).T
    return _area(rate, recall), _area(rate, timely)


def _thresholds(statistics: Sequence[Floats]) -> Floats:
    """From above the largest value down to where half of all ticks have a node above."""
    highest = np.sort(np.concatenate([S.max(axis=1) for S in statistics]))[::-1]
    highest = highest[np.isfinite(highest)]
    ranks = np.geomspace(1, max(len(highest) // 2, 1), LEVELS).astype(int)
    top = np.nextafter(highest[0], np.inf)
    return np.unique(np.append(highest[np.minimum(ranks, len(highest) - 1)], top))[::-1]


def _area(rate: Floats, value: Floats) -> float:
    """Mean over RATES of the best value at that rate or below, straight lines between."""
    order = np.lexsort((-value, rate))
    r, best = np.append(0.0, rate[order]), np.append(0.0, np.maximum.accumulate(value[order]))
    last = np.append(r[1:] != r[:-1], True)  # of several values at one rate the best
    return float(np.interp(RATES, r[last], best[last]).mean())
