"""RULSIF and ULSIF: the relative (plain) likelihood ratio of each node by itself, in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from estimators.core.base import Progress, Samples, check_range
from estimators.core.types import Floats
from estimators.ratio.nodewise import WIDTHS, NodeFit, NodeWise, PerNode, check_per_node, per_node

# Grid of App. B.1.
RIDGES = (1e-5, 1e-3, 0.1, 10.0)


class Rulsif(NodeWise):
    """Relative unconstrained least-squares importance fitting, node by node.

        min 1/2 theta' A theta - h' theta + gamma/2 ||theta||^2,    A = (1 - alpha) H + alpha H'

    over the kernel values of the centres, solved by theta = (A + gamma I)^-1 h.

    Parameters
    ----------
    alpha : float in [0, 1), default=0.1
        Share of q in the denominator of the ratio.
    sigma : float > 0, or one per node, optional
        Kernel width; by default the median distance of the node's test points.
    gamma : float >= 0, or one per node, default=0.1
        Ridge.
    kernel : {"gaussian", "laplace"}, default="gaussian"
        Kernel of the centres.
    n_centres : int >= 1, default=100
        At most so many centres, drawn without replacement from the test points.
    seed : int, default=0
        Of that draw.

    Attributes
    ----------
    scores_ : ndarray of shape (N,), float64
        Pearson divergence of every node, as Grulsif (Eq. 22); NaN where a window is empty.
    theta_ : list of N arrays of shape (L_v,)
        Weights of the centres.
    dictionary_ : list of N Dictionary
        Centres and width of every node.
    sigma_ : ndarray of shape (N,), float64
        Widths.

    References
    ----------
    M. Yamada et al., "Relative density-ratio estimation for robust distribution comparison", NIPS 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import Rulsif
    >>> rng = np.random.default_rng(0)
    >>> ref, test = rng.normal(size=(2, 100, 1)), rng.normal(size=(2, 100, 1))
    >>> test[1] += 2.0
    >>> model = Rulsif.select(ref, test)  # width and ridge of every node by leave-one-out
    >>> bool(model.scores_[1] > 0.5 > model.scores_[0])
    True
    >>> model.selection_.columns
    ('node', 'sigma', 'gamma', 'loss')
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

        Parameters
        ----------
        ref, test, W
            As for ``fit``.
        widths : sequence of float
            Candidates of sigma, in median distances of the node's test points.
        gammas : sequence of float
            Candidates of gamma.
        seed : int, default=0
            Draws the pairs of points that are left out together when a window is longer than the other.
        progress : callable, optional
            Called as ``progress(done, total)`` after each node.
        **params
            Parameters of the constructor that are not searched.

        Returns
        -------
        Rulsif
            The fitted estimator; ``selection_`` holds all losses.
        """
        return cls._select(ref, test, seed, progress, widths, params, gammas=gammas)

    def _fit_node(self, v: int, phi_ref: Floats, phi_test: Floats) -> NodeFit:
        A = _second_moment(phi_ref, phi_test, (1.0 - self.alpha) / len(phi_ref), self.alpha / len(phi_test))
        h = phi_test.mean(axis=0)
        gamma = per_node("gamma", self.gamma, v, len(self.scores_))
        theta = cho_solve(_factor(A, gamma), h)
        score = float(h @ theta - 0.5 * theta @ A @ theta - 0.5)  # Eq. 22
        gap = float(np.linalg.norm(A @ theta + gamma * theta - h) / np.linalg.norm(h))
        return NodeFit(theta, score, 1, gap)

    def _losses(self, x: Floats, x_: Floats, centres: Floats, sigmas: Floats, rng: np.random.Generator,
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
    """RULSIF with alpha = 0: the plain ratio q/p, which need not be bounded.

    Parameters
    ----------
    sigma : float > 0, or one per node, optional
        Kernel width; by default the median distance of the node's test points.
    gamma : float >= 0, or one per node, default=0.1
        Ridge.
    kernel : {"gaussian", "laplace"}, default="gaussian"
        Kernel of the centres.
    n_centres : int >= 1, default=100
        At most so many centres, drawn without replacement from the test points.
    seed : int, default=0
        Of that draw.

    Attributes
    ----------
    scores_ : ndarray of shape (N,), float64
        Pearson divergence of every node; NaN where a window is empty.
    theta_ : list of N arrays of shape (L_v,)
        Weights of the centres.
    dictionary_ : list of N Dictionary
        Centres and width of every node.
    sigma_ : ndarray of shape (N,), float64
        Widths.

    References
    ----------
    T. Kanamori, S. Hido and M. Sugiyama, "A least-squares approach to direct importance estimation",
    JMLR 10, 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import Ulsif
    >>> rng = np.random.default_rng(0)
    >>> ref, test = rng.normal(size=(1, 100, 1)), rng.normal(size=(1, 100, 1))
    >>> Ulsif().fit(ref, test).ratio(0, [0.0]).shape
    (1,)
    """

    def __init__(self, *, sigma: PerNode | None = None, gamma: PerNode = 0.1, kernel: str = "gaussian",
                 n_centres: int = 100, seed: int = 0) -> None:  # fmt: skip
        super().__init__(alpha=0.0, sigma=sigma, gamma=gamma, kernel=kernel, n_centres=n_centres, seed=seed)


def leave_one_out(phi_ref: Floats, phi_test: Floats, alpha: float, gamma: float,
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


def _second_moment(phi_ref: Floats, phi_test: Floats, of_ref: float, of_test: float) -> Floats:
    A: Floats = of_ref * (phi_ref.T @ phi_ref) + of_test * (phi_test.T @ phi_test)
    return A


def _factor(A: Floats, gamma: float) -> Any:
    # A ridge of rounding size at least: kernel values of close centres are dependent to all digits.
    ridge = max(gamma, float(np.trace(A)) * len(A) * np.finfo(float).eps, np.finfo(float).tiny)
    return cho_factor(A + ridge * np.eye(len(A)), lower=True)


def _dots(x: Floats, y: Floats) -> Floats:
    products: Floats = np.einsum("li,li->i", x, y)
    return products
