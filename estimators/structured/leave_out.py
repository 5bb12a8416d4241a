"""Leave groups of rows out of a linear smoother, in closed form: one spectrum, no refits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from estimators.core.types import Floats, Indices


def leave_groups_out(
    Z: Floats, e: Floats, H: Floats, w: Floats, ridge: float, groups: Sequence[Indices]
) -> Floats:
    """Estimates (m, T) of each group's rows by the fit without that group.

        g_-G = H_G - (I - A_GG)^-1 (H - A H)_G,      A = Z diag(1 / (e + ridge)) Z'

    for the ridge regression whose smoother of H, in rows scaled by the roots of the weights w (m,), is A; Z
    (m, r) and e (r,) serve every ridge. The ridge is the same with and without the group.
    """
    c, root = 1.0 / (e + ridge), np.sqrt(w)[:, None]
    y = root * H
    rest = y - Z @ (c[:, None] * (Z.T @ y))
    out = np.empty_like(y)
    for rows in groups:
        A = (Z[rows] * c) @ Z[rows].T
        out[rows] = y[rows] - np.linalg.solve(np.eye(len(rows)) - A, rest[rows])
    return out / root


def rows_of(groups: ArrayLike, m: int) -> list[Indices]:
    """Row numbers of every group, from the name of each row's group (m,)."""
    names = np.asarray(groups)
    if names.shape != (m,):
        raise ValueError(f"groups: shape {names.shape}, but there are {m} rows")
    _, number = np.unique(names, return_inverse=True)
    order = np.argsort(number, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
