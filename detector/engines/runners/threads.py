"""Parts by the threads of a pool: kernels and features leave the interpreter's lock while they compute."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Self

from detector.engines.base import Engine
from detector.engines.density_ratio.engine import DensityRatioEngine
from detector.engines.runners.local import Local
from detector.engines.runners.sharded import ShardedEngine
from detector.settings.core import Settings
from estimators.core.graph import Graph


class Threads:
    """``workers`` threads, the calling one among them; they are kept, and shared by all engines."""

    def __init__(self, workers: int) -> None:
        self.workers = max(workers, 1)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """As many as `engine.workers` says."""
        workers = settings.engine.workers
        return cls(cores() if workers == "auto" else workers)

    @classmethod
    def start(cls, engine: DensityRatioEngine, graph: Graph, settings: Settings) -> Engine:
        """Its parts are shared among threads, as shards; where some are watched elsewhere, as they are."""
        threads, parts = cls.of(settings), len(engine.cut.parts)
        if parts > 1 and engine.cut.holds_all:
            return ShardedEngine(engine, graph, Local(threads), parts)
        engine.run = threads
        return engine

    def __call__(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Return when all ``jobs`` are done; the first error is raised then."""
        waiting = iter(jobs)  # its next job goes to whoever is free

        def work() -> None:
            for job in waiting:
                job()

        others = [_pool(self.workers).submit(work) for _ in range(min(self.workers, len(jobs)) - 1)]
        try:
            work()
        finally:
            errors = [error for other in others if (error := other.exception()) is not None]
        if errors:
            raise errors[0]


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, "engine")


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
