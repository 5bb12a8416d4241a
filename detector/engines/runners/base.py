"""What a runner is: an engine in, the same engine run elsewhere out.

A runner is one function and one line in `RUNNERS`, or comes from another installed package by an entry point
of the group ``detector.runners``; its name is then a value of `engine.type`.
"""

from __future__ import annotations

from collections.abc import Callable

from detector.engines.base import Engine
from detector.engines.density_ratio.engine import DensityRatioEngine
from detector.settings.core import Settings
from detector.settings.registries import RUNNERS
from estimators.core.graph import Graph

Start = Callable[[DensityRatioEngine, Graph, Settings], Engine]


def started(engine: Engine, graph: Graph, settings: Settings) -> Engine:
    """``engine`` as `engine.type` says; those without parts stay in this thread."""
    if settings.engine.type == "inline" or not isinstance(engine, DensityRatioEngine):
        return engine
    start: Start = RUNNERS.load(settings.engine.type)
    return start(engine, graph, settings)


def inline(engine: DensityRatioEngine, graph: Graph, settings: Settings) -> Engine:
    """Part after part in this thread."""
    return engine
