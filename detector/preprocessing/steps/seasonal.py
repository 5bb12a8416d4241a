"""u = x - level - profile(time): the usual course of a day, a shift, a week."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from detector.alignment.samples import Columns
from detector.preprocessing.base import Shape, Step
from detector.preprocessing.blocks import Blocks
from detector.settings.preprocessing import PreprocessSettings
from detector.stateful import Arrays, Meta, Rows
from estimators.core.types import Floats, Nodes
from estimators.timeseries.robust_scale import centre_and_scale
from estimators.timeseries.seasonal_profile import MIN_PERIODS, OthersProfile, at_time, learn_profile


class Seasonal(Step):
    """Off where the learning period is too short for a profile."""

    name = "seasonal"
    keeps_level = True
    learnt_arrays = ("profile", "level")

    def __init__(self, settings: PreprocessSettings, shape: Shape) -> None:
        super().__init__(settings, shape)
        self.period = 0.0
        bins = settings.seasonal_bins if settings.seasonal else 1
        self.profile: Floats = np.zeros((shape.n_nodes, bins, shape.dim))  # original units
        # The centre that `scale` learns: in the stream it is taken off first, so that no digits are lost.
        self.level: Floats = np.zeros((shape.n_nodes, shape.dim))
        self.learning: OthersProfile | None = None  # until the learning period is over

    @property
    def active(self) -> bool:
        return self.period > 0.0

    def fit(self, blocks: Blocks, like: Self | None = None) -> None:
        wanted = self.settings.seasonal if like is None or like.active else None
        self.period, self.learning = wanted or 0.0, None
        self.level[:] = 0.0
        if wanted and not blocks.timed:
            raise ValueError("times: a seasonal profile needs the time of each row")
        if wanted and blocks.span < MIN_PERIODS * wanted:
            blocks.warnings.append(
                f"seasonal: the learning period covers {blocks.span / wanted:.2g} periods, but "
                f"{MIN_PERIODS:g} are needed: no profile is used"
            )
            self.period = 0.0
        if self.period:
            bins = self.settings.seasonal_bins
            begin, end = float(blocks.clock.min()), float(blocks.clock.max())
            self.learning = OthersProfile(begin, end, self.period, bins, len(self.profile), self.shape.dim)
            for nodes, values, times in blocks:
                centre = centre_and_scale(values)[0]
                self.profile[nodes] = learn_profile(values, times, centre, self.period, bins)
                self.learning.learn(nodes, values, times, centre)

    def settle(self) -> None:
        self.learning = None

    def transform(self, nodes: slice, values: Floats, times: Floats) -> Floats:
        return values - self._usual(np.arange(nodes.start, nodes.stop, dtype=np.int32), np.nan_to_num(times))

    def apply(self, layer: Columns) -> list[Columns]:
        with np.errstate(over="ignore"):
            u = layer.values - self.level[layer.nodes]
            u -= self._usual(layer.nodes, layer.times)
        return [Columns(layer.nodes, layer.times, u)]

    def _usual(self, nodes: Nodes, times: Floats) -> Floats:
        if self.learning is not None:
            return self.learning.at_time(self.profile, nodes, times)
        return at_time(self.profile, nodes, times, self.period)

    def describe(self, v: int) -> dict[str, Any]:
        swing = np.ptp(self.profile[v], axis=0).tolist()
        return {"seasonal period, s": self.period, "seasonal swing": swing}

    def state(self) -> tuple[Arrays, Meta]:
        return super().state()[0], {"period": self.period}

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        super().restore(arrays, meta, rows)
        self.period = float(meta["period"])
