"""Solvers of the one problem behind GRULSIF (Eq. 38), agreeing with each other.

    min over Theta of  (1/N) sum_v [ 1/2 theta_v' A_v theta_v - h_v' theta_v ]
                       + lam/4 sum_uv W_uv ||theta_u - theta_v||^2 + lam gamma/2 sum_v ||theta_v||^2

with A_v = (1 - alpha) H_v + alpha H'_v. It is the symmetric positive-definite linear system
    [ blockdiag(A_v)/N + lam (L + gamma I) (x) I ] Theta = h/N        (L: Laplacian of W).

``cbcgd`` sweeps the nodes (Algorithm 2), ``pcg`` is preconditioned conjugate gradients, ``direct``
factorises. All return the same Solution.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from estimators.core.graph import Graph
from estimators.core.types import Floats
from estimators.ratio._sweep import sweep
from estimators.ratio.fourier_pcg import MAX_NODES, fourier_pcg


class ConvergenceWarning(UserWarning):
    """The iteration cap came before the tolerance; the message holds the residual reached.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from estimators import ConvergenceWarning, Kliep
    >>> x = np.random.default_rng(0).normal(size=(2, 1, 50, 1))
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     model = Kliep(max_iter=1, tol=1e-9).fit(*x)
    >>> told[0].category is ConvergenceWarning
    True
    """


@dataclass(frozen=True)
class Problem:
    """One instance: A (N, r, r) symmetric positive semi-definite, h (N, r), the graph, lam and gamma."""

    A: Floats
    h: Floats
    graph: Graph
    lam: float
    gamma: float
    ridge: float = field(init=False)  # k = N lam gamma, on the scale of A
    coupling: float = field(init=False)  # c = N lam

    def __post_init__(self) -> None:
        n, r = self.h.shape
        if self.A.shape != (n, r, r):
            raise ValueError(f"A: shape {self.A.shape} does not fit h of shape {self.h.shape}")
        if self.graph.n_nodes != n:
            raise ValueError(f"graph: {self.graph.n_nodes} nodes, but h has {n}")
        for name in ("lam", "gamma"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0.0):
                raise ValueError(f"{name}: must be finite and >= 0, got {value}")
        object.__setattr__(self, "ridge", n * self.lam * self.gamma)
        object.__setattr__(self, "coupling", n * self.lam)

    def apply(self, theta: Floats) -> Floats:
        """The system's matrix times theta (N, r), multiplied by N."""
        out: Floats = np.matmul(self.A, theta[..., None])[..., 0]
        out += self.coupling * (self.graph.laplacian() @ theta)
        out += self.ridge * theta
        return out

    def objective(self, theta: Floats) -> float:
        """Phi(Theta) of Eq. 38."""
        half = 0.5 * float(np.sum(theta * self.apply(theta)))
        return (half - float(np.sum(self.h * theta))) / len(self.h)

    def residual(self, theta: Floats) -> float:
        """||h - M theta|| / ||h||: zero at the solution."""
        scale = float(np.linalg.norm(self.h)) or 1.0
        return float(np.linalg.norm(self.h - self.apply(theta))) / scale

    def blocks(self) -> Floats:
        """Diagonal blocks A_v + (c d_v + k) I of the system (N, r, r)."""
        r = self.h.shape[1]
        diagonal = self.coupling * self.graph.degree + self.ridge
        return self.A + diagonal[:, None, None] * np.eye(r)


@dataclass(frozen=True)
class Solution:
    theta: Floats  # (N, r)
    n_iter: int
    residual: float  # relative; for cbcgd as seen while sweeping


def _start(problem: Problem, theta: Floats | None) -> Floats:
    if theta is None:
        return np.zeros_like(problem.h)
    if theta.shape != problem.h.shape:
        raise ValueError(f"theta: start has shape {theta.shape}, the problem {problem.h.shape}")
    return np.array(theta, dtype=np.float64, order="C")


def _warn_unless(reached: bool, solver: str, n_iter: int, residual: float, tol: float) -> None:
    if not reached:
        warnings.warn(
            f"{solver}: residual {residual:.1e} after {n_iter} iterations, above tol {tol:.0e}",
            ConvergenceWarning,
            stacklevel=3,
        )


def inverse_steps(problem: Problem) -> Floats:
    """eta_v = e_max(A_v) + c d_v (N,), the inverse step of Eq. 39 (times N)."""
    largest = np.linalg.eigvalsh(problem.A)[:, -1].astype(np.float64, copy=False)
    return largest + problem.coupling * problem.graph.degree


