"""The history played through the engine: moments of its null distribution, and what would have alarmed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from detector.engines.density_ratio.engine import DensityRatioEngine, links
from detector.engines.density_ratio.joint import JointStatistic
from detector.engines.density_ratio.null_levels import learn_levels
from detector.engines.density_ratio.playback import PARTS, CrossFitted, Playback
from detector.engines.exceedances import Exceedances
from detector.engines.runners.base import Workers
from estimators.core.types import Floats
from estimators.timeseries.block_bootstrap import rows

IN_ORDER = 1000  # ticks of history, windows filled, that are enough to be played as they came


@dataclass(frozen=True)
class NullRun:
    """The quiet history played: as it came, for moments also in drawn blocks where it is too short.

    Every join of blocks breaks what the samples on both sides have in common: scores are a little smaller
    than they are, and levels jump. So thresholds rest on the history as it came, however short, and their
    uncertainty is part of them (estimators/timeseries/extremes.py).
    """

    n_rows: int
    need: int  # ticks that fill all windows
    block: int
    seed: int
    begin: int  # ticks after which all statistics speak, if not all windows

    @property
    def in_order(self) -> bool:
        return self.n_rows - self.need >= IN_ORDER

    def _blocks(self, number: int) -> Iterator[int]:
        return rows(self.n_rows, self.block, self.seed + number)

    def _start(
        self,
        engine: DensityRatioEngine,
        Z: Floats,
        order: Iterator[int],
        number: int,
        pulse: Callable[[float], None],
    ) -> Playback:
        """A run whose windows are full; blocks are drawn anew for each ``number``."""
        blocks = self._blocks(number)
        run = Playback(engine, Z, chain(order, blocks) if self.in_order else blocks, pulse)
        if self.in_order:
            run.play(self.need)
        else:
            run.warm_up()
        return run

    def learn(
        self,
        engine: DensityRatioEngine,
        views: list[Floats],
        correlation: float,
        processes: Workers,
        pulse: Callable[[float], None],
    ) -> CrossFitted:
        """Gives ``engine`` the moments of its null distribution, and those of its level charts."""
        by: CrossFitted
        (by, engine.null), *levels = processes.map(
            _Null(self, engine, views, correlation),
            range(1 + len(engine.joint.charts)),
            lambda k, share: pulse(share) if k == 0 else None,
        )
        if not levels:
            return by
        engine.joint.null = [whole for whole, _ in levels]
        return replace(by, levels=[rest for _, rest in levels])

    def learn_null(
        self, engine: DensityRatioEngine, Z: Floats, correlation: float, pulse: Callable[[float], None]
    ) -> CrossFitted:
        """Gives ``engine`` the moments of its null distribution."""
        run = self._start(engine, Z, chain(range(self.n_rows), range(self.need, self.n_rows)), 2, pulse)
        ticks = self.n_rows - self.need if self.in_order else int(np.clip(2 * self.n_rows, 1500, 4000))
        return run.learn_null(ticks, correlation)

    def exceedances(
        self,
        engine: DensityRatioEngine,
        Z: Floats,
        levels: Floats | None,
        cross_fitted: CrossFitted,
        pulse: Callable[[float], None],
    ) -> tuple[Playback, Exceedances]:
        """The history as it came, each part judged by moments of the rest."""
        whole, charts = engine.null, engine.joint.null
        run = Playback(engine, Z, chain(range(self.n_rows), self._blocks(3)), pulse, levels)
        begin = min(self.begin, self.n_rows // 2)
        run.play(begin)
        run.cross_fitted = cross_fitted
        found = Exceedances(engine, self.n_rows - begin)
        run.play(found.n_ticks, found.look)
        engine.null, engine.joint.null, run.cross_fitted = whole, charts, None
        return run, found


@dataclass(frozen=True)
class _Null:
    """Null moments of scores are one job, those of the level charts of each view another."""

    null_run: NullRun
    engine: DensityRatioEngine
    views: list[Floats]
    correlation: float

    def __call__(self, job: int, pulse: Callable[[float], None]) -> Any:
        engine = self.engine
        if job == 0:
            by = self.null_run.learn_null(engine, self.views[0], self.correlation, pulse)
            return by, engine.null
        # Of the network as one: a tick between two parts is nothing to means of many.
        graph, cut, n = links(engine.graph, engine.settings), engine.cut, engine.graph.n_nodes
        view = self.views[job - 1]
        if not cut.holds_all and (cut.source >= 0).all():  # ghosts are nodes, too, with the values of twins
            graph = replace(cut.graph, ghosts=0)
            view = np.concatenate([view, view[:, cut.source]], axis=1)
        charts = JointStatistic(graph, engine.joint.dims, engine.joint.reference).charts[job - 1]
        whole, rest = learn_levels(charts, view, PARTS, pulse)
        return whole.first(n), [part.first(n) for part in rest]
