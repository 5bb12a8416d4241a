"""A graph learnt from the learning period: sensors that move together are linked.

Spearman's rank correlation of preprocessed values (monotone links count, outliers do not), per component; of
several components the strongest counts. A link needs to be significant and among the ``k`` strongest of one
of its two ends. Significance: with autocorrelated series the effective number of samples is

    n_eff = n (1 - r_u r_v) / (1 + r_u r_v)        r: lag-one autocorrelation (Bartlett)

and atanh(rho) is nearly normal with variance 1 / (n_eff - 3); the level is divided by the number of pairs
tested.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from estimators.core.types import Floats
from estimators.timeseries.autoregression import lag_one

ROWS = 512  # of the correlation matrix held at once
LEAST = 20  # common samples of two nodes, below which nothing is said


def correlation_links(Z: Floats, k: int = 4, level: float = 0.01) -> tuple[sp.csr_array, str]:
    """Symmetric weights |rho| (N, N) from Z (T, N, d), NaN = missing, and a sentence of warning."""
    if Z.ndim != 3 or 0 in Z.shape:
        raise ValueError(f"Z: expected (T, N, d) with none of them 0, got shape {Z.shape}")
    if k < 1:
        raise ValueError(f"k: must be at least 1, got {k}")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level: must be in (0, 1), got {level}")
    n_nodes, dim = Z.shape[1:]
    pairs = max(1, n_nodes * (n_nodes - 1) // 2)
    # Here and not above: only learning a graph needs it, and it weighs 40 MB.
    from scipy.stats import norm, rankdata

    far = float(norm.isf(level / (2.0 * pairs * dim)))
    there = ~np.isnan(Z)
    ranks = rankdata(Z, axis=0, nan_policy="omit")
    middle = np.where(there, ranks, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    ranks = np.where(there, ranks - middle, 0.0)
    memory = lag_one(np.where(there, ranks, np.nan))
    sources, targets, weights = [], [], []
    for first in range(0, n_nodes, ROWS):
        rows = slice(first, min(first + ROWS, n_nodes))
        strength = np.zeros((rows.stop - first, n_nodes))
        for c in range(dim):
            sure = _significant(ranks[:, :, c], there[:, :, c].astype(np.float64), memory[:, c], rows, far)
            strength = np.maximum(strength, sure)
        strength[np.arange(rows.stop - first), np.arange(first, rows.stop)] = 0.0
        best = np.argsort(-strength, axis=1, kind="stable")[:, :k]
        value = np.take_along_axis(strength, best, axis=1)
        here, place = np.nonzero(value > 0.0)
        sources.append(here + first)
        targets.append(best[here, place])
        weights.append(value[here, place])
    places = (np.concatenate(sources), np.concatenate(targets))
    W = sp.csr_array((np.concatenate(weights), places), shape=(n_nodes, n_nodes))
    W = sp.csr_array(W.maximum(W.T))
    return W, _warning(W, len(Z))


def _significant(ranks: Floats, there: Floats, memory: Floats, rows: slice, far: float) -> Floats:
    """|rho| of the nodes ``rows`` with all others, 0 where it may be chance."""
    a, mask = ranks[:, rows], there[:, rows]
    power = np.sqrt(((a * a).T @ there) * (mask.T @ (ranks * ranks)))
    rho = np.clip(np.abs(a.T @ ranks) / np.where(power > 0.0, power, 1.0), 0.0, 1.0 - 1e-12)
    common = mask.T @ there
    both = np.clip(memory[rows][:, None] * memory[None, :], -0.5, 0.999)
    effective = common * (1.0 - both) / (1.0 + both)
    sure = (common >= LEAST) & (np.arctanh(rho) * np.sqrt(np.maximum(effective - 3.0, 0.0)) > far)
    return np.where(sure, rho, 0.0)


def _warning(W: sp.csr_array, n_rows: int) -> str:
    alone = int(np.count_nonzero(np.diff(W.indptr) == 0))
    return (
        f"graph learnt from correlations over {n_rows} rows: {W.shape[0]} nodes, {W.nnz // 2} links, {alone} "
        "nodes without a link. Links say which sensors moved together while learning, not how they are "
        "connected: look at the drawing, and give the true graph if there is one"
    )
