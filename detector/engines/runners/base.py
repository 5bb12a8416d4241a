"""What a runner is: an engine in, the same engine run elsewhere out.

A runner is one class and one line in `RUNNERS`, or comes from another installed package by an entry point
of the group ``detector.runners``; its name is then a value of `engine.type`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Protocol, TypeVar

from detector.engines.base import Engine
from detector.engines.density_ratio.engine import DensityRatioEngine, Runner, in_turn
from detector.settings.core import Settings
from detector.settings.registries import RUNNERS
from estimators.core.graph import Graph

Job = TypeVar("Job")
Result = TypeVar("Result")
Work = Callable[[Job, Callable[[float], None]], Result]  # a job, and whom to tell the share that is done

ALONE = 200_000  # values of a history, below which starting a process takes longer than it saves


class Starts(Protocol):
    """A member of `RUNNERS`."""

    def start(self, engine: DensityRatioEngine, graph: Graph, settings: Settings) -> Engine:
        """``engine``, which has learnt on ``graph``, as it is run from now on."""


def started(engine: Engine, graph: Graph, settings: Settings) -> Engine:
    """``engine`` as `engine.type` says; those without parts stay in this thread."""
    if settings.engine.type == "inline" or not isinstance(engine, DensityRatioEngine):
        return engine
    runner: Starts = RUNNERS.load(settings.engine.type)
    return runner.start(engine, graph, settings)


def local_runner(settings: Settings) -> Runner:
    """Who computes parts while the history is played, which is in this process always."""
    if settings.engine.type != "threads":
        return in_turn
    made: Runner = RUNNERS.load("threads").of(settings)
    return made


class Inline:
    """Part after part in this thread."""

    @staticmethod
    def start(engine: DensityRatioEngine, graph: Graph, settings: Settings) -> Engine:
        """As it is."""
        return engine


class Workers(Protocol):
    """Who does the jobs of learning that do not depend on each other."""

    workers: int

    def map(
        self, work: Work[Job, Result], jobs: Sequence[Job], pulse: Callable[[int, float], None]
    ) -> list[Result]:
        """``work`` of each of ``jobs``, in their order; ``pulse`` is told the number and share of a job."""


class Alone:
    """Job after job, here."""

    workers = 1

    def map(
        self, work: Work[Job, Result], jobs: Sequence[Job], pulse: Callable[[int, float], None]
    ) -> list[Result]:
        def one(k: int) -> Result:
            return work(jobs[k], lambda share: pulse(k, share))

        return [one(k) for k in range(len(jobs))]


def learners(settings: Settings, values: int, need: int) -> AbstractContextManager[Workers]:
    """Who learns from a history of so many ``values``: as many as `engine.workers` says and memory holds.

    That is one, unless more are asked for: two were not faster in any case that was measured.

    ``need``: bytes that a job takes.
    """
    if values < ALONE or settings.engine.workers in (1, "auto"):
        return nullcontext(Alone())
    module = import_module("detector.engines.runners.processes")  # on use: the pipeline itself starts nothing
    made: AbstractContextManager[Workers] = module.Processes.of(settings, need)
    return made