def cbcgd(problem: Problem, theta: Floats | None = None, *, block: Literal["exact", "gradient"] = "exact",
          tol: float = 1e-8, max_iter: int = 10_000) -> Solution:  # fmt: skip
    """Algorithm 2: cyclic block coordinate descent, warm-started from ``theta``.

    ``block="gradient"`` is the document's step (Eq. 39); ``"exact"`` minimises over the block, which costs a
    factorisation a node and needs several times fewer sweeps. Both lower the objective at every block.
    Stops when the gradient is below ``tol`` times ||h|| (the document stops on the movement of Theta, which
    also ends when steps are merely small).
    """
    n, r = problem.h.shape
    theta = _start(problem, theta)
    graph = problem.graph
    if block == "exact":
        B = problem.blocks()
        # A silent, isolated node without ridge has no equation at all: leave it where it is.
        empty = ~B.any(axis=(1, 2))
        B[empty] = np.eye(r)
        P = np.ascontiguousarray(_inverse(B))
        step = np.zeros(n)
    elif block == "gradient":
        eta = inverse_steps(problem) + problem.ridge
        step = np.divide(1.0, eta, out=np.zeros(n), where=eta > 0.0)
        P = np.zeros((1, 1, 1))
    else:
        raise ValueError(f"block: must be 'exact' or 'gradient', got {block!r}")
    n_iter, residual = sweep(
        np.ascontiguousarray(problem.A), np.ascontiguousarray(problem.h), theta,
        graph.indptr, graph.indices, graph.weights, graph.degree, problem.coupling, problem.ridge,
        step, P, block == "exact", max_iter, tol, np.empty((2, r)),
    )  # fmt: skip
    _warn_unless(residual <= tol, "cbcgd", n_iter, residual, tol)
    return Solution(theta, n_iter, residual)


def _inverse(B: Floats) -> Floats:
    """Inverses of symmetric positive semi-definite blocks, on their range if singular (ridge 0)."""
    e, U = np.linalg.eigh(B)
    floor = e[:, -1:] * B.shape[-1] * np.finfo(float).eps
    e = np.where(e > floor, e, np.inf)
    inverse: Floats = (U / e[:, None, :]) @ U.transpose(0, 2, 1)
    return inverse


def pcg(problem: Problem, theta: Floats | None = None, *,
        precondition: Literal["fourier", "blocks"] | None = None, tol: float = 1e-8,
        max_iter: int = 10_000) -> Solution:  # fmt: skip
    """Preconditioned conjugate gradients, warm-started from ``theta``.

    ``precondition="fourier"`` solves the problem in which all nodes have the mean A (ratio/fourier_pcg.py),
    ``"blocks"`` that without coupling. By default the first one, up to fourier.MAX_NODES nodes.
    """
    start = _start(problem, theta)
    if precondition is None:
        precondition = "fourier" if problem.graph.n_nodes <= MAX_NODES else "blocks"
    if precondition == "fourier":
        solved, count, _ = fourier_pcg(
            problem.A[None], problem.h[None], problem.graph, problem.coupling, np.array([problem.ridge]),
            start[None, None] if theta is not None else None, tol=tol, max_iter=max_iter,
        )  # fmt: skip
        start = solved[0, 0]
    elif precondition == "blocks":
        start, count = _block_pcg(problem, start, tol, max_iter)
    else:
        raise ValueError(f"precondition: must be 'fourier' or 'blocks', got {precondition!r}")
    residual = problem.residual(start)
    # The recursive residual of conjugate gradients drifts a little from the true one.
    _warn_unless(residual <= 2.0 * tol, "pcg", count, residual, tol)
    return Solution(start, count, residual)


def _block_pcg(problem: Problem, theta: Floats, tol: float, max_iter: int) -> tuple[Floats, int]:
    n, r = problem.h.shape
    P = _inverse(problem.blocks())
    system = spla.LinearOperator((n * r, n * r), matvec=lambda x: problem.apply(x.reshape(n, r)).ravel())
    jacobi = spla.LinearOperator((n * r, n * r), matvec=lambda x: (P @ x.reshape(n, r, 1)).ravel())
    count = 0

    def counted(_: Floats) -> None:
        nonlocal count
        count += 1

    x, _ = spla.cg(system, problem.h.ravel(), x0=theta.ravel(), rtol=tol, atol=0.0, maxiter=max_iter,
                   M=jacobi, callback=counted)  # fmt: skip
    return x.reshape(n, r), count


def direct(problem: Problem, theta: Floats | None = None) -> Solution:
    """Factorise the whole system: the oracle of the tests, and fine for small networks.

    Without coupling the blocks are solved one by one (POOL, Eq. 41).
    """
    n, r = problem.h.shape
    if problem.coupling == 0.0 or not len(problem.graph.weights):
        solved: Floats = (_inverse(problem.blocks()) @ problem.h[..., None])[..., 0]
        return Solution(solved, 1, problem.residual(solved))
    M = sp.block_diag(list(problem.A), format="csc")
    M += sp.kron(problem.coupling * problem.graph.laplacian(), sp.eye_array(r), format="csc")
    M += problem.ridge * sp.eye_array(n * r, format="csc")
    x = spla.splu(sp.csc_array(M)).solve(problem.h.ravel())
    solved = x.reshape(n, r)
    return Solution(solved, 1, problem.residual(solved))


Solver = Callable[..., Solution]

SOLVERS: dict[str, Solver] = {"cbcgd": cbcgd, "pcg": pcg, "direct": direct}
