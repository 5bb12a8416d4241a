"""Whether a recording has a daily or weekly course, by how well each period is told by the others."""

from __future__ import annotations

import numpy as np

from estimators.core.types import Floats

PERIODS = (("day", 86400.0, 48), ("week", 604800.0, 168))  # seconds, and steps of a profile
LEAST_PERIODS = 3  # fewer cannot be told from a change
EXPLAINED = 0.3  # share of the variance, of the typical series
MORE = 0.1  # by which a week must tell more than a day


def find_season(X: Floats, times: Floats) -> tuple[float, int] | None:
    """Period in seconds and steps of its profile, from X (T, N, d), NaN = missing, at ``times`` (T,)."""
    best: tuple[float, float, int] | None = None
    for _, period, bins in PERIODS:
        told = explained(X, times, period, bins)
        if told > EXPLAINED and (best is None or told > best[0] + MORE):
            best = told, period, bins
    return None if best is None else best[1:]


def explained(X: Floats, times: Floats, period: float, bins: int) -> float:
    """Share of the variance of the bins that the mean of the other periods explains; median over series.

    Each period counts by its own mean, so that a level that moves is no season.
    """
    if not len(times) or times[-1] - times[0] < LEAST_PERIODS * period:
        return 0.0
    number = np.floor((times - times[0]) / period).astype(np.intp)
    phase = np.floor(np.mod(times, period) / period * bins).astype(np.intp) % bins
    series = X.reshape(len(X), -1)
    cell = number * bins + phase
    there = np.isfinite(series)
    shape = ((int(number[-1]) + 1) * bins, series.shape[1])
    total, count = np.zeros(shape), np.zeros(shape)
    np.add.at(total, cell, np.where(there, series, 0.0))
    np.add.at(count, cell, there)
    course = np.where(count > 0, total / np.maximum(count, 1), np.nan).reshape(-1, bins, series.shape[1])
    course = course[np.isfinite(course).mean(axis=(1, 2)) > 0.5]  # the last period may hardly have begun
    if len(course) < LEAST_PERIODS:
        return 0.0
    known = np.isfinite(course)
    kept = known.sum(axis=1, keepdims=True)
    own = np.where(known, course, 0.0).sum(axis=1, keepdims=True) / np.maximum(kept, 1)
    y = np.where(known, course - own, 0.0)
    others = known.sum(axis=0) - known
    usual = (y.sum(axis=0) - y) / np.maximum(others, 1)
    sure = known & (others > 0)
    left = np.where(sure, (y - usual) ** 2, 0.0).sum(axis=(0, 1))
    whole = np.where(sure, y**2, 0.0).sum(axis=(0, 1))
    moving = whole > 0.0
    return float(np.median(1.0 - left[moving] / whole[moving])) if moving.any() else 0.0


def without(X: Floats, times: Floats, period: float, bins: int) -> Floats:
    """X less the median course of the period, of every series by itself."""
    phase = np.floor(np.mod(times, period) / period * bins).astype(np.intp) % bins
    left = X.copy()
    for k in range(bins):
        rows = phase == k
        if rows.any():
            here = X[rows]
            known = np.isfinite(here).any(axis=0)
            middle = np.nanmedian(np.where(known, here, 0.0), axis=0)
            left[rows] = here - middle
    return left
