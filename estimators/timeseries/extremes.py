"""How often quiet data would open an incident, as a function of the threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimators.core.graph import Graph
from estimators.core.types import Floats

SHAPES = (0.0, 0.8)  # of the tail that are believed: from that of a normal law to a very heavy one
PRIOR = 10.0  # episodes that the prior counts for
HEAVY = 0.2  # scale of the prior in squares of the base: a statistic whose tail is a power law, S^-5 or so
STRETCH = 50.0  # ticks that count as one independent observation
LEAST_FREEDOM = 1.5
LEAST_HEIGHT = 0.5  # bases, below which nothing is carried on
HIGHEST = (
    0.5  # episodes as high as the highest of a history that the tail expects in it; fewer if it holds many
)


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
        """Probability-weighted moments with a prior, and the width of the predictive law.

        Few episodes say little about a tail, and a threshold at its estimate is passed too often: PRIOR
        episodes of a heavy tail are added to those seen, and the uncertainty of the scale, which makes an
        exponential law a Pareto one of shape 1/freedom, is added to the shape.
        """
        over = np.sort((np.square(peaks[peaks > base]) - base * base) / 2.0)
        n = len(over)
        shape, scale = 0.0, HEAVY * base * base
        if n:
            first = float(over.mean())
            if n > 2:
                # Hosking and Wallis (1987): closed form, and steadier than maximum likelihood at this size.
                second = float((over * np.arange(n - 1, -1, -1)).mean()) / (n - 1)  # mean of x (1 - F(x))
                spread = first - 2.0 * second
                shape = 2.0 - first / spread if spread > 0.0 else 0.0
            shape = float(np.clip(n * shape / (n + PRIOR), *SHAPES))
            scale = (n * first * (1.0 - shape) + PRIOR * scale) / (n + PRIOR)
        shape += 1.0 / max(min(n + PRIOR, n_ticks / STRETCH), LEAST_FREEDOM)
        if n:
            often = (
                HIGHEST * PRIOR / (n + PRIOR)
            )  # the highest of so many ticks is passed as often in as many
            scale = max(scale, shape * float(over[-1]) / (math.pow((n + 1.0) / often, shape) - 1.0))
        return cls(base, max(n, 1) / n_ticks, shape, scale, n)

    def exceeded(self, threshold: float) -> float:
        """Episodes per tick above ``threshold``."""
        height = max(threshold * threshold - self.base * self.base, 0.0) / (2.0 * self.scale)
        if abs(self.shape) < 1e-9:
            return self.rate * math.exp(-height)
        return self.rate * math.pow(max(1.0 + self.shape * height, 0.0), -1.0 / self.shape)

    def threshold(self, rate: float) -> float:
        """The threshold with that many episodes per tick; not below the base, where nothing was fitted."""
        return max(self.height(rate), self.base)

    def height(self, rate: float) -> float:
        """The same, carried on below the base as an exponential law."""
        often = rate / self.rate
        if often >= 1.0:
            square = self.base * self.base - 2.0 * self.scale * math.log(often)
            return math.sqrt(max(square, LEAST_HEIGHT * LEAST_HEIGHT * self.base * self.base))
        height = (
            -math.log(often) if abs(self.shape) < 1e-9 else (math.pow(often, -self.shape) - 1.0) / self.shape
        )
        return math.sqrt(self.base * self.base + 2.0 * self.scale * height)
