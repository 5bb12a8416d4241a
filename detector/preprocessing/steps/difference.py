"""v = w_t - w_{t-lag}, scaled again: shows changes of slope and hides lasting changes of level.

``auto`` takes lag 1 where the level wanders: where the typical lag-one autocorrelation is above 0.98.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from detector.alignment.samples import Columns
from detector.preprocessing.base import Shape, Step
from detector.preprocessing.blocks import Blocks
from detector.preprocessing.lag_buffer import LagBuffer
from detector.settings.preprocessing import PreprocessSettings
from detector.stateful import Arrays, Meta, Rows
from estimators.core.types import Floats
from estimators.timeseries.robust_scale import centre_and_scale

DIFFERENCE_ABOVE = 0.98


class Difference(Step):
    """The lag is in samples of the node."""

    name = "difference"
    learnt_arrays = ("centre", "scale")
    lags: LagBuffer

    def __init__(self, settings: PreprocessSettings, shape: Shape) -> None:
        super().__init__(settings, shape)
        self.centre: Floats = np.zeros((shape.n_nodes, shape.dim))
        self.scale: Floats = np.ones((shape.n_nodes, shape.dim))
        self._choose(0)

    def _choose(self, lag: int) -> None:
        self.lag = lag
        self.lags = LagBuffer(self.shape.n_nodes, lag, self.shape.dim)

    @property
    def active(self) -> bool:
        return self.lag > 0

    def fit(self, blocks: Blocks, like: Self | None = None) -> None:
        wanted = self.settings.difference
        if like is not None:
            lag = like.lag
        elif wanted == "auto":
            typical = blocks.typical_lag_one()
            lag = 1 if typical > DIFFERENCE_ABOVE else 0
            what = "differences at lag 1: levels wander" if lag else "no differences: levels do not wander"
            self.chosen = (
                f"{what}, the typical lag-one autocorrelation is {typical:.3f} (limit {DIFFERENCE_ABOVE:g})"
            )
        else:
            lag = int(wanted)
        self._choose(lag)
        self.centre, self.scale = np.zeros_like(self.centre), np.ones_like(self.scale)
        if not 0 < lag < len(blocks):
            return
        source = np.zeros(self.centre.shape, np.int8)
        for nodes, w, _ in blocks:
            v = w[lag:] - w[:-lag]
            self.centre[nodes], self.scale[nodes], source[nodes] = centre_and_scale(v)
        self.centre, self.scale, _ = blocks.complete(self.centre, self.scale, source)

    def transform(self, nodes: slice, values: Floats, times: Floats) -> Floats:
        v = values[self.lag :] - values[: max(len(values) - self.lag, 0)]
        return (v - self.centre[nodes]) / self.scale[nodes]

    def apply(self, layer: Columns) -> list[Columns]:
        node, w = layer.nodes, layer.values
        v = (w - self.lags.oldest(node) - self.centre[node]) / self.scale[node]
        full = self.lags.full(node)
        self.lags.push(node, w)
        return [Columns(node, layer.times, v).kept(full)]

    def to_units(self, centre: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """A lasting change of level passes within one lag: there is no way back."""
        return centre, np.full_like(scale, np.nan)

    def describe(self, v: int) -> dict[str, Any]:
        return {"difference, lag in samples": self.lag}

    def state(self) -> tuple[Arrays, Meta]:
        return super().state()[0], {"lag": self.lag}

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        self._choose(int(meta["lag"]))
        super().restore(arrays, meta, rows)
