"""Autoregressive models of many nodes at once, by Burg's method.

    w_t = a_1 w_{t-1} + ... + a_p w_{t-p} + e_t,    e_t white

The reflection coefficient of each order minimises forward and backward errors together,

    k = 2 sum f_t b_{t-1} / sum (f_t^2 + b_{t-1}^2),

so |k| <= 1 and the model is stable whatever the data, with samples missing too (their terms are left out).
The order is the one of least AIC = n log(var e) + 2 p.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estimators.core.types import Floats

NEAR_ONE = 1.0 - 1e-9  # of a reflection coefficient: a noiseless signal leaves a variance above zero


def burg(w: Floats, max_order: int, choose: bool = True) -> tuple[Floats, NDArray[np.int16]]:
    """Coefficients (max_order, N, d), zero above the order, and orders (N, d) of w (T, N, d), NaN = missing.

    w has its centre removed. ``choose=False`` takes ``max_order`` itself where the data allow it.
    """
    shape = w.shape[1:]
    present = ~np.isnan(w)
    n = np.count_nonzero(present, axis=0)
    variance = np.nansum(w * w, axis=0) / np.maximum(n, 1)
    a = np.zeros((max_order, *shape))
    best, order = a.copy(), np.zeros(shape, np.int16)
    alive = (variance > 0.0) & (n > 3 * max_order)  # too short or constant: leave as it is
    score = np.where(alive, n * np.log(np.where(alive, variance, 1.0)), -np.inf)
    forward, backward = w, w
    for p in range(1, max_order + 1):
        forward, backward = forward[1:], backward[:-1]
        both = ~np.isnan(forward) & ~np.isnan(backward)
        f, b = np.where(both, forward, 0.0), np.where(both, backward, 0.0)
        power = np.sum(f * f + b * b, axis=0)
        k = 2.0 * np.sum(f * b, axis=0) / np.where(power > 0.0, power, 1.0)
        k = np.clip(np.where(alive, k, 0.0), -NEAR_ONE, NEAR_ONE)
        a[: p - 1] = a[: p - 1] - k * a[: p - 1][::-1]
        a[p - 1] = k
        variance = variance * (1.0 - k * k)
        forward, backward = forward - k * backward, backward - k * forward
        criterion = n * np.log(np.where(alive, variance, 1.0)) + 2.0 * p
        better = alive & ((criterion < score) | (not choose))
        score = np.where(better, criterion, score)
        best = np.where(better, a, best)
        order = np.where(better, p, order).astype(np.int16)
    return best, order


def lag_one(w: Floats) -> Floats:
    """Lag-one autocorrelation (N, d) of w (T, N, d), centre removed, NaN = missing; 0 where undefined."""
    before, after = w[:-1], w[1:]
    both = ~np.isnan(before) & ~np.isnan(after)
    f, b = np.where(both, after, 0.0), np.where(both, before, 0.0)
    power = np.sum(f * f + b * b, axis=0)
    result: Floats = 2.0 * np.sum(f * b, axis=0) / np.where(power > 0.0, power, 1.0)
    return result
