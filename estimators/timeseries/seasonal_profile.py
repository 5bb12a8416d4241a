"""Seasonal profile of each node: the usual value at each phase of a period (a day, a shift, a week).

Learnt as the median per phase bin, less the node's own median; applied by time, linearly between the
middles of the bins, around the circle. A bin that was never seen takes the line between its neighbours.
"""

from __future__ import annotations

import numpy as np

from estimators.core.types import Floats, Nodes
from estimators.timeseries.robust_scale import quantiles

MIN_PERIODS = 2.0  # in the learning period: one period alone cannot be told from a change


def learn_profile(x: Floats, times: Floats, centre: Floats, period: float, bins: int) -> Floats:
    """Profile (N, bins, d) of x (T, N, d) at times (T, N), NaN = missing."""
    phase = np.where(np.isnan(times), -1, np.floor(np.mod(times, period) / period * bins))
    phase = np.minimum(phase, bins - 1)  # rounding may reach the end of the period
    profile = np.full((x.shape[1], bins, x.shape[2]), np.nan)
    for k in range(bins):
        rows = np.flatnonzero((phase == k).any(axis=1))
        here = np.where((phase[rows] == k)[:, :, None], x[rows], np.nan)
        if len(here):
            profile[:, k] = quantiles(here, (0.5,))[0] - centre
    return _bridge(profile)


def _bridge(profile: Floats) -> Floats:
    """Fill unseen bins from their neighbours around the circle; a node never seen has profile 0."""
    bins = profile.shape[1]
    for v, c in np.argwhere(np.isnan(profile).any(axis=1)):
        series = profile[v, :, c]
        seen = np.flatnonzero(~np.isnan(series))
        if len(seen):
            profile[v, :, c] = np.interp(np.arange(bins), seen, series[seen], period=bins)
        else:
            profile[v, :, c] = 0.0
    return profile


def at_time(profile: Floats, nodes: Nodes, times: Floats, period: float) -> Floats:
    """Usual values (..., k, d) of ``nodes`` (k,) at ``times`` (..., k)."""
    bins = profile.shape[1]
    position = np.mod(np.asarray(times, np.float64), period) / period * bins - 0.5
    low = np.floor(position)
    share = (position - low)[..., None]
    first = low.astype(np.intp) % bins
    usual: Floats = profile[nodes, first] * (1.0 - share) + profile[nodes, (first + 1) % bins] * share
    return usual
