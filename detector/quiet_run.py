"""The quiet history once more through the finished detector, as it came: its statistics there."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from detector.engine import Engine
from detector.pipeline import Pipeline
from detector.quiet_course import Watch
from detector.rehearsal import Rehearsal

Floats = NDArray[np.float64]
EDGES = np.linspace(-4.0, 10.0, 141)
MOST_TICKS = 20_000  # the latest of a long history are enough for a picture


@dataclass
class QuietRun:
    """Histograms over ticks and nodes, and the heights of episodes that the event statistic had."""

    ticks: int
    node: Floats = field(default_factory=lambda: np.zeros(len(EDGES) - 1))
    event: Floats = field(default_factory=lambda: np.zeros(len(EDGES) - 1))
    peaks: Floats = field(default_factory=lambda: np.zeros(0))


def quiet_run(pipeline: Pipeline, X: Floats, times: Floats) -> QuietRun | None:
    """Of the history X (T, N, d) that ``pipeline`` has learnt from; None where the engine has no such run."""
    if not isinstance(pipeline.engine, Engine) or pipeline.preprocess is None or pipeline.report is None:
        return None
    settings = pipeline.settings
    if X.ndim == 2:
        X = X[:, :, None]
    Z = pipeline.preprocess.transform(X[-MOST_TICKS:], times[-MOST_TICKS:])
    engine = pipeline.engine.fresh(settings)
    warm_up = min(settings.windows.reference + settings.windows.tests[-1], len(Z) // 2)
    run = Rehearsal(engine, Z, iter(range(len(Z))))
    run.play(warm_up)
    found = QuietRun(len(Z) - warm_up)
    watch = Watch(engine, found.ticks)

    def look(t: int) -> None:
        watch.look(t)
        for values, counts in ((engine.node, found.node), (engine.event, found.event)):
            counts += np.histogram(np.clip(values[np.isfinite(values)], EDGES[0], EDGES[-1]), EDGES)[0]

    run.play(found.ticks, look)
    # From the base of the fitted tail on: below it, episodes run into one another.
    base = max(Watch.LOW, pipeline.report.tail.base)
    found.peaks = np.sort(watch.peaks(base, engine.graph, settings.incidents.clear_after))
    return found
