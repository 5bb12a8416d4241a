"""What a runner is: an engine in, the same engine run elsewhere out.

A runner is one class and one line in `RUNNERS`, or comes from another installed package by an entry point
of the group ``detector.runners``; its name is then a value of `engine.type`.
"""

from __future__ import annotations

from typing import Protocol

from detector.engines.base import Engine
from detector.engines.density_ratio.engine import DensityRatioEngine, Runner, in_turn
from detector.settings.core import Settings
from detector.settings.registries import RUNNERS
from estimators.core.graph import Graph


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
