"""Algorithm 1: choose (sigma, lam, gamma) by the loss on held-out folds (Eq. 42).

What makes it cheap: features are computed once per width; the sums over a fold once per width and fold,
and the training sums are total - fold; all folds and all gamma are one batch of systems, and a path along
lam starts each batch from the solution of the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from estimators.core.base import Progress, Selection
from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.core.kernels import node_widths
from estimators.core.types import Floats, Indices
from estimators.ratio.fourier_pcg import MAX_NODES, fourier_pcg
from estimators.ratio.moments import Moments, loss, mapped
from estimators.ratio.solvers import Problem, pcg

# is better than the document's weakest. So are the second and fourth of POOL_GAMMAS: with lam = 1 the ridge
# is N gamma, and steps of a hundred are too coarse (docs/decisions.md).
GAMMAS = (1e-5, 1e-3, 0.1, 1.0)
POOL_GAMMAS = (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
LAMBDAS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)

# Coarser than a fit: against 1e-4 and 1e-6 the best held-out loss moves by 1e-3, the choice hardly ever
# (docs/decisions.md).
FEATURE_TOL = 1e-3
PATH_TOL = 1e-2
PATH_DTYPE = np.float32


def width_grid(ref: Sequence[Floats], kernel: str = "gaussian") -> list[float]:
    """Widths of App. B.1: least, median and largest of the nodes' median distances, and two between."""
    widths = node_widths(ref, kernel)
    low, middle, high = min(widths), float(np.median(widths)), max(widths)
    return sorted({low, (low + middle) / 2.0, middle, (high + middle) / 2.0, high})


def split(n: int, folds: int, rng: np.random.Generator) -> list[Indices]:
    """Random disjoint sets of row numbers, as equal in size as can be; some are empty if n < folds.

    Which folds get the odd points is drawn too, so that they differ between nodes.
    """
    parts = np.array_split(rng.permutation(n), folds)
    return [parts[k] for k in rng.permutation(folds)]


def cross_validate(ref: Sequence[Floats], test: Sequence[Floats], graph: Graph, dictionary: Dictionary,
                   sigmas: Sequence[float], lams: Sequence[float], gammas: Sequence[float], *, alpha: float,
                   centred: bool, folds: int = 5, seed: int = 0,
                   progress: Progress | None = None) -> Selection:  # fmt: skip
    """Mean held-out loss of every (sigma, lam, gamma); a fold's loss is the mean over nodes it can judge."""
    if folds < 2:
        raise ValueError(f"folds: must be at least 2, got {folds}")
    for name, grid in (("sigmas", sigmas), ("lams", lams), ("gammas", gammas)):
        if len(grid) == 0:
            raise ValueError(f"{name}: the grid is empty")
    rng = np.random.default_rng(seed)
    ref_rows = [split(len(x), folds, rng) for x in ref]
    test_rows = [split(len(x), folds, rng) for x in test]
    rows: list[tuple[float, ...]] = []
    path = sorted(lams, reverse=True)  # from the stiffest system, whose solution is the smoothest
    for i, sigma in enumerate(sigmas):
        features = Nystroem(replace(dictionary, sigma=sigma), tol=FEATURE_TOL)
        held_out = _fold_moments(features, ref, test, ref_rows, test_rows, folds)
        total = reduce(Moments.__add__, held_out)
        A, h = _stack([(total - part).system(alpha, centred) for part in held_out])
        A_out, h_out = _stack([part.system(alpha, centred) for part in held_out])
        judged = np.stack([~part.silent for part in held_out])  # (F, N)
        useful = judged.any(axis=1)
        if not useful.any():
            raise ValueError("ref: no node has points enough to hold some out; choose the parameters by hand")
        theta: Floats | None = None
        for k, lam in enumerate(path):
            theta = _solve(A, h, graph, lam, gammas, theta)  # (F, G, N, r)
            losses = loss(
                A_out[:, None], h_out[:, None], theta
            )  # (F, G, N); zero where a fold judges nothing
            means = losses[useful].sum(axis=2) / judged[useful].sum(axis=1)[:, None]  # Eq. 42
            rows.extend((sigma, lam, g, m) for g, m in zip(gammas, means.mean(axis=0), strict=True))
            if progress is not None:
                progress(i * len(path) + k + 1, len(sigmas) * len(path))
    return Selection(("sigma", "lam", "gamma", "loss"), np.array(rows))


def _fold_moments(features: Nystroem, ref: Sequence[Floats], test: Sequence[Floats],
                  ref_rows: list[list[Indices]], test_rows: list[list[Indices]],
                  folds: int) -> list[Moments]:  # fmt: skip
    psi_ref, psi_test = list(mapped(features, ref)), list(mapped(features, test))
    return [
        Moments.of(
            [psi[rows[f]] for psi, rows in zip(psi_ref, ref_rows, strict=True)],
            [psi[rows[f]] for psi, rows in zip(psi_test, test_rows, strict=True)],
        )
        for f in range(folds)
    ]


def _stack(systems: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    return np.stack([A for A, _ in systems]), np.stack([h for _, h in systems])


def _solve(A: Floats, h: Floats, graph: Graph, lam: float, gammas: Sequence[float],
           start: Floats | None) -> Floats:  # fmt: skip
    """Solutions (F, G, N, r) of Problem 43 for all folds and gammas."""
    n = graph.n_nodes
    ridges = n * lam * np.asarray(gammas, dtype=np.float64)
    if not len(
        graph.weights
    ):  # POOL: blocks on their own (Eq. 41); a ridge of rounding size where it is zero
        ridges = np.maximum(ridges, h.shape[-1] * np.finfo(float).eps)
        B = A[:, None] + ridges[:, None, None, None] * np.eye(h.shape[-1])
        closed: Floats = np.linalg.solve(B, h[:, None, :, :, None])[..., 0]
        return closed
    if n <= MAX_NODES:
        return fourier_pcg(A, h, graph, n * lam, ridges, start, tol=PATH_TOL, dtype=PATH_DTYPE)[0]
    theta = np.empty((len(A), len(gammas), *h.shape[1:]))
    for f, g in np.ndindex(theta.shape[:2]):
        problem = Problem(A[f], h[f], graph, lam, gammas[g])
        theta[f, g] = pcg(problem, None if start is None else start[f, g], tol=PATH_TOL).theta
    return theta
