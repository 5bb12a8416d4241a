"""Intra-locality: how much the parts of one input are worth, from the kernel values between parts.

    C_pq = E K(x_p, x_q)^2 - E K(x_p, x'_q)^2   (Eq. 21),      q = mean of C_pq over p and q   (Eq. 17)

q lies between 0, when n inputs with P parts are worth n P samples, and r^2, the square of the kernel's bound,
when they are worth n.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from estimators.core.types import Floats
from estimators.structured.leave_out import rows_of


def intra_locality(K: Floats, groups: ArrayLike) -> float:
    """Estimate of q from the kernel matrix (m, m) of parts, m_i of each input, and the inputs' names (m,).

    With a_ii' the mean of K^2 between the parts of inputs i and i', it is the mean of a_ii less the mean of
    a_ii' over pairs of different inputs: never negative, as the matrix a has no negative eigenvalue.
    """
    inputs = rows_of(groups, len(K))
    n = len(inputs)
    if n < 2:
        raise ValueError("groups: one input only, so that there is nothing to compare its parts with")
    P = np.zeros((n, len(K)))
    for i, rows in enumerate(inputs):
        P[i, rows] = 1.0 / len(rows)
    a = P @ K**2 @ P.T
    return float((np.trace(a) / n - a.mean()) * n / (n - 1.0))


def correlation_by_distance(K: Floats, groups: ArrayLike, distance: NDArray[np.int64]) -> Floats:
    """C (H + 1,) averaged over pairs of parts of one input at distance 0, 1, ..., H; NaN where none is.

    ``distance`` (m, m) holds whole numbers, negative for pairs that do not count. What pairs of different
    inputs have in common, the subtrahend of C, is taken as one number: parts are alike in law.
    """
    names = np.unique(np.asarray(groups), return_inverse=True)[1]
    own = names[:, None] == names[None, :]
    apart = float(np.mean(K[~own] ** 2)) if not own.all() else 0.0
    use = own & (distance >= 0)
    total = np.bincount(distance[use], weights=K[use] ** 2)
    count = np.bincount(distance[use])
    with np.errstate(invalid="ignore"):
        mean: Floats = total / count - apart
    return mean
