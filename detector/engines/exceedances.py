"""What a run over data without changes leaves: the base of thresholds, and of the picture in a report."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detector.engines.base import Engine
from estimators.core.graph import Graph
from estimators.core.types import Floats
from estimators.streaming.tail_scale import TailScale
from estimators.timeseries.extremes import Tail, episodes

NODE_RUN = 1000.0  # ticks an unchanged node stays below its own threshold, on average
NODE_BLOCK = 250  # ticks of which the largest value is kept
MOST = 10_000_000  # values of the event statistic kept, for the tails of single nodes


class Exceedances:
    """Of a long run without changes: exceedances of the event statistic, and the largest node values."""

    LOW = 2.5  # exceedances below this are of no use: every few ticks some node has one
    KEPT = 2.0  # those above this are kept: weights may yet raise them
    RARE = 0.9  # share of ticks in which the largest of all nodes is below the base of a tail
    COMMON = 3.0  # below this, episodes of a large network run into one another
    NEAR = (
        0.5,
        0.6,
        0.7,
        0.75,
        0.8,
        0.85,
        0.9,
        0.95,
        0.98,
        0.99,
    )  # the same of levels that quiet data come near
    CLOSE = 0.6  # share of the threshold; data that are restless at rare heights may be calm at common ones
    NEARER, FEW = 5.0, 10
    OFTEN = 0.01  # episodes per tick, beyond which they run into one another
    WANTED, ENOUGH = 400, 100  # episodes for a tail

    def __init__(self, engine: Engine, n_ticks: int) -> None:
        self.engine, self.n_ticks = engine, n_ticks
        self._stride = max(1, -(-n_ticks * len(engine.event) // MOST))
        self._weight = np.ones(len(engine.event))
        self._some: list[NDArray[np.float32]] = []
        self._ticks: list[NDArray[np.int64]] = []
        self._nodes: list[NDArray[np.int32]] = []
        self._values: list[Floats] = []
        self._maxima: list[Floats] = []

    def look(self, t: int) -> None:
        event, node = self.engine.event, self.engine.node
        hot = np.flatnonzero(event > self.KEPT).astype(np.int32)
        self._ticks.append(np.full(len(hot), t))
        self._nodes.append(hot)
        self._values.append(event[hot])
        if t % self._stride == 0:
            self._some.append(event.astype(np.float32))
        if t % NODE_BLOCK == 0:
            self._maxima.append(np.full(len(node), -np.inf))
        np.fmax(self._maxima[-1], node, out=self._maxima[-1])

    def node_threshold(self) -> float:
        """What an unchanged node passes once in NODE_RUN ticks: P(block below) = exp(-block/run)."""
        whole = max(self.n_ticks // NODE_BLOCK, 1)
        length = min(NODE_BLOCK, self.n_ticks)
        maxima = np.concatenate(self._maxima[:whole])
        return float(np.quantile(maxima, np.exp(-length / NODE_RUN)))

    def tail_scale(self, memory: int) -> TailScale:
        """How restless each node is, by windows of ``memory`` ticks; exceedances are in units of it now."""
        tails = TailScale.fit(np.stack(self._some), memory / self._stride)
        self._weight = tails.weight
        return tails

    def peaks(self, base: float, graph: Graph, gap: int, last: int | None = None) -> Floats:
        """Heights of the episodes above ``base``, in all ticks or in the ``last`` ones."""
        ticks, nodes, values = self._weighted()
        over: NDArray[np.bool_] = np.asarray(
            (values > base) & (ticks >= self.n_ticks - (last or self.n_ticks))
        )
        return episodes(ticks[over], nodes[over], values[over], graph, gap)

    def _weighted(self) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
        nodes = np.concatenate(self._nodes)
        return np.concatenate(self._ticks), nodes, np.concatenate(self._values) / self._weight[nodes]

    def near(self, budget: float, tail: Tail, graph: Graph, gap: int) -> tuple[float, float]:
        """A level near the threshold of a ``budget`` per tick, and how many episodes per tick pass it.

        Of the levels above CLOSE of the threshold that are passed at most NEARER times as often as the
        budget, or FEW times in all, the one with most episodes: how often it is passed later tells soonest
        whether data are as quiet as these.
        """
        ticks, _, values = self._weighted()
        highest = np.zeros(self.n_ticks)
        np.maximum.at(highest, ticks, values)
        least = max(self.CLOSE * tail.threshold(budget), self.KEPT * self._weight.min())
        levels = np.unique(np.maximum(np.quantile(highest, self.NEAR), least))
        counts = [len(self.peaks(float(level), graph, gap)) for level in levels]
        most = min(max(self.NEARER * budget * self.n_ticks, self.FEW), self.OFTEN * self.n_ticks)
        able = [k for k, count in enumerate(counts) if count <= most]
        best = max(able, key=lambda k: (counts[k], levels[k])) if able else len(levels) - 1
        return float(levels[best]), max(counts[best], 1) / self.n_ticks

    def tail(self, graph: Graph, gap: int) -> Tail:
        """A tail fitted to the WANTED highest episodes, or to fewer if so many begin at common heights."""
        ticks, _, values = self._weighted()
        highest = np.zeros(self.n_ticks)
        np.maximum.at(highest, ticks, values)
        rare = float(np.quantile(highest, self.RARE))
        common, low = max(self.COMMON, rare), max(self.LOW, rare)
        peaks = self.peaks(common, graph, gap)
        if len(peaks) > self.WANTED:
            base = float(np.sort(peaks)[-self.WANTED - 1])
            return Tail.fit(self.peaks(base, graph, gap), base, self.n_ticks)
        if len(peaks) >= self.ENOUGH:
            return Tail.fit(peaks, common, self.n_ticks)
        return Tail.fit(self.peaks(low, graph, gap), low, self.n_ticks)
