"""A runner that computes in the daemon's own thread and logs the ticks that took too long."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from detector.engines.base import Engine
from detector.engines.density_ratio.engine import DensityRatioEngine
from detector.settings.core import Settings
from estimators.core.graph import Graph

LOG = logging.getLogger("detector.example")
SLOW = 0.05  # seconds


class SlowTicks:
    """Parts in turn, as inline; what comes out is the same."""

    def __init__(self) -> None:
        self.ticks = self.slow = 0

    @classmethod
    def start(cls, engine: DensityRatioEngine, graph: Graph, settings: Settings) -> Engine:
        engine.run = cls()
        return engine

    def __call__(self, jobs: Sequence[Callable[[], None]]) -> None:
        begin = time.perf_counter()
        for job in jobs:
            job()
        took = time.perf_counter() - begin
        self.ticks += 1
        if took > SLOW:
            self.slow += 1
            LOG.warning(
                "%d parts took %.0f ms; %d of %d ticks were slow",
                len(jobs),
                1e3 * took,
                self.slow,
                self.ticks,
            )
