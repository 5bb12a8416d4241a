"""w = (u - centre) / scale: units of each node's own spread, by robust estimates."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from detector.alignment.samples import Columns
from detector.preprocessing.base import Shape, Step
from detector.preprocessing.blocks import Blocks
from detector.preprocessing.steps.seasonal import Seasonal
from detector.settings.preprocessing import PreprocessSettings
from estimators.core.types import Floats
from estimators.timeseries.robust_scale import SOURCES, centre_and_scale

FAR = 1e9  # scaled values are kept within: sums stay finite, and a level may still wander
_WORDS = {
    "mad": "median absolute deviation",
    "range": "10 to 90 % range, since more than half of the values are equal",
    "sd": "standard deviation, since nearly all values are equal",
    "peers": "median of the other nodes, since this one was constant",
    "unit": "1, since nothing varied",
}


class Scale(Step):
    """Always on."""

    name = "scale"
    keeps_level = True
    plain = True
    learnt_arrays = ("centre", "offset", "scale", "source")

    def __init__(self, settings: PreprocessSettings, shape: Shape) -> None:
        super().__init__(settings, shape)
        size = (shape.n_nodes, shape.dim)
        self.centre: Floats = np.zeros(size)
        self.offset: Floats = np.zeros(size)  # what of the centre is still to be taken off in the stream
        self.scale: Floats = np.ones(size)
        self.source: NDArray[np.int8] = np.zeros(size, np.int8)  # which of `SOURCES` gave the scale

    def fit(self, blocks: Blocks, like: Self | None = None) -> None:
        for nodes, values, _ in blocks:
            self.centre[nodes], self.scale[nodes], self.source[nodes] = centre_and_scale(values)
        self.centre, self.scale, self.source = blocks.complete(self.centre, self.scale, self.source)
        season = next((step for step in blocks.steps if isinstance(step, Seasonal)), None)
        if season is None:
            self.offset = self.centre.copy()
        else:
            season.level, self.offset = self.centre.copy(), np.zeros_like(self.centre)

    def transform(self, nodes: slice, values: Floats, times: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.clip((values - self.centre[nodes]) / self.scale[nodes], -FAR, FAR)

    def apply(self, layer: Columns) -> list[Columns]:
        with np.errstate(over="ignore"):
            w = (layer.values - self.offset[layer.nodes]) / self.scale[layer.nodes]
        return [Columns(layer.nodes, layer.times, np.clip(w, -FAR, FAR))]

    def to_units(self, centre: Floats, scale: Floats) -> tuple[Floats, Floats]:
        return centre + scale * self.centre, scale * self.scale

    def describe(self, v: int) -> dict[str, Any]:
        sources = [_WORDS[SOURCES[source]] for source in self.source[v]]
        return {"centre": self.centre[v].tolist(), "scale": self.scale[v].tolist(), "scale from": sources}
