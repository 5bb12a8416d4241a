"""An engine of four parts on random values, and all that can happen to an engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from detector.engines.density_ratio import Choice, DensityRatioEngine
from detector.settings.core import Settings
from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.core.partition import Cut, partition
from estimators.streaming.graph_statistics import N_LEVELS, NullMoments
from estimators.streaming.level_charts import NullLevels
from estimators.streaming.tail_scale import TailScale

N, D, S = 40, 2, 2
RING = np.roll(np.eye(N), 1, axis=1) + np.roll(np.eye(N), 7, axis=1)
GRAPH = Graph.of(RING + RING.T)
LABELS = partition(GRAPH, 4)
TICKS = 110


def settings_of(**engine: Any) -> Settings:
    return Settings.of(windows={"reference": 40, "tests": [5, 20]}, engine=engine)


def made(labels: Any = LABELS, graph: Graph = GRAPH, cut: Cut | None = None) -> DensityRatioEngine:
    rng = np.random.default_rng(0)
    features = Nystroem(Dictionary(rng.normal(size=(10, D)), 1.5), rank=5, outside=True)
    cut = cut or Cut.of(graph, labels)
    engine = DensityRatioEngine(graph, features, settings_of(), Choice(1.0, 0.5, 0.05, 2.0), 0, cut)
    engine.null = NullMoments(
        np.full((N, S), 0.01), np.full((N, S), 0.02), np.zeros((N_LEVELS, N, S)),
        np.ones((N_LEVELS, N, S)), np.ones((N_LEVELS, S)),
    )  # fmt: skip
    no, one, two = np.zeros((N, D)), np.full((N, D), 0.3), np.ones((2, N, 1))
    engine.joint.null = [NullLevels(no, one, no, one, two, two)]
    engine.joint.tails = TailScale(np.full(N, 2.0), np.full(N, 0.01), 2.0)
    return engine


def play(engine: Any, first: int = 0, last: int = TICKS) -> None:
    """All that can happen to an engine: partial and empty ticks, two values in a tick, open incidents."""
    for t in range(first, last):
        rng = np.random.default_rng(t)
        row = rng.normal(size=(N, D))
        row[3:9] += 3.0 * (t > 75)
        nodes = np.flatnonzero(rng.random(N) < (0.9, 0.08, 0.3)[t % 3 if t > 70 else 0]).astype(np.int32)
        nodes = nodes if t % 17 else nodes[:0]
        for layer in np.array_split(nodes, 2 if t % 5 == 0 else 1):
            engine.slide(layer, row[layer], np.full(len(layer), float(t)))
        engine.silence(np.arange(N) == (20 if t > 85 else -1))
        engine.finish()
        if t == 80:
            engine.hold([3, 4, 5, 6])
        if t == 90:
            engine.rebaseline(4, 8)
            engine.forget(5, 3)
            engine.restart(np.array([11, 12], np.int32))
        if t == 95:
            engine.refill(30, rng.normal(size=(45, D)).astype(np.float32))
        if t == 100:
            engine.release([3, 4, 5, 6])


def bits(engine: Any) -> list[bytes]:
    names = ("node", "event", "inside", "scores", "standard_scores")
    return [np.asarray(getattr(engine, name)).tobytes() for name in names]
