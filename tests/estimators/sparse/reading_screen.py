"""Which readings of a window are corrupt: isolated ones that a resilient fit over time had to give up.

Value against time is fitted within a tolerance over all centres and widths, each reading's constraint relaxed
at a capped price (Peifer 2021, Ch. 2 and 4). A reading whose relaxation exceeds ``level`` deviations of the
noise is flagged. A change is flagged too, and must not be hidden: only runs of at most ``in_a_row`` flagged
readings are masked, and at most ``share`` of the window; beyond it nothing is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from estimators.core.base import check_range
from estimators.core.types import Bools, Floats
from estimators.sparse.dual import Tube, solve_dual
from estimators.sparse.grid import MultiScaleGrid
from estimators.sparse.regression import NOISE, near, noise
from estimators.sparse.relaxation import Relaxation

LEAST = 8  # readings; a shorter window says nothing about what is isolated
PRICE = Relaxation.huber(1000.0, 0.3)  # for values of about unit size on the probability measure
WIDTHS = (3.0, 16)  # from three readings to a quarter of the window, geometric


class ReadingScreen:
    """``mask(values)`` of one window (n,) of a node in time order; NaN where a reading is missing.

    After it ``flagged_`` tells what the fit gave up, masked or not.
    """

    flagged_: Bools

    def __init__(self, *, level: float = 5.0, in_a_row: int = 2, share: float = 0.1) -> None:
        check_range("level", level, 0.0, open_low=True)
        check_range("in_a_row", in_a_row, 0)
        check_range("share", share, 0.0, 1.0)
        self.level, self.in_a_row, self.share = level, in_a_row, share

    def mask(self, values: ArrayLike, times: ArrayLike | None = None) -> Bools:
        """True where a reading is isolated and corrupt."""
        y = np.asarray(values, dtype=np.float64)
        if y.ndim != 1:
            raise ValueError(f"values: expected one window (n,), got shape {y.shape}")
        t = np.arange(float(len(y))) if times is None else np.asarray(times, dtype=np.float64)
        if t.shape != y.shape:
            raise ValueError(f"times: shape {t.shape}, but there are {len(y)} values")
        here = np.flatnonzero(np.isfinite(y))
        self.flagged_ = np.zeros(len(y), np.bool_)
        if len(here) < LEAST:
            return self.flagged_.copy()
        self.flagged_[here] = self._given_up(t[here], y[here])
        masked = np.zeros(len(y), np.bool_)
        masked[here] = isolated(self.flagged_[here], self.in_a_row, self.share)
        return masked

    def _given_up(self, t: Floats, y: Floats) -> Bools:
        deviation = noise(t[:, None], y)
        centred = y - np.median(y)
        if deviation == 0.0:  # constant but for a few readings: any other value stands out
            return np.asarray(centred != 0.0)
        size = max(float(np.quantile(np.abs(centred), 0.9)), NOISE * deviation)
        span = t[-1] - t[0]
        if not span > 0.0:
            raise ValueError("times: must increase")
        x, (least, n_widths) = (t - t[0]) / span * len(t), WIDTHS
        widths = np.geomspace(least, max(len(t) / 4.0, 1.5 * least), n_widths)
        grid = MultiScaleGrid.build(x, widths, spacing=0.5, margin=0.5, measure="probability")
        fit = Tube(near(centred / size), NOISE * deviation / size)
        found = solve_dual(grid.design(x), grid.weights, fit, 0.0, PRICE)  # sparsity would only cost time
        return np.asarray(found.slack > self.level * deviation / size)


def isolated(flagged: Bools, in_a_row: int, share: float) -> Bools:
    """Of the flagged readings, those in runs of at most ``in_a_row``; none if these exceed ``share``."""
    edges = np.diff(np.concatenate([[False], flagged, [False]]).astype(np.int8))
    masked = np.zeros(len(flagged), np.bool_)
    for start, end in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True):
        if end - start <= in_a_row:
            masked[start:end] = True
    return masked if masked.sum() <= share * len(flagged) else np.zeros(len(flagged), np.bool_)
