"""Seasonal profile of each node: the usual value at each phase of a period (a day, a shift, a week).

Learnt as the median per phase bin, less the node's own median; applied by time, linearly between the
middles of the bins, around the circle. A bin that was never seen takes the line between its neighbours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estimators.core.types import Floats, Nodes
from estimators.timeseries.robust_scale import quantiles

MIN_PERIODS = 2.0  # in the learning period: one period alone cannot be told from a change
FOLDS = 10  # stretches of the learning period of which each is judged by a profile of the others


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


class OthersProfile:
    """Profiles of a learning period of which every stretch is judged by the other stretches.

    A profile fits the days from which it was learnt better than it will fit tomorrow: what is left of four
    days less their own mean course has a spread a quarter smaller than what will be left of the fifth day.
    A stretch consists of whole periods.
    """

    def __init__(self, begin: float, end: float, period: float, bins: int, n_nodes: int, dim: int) -> None:
        self.begin, self.end, self.period = begin, end, period
        self.periods = int((end - begin) // period) + 1
        self.profiles: Floats = np.zeros((min(FOLDS, self.periods), n_nodes, bins, dim))

    def learn(self, nodes: slice, x: Floats, times: Floats, centre: Floats) -> None:
        """x (T, n, d) of ``nodes`` at times (T, n), NaN = missing, with their centres (n, d)."""
        stretch, bins = self._stretch(times), self.profiles.shape[2]
        for k, profile in enumerate(self.profiles):
            others = np.where(stretch == k, np.nan, times)
            profile[nodes] = learn_profile(x, others, centre, self.period, bins)

    def at_time(self, profile: Floats, nodes: Nodes, times: Floats) -> Floats:
        """As `at_time`; ``profile`` outside of the learning period."""
        usual = at_time(profile, nodes, times, self.period)
        stretch = self._stretch(times)
        for k in np.unique(stretch[stretch >= 0]):
            rows = np.flatnonzero((stretch == k).reshape(len(stretch), -1).any(axis=1))
            numbers = nodes[rows] if stretch.ndim == 1 else nodes
            here = at_time(self.profiles[k], numbers, times[rows], self.period)
            usual[rows] = np.where((stretch[rows] == k)[..., None], here, usual[rows])
        return usual

    def _stretch(self, times: Floats) -> NDArray[np.intp]:
        inside = (times >= self.begin) & (times <= self.end)  # not where it is NaN
        period = np.floor((np.where(inside, times, self.begin) - self.begin) / self.period).astype(np.intp)
        return np.where(inside, period * len(self.profiles) // self.periods, -1)


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
