"""The learning period as it comes in: one row per layer of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector.alignment.samples import Columns
from detector.stateful import Arrays, Meta, Rows
from estimators.core.types import Floats


class History:
    """Rows of values, NaN where a node had none; grows by doubling."""

    def __init__(self, n_nodes: int, dim: int) -> None:
        self._values = np.full((256, n_nodes, dim), np.nan)
        self._times = np.zeros(256)
        self._n = 0
        self.count = np.zeros(n_nodes, np.int64)

    @classmethod
    def of(cls, X: Floats, times: Floats) -> History:
        made = cls(X.shape[1], X.shape[2])
        made._take(X.copy(), times)
        return made

    def _take(self, values: Floats, times: Floats) -> None:
        self._values, self._times, self._n = values, np.array(times, np.float64), len(values)
        self.count = np.isfinite(values).all(axis=2).sum(axis=0)

    def __len__(self) -> int:
        return self._n

    def add(self, layer: Columns) -> None:
        if self._n == len(self._times):
            more = max(self._n, 256)
            self._times = np.concatenate([self._times, np.zeros(more)])
            self._values = np.concatenate([self._values, np.full((more, *self._values.shape[1:]), np.nan)])
        self._values[self._n, layer.nodes] = layer.values
        self._times[self._n] = layer.times[-1]
        self.count[layer.nodes] += 1
        self._n += 1

    def set_back(self, by: float) -> None:
        """The clock was that much ahead."""
        self._times[: self._n] -= by

    def share(self, wanted: int) -> float:
        """How much of ``wanted`` samples the median node has given."""
        return min(1.0, float(np.median(self.count)) / wanted)

    def arrays(self) -> tuple[Floats, Floats]:
        """Values (T, N, d) and times (T,) made strictly increasing: layers of one tick may share a time."""
        times = self._times[: self._n].copy()
        for t in range(1, len(times)):
            if times[t] <= times[t - 1]:
                times[t] = np.nextafter(times[t - 1], np.inf)
        return self._values[: self._n], times

    def state(self) -> tuple[Arrays, Meta]:
        return {"values": self._values[: self._n].copy(), "times": self._times[: self._n].copy()}, {}

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        values = np.full((len(arrays["values"]), len(rows), arrays["values"].shape[2]), np.nan)
        values[:, rows >= 0] = arrays["values"][:, rows[rows >= 0]]
        self._take(values, arrays["times"])


def checked(
    X: NDArray[Any], times: NDArray[Any] | None, shape: tuple[int, int], step: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A history (T, N, d) or (T, N) that somebody brings, and its times; ValueError says what is wrong."""
    X = np.asarray(X, dtype=np.float64)
    if X.ndim == 2:
        X = X[:, :, None]
    if X.ndim != 3 or X.shape[1:] != shape:
        raise ValueError(f"history: expected (T, {shape[0]}, {shape[1]}), got shape {X.shape}")
    if np.isinf(X).any():
        raise ValueError("history: values must be finite, or NaN where missing")
    clock = np.arange(len(X), dtype=np.float64) * step if times is None else np.asarray(times)
    if len(clock) != len(X) or (np.diff(clock) <= 0).any():
        raise ValueError("times: one per row of the history, increasing")
    return X, clock
