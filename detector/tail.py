"""How often quiet data would open an incident, as a function of the threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimators.graph import Graph

Floats = NDArray[np.float64]

SHAPES = (0.0, 0.15)  # of the tail that are believed: from that of a normal law to a heavier one


def episodes(
    ticks: NDArray[np.int64], nodes: NDArray[np.int32], values: Floats, graph: Graph, gap: int
) -> Floats:
    """Peaks of the episodes among exceedances (tick, node, value), ticks ascending.

    An exceedance belongs to an episode if one of that node or of a neighbour is at most ``gap`` ticks old:
    what would be one incident counts once.
    """
    owner: dict[int, tuple[int, int]] = {}  # node: (episode, tick it was last seen)
    peaks: list[float] = []
    parent: list[int] = []

    def root(k: int) -> int:
        while parent[k] != k:
            k = parent[k]
        return k

    for t, v, value in zip(ticks.tolist(), nodes.tolist(), values.tolist(), strict=True):
        here = {
            root(owner[u][0])
            for u in (v, *graph.neighbours(v).tolist())
            if u in owner and t - owner[u][1] <= gap
        }
        if here:
            first = min(here)
            for k in here:
                parent[k] = first
                peaks[first] = max(peaks[first], peaks[k])
        else:
            first = len(peaks)
            peaks.append(value)
            parent.append(first)
        peaks[first] = max(peaks[first], value)
        owner[v] = (first, t)
    return np.array([peak for k, peak in enumerate(peaks) if parent[k] == k])


@dataclass(frozen=True)
class Tail:
    """Episodes per tick above ``base``, and a generalised Pareto law of their height above it.

    Heights are half squares, (h² - base²)/2: the statistic is nearly normal by construction, and a normal
    tail is exponential in these, so that a fit at common heights still holds at rare ones.
    """

    base: float
    rate: float
    shape: float
    scale: float
    n: int

    @classmethod
    def fit(cls, peaks: Floats, base: float, n_ticks: int) -> Tail:
        over = (np.square(peaks[peaks > base]) - base * base) / 2.0
        if len(over) < 10:
            # Too few to fit: the scale of a normal tail at least, which errs on the quiet side.
            scale = max(float(over.mean()) if len(over) else 1.0, 1.0)
            return cls(base, max(len(over), 1) / n_ticks, 0.0, scale, len(over))
        # Probability-weighted moments (Hosking and Wallis 1987): closed form, and steadier than maximum
        # likelihood at this size.
        over = np.sort(over)
        n = len(over)
        first = float(over.mean())
        second = float((over * np.arange(n - 1, -1, -1)).mean()) / (n - 1)  # mean of x (1 - F(x))
        spread = first - 2.0 * second
        shape = float(np.clip(2.0 - first / spread, *SHAPES)) if spread > 0.0 else SHAPES[0]
        return cls(base, n / n_ticks, shape, first * (1.0 - shape), n)

    def exceeded(self, threshold: float) -> float:
        """Episodes per tick above ``threshold``."""
        height = max(threshold * threshold - self.base * self.base, 0.0) / (2.0 * self.scale)
        if abs(self.shape) < 1e-9:
            return self.rate * math.exp(-height)
        return self.rate * math.pow(max(1.0 + self.shape * height, 0.0), -1.0 / self.shape)

    def threshold(self, rate: float) -> float:
        """The threshold with that many episodes per tick."""
        if rate >= self.rate:
            return self.base
        often = rate / self.rate
        height = (
            -math.log(often) if abs(self.shape) < 1e-9 else (math.pow(often, -self.shape) - 1.0) / self.shape
        )
        return math.sqrt(self.base * self.base + 2.0 * self.scale * height)
