"""What the estimators by spectral regularisation share: parameters, kernel features, choice of the width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from estimators.base import NotFittedError, Selection, check_range
from estimators.dictionary import Dictionary, coherent_subset
from estimators.features import Features, Nystroem, WithConstant
from estimators.kernels import Array, kernel_named, median_distance
from estimators.spectral import Filter, scheme_named

WIDTHS = (0.3, 0.6, 1.0, 1.7, 3.0)  # in median distances


class SpectralModel:
    """A function psi(x)'theta whose theta is a mean of the solutions g_lambda(A) b of all lambda.

    Parameters
    ----------
    scheme : "tikhonov", "iterated" (of order 3), "cutoff", "landweber", or a Filter.
    lams : candidates; None is a grid that ends where the points determine no more (Theorem 3.4).
    sigma : kernel width; None is the median distance of the first argument of ``fit``.
    kernel : "gaussian" or "laplace".
    folds, seed : of the held-out data by which candidates are judged.
    mu, budget : coherence threshold and largest size of the dictionary.

    After ``fit``: lams_ (l,), path_ (l, r) parameters of the candidates, coefficients_ (l,) their shares,
    theta_ (r,) their mean (Eq. 22), loss_ on held-out data, sigma_, features_.
    """

    sigma_: float
    features_: Features
    lams_: Array
    path_: Array
    coefficients_: Array
    theta_: Array
    loss_: float
    selection_: Selection

    def __init__(self, *, scheme: str | Filter = "iterated", lams: Sequence[float] | None = None,
                 sigma: float | None = None, kernel: str = "gaussian", folds: int = 5, seed: int = 0,
                 mu: float = 0.9, budget: int = 256) -> None:  # fmt: skip
        self.filter = scheme_named(scheme) if isinstance(scheme, str) else scheme
        for lam in () if lams is None else lams:
            check_range("lams", lam, 0.0, open_low=True)
        if sigma is not None:
            check_range("sigma", sigma, 0.0, open_low=True)
        kernel_named(kernel)
        check_range("folds", folds, 2)
        check_range("seed", seed, 0)
        check_range("mu", mu, 0.0, 1.0, open_high=True)
        check_range("budget", budget, 1)
        self.scheme, self.lams, self.sigma, self.kernel = scheme, lams, sigma, kernel
        self.folds, self.seed, self.mu, self.budget = folds, seed, mu, budget

    def fit(self, first: ArrayLike, second: ArrayLike) -> Self:
        raise NotImplementedError

    @classmethod
    def select(cls, first: ArrayLike, *more: Any, widths: Sequence[float] = WIDTHS, **params: Any) -> Self:
        """Fit with every width, in median distances of the first argument; the one of least ``loss_``.

        ``selection_`` of the result holds the losses of all.
        """
        median = median_distance(first, params.get("kernel", "gaussian"))
        fits = [cls(**{**params, "sigma": width * median}).fit(first, *more) for width in widths]
        best = min(fits, key=lambda fit: fit.loss_)
        best.selection_ = Selection(("sigma", "loss"), np.array([(fit.sigma_, fit.loss_) for fit in fits]))
        return best

    def _width(self, x: Array) -> float:
        return median_distance(x, self.kernel) if self.sigma is None else self.sigma

    def _kernel_features(self, points: Array) -> WithConstant:
        atoms = coherent_subset(points, self.mu, self.sigma_, self.kernel, self.budget)
        return WithConstant(Nystroem(Dictionary(atoms, self.sigma_, self.kernel), tol=1e-8))

    def _mapped(self, x: ArrayLike) -> Array:
        if not hasattr(self, "theta_"):
            raise NotFittedError(f"{type(self).__name__}: call fit first")
        return self.features_(x)
