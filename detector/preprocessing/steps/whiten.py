"""e = v - sum_j a_j v_{t-j}, scaled again: an autoregression makes samples nearly independent.

A lasting change of level shrinks to its (1 - sum a)th part. ``auto`` is ``aic`` where the typical lag-one
autocorrelation is above 0.3; below, the calibration takes care.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from detector.alignment.samples import Columns
from detector.preprocessing.base import Shape, Step
from detector.preprocessing.blocks import TAIL, Blocks
from detector.preprocessing.lag_buffer import LagBuffer
from detector.preprocessing.steps.clip import cut
from detector.settings.preprocessing import PreprocessSettings
from detector.stateful import Arrays, Meta, Rows
from estimators.core.types import Floats, Nodes
from estimators.timeseries.autoregression import burg
from estimators.timeseries.robust_scale import centre_and_scale

WHITEN_ABOVE = 0.3


class Whiten(Step):
    """Innovations are cut as values are: the step `clip` comes before."""

    name = "whiten"
    learnt_arrays = ("order", "centre", "scale")
    stream_arrays = ("clipped",)
    lags: LagBuffer

    def __init__(self, settings: PreprocessSettings, shape: Shape) -> None:
        super().__init__(settings, shape)
        size = (shape.n_nodes, shape.dim)
        self.order: NDArray[np.int16] = np.zeros(size, np.int16)
        self.centre: Floats = np.zeros(size)
        self.scale: Floats = np.ones(size)
        self.clipped: NDArray[np.int64] = np.zeros(shape.n_nodes, np.int64)
        self._choose(0)

    def _choose(self, most: int) -> None:
        """Coefficients (order, N, d) for orders up to ``most``; 0 switches the step off."""
        self.ar: Floats = np.zeros((most, *self.order.shape))
        self.lags = LagBuffer(self.shape.n_nodes, most, self.shape.dim)

    @property
    def active(self) -> bool:
        return len(self.ar) > 0

    @property
    def plain(self) -> bool:
        return not self.order.any()

    def fit(self, blocks: Blocks, like: Self | None = None) -> None:
        wanted = self.settings.whiten
        if like is not None and wanted == "auto":
            wanted = "aic" if like.active else 0
        elif wanted == "auto":
            typical = blocks.typical_lag_one()
            wanted = "aic" if abs(typical) > WHITEN_ABOVE else 0
            self.chosen = (
                f"{'an' if wanted else 'no'} autoregression is removed: the typical lag-one autocorrelation "
                f"of what is left is {typical:.3f} (limit {WHITEN_ABOVE:g})"
            )
        self._choose(wanted if isinstance(wanted, int) else self.settings.max_order)
        self.order[:] = 0
        self.centre, self.scale = np.zeros_like(self.centre), np.ones_like(self.scale)
        if not self.active:
            return
        source, most = np.zeros(self.centre.shape, np.int8), len(self.ar)
        for nodes, v, _ in blocks:
            self.ar[:, nodes], self.order[nodes] = burg(
                np.clip(v, -TAIL, TAIL), most, choose=not isinstance(wanted, int)
            )
            if len(v) > most:
                e = self._innovations(nodes, v)
                self.centre[nodes], self.scale[nodes], source[nodes] = centre_and_scale(e)
        self.centre, self.scale, _ = blocks.complete(self.centre, self.scale, source)

    def _innovations(self, nodes: slice, v: Floats) -> Floats:
        most = len(self.ar)
        e = v[most:].copy()
        for j in range(1, most + 1):
            e -= self.ar[j - 1, nodes] * v[most - j : len(v) - j]
        return e

    def transform(self, nodes: slice, values: Floats, times: Floats) -> Floats:
        e = (self._innovations(nodes, values) - self.centre[nodes]) / self.scale[nodes]
        return np.clip(e, -self.settings.clip, self.settings.clip)

    def apply(self, layer: Columns) -> list[Columns]:
        node, v = layer.nodes, layer.values
        e = v - np.einsum("jkd,kjd->kd", self.ar[:, node], self.lags.latest(node))
        full = self.lags.count[node] >= self.order[node].max(axis=1)
        self.lags.push(node, v)
        made = Columns(node, layer.times, (e - self.centre[node]) / self.scale[node]).kept(full)
        return [Columns(made.nodes, made.times, cut(made, self.settings.clip, self.clipped))]

    def adopt(self, nodes: Nodes, other: Self) -> None:
        super().adopt(nodes, other)
        self.ar[:, nodes] = other.ar

    def to_units(self, centre: Floats, scale: Floats) -> tuple[Floats, Floats]:
        left = 1.0 - self.ar.sum(axis=0)
        none = left < 1e-6
        return centre, np.where(none, np.nan, scale * self.scale / np.where(none, 1.0, left))

    def describe(self, v: int) -> dict[str, Any]:
        orders = self.order[v].tolist()
        return {
            "autoregression": [self.ar[:order, v, c].tolist() for c, order in enumerate(orders)],
            "innovations clipped": int(self.clipped[v]),
        }

    def state(self) -> tuple[Arrays, Meta]:
        return super().state()[0] | {"ar": self.ar.copy()}, {}

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        self._choose(len(arrays["ar"]))
        self.ar[:, rows >= 0] = arrays["ar"][:, rows[rows >= 0]]
        super().restore(arrays, meta, rows)
