"""Permutations of whole blocks of time, the same for all nodes, and what p-values follow from them."""

from __future__ import annotations

import numpy as np

from estimators.core.types import Floats
from estimators.timeseries.block_bootstrap import correlation_time

LEAST_BLOCKS = 5  # in each sample: with fewer there are hardly any permutations to compare with
CORRELATION_TIMES = 5.0  # a block; measured by benchmarks/compare.py


def block_of(ref: Floats, test: Floats) -> tuple[int, float, int]:
    """Length of blocks for samples (N, n, d) and (N, m, d), their correlation time, and the length they need.

    One where the samples are not correlated; otherwise some correlation times, and at least LEAST_BLOCKS
    blocks in the shorter sample. Each sample is centred by itself: a change is no correlation.
    """
    most = max(min(ref.shape[1], test.shape[1]) // LEAST_BLOCKS, 1)
    heard = [x for x in (ref, test) if np.isfinite(x).any()]
    if not heard:
        return 1, 1.0, 1
    times = [correlation_time(np.swapaxes(x, 0, 1)) for x in heard]
    tau = float(np.average(times, weights=[x.shape[1] for x in heard]))
    # White noise has 1; sampled autocorrelations above the cut of correlation_time add a little by chance.
    length = 1 if tau < 1.5 else int(np.ceil(CORRELATION_TIMES * tau))
    return min(length, most), tau, length


def labels(n_ref: int, n_test: int, count: int, rng: np.random.Generator) -> Floats:
    """1.0 where a block is one of the test (count + 1, n_ref + n_test); the first row is the truth."""
    n = n_ref + n_test
    drawn = np.argsort(rng.random((count, n)), axis=1)[:, :n_test]
    made = np.zeros((count + 1, n))
    made[0, n_ref:] = 1.0
    np.put_along_axis(made[1:], drawn, 1.0, axis=1)
    return made


def upper_p(statistic: Floats) -> Floats:
    """Share of all rows, the truth included, that are at least as large as the first: (R, ...) to (...)."""
    # Ties by rounding count against the truth.
    slack = 1e-9 * np.maximum(np.abs(statistic[0]), 1e-300)
    found: Floats = (statistic >= statistic[0] - slack).mean(axis=0)
    return found


def standardised(statistic: Floats) -> Floats:
    """In units of each column's spread over all rows, the truth included; a constant column is zero."""
    spread = statistic.std(axis=0)
    z: Floats = (statistic - statistic.mean(axis=0)) / np.where(spread > 0.0, spread, np.inf)
    return z


def family_p(z: Floats) -> Floats:
    """p-values (N,) that hold for all nodes together: rows whose largest value reaches that of the node."""
    largest = z.max(axis=1)[:, None]
    found: Floats = (largest >= z[0] - 1e-9 * np.maximum(np.abs(z[0]), 1.0)).mean(axis=0)
    return found


def network_p(z: Floats) -> float:
    """One p-value of the network: of the strongest node and of all nodes together, whichever is the rarer.

    Each is turned into its rank among the rows; the smaller of the two ranks is a statistic in turn, and is
    compared with that of all rows: nothing is paid for looking twice but what it costs.
    """
    rarest = np.minimum(_rank_p(z.max(axis=1)), _rank_p(z.sum(axis=1)))
    return float((rarest <= rarest[0] + 1e-12).mean())


def _rank_p(x: Floats) -> Floats:
    """Upper p-value of every row among all."""
    ordered = np.sort(x)
    found: Floats = (len(x) - np.searchsorted(ordered, x, side="left")) / len(x)
    return found


def benjamini_hochberg(p: Floats) -> Floats:
    """Adjusted p-values: those up to q hold a share of at most q false ones, in the mean. NaN stays NaN."""
    known = np.flatnonzero(np.isfinite(p))
    adjusted = np.full(len(p), np.nan)
    order = known[np.argsort(p[known], kind="stable")]
    raised = p[order] * len(order) / np.arange(1, len(order) + 1)
    adjusted[order] = np.minimum(np.minimum.accumulate(raised[::-1])[::-1], 1.0)
    return adjusted
