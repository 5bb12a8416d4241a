"""Whether an incident is like one that was labelled: what others taught must not judge a new type of event.

Nodes of a new type look like nodes of some known one each by itself, and are then judged with confidence, and
wrongly. The incident as a whole tells: how the values of its strongest nodes moved. It is *novel* if it lies
farther from the labelled ones than labelled events lie from each other, each left out in turn:

    p = (1 + #{i : d_i >= d}) / (n + 1)

with d the distance to the nearest event or the second nearest false alarm, and d_i that of event i to the
others. For an incident of a known type p is small about as rarely as it says, however far apart they lie.
One false alarm is no company: the next incident that looks like it may well be a new type of event.
"""

from __future__ import annotations

import numpy as np

from detector.diagnosis.footprint.features import TYPE_FEATURES, by_thresholds
from detector.incidents.case import Case
from estimators.core.types import Bools, Floats

STRONGEST = 3  # nodes of thresholds that speak for the incident
ALIKE = 2  # false alarms, from which on what looks like them is known
NOVEL = 0.05  # largest p of a novel incident; with few labelled ones, one farther than all of them


def summary(case: Case, found: Floats) -> Floats:
    """(2,) Mean shift and change of spread of the strongest nodes; ``found`` (N, 6) are all features."""
    nodes = np.flatnonzero(by_thresholds(case))
    order = np.argsort(-np.nan_to_num(case.statistic[nodes]), kind="stable")[:STRONGEST]
    told = found[nodes[order]][:, TYPE_FEATURES]
    mean: Floats = told.mean(axis=0) if len(told) else np.zeros(len(TYPE_FEATURES))
    return mean


class KnownPatterns:
    """The labelled incidents as points (n, 2), and which of them (n,) are events, the rest false alarms."""

    def __init__(self, points: Floats, events: Bools) -> None:
        if points.shape != (len(events), len(TYPE_FEATURES)) or not events.any():
            raise ValueError(f"labelled incidents: shape {points.shape}, {int(events.sum())} events")
        self.points, self.events = points, events
        apart = np.linalg.norm(points[:, None] - points[None], axis=2)
        np.fill_diagonal(apart, np.inf)
        self._nearest = np.array([self._distance(row) for row in apart])  # of each to the others

    @property
    def rows(self) -> Floats:
        """(n, 3) to keep: the points, and 1 for an event."""
        return np.column_stack([self.points, self.events])

    @classmethod
    def of_rows(cls, rows: Floats) -> KnownPatterns:
        return cls(rows[:, :-1], rows[:, -1] > 0.5)

    def pvalue(self, point: Floats) -> float:
        """Of an incident (2,) that is none of them."""
        return _share(self._distance(np.linalg.norm(self.points - point, axis=1)), self._nearest[self.events])

    def novel(self, pvalue: float) -> bool:
        return _small(pvalue, int(self.events.sum()))

    def left_out(self) -> list[bool]:
        """Whether each is novel to the others."""
        others = [self.events & (np.arange(len(self.events)) != i) for i in range(len(self.events))]
        return [
            _small(_share(float(d), self._nearest[rest]), int(rest.sum()))
            for d, rest in zip(self._nearest, others, strict=True)
        ]

    def _distance(self, apart: Floats) -> float:
        """By the distances (n,) to all of them."""
        event = apart[self.events].min()
        alarms = np.sort(apart[~self.events])
        return float(min(event, alarms[ALIKE - 1]) if len(alarms) >= ALIKE else event)


def _share(distance: float, others: Floats) -> float:
    return float((1 + np.count_nonzero(others >= distance)) / (len(others) + 1))


def _small(pvalue: float, events: int) -> bool:
    return pvalue <= max(NOVEL, 1.0 / (events + 1))
