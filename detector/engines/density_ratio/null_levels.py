"""Null moments of the level charts from a history, as a whole and for each part of it by the rest."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from estimators.core.types import Floats
from estimators.streaming.level_charts import LevelCharts, NullLevels

MOST = 4_000_000  # differences kept of one view: windows overlap, so that every few ticks say nearly all


def learn_levels(
    charts: LevelCharts, x: Floats, parts: int, pulse: Callable[[float], None]
) -> tuple[NullLevels, list[NullLevels]]:
    """x (T, N, d), NaN where a node had no sample; the charts' windows are used up.

    A part is judged by what lies further from it than its windows reach, as far as half of the rest remains.
    """
    T, n, d = x.shape
    seen = np.asarray(np.isfinite(x).all(axis=2))
    stride = max(1, min(charts.test.shape[1] // 5, T // 500), -(-T * n * d // MOST))
    ticks, kept = [], []
    for t, row in enumerate(x):
        nodes = np.flatnonzero(seen[t]).astype(np.int32)
        if len(nodes):
            charts.slide(nodes, row[nodes])
        if t % stride == 0:
            pulse(t / T)
            difference = charts.differ()
            if np.isfinite(difference).any():
                ticks.append(t)
                kept.append(difference.astype(np.float32))
    D, at = np.array(kept, np.float64).reshape(-1, n, d), np.array(ticks)
    window = charts.test.shape[1]
    independent = T / (2.0 * window)
    reach = min(window + charts.ref.shape[1], T // (2 * parts))
    edges = np.linspace(0, T, parts + 1)
    rest = []
    for first, last in pairwise(edges):
        outside = (at < first - reach) | (at >= last + reach)
        share = float(outside.mean()) if len(at) else 0.0
        rest.append(charts.fit(D[outside] if share > 0.25 else D, max(share, 0.25) * independent))
    return charts.fit(D, independent), rest
