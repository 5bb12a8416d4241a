"""Values within ±clip: what single wild readings can do to windows and autoregressions is bounded."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector.alignment.samples import Columns
from detector.preprocessing.base import Shape, Step
from detector.settings.preprocessing import PreprocessSettings
from estimators.core.types import Floats


class Clip(Step):
    """Always on; counts what it cuts."""

    name = "clip"
    plain = True
    stream_arrays = ("clipped",)

    def __init__(self, settings: PreprocessSettings, shape: Shape) -> None:
        super().__init__(settings, shape)
        self.clipped: NDArray[np.int64] = np.zeros(shape.n_nodes, np.int64)  # samples

    def transform(self, nodes: slice, values: Floats, times: Floats) -> Floats:
        return np.clip(values, -self.settings.clip, self.settings.clip)

    def apply(self, layer: Columns) -> list[Columns]:
        return [Columns(layer.nodes, layer.times, cut(layer, self.settings.clip, self.clipped))]

    def describe(self, v: int) -> dict[str, Any]:
        return {"samples clipped": int(self.clipped[v])}


def cut(layer: Columns, most: float, count: NDArray[np.int64]) -> Floats:
    """The values within ±``most``; samples of which a component lay beyond are counted by node."""
    v = layer.values
    wild = (np.abs(v) > most).any(axis=1)
    if not wild.any():
        return v
    count[layer.nodes[wild]] += 1
    return np.clip(v, -most, most)
