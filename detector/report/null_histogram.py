"""The history once more through the finished detector, as it came: null distribution of the statistics."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from detector.engines.exceedances import Exceedances
from detector.pipeline.pipeline import Pipeline
from estimators.core.types import Floats

EDGES = np.linspace(-4.0, 10.0, 141)
MOST_TICKS = 20_000  # the latest of a long history are enough for a picture


@dataclass
class NullHistogram:
    """Histograms over ticks and nodes, and the heights of episodes that the event statistic had."""

    ticks: int
    node: Floats = field(default_factory=lambda: np.zeros(len(EDGES) - 1))
    event: Floats = field(default_factory=lambda: np.zeros(len(EDGES) - 1))
    peaks: Floats = field(default_factory=lambda: np.zeros(0))


def null_histogram(pipeline: Pipeline, X: Floats, times: Floats) -> NullHistogram | None:
    """Of the history X (T, N, d) that ``pipeline`` has learnt from; None where nothing was promised of it."""
    engine, report = pipeline.engine, pipeline.report
    if engine is None or report is None or pipeline.preprocess is None or not np.isfinite(report.promised):
        return None
    settings, engine = pipeline.settings, engine.fresh()
    if X.ndim == 2:
        X = X[:, :, None]
    Z, levels = pipeline.preprocess.transform_views(X[-MOST_TICKS:], times[-MOST_TICKS:])
    warm_up = min(settings.windows.reference + settings.windows.tests[-1], len(Z) // 2)
    histogram = NullHistogram(len(Z) - warm_up)
    found = Exceedances(engine, histogram.ticks)
    for t, z in enumerate(Z, -warm_up):
        nodes = np.flatnonzero(np.isfinite(z).all(axis=1)).astype(np.int32)
        if len(nodes):
            if levels is not None:
                engine.levels(nodes, levels[t + warm_up, nodes])
            engine.slide(nodes, z[nodes])
        engine.finish()
        if t >= 0:
            found.look(t)
            for values, counts in ((engine.node, histogram.node), (engine.event, histogram.event)):
                counts += np.histogram(np.clip(values[np.isfinite(values)], EDGES[0], EDGES[-1]), EDGES)[0]
    # From the base of the fitted tail on: below it, episodes run into one another.
    base = max(Exceedances.LOW, report.tail.base)
    histogram.peaks = np.sort(found.peaks(base, pipeline.network.graph, settings.incidents.clear_after))
    return histogram
