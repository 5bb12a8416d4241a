"""The quiet history played through the engine: moments of its scores, and what would have alarmed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from detector.bootstrap import rows
from detector.engine import Engine
from detector.rehearsal import Honest, Rehearsal
from detector.tail import Tail, episodes
from estimators.graph import Graph

Floats = NDArray[np.float64]

NODE_RUN = 1000.0  # ticks a quiet node stays below its own threshold, on average
NODE_BLOCK = 250  # ticks of which the largest value is kept
IN_ORDER = 1000  # ticks of history, windows filled, that are enough to be played as they came
LEAST = 3000  # quiet ticks for a threshold; what the history has not is drawn from it in blocks


@dataclass(frozen=True)
class Course:
    """In which order the quiet history is played: as it came where that is enough, else in drawn blocks.

    Every join of blocks breaks what the samples on both sides have in common, and makes scores a little
    smaller than they are.
    """

    n_rows: int
    need: int  # ticks that fill all windows
    block: int
    seed: int

    @property
    def in_order(self) -> bool:
        return self.n_rows - self.need >= IN_ORDER

    def _start(
        self, engine: Engine, Z: Floats, order: Iterator[int], number: int, pulse: Callable[[float], None]
    ) -> Rehearsal:
        """A run whose windows are full; blocks are drawn anew for each ``number``."""
        blocks = rows(self.n_rows, self.block, self.seed + number)
        run = Rehearsal(engine, Z, chain(order, blocks) if self.in_order else blocks, pulse)
        if self.in_order:
            run.play(self.need)
        else:
            run.warm_up()
        return run

    def learn_quiet(
        self, engine: Engine, Z: Floats, correlation: float, pulse: Callable[[float], None]
    ) -> Honest:
        """Gives ``engine`` its quiet moments."""
        run = self._start(engine, Z, chain(range(self.n_rows), range(self.need, self.n_rows)), 2, pulse)
        ticks = self.n_rows - self.need if self.in_order else int(np.clip(2 * self.n_rows, 1500, 4000))
        return run.learn_quiet(ticks, correlation)

    def watch(
        self, engine: Engine, Z: Floats, honest: Honest, pulse: Callable[[float], None]
    ) -> tuple[Rehearsal, Watch]:
        """Each part of the history by moments of the rest; what it has not of LEAST ticks comes in blocks."""
        quiet = engine.quiet
        run = self._start(engine, Z, iter(range(self.n_rows)), 3, pulse)
        run.honest = honest
        watch = Watch(engine, max(self.n_rows - self.need, LEAST))
        run.play(watch.n_ticks, watch.look)
        engine.quiet, run.honest = quiet, None
        return run, watch


class Watch:
    """Keeps of a long quiet run: exceedances of the event statistic, largest node values."""

    LOW = 2.5  # exceedances below this are of no use: every few ticks some node has one
    COMMON = 3.0  # below this, episodes of a large network run into one another
    WANTED, ENOUGH = 400, 100  # episodes for a tail

    def __init__(self, engine: Engine, n_ticks: int) -> None:
        self.levels, self.n_ticks = engine.levels, n_ticks
        self._ticks: list[NDArray[np.int64]] = []
        self._nodes: list[NDArray[np.int32]] = []
        self._values: list[Floats] = []
        self._maxima: list[Floats] = []

    def look(self, t: int) -> None:
        event, node = self.levels.event, self.levels.node
        hot = np.flatnonzero(event > self.LOW).astype(np.int32)
        self._ticks.append(np.full(len(hot), t))
        self._nodes.append(hot)
        self._values.append(event[hot])
        if t % NODE_BLOCK == 0:
            self._maxima.append(np.full(len(node), -np.inf))
        np.fmax(self._maxima[-1], node, out=self._maxima[-1])

    def node_threshold(self) -> float:
        """The level that a quiet node passes once in NODE_RUN ticks: P(block quiet) = exp(-block/run)."""
        maxima = np.concatenate(self._maxima[: self.n_ticks // NODE_BLOCK])
        return float(np.quantile(maxima, np.exp(-NODE_BLOCK / NODE_RUN)))

    def peaks(self, base: float, graph: Graph, gap: int) -> Floats:
        ticks, nodes = np.concatenate(self._ticks), np.concatenate(self._nodes)
        values: Floats = np.concatenate(self._values)
        over: NDArray[np.bool_] = np.asarray(values > base)
        return episodes(ticks[over], nodes[over], values[over], graph, gap)

    def tail(self, graph: Graph, gap: int) -> Tail:
        """A tail fitted to the WANTED highest episodes, or to fewer if so many begin at common heights."""
        peaks = self.peaks(self.COMMON, graph, gap)
        if len(peaks) > self.WANTED:
            base = float(np.sort(peaks)[-self.WANTED - 1])
            return Tail.fit(self.peaks(base, graph, gap), base, self.n_ticks)
        if len(peaks) >= self.ENOUGH:
            return Tail.fit(peaks, self.COMMON, self.n_ticks)
        return Tail.fit(self.peaks(self.LOW, graph, gap), self.LOW, self.n_ticks)
