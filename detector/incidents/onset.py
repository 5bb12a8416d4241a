"""Since when: the change point of one node, or of several that changed together.

With l_i the log-ratio of "after" to "before" at sample i, the log-likelihood of a change at sample k is the
suffix sum S_k = l_k + ... + l_m, up to a constant. The onset is its maximum, the interval holds 95 % of
exp(S_k) read as a posterior over k. Nodes are pooled by adding their suffix sums over common time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

MAX_LOG_RATIO = 5.0  # no single sample may decide the onset


class Onset(msgspec.Struct, frozen=True):
    """Time of the first changed sample, with a 95 % interval; earliest None: maybe before the window."""

    time: float
    earliest: float | None
    latest: float


def onset(log_ratio: NDArray[Any], times: NDArray[Any]) -> Onset | None:
    """Maximum-likelihood change point of one node; None if no suffix speaks for a change.

    log_ratio : (m,) at the recent samples, NaN where unknown    times : (m,) increasing
    """
    return pooled_onset([(log_ratio, times)])


def pooled_onset(series: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> Onset | None:
    """One change point for several nodes (log_ratio, times), which may sample at different times.

    A node without samples in some stretch (gap, silence) adds nothing there: its sum stays constant.
    """
    return likeliest_onset(series)[0]


def likeliest_onset(series: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> tuple[Onset | None, float]:
    """The same with the log-likelihood of a change there, against none."""
    usable = [(np.asarray(ratio, float), np.asarray(times, float)) for ratio, times in series if len(times)]
    if not usable:
        return None, 0.0
    candidates = np.unique(np.concatenate([times for _, times in usable]))
    total = np.zeros(len(candidates))
    for ratio, times in usable:
        clipped = np.clip(np.nan_to_num(ratio, nan=0.0), -MAX_LOG_RATIO, MAX_LOG_RATIO)
        suffix = np.append(np.cumsum(clipped[::-1])[::-1], 0.0)
        total += suffix[np.searchsorted(times, candidates)]
    best = int(total.argmax())
    if not total[best] > 0.0:
        return None, 0.0
    posterior = np.exp(total - total[best])
    cumulated = np.cumsum(posterior) / posterior.sum()
    first = min(best, int(np.searchsorted(cumulated, 0.025)))
    last = max(best, min(int(np.searchsorted(cumulated, 0.975)), len(candidates) - 1))
    found = Onset(
        float(candidates[best]), None if first == 0 else float(candidates[first]), float(candidates[last])
    )
    return found, float(total[best])
