"""The learning period as a step sees it: blocks of nodes, each passed through the steps before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from detector.alignment.samples import Columns
from estimators.core.types import Floats
from estimators.timeseries.autoregression import lag_one
from estimators.timeseries.robust_scale import borrow

if TYPE_CHECKING:
    from detector.preprocessing.base import Step

MIN_SAMPLES = 10  # of a node in the learning period; fewer say nothing about its spread
TAIL = 5.0  # autocorrelations are learnt from values within, so that outliers do not make them
BLOCK_VALUES = 4_000_000  # learnt at once: bounds the memory of learning


class Blocks:
    """X (T, N, d), NaN = missing, at ``times`` (T,).

    Iterating gives nodes, values (T', n, d), times (T', n): each node's own samples moved together, then NaN.
    """

    def __init__(self, X: ArrayLike, times: ArrayLike | None = None) -> None:
        self.x = np.asarray(X, dtype=np.float64)
        if self.x.ndim != 3 or 0 in self.x.shape:
            raise ValueError(f"X: expected (T, N, d) with none of them 0, got shape {self.x.shape}")
        n_rows = len(self.x)
        self.timed = times is not None
        self.clock: Floats = (
            np.arange(n_rows, dtype=np.float64) if times is None else np.asarray(times, float)
        )
        if self.clock.shape != (n_rows,) or not np.isfinite(self.clock).all():
            raise ValueError(f"times: expected {n_rows} finite numbers, got shape {self.clock.shape}")
        self.steps: Sequence[Step] = ()  # those that are fitted already
        self.warnings: list[str] = []
        self.learnt: NDArray[np.bool_] = np.asarray(
            np.isfinite(self.x).all(axis=2).sum(axis=0) >= MIN_SAMPLES
        )  # (N,) nodes with enough samples

    @property
    def span(self) -> float:
        return float(self.clock.max() - self.clock.min())

    def __len__(self) -> int:
        return len(self.x)

    def __iter__(self) -> Iterator[tuple[slice, Floats, Floats]]:
        for nodes, values, times in self._raw():
            for step in self.steps:
                values = step.transform(nodes, values, times)
                times = times[len(times) - len(values) :]
            yield nodes, values, times

    def _raw(self) -> Iterator[tuple[slice, Floats, Floats]]:
        n_nodes, dim = self.x.shape[1:]
        size = max(1, BLOCK_VALUES // (len(self.x) * dim))
        for first in range(0, n_nodes, size):
            nodes = slice(first, min(first + size, n_nodes))
            block = self.x[:, nodes]
            whole = np.isfinite(block).all(axis=2)
            if whole.all():
                yield nodes, block, np.broadcast_to(self.clock[:, None], whole.shape)
                continue
            order = np.argsort(~whole, axis=0, kind="stable")
            there = np.take_along_axis(whole, order, axis=0)
            block = np.where(there[:, :, None], np.take_along_axis(block, order[:, :, None], axis=0), np.nan)
            yield nodes, block, np.where(there, self.clock[order], np.nan)

    def rows(self) -> Floats:
        """(T, N, d) row by row through the steps before, which must have no lags; NaN: nothing is known."""
        everyone = np.arange(self.x.shape[1], dtype=np.int32)
        made = np.empty_like(self.x)
        for row, values, now in zip(made, self.x, self.clock, strict=True):
            layer = Columns(everyone, np.full(len(everyone), now), values)
            for step in self.steps:
                (layer,) = step.apply(layer)
            row[:] = np.where(self.learnt[:, None], layer.values, np.nan)
        return made

    def typical_lag_one(self) -> float:
        """The median of the lag-one autocorrelation, over nodes and components."""
        r = np.concatenate([lag_one(np.clip(values, -TAIL, TAIL)) for _, values, _ in self])
        return float(np.median(r[self.learnt])) if self.learnt.any() else 0.0

    def complete(
        self, centre: Floats, scale: Floats, source: NDArray[np.int8]
    ) -> tuple[Floats, Floats, NDArray[np.int8]]:
        """Neutral values for nodes with too few samples, the peers' scale for constant ones."""
        unknown = ~self.learnt[:, None] | np.isnan(centre) | np.isnan(scale)
        scale, source = borrow(np.where(unknown, np.nan, scale), source)
        return np.where(unknown, 0.0, centre), np.where(unknown, 1.0, scale), source
