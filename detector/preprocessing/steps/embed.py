"""(z_t, z_{t-1}, ..., z_{t-k+1}): some samples of a node put together to one vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from detector.alignment.samples import Columns
from detector.preprocessing.base import Shape, Step
from detector.preprocessing.lag_buffer import LagBuffer
from detector.settings.preprocessing import PreprocessSettings
from estimators.core.types import Floats


class Embed(Step):
    """d components become d k."""

    name = "embed"
    lags: LagBuffer

    def __init__(self, settings: PreprocessSettings, shape: Shape) -> None:
        super().__init__(settings, shape)
        self.lags = LagBuffer(shape.n_nodes, settings.embed - 1, shape.dim)

    @property
    def active(self) -> bool:
        return self.settings.embed > 1

    @property
    def dim_out(self) -> int:
        return self.shape.dim * self.settings.embed

    def transform(self, nodes: slice, values: Floats, times: Floats) -> Floats:
        k = self.settings.embed
        n_rows = max(len(values) - k + 1, 0)
        return np.concatenate([values[k - 1 - j : k - 1 - j + n_rows] for j in range(k)], axis=2)

    def apply(self, layer: Columns) -> list[Columns]:
        node, v = layer.nodes, layer.values
        whole = np.concatenate([v[:, None], self.lags.latest(node)], axis=1).reshape(len(v), self.dim_out)
        full = self.lags.full(node)
        self.lags.push(node, v)
        return [Columns(node, layer.times, whole).kept(full)]

    def to_units(self, centre: Floats, scale: Floats) -> tuple[Floats, Floats]:
        k = self.settings.embed
        return np.tile(centre, k), np.tile(scale, k)

    def components(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{name}, lag {k}" for k in range(self.settings.embed) for name in names)

    def describe(self, v: int) -> dict[str, Any]:
        return {"vectors put together": self.settings.embed}
