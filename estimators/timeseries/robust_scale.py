"""Centre and spread that outliers, discrete values and constant sensors do not spoil.

Along the first axis, NaN = missing. The spread estimates the standard deviation of the bulk of the data:

    MAD      1.4826 x median |x - median|, but at least half of the next, so that a signal which is nearly
             constant except for bursts does not turn its bursts into hundreds of standard deviations
    range    (90 % - 10 % quantile) / 2.563      where more than half of the values are equal
    sd       of the values within the 0.1 % and 99.9 % quantiles, or of all, where nearly all values are equal
    peers    the median spread of the same component at the other nodes, for a constant sensor
    unit     1, where there is nothing to go by
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from estimators.core.types import Floats

MAD_TO_SD = 1.4826  # of a normal distribution
RANGE_TO_SD = 2.0 * 1.2815515655446004
SOURCES = ("mad", "range", "sd", "peers", "unit")
ROUNDING = 8.0  # units in the last place of the centre: a spread below is rounding, not signal


def quantiles(x: Floats, levels: Sequence[float]) -> Floats:
    """(len(levels), ...) quantiles of x (T, ...) along its first axis, linear between samples."""
    ordered = np.sort(x, axis=0)  # NaN goes to the end
    count = np.count_nonzero(~np.isnan(x), axis=0)
    result = np.empty((len(levels), *x.shape[1:]))
    for k, level in enumerate(levels):
        at = level * np.maximum(count - 1, 0)
        low = np.floor(at).astype(np.intp)
        high = np.minimum(low + 1, np.maximum(count - 1, 0))
        below = np.take_along_axis(ordered, low[None], axis=0)[0]
        above = np.take_along_axis(ordered, high[None], axis=0)[0]
        share = at - low
        result[k] = below * (1.0 - share) + above * share  # not below + (above - below): that overflows
    return result


def centre_and_scale(x: Floats) -> tuple[Floats, Floats, NDArray[np.int8]]:
    """Centre and scale (N, d) of x (T, N, d), and which of `SOURCES` gave the scale (peers: see `borrow`).

    Nodes without a value have centre and scale NaN.
    """
    centre, low, high, least, most = quantiles(x, (0.5, 0.1, 0.9, 0.001, 0.999))
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = np.abs(x - centre)
        mad = MAD_TO_SD * quantiles(deviation, (0.5,))[0]
        spread = (high - low) / RANGE_TO_SD
        bulk = np.where((x >= least) & (x <= most), x - centre, np.nan)
        sd = np.fmax(_root_mean_square(bulk), 0.0)
        sd = np.where(sd > 0.0, sd, np.fmax(_root_mean_square(x - centre), 0.0))
    dust = ROUNDING * np.spacing(np.abs(centre))
    scale = np.where(mad > dust, np.maximum(mad, spread / 2.0), np.where(spread > dust, spread, sd))
    source = np.where(mad > dust, 0, np.where(spread > dust, 1, 2)).astype(np.int8)
    useless = ~((scale > dust) & (scale < np.inf))
    scale = np.where(np.isnan(centre), np.nan, np.where(useless, 1.0, scale))
    return centre, scale, np.where(useless, SOURCES.index("unit"), source).astype(np.int8)


def borrow(scale: Floats, source: NDArray[np.int8]) -> tuple[Floats, NDArray[np.int8]]:
    """Give the nodes whose scale is only a unit the median scale of the others, component by component."""
    unit, peers = SOURCES.index("unit"), SOURCES.index("peers")
    lacking = source == unit
    typical = quantiles(np.where(lacking, np.nan, scale), (0.5,))[0]  # (d,)
    known = lacking & ~np.isnan(typical)
    return np.where(known & ~np.isnan(scale), typical, scale), np.where(known, peers, source).astype(np.int8)


def _root_mean_square(x: Floats) -> Floats:
    """Over the first axis, without overflow; NaN where nothing is there."""
    largest = np.nanmax(np.abs(x), axis=0, initial=0.0)
    unit = np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)
    count = np.count_nonzero(~np.isnan(x), axis=0)
    total = np.nansum((x / unit) ** 2, axis=0)
    root: Floats = unit * np.sqrt(total / np.where(count > 0, count, np.nan))
    return root
