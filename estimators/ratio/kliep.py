"""KLIEP: the likelihood ratio of each node by itself, nearest in Kullback-Leibler divergence."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from estimators.core.base import Progress, Samples, check_range
from estimators.core.types import Floats
from estimators.ratio.nodewise import WIDTHS, NodeFit, NodeWise, PerNode
from estimators.ratio.selection import split
from estimators.ratio.solvers import ConvergenceWarning


class Kliep(NodeWise):
    """Kullback-Leibler importance estimation, node by node.

        max mean_test log f(x')    over f = theta' k with theta >= 0 and mean_ref f = 1

    estimates the plain ratio q/p; the score is the maximum, an estimate of KL(q || p). With
    u_l = theta_l mean_ref k_l the constraints say that u is a distribution over the centres, so this is
    maximum likelihood for the weights of a mixture. Its multiplicative updates rise at every step and carry
    their own certificate: log-likelihood at the optimum - log-likelihood now <= max_l g_l - 1, with g_l the
    factors of the update. The GRULSIF paper also lists a penalty for KLIEP; the problem has none.

    Parameters
    ----------
    sigma : float > 0, or one per node, optional
        Kernel width; by default the median distance of the node's test points.
    kernel : {"gaussian", "laplace"}, default="gaussian"
        Kernel of the centres.
    n_centres : int >= 1, default=100
        At most so many centres, drawn without replacement from the test points.
    seed : int, default=0
        Of that draw.
    tol : float > 0, default=1e-3
        Gap to the optimum at which the updates stop.
    max_iter : int >= 1, default=5000
        Most updates.

    Attributes
    ----------
    scores_ : ndarray of shape (N,), float64
        KL(q || p) of every node; NaN where a window is empty.
    theta_ : list of N arrays of shape (L_v,)
        Weights of the centres.
    dictionary_ : list of N Dictionary
        Centres and width of every node.
    sigma_ : ndarray of shape (N,), float64
        Widths.
    residual_ : float
        The largest gap.

    References
    ----------
    M. Sugiyama et al., "Direct importance estimation with model selection and its application to covariate
    shift adaptation", NIPS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import Kliep
    >>> rng = np.random.default_rng(0)
    >>> ref, test = rng.normal(size=(2, 200, 1)), rng.normal(size=(2, 200, 1))
    >>> test[1] += 1.0  # KL(q || p) is 1/2 there, and 0 at the other node
    >>> Kliep().fit(ref, test).divergence().round(1)
    array([0. , 0.5])
    """

    def __init__(self, *, sigma: PerNode | None = None, kernel: str = "gaussian", n_centres: int = 100,
                 seed: int = 0, tol: float = 1e-3, max_iter: int = 5000) -> None:  # fmt: skip
        super().__init__(sigma=sigma, kernel=kernel, n_centres=n_centres, seed=seed)
        check_range("tol", tol, 0.0, open_low=True)
        check_range("max_iter", max_iter, 1)
        self.tol, self.max_iter = tol, max_iter

    @classmethod
    def select(cls, ref: Samples, test: Samples, W: Any = None, *, widths: Sequence[float] = WIDTHS,
               folds: int = 5, seed: int = 0, progress: Progress | None = None,
               **params: Any) -> Self:  # fmt: skip
        """Every node's sigma with the highest held-out log ratio of its test points, then the fit with it.

        Parameters
        ----------
        ref, test, W
            As for ``fit``.
        widths : sequence of float
            Candidates of sigma, in median distances of the node's test points.
        folds : int, default=5
            Parts into which the test points are split.
        seed : int, default=0
            Of that split.
        progress : callable, optional
            Called as ``progress(done, total)`` after each node.
        **params
            Parameters of the constructor that are not searched.

        Returns
        -------
        Kliep
            The fitted estimator; ``selection_`` holds all losses.
        """
        return cls._select(ref, test, seed, progress, widths, params, folds=folds)

    def _fit_node(self, v: int, phi_ref: Floats, phi_test: Floats) -> NodeFit:
        theta, n_iter, gap = mixture_weights(phi_ref.mean(axis=0), phi_test, self.tol, self.max_iter)
        if gap > self.tol:
            told = f"kliep: node {v}: gap {gap:.1e} after {n_iter} iterations, above tol {self.tol:.0e}"
            warnings.warn(told, ConvergenceWarning, stacklevel=3)
        return NodeFit(theta, _mean_log(phi_test @ theta), n_iter, gap)

    def _losses(self, x: Floats, x_: Floats, centres: Floats, sigmas: Floats, rng: np.random.Generator,
                **grids: Any) -> list[tuple[float, ...]]:  # fmt: skip
        parts = [rows for rows in split(len(x_), min(grids["folds"], len(x_)), rng) if len(rows)]
        table: list[tuple[float, ...]] = []
        for sigma, phi_ref, phi_test in self._by_width(x, x_, centres, sigmas):
            b = phi_ref.mean(axis=0)
            gained = []
            for rows in parts:
                # A held-out log ratio needs no more digits than its spread over the folds.
                theta, _, _ = mixture_weights(b, np.delete(phi_test, rows, axis=0), 1e-2, self.max_iter)
                gained.append(_mean_log(phi_test[rows] @ theta))
            table.append((sigma, -float(np.mean(gained))))
        return table

    @classmethod
    def _columns(cls) -> tuple[str, ...]:
        return ("sigma",)


def mixture_weights(b: Floats, phi: Floats, tol: float, max_iter: int) -> tuple[Floats, int, float]:
    """theta >= 0 with theta' b = 1 that maximises mean log(phi theta); b (L,), phi (n', L).

    Returns theta, the iterations made and the gap. Centres without a reference point near (b = 0) are left
    out: they would make the ratio infinite.
    """
    usable = b > np.finfo(float).tiny ** 0.5
    if not usable.any():
        return np.full(len(b), np.nan), 0, 0.0  # the windows share no support at this width: no ratio exists
    components = phi[:, usable] / b[usable]  # (n', L) densities of the mixture
    scale = components.max(axis=1, keepdims=True)
    reached = scale[:, 0] > 0.0
    components = components[reached] / scale[reached]  # rows may be scaled freely: g does not change
    n = max(len(components), 1)
    u = np.full(components.shape[1], 1.0 / components.shape[1])
    gap, n_iter = np.inf, 0
    while n_iter < max_iter:
        n_iter += 1
        g = (1.0 / (components @ u)) @ components / n
        gap = float(g.max()) - 1.0
        if gap <= tol:
            break
        u *= g
    theta = np.zeros(len(b))
    theta[usable] = u / u.sum() / b[usable]
    return theta, n_iter, gap


def _mean_log(f: Floats) -> float:
    """Mean log f; points where f underflows count with the smallest number, not with minus infinity."""
    return float(np.mean(np.log(np.maximum(f, np.finfo(float).tiny))))
