"""How much more often quiet data come near a threshold than the tail says that was learnt.

    level · f(r)      level: one that was passed ρ times per tick on the data learnt;  f(1) = 1, increasing
    log r += (episodes that begin above the level in this tick - ρ · share of nodes that count) / n
    n = min(PRIOR + episodes expected so far, MEMORY)

The threshold of a budget β is the tail height of β / r, and f(r) its share of that of β. Exceedances of the
threshold are too rare to learn from, and each may be a real event; those of the lower level come often.
The update is the stochastic approximation of a quantile (Robbins and Monro 1951) with the gain of a Poisson
rate under a gamma prior of PRIOR episodes: whatever the law of the data, the rate above the level returns to
ρ when they drift. An episode counts once, however high it is, and one that opens an incident brings r up to 1
at most: what happens does not make the network deaf.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimators.core.graph import Graph
from estimators.core.types import Bools, Floats

PRIOR = 10.0  # expected episodes by which what was learnt is believed
MEMORY = 30.0  # expected episodes for which a count is remembered
RANGE = (0.05, 1e6)  # of r
LONG_AGO = -(10**9)
_NUMBERS = ("ratio", "tick", "ticks", "episodes", "expected")


class QuietRate:
    """The ratio r for statistics of the N nodes of a graph.

    Parameters
    ----------
    graph : Graph
        Exceedances of linked nodes are one episode.
    gap : int
        So are those at most so many ticks apart.

    Examples
    --------
    >>> quiet = QuietRate(Graph.empty(3), gap=5)
    >>> for t in range(100):  # an episode every 10 ticks, where one in 100 is expected
    ...     quiet.follow(np.array([0.0, 0.0, 9.0 if t % 10 == 0 else 0.0]), np.ones(3, bool), 2.0, 0.01)
    >>> round(quiet.ratio, 1), quiet.episodes, round(quiet.expected, 2)
    (5.2, 10, 1.0)
    """

    def __init__(self, graph: Graph, gap: int) -> None:
        self.graph, self.gap = graph, gap
        self.ratio = 1.0
        self.tick = 0
        self.ticks = 0.0  # quiet ones that counted
        self.episodes, self.expected = 0, 0.0  # in these
        self.latest, self.began = np.full((2, graph.n_nodes), LONG_AGO, np.int64)  # exceedance; its episode

    def follow(self, S: Floats, live: Bools, level: float, rate: float) -> None:
        """After a tick with statistics S (N,), NaN where there is none; nodes that are not live do not count.

        ``level`` is the one where, with the ratio of now, ``rate`` episodes per tick are expected to begin.
        """
        self.tick += 1
        with np.errstate(invalid="ignore"):
            over = np.flatnonzero(level < S)
        began = 0
        for v in over.tolist():
            newest = max(self.latest[v], self.latest[self.graph.neighbours(v)].max(initial=LONG_AGO))
            if live[v] and self.tick - newest > self.gap:
                self.began[v] = self.tick
                began += 1
            self.latest[v] = self.tick
        share = float(np.mean(live & np.isfinite(S)))
        self.ticks += share
        self.count(began, rate * share)

    @property
    def _gain(self) -> float:
        return 1.0 / min(PRIOR + self.expected, MEMORY)

    def count(self, episodes: int, expected: float = 0.0) -> None:
        """So many quiet episodes more, and how many were expected meanwhile."""
        moved = self.ratio * math.exp(self._gain * (episodes - expected))
        self.ratio = min(max(moved, RANGE[0]), RANGE[1])
        self.episodes += episodes
        self.expected += expected

    def take_back(self, nodes: Iterable[int]) -> None:
        """The episodes that run at ``nodes`` may be an event."""
        some = [v for v in nodes if self.began[v] >= 0 and self.tick - self.latest[v] <= self.gap]
        self.began[some] = LONG_AGO
        self.count(-len(some))

    def opened(self, incidents: int, worth: float) -> None:
        """So many incidents opened, each ``worth`` that many episodes; they bring r up to 1 at most."""
        if self.ratio < 1.0:
            self.ratio = math.exp(min(math.log(self.ratio) + self._gain * worth * incidents, 0.0))

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON from which `restore` goes on bit for bit."""
        arrays = {"latest": self.latest.copy(), "began": self.began.copy()}
        return arrays, {name: getattr(self, name) for name in _NUMBERS}

    def restore(self, arrays: dict[str, NDArray[Any]], meta: dict[str, Any], rows: NDArray[np.intp]) -> None:
        """Continue from `state`; a new node (row -1) has no exceedance yet."""
        for name in _NUMBERS:
            setattr(self, name, meta[name])
        kept = rows >= 0
        for name in ("latest", "began"):
            getattr(self, name)[kept] = arrays[name][rows[kept]]
