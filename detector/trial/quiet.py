"""The part of a recording that is learnt from: long, and without changes as far as medians of blocks tell.

The recording is cut into blocks. A series is quiet over a stretch of blocks if neither the medians nor the
spreads of the blocks range further than noise does, or than they do in any stretch of that length: a series
that is restless everywhere is no reason against a stretch. Of long stretches the earliest quiet one is taken.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from estimators.core.types import Floats

BLOCKS = 120
LEAST_BLOCK = 10  # rows
SHARES = (1 / 2, 1 / 3, 1 / 4, 1 / 6)  # of the recording, the longest first
SPANS = (1, 4)  # blocks that are looked at together: several show what is small and lasts
MARGIN = 1.15  # over the range that normal noise has
USUAL = 1.25  # times the smallest range that a series has over such a stretch
GAUSSIAN = 0.6745 * math.sqrt(2.0)  # median of |a - b| of standard normal a and b


class Quiet(NamedTuple):
    """Rows [begin, end) to learn from; ``restless``: numbers of nodes that change even there."""

    begin: int
    end: int
    restless: list[int]


def quiet_part(X: Floats, least: int, most: int) -> Quiet:
    """From X (T, N, d), NaN = missing: at least ``least`` and at most ``most`` rows."""
    rows = len(X)
    size = max(LEAST_BLOCK, rows // BLOCKS)
    n_blocks = rows // size
    if n_blocks < 2:
        return Quiet(0, rows, [])
    shares = [share for share in SHARES if share * rows >= least] or [least / rows]
    lengths = sorted(
        {min(n_blocks, math.ceil(min(share * rows, most) / size)) for share in shares}, reverse=True
    )
    levels, spreads = _blocks(X[: n_blocks * size].reshape(n_blocks, size, *X.shape[1:]))
    found: list[tuple[float, int, int, list[int]]] = []
    for length in lengths:
        looks = [
            _excess(blocks, length, span) for blocks in (levels, spreads) for span in SPANS if span < length
        ]
        excess = np.maximum.reduce(looks)  # (starts, N)
        start = int(np.argmin(excess.sum(axis=1)))
        found.append((float(excess[start].sum()), start, length, np.flatnonzero(excess[start]).tolist()))
        if found[-1][0] == 0.0:
            break
    _, start, length, restless = min(found, key=lambda one: one[0])
    return Quiet(start * size, rows if start + length == n_blocks else (start + length) * size, restless)


def _blocks(cut: Floats) -> tuple[Floats, Floats]:
    """Medians and logarithms of spreads (blocks, N, d); NaN where a block holds too little."""
    enough = np.isfinite(cut).sum(axis=1) >= max(3, cut.shape[1] // 4)
    some = np.where(enough[:, None], cut, 0.0)  # nanmedian wants a number in each column
    middle = np.nanmedian(some, axis=1)
    spread = np.nanmedian(np.abs(some - middle[:, None]), axis=1)
    levels = np.where(enough, middle, np.nan)
    return levels, np.log(np.where(enough & (spread > 0.0), spread, np.nan))


def _excess(blocks: Floats, length: int, span: int) -> Floats:
    """How far nodes range over each stretch (starts, N) beyond what is allowed; 0: not at all."""
    count, n_nodes, dim = blocks.shape
    series = sliding_window_view(blocks.reshape(count, -1), span, axis=0).mean(axis=2)
    noise = _median(np.abs(series[span:] - series[:-span])) / GAUSSIAN
    noise = np.where(noise > 0.0, noise, 1.4826 * _median(np.abs(series - _median(series))))
    wide = sliding_window_view(series, length - span + 1, axis=0)  # (starts, series, length)
    known = np.isfinite(wide)
    high, low = np.where(known, wide, -np.inf).max(axis=2), np.where(known, wide, np.inf).min(axis=2)
    between = np.where(high >= low, high - low, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ranges = np.where(between > 0.0, between / noise, 0.0)
    normal = MARGIN * 2.0 * math.sqrt(2.0 * math.log(max(2 * length * series.shape[1], 8)))
    allowed = np.maximum(normal, USUAL * ranges.min(axis=0))
    with np.errstate(invalid="ignore"):
        over = np.where(ranges > allowed, np.minimum(ranges / allowed, 100.0) - 1.0, 0.0)
    worst: Floats = over.reshape(len(over), n_nodes, dim).max(axis=2)
    return worst


def _median(values: Floats) -> Floats:
    """Of each column, 0 where nothing is known."""
    if not len(values):
        return np.zeros(values.shape[1])
    known = np.isfinite(values).any(axis=0)
    found: Floats = np.where(known, np.nanmedian(np.where(known, values, 0.0), axis=0), 0.0)
    return found
