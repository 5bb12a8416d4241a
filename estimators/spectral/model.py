"""What the estimators by spectral regularisation share: parameters, kernel features, choice of the width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from estimators.core.base import Selection, check_range
from estimators.core.dictionary import Dictionary, coherent_subset
from estimators.core.features import Features, Nystroem, WithConstant
from estimators.core.kernels import kernel_named, median_distance
from estimators.core.parameters import Parameters
from estimators.core.types import Floats
from estimators.spectral.filters import Filter, scheme_named

WIDTHS = (0.3, 0.6, 1.0, 1.7, 3.0)  # in median distances


class SpectralModel(Parameters):
    """A function psi(x)'theta whose theta is a mean of the solutions g_lambda(A) b of all lambda.

    Parameters
    ----------
    scheme : {"tikhonov", "iterated", "cutoff", "landweber"} or Filter, default="iterated"
        How the equation is regularised.
    order : int >= 1, optional
        Of "iterated", by default 3; 1 is "tikhonov".
    lams : sequence of float > 0, optional
        Candidates of lambda; by default a grid that ends where the points determine no more (Theorem 3.4).
    sigma : float > 0, optional
        Kernel width; by default the median distance of the first argument of ``fit``.
    kernel : {"gaussian", "laplace"}, default="gaussian"
        Kernel.
    folds, seed : int, default=5 and 0
        Of the held-out data by which candidates are judged.
    mu : float in [0, 1), default=0.9
        Coherence threshold of the dictionary.
    budget : int >= 1, default=256
        Largest size of the dictionary.

    Attributes
    ----------
    lams_ : ndarray of shape (l,), float64
        Candidates of lambda.
    path_ : ndarray of shape (l, r), float64
        Their parameters.
    coefficients_ : ndarray of shape (l,), float64
        Their shares.
    theta_ : ndarray of shape (r,), float64
        Their mean (Eq. 22).
    loss_ : float
        On held-out data.
    sigma_ : float
        Kernel width.
    features_ : callable
        Points (n, d) to features (n, r).
    """

    _result = "theta_"
    sigma_: float
    features_: Features
    lams_: Floats
    path_: Floats
    coefficients_: Floats
    theta_: Floats
    loss_: float
    selection_: Selection

    def __init__(self, *, scheme: str | Filter = "iterated", order: int | None = None,
                 lams: Sequence[float] | None = None, sigma: float | None = None, kernel: str = "gaussian",
                 folds: int = 5, seed: int = 0, mu: float = 0.9, budget: int = 256) -> None:  # fmt: skip
        if order is not None and not isinstance(scheme, str):
            raise ValueError("order: belongs to the scheme 'iterated', not to a Filter")
        if isinstance(scheme, str):
            scheme_named(scheme, order)
        for lam in () if lams is None else lams:
            check_range("lams", lam, 0.0, open_low=True)
        if sigma is not None:
            check_range("sigma", sigma, 0.0, open_low=True)
        kernel_named(kernel)
        check_range("folds", folds, 2)
        check_range("seed", seed, 0)
        check_range("mu", mu, 0.0, 1.0, open_high=True)
        check_range("budget", budget, 1)
        self.scheme, self.order = scheme, order
        self.lams, self.sigma, self.kernel = lams, sigma, kernel
        self.folds, self.seed, self.mu, self.budget = folds, seed, mu, budget

    @property
    def filter(self) -> Filter:
        """The filter of ``scheme`` and ``order``."""
        return scheme_named(self.scheme, self.order) if isinstance(self.scheme, str) else self.scheme

    def fit(self, first: ArrayLike, second: ArrayLike) -> Self:
        """Given by the estimators."""
        raise NotImplementedError

    @classmethod
    def select(cls, first: ArrayLike, *more: Any, widths: Sequence[float] = WIDTHS, **params: Any) -> Self:
        """Fit with every width, and keep the one of least ``loss_``.

        Parameters
        ----------
        first : array_like of shape (n, d)
            First argument of ``fit``.
        *more
            Its other arguments.
        widths : sequence of float
            Candidates of sigma, in median distances of the first argument.
        **params
            Parameters of the constructor.

        Returns
        -------
        SpectralModel
            ``selection_`` holds the losses of all.
        """
        median = median_distance(first, params.get("kernel", "gaussian"))
        fits = [cls(**{**params, "sigma": width * median}).fit(first, *more) for width in widths]
        best = min(fits, key=lambda fit: fit.loss_)
        best.selection_ = Selection(("sigma", "loss"), np.array([(fit.sigma_, fit.loss_) for fit in fits]))
        return best

    def _width(self, x: Floats) -> float:
        return median_distance(x, self.kernel) if self.sigma is None else self.sigma

    def _kernel_features(self, points: Floats) -> WithConstant:
        atoms = coherent_subset(points, self.mu, self.sigma_, self.kernel, self.budget)
        return WithConstant(Nystroem(Dictionary(atoms, self.sigma_, self.kernel), tol=1e-8))

    def _mapped(self, x: ArrayLike) -> Floats:
        self._check_fitted()
        return self.features_(x)
