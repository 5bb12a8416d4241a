"""RULSIF and ULSIF: the relative (plain) likelihood ratio of each node by itself, in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from estimators.base import Progress, Samples, check_range
from estimators.kernels import Array
from estimators.nodewise import WIDTHS, NodeFit, NodeWise, PerNode, check_per_node, per_node

# Grid of App. B.1.
RIDGES = (1e-5, 1e-3, 0.1, 10.0)


class Rulsif(NodeWise):
    """Relative unconstrained least-squares importance fitting, node by node (Yamada et al., 2011).

    Problem: min 1/2 theta' A theta - h' theta + gamma/2 ||theta||^2 with A = (1 - alpha) H + alpha H' over
    the kernel values of the centres; solved by theta = (A + gamma I)^-1 h. Score as Grulsif's (Eq. 22).

    Parameters
    ----------
    alpha : in [0, 1), share of q in the denominator.
    gamma : ridge >= 0, one number or one per node.
    sigma, kernel, n_centres, seed : see NodeWise.
    """

    def __init__(self, *, alpha: float = 0.1, sigma: PerNode | None = None, gamma: PerNode = 0.1,
                 kernel: str = "gaussian", n_centres: int = 100, seed: int = 0) -> None:  # fmt: skip
        super().__init__(sigma=sigma, kernel=kernel, n_centres=n_centres, seed=seed)
        check_range("alpha", alpha, 0.0, 1.0, open_high=True)
        check_per_node("gamma", gamma)
        self.alpha, self.gamma = alpha, gamma

    @classmethod
    def select(cls, ref: Samples, test: Samples, W: Any = None, *, widths: Sequence[float] = WIDTHS,
               gammas: Sequence[float] = RIDGES, seed: int = 0, progress: Progress | None = None,
               **params: Any) -> Self:  # fmt: skip
        """Every node's (sigma, gamma) with the lowest leave-one-out loss, then the fit with them.

        ``widths`` multiply the median distance of the node's test points. ``seed`` draws the pairs of points
        that are left out together when a window is longer than the other.
        """
        return cls._select(ref, test, seed, progress, widths, params, gammas=gammas)

    def _fit_node(self, v: int, phi_ref: Array, phi_test: Array) -> NodeFit:
        A = _second_moment(phi_ref, phi_test, (1.0 - self.alpha) / len(phi_ref), self.alpha / len(phi_test))
        h = phi_test.mean(axis=0)
        gamma = per_node("gamma", self.gamma, v, len(self.scores_))
        theta = cho_solve(_factor(A, gamma), h)
        score = float(h @ theta - 0.5 * theta @ A @ theta - 0.5)  # Eq. 22
        gap = float(np.linalg.norm(A @ theta + gamma * theta - h) / np.linalg.norm(h))
        return NodeFit(theta, score, 1, gap)

    def _losses(self, x: Array, x_: Array, centres: Array, sigmas: Array, rng: np.random.Generator,
                **grids: Any) -> list[tuple[float, ...]]:  # fmt: skip
        pairs = min(len(x), len(x_))
        left_out = rng.permutation(len(x))[:pairs], rng.permutation(len(x_))[:pairs]
        return [
            (sigma, float(gamma), leave_one_out(phi_ref, phi_test, self.alpha, float(gamma), left_out))
            for sigma, phi_ref, phi_test in self._by_width(x, x_, centres, sigmas)
            for gamma in grids["gammas"]
        ]

    @classmethod
    def _columns(cls) -> tuple[str, ...]:
        return ("sigma", "gamma")


class Ulsif(Rulsif):
    """RULSIF with alpha = 0: the plain ratio q/p, which need not be bounded (Sugiyama et al., 2011)."""

    def __init__(self, *, sigma: PerNode | None = None, gamma: PerNode = 0.1, kernel: str = "gaussian",
                 n_centres: int = 100, seed: int = 0) -> None:  # fmt: skip
        super().__init__(alpha=0.0, sigma=sigma, gamma=gamma, kernel=kernel, n_centres=n_centres, seed=seed)


def leave_one_out(phi_ref: Array, phi_test: Array, alpha: float, gamma: float,
                  pairs: tuple[NDArray[np.intp], NDArray[np.intp]]) -> float:  # fmt: skip
    """Mean loss of Eq. 20 at pairs (x_i, x'_i) of one point of each window, each left out of its own fit.

    Without the pair, the system is B_i = B - u_i u_i' - w_i w_i' with the same B for all i, and two
    rank-one terms: one factorisation and a 2 by 2 system per pair replace as many fits (Woodbury).
    """
    n, n_ = len(phi_ref), len(phi_test)
    a, b = (1.0 - alpha) / (n - 1), alpha / (n_ - 1)
    B = _factor(_second_moment(phi_ref, phi_test, a, b), gamma)
    x, x_ = phi_ref[pairs[0]].T, phi_test[pairs[1]].T  # (L, m)
    h = (phi_test.sum(axis=0)[:, None] - x_) / (n_ - 1)
    Bx, Bx_, Bh = (cho_solve(B, right) for right in (x, x_, h))
    # 2 x 2 system I - U' B^-1 U with U = [sqrt(a) x, sqrt(b) x'], written out.
    xx, xy, yy = (a * _dots(x, Bx), np.sqrt(a * b) * _dots(x, Bx_), b * _dots(x_, Bx_))
    det = (1.0 - xx) * (1.0 - yy) - xy**2
    xh, yh = np.sqrt(a) * _dots(x, Bh), np.sqrt(b) * _dots(x_, Bh)
    cx = ((1.0 - yy) * xh + xy * yh) / det
    cy = (xy * xh + (1.0 - xx) * yh) / det
    theta = Bh + np.sqrt(a) * cx * Bx + np.sqrt(b) * cy * Bx_  # (L, m) fits without the pair
    f, f_ = _dots(theta, x), _dots(theta, x_)
    return float(np.mean(0.5 * (1.0 - alpha) * f**2 + 0.5 * alpha * f_**2 - f_))


def _second_moment(phi_ref: Array, phi_test: Array, of_ref: float, of_test: float) -> Array:
    A: Array = of_ref * (phi_ref.T @ phi_ref) + of_test * (phi_test.T @ phi_test)
    return A


def _factor(A: Array, gamma: float) -> Any:
    # A ridge of rounding size at least: kernel values of close centres are dependent to all digits.
    ridge = max(gamma, float(np.trace(A)) * len(A) * np.finfo(float).eps, np.finfo(float).tiny)
    return cho_factor(A + ridge * np.eye(len(A)), lower=True)


def _dots(x: Array, y: Array) -> Array:
    products: Array = np.einsum("li,li->i", x, y)
    return products
