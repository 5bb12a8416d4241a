"""Quiet data without end: whole rows of the history, in blocks longer than its correlation, drawn anew.

All nodes are drawn together, so what they have in common at a time stays; a block keeps what follows what.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from estimators.core.types import Floats


def correlation_time(Z: Floats, most: int = 50) -> float:
    """Integrated autocorrelation time, in ticks, of values and squares; 90 % quantile over nodes.

    1 + 2 sum of the autocorrelations up to the first that is not positive (Geyer's rule, coarsely).
    """
    T, n_nodes = Z.shape[:2]
    pick = np.linspace(0, n_nodes - 1, min(n_nodes, most)).astype(int)
    x = Z[:, pick].reshape(T, -1)
    times = []
    for series in (x, np.square(x)):
        seen = np.isfinite(series)
        mean = np.where(seen, series, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        y = np.where(seen, series - mean, 0.0)
        length = 2 ** int(np.ceil(np.log2(2 * T)))
        power = np.abs(np.fft.rfft(y, length, axis=0)) ** 2
        counts = np.abs(np.fft.rfft(seen.astype(float), length, axis=0)) ** 2
        acf = np.fft.irfft(power, length, axis=0)[: T // 2] / np.maximum(
            np.fft.irfft(counts, length, axis=0)[: T // 2], 1.0
        )
        scale = acf[0].copy()
        acf = acf[:, scale > 0] / scale[scale > 0]
        if not acf.size:
            continue
        stop = np.where((acf <= 0.05).any(axis=0), (acf <= 0.05).argmax(axis=0), len(acf))
        inside = np.arange(len(acf))[:, None] < stop
        times.append(1.0 + 2.0 * (acf * inside)[1:].sum(axis=0))
    return float(np.quantile(np.concatenate(times), 0.9)) if times else 1.0


def block_length(correlation: float, n_history: int) -> int:
    """Twenty correlation times, at least 100 ticks, at most an eighth of the history.

    Every join of blocks breaks what the samples on both sides have in common: a share of the order of
    correlation time over block length of the long-run variance is lost.
    """
    return int(np.clip(20.0 * correlation, 100, max(100, n_history // 8)))


def rows(n_history: int, block: int, seed: int) -> Iterator[int]:
    """Row numbers of an endless joint block bootstrap; blocks wrap around the end of the history."""
    rng = np.random.default_rng(seed)
    while True:
        start = int(rng.integers(n_history))
        for offset in range(block):
            yield (start + offset) % n_history
