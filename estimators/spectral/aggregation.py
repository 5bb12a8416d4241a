"""One answer from many: combine the solutions of all lambda instead of choosing one (Eq. 22, 23).

Candidates f_1 ... f_l are combined to sum c_k f_k with c = G^-1 g, where G_ku is the inner product of two
candidates and g_k that of a candidate with what is wanted: the minimum of 1/2 c'Gc - g'c. On the data that
made the candidates this is the least regularised of them, so the estimators here take G and g from held-out
folds and keep c to means of the candidates (docs/decisions.md, "Aggregation").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estimators.core.types import Floats


def folds_of(n: int, folds: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Number of the fold of each of n points (n,): equal sizes, drawn at random."""
    return rng.permutation(n) % folds


def plain(G: Floats, g: Floats, ridge: float = 1e-8) -> Floats:
    """c = G^-1 g as it is printed, but for a ridge relative to the mean of G's diagonal."""
    size = ridge * max(float(np.trace(G)) / len(G), np.finfo(float).tiny)
    return np.asarray(np.linalg.solve(G + size * np.eye(len(G)), g), dtype=np.float64)


def convex(G: Floats, g: Floats) -> Floats:
    """The minimum of 1/2 c'Gc - g'c over c >= 0 with sum c = 1.

    As non-negative least squares in a root of G, with the sum as one more, heavy equation.
    """
    from scipy.optimize import nnls  # here, because it costs memory, and a daemon mostly does without

    scale = max(float(np.abs(G).max()), float(np.abs(g).max()), np.finfo(float).tiny)
    s, U = np.linalg.eigh(G / scale)
    root = np.sqrt(np.maximum(s, 0.0) + 1e-12)  # candidates are nearly dependent
    R, b = root[:, None] * U.T, (U.T @ (g / scale)) / root  # R'R = G, R'b = g
    heavy = 1e4
    c, _ = nnls(np.vstack([R, heavy * np.ones(len(g))]), np.append(b, heavy))
    return np.asarray(c / c.sum())
