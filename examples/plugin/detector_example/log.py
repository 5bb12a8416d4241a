"""Logarithms of values: where quantities span decades, a change is a factor."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from connectors import Settings
from detector.alignment.samples import Columns
from detector.preprocessing.base import Step
from estimators.core.types import Floats


class Log(Step):
    """w = log(floor + x), before everything else; values below zero count as zero."""

    name = "log"
    after = None  # the first of all steps

    class Config(Settings):
        floor: float = Field(default=1e-9, description="Added to values, so that zero has a logarithm.", gt=0)

    def transform(self, nodes: slice, values: Floats, times: Floats) -> Floats:
        return np.asarray(np.log(self.own.floor + np.maximum(values, 0.0)))  # NaN stays NaN

    def apply(self, layer: Columns) -> list[Columns]:
        return [Columns(layer.nodes, layer.times, self.transform(slice(0), layer.values, layer.times))]

    def to_units(self, centre: Floats, scale: Floats) -> tuple[Floats, Floats]:
        return centre, np.full_like(scale, np.nan)  # a logarithm has no scale of its own in original units

    def describe(self, v: int) -> dict[str, Any]:
        return {"logarithm, floor": self.own.floor}
