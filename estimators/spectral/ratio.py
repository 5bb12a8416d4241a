"""Ratio of two densities by spectral regularisation: all lambda at once, none chosen (Sec. 3 and 5)."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from estimators.core.kernels import as_points
from estimators.core.types import Floats
from estimators.spectral.aggregation import convex, folds_of
from estimators.spectral.filters import Spectrum
from estimators.spectral.model import SpectralModel


class SpectralRatio(SpectralModel):
    """Ratio of two densities by spectral regularisation: all lambda at once, none chosen.

    beta = q/p from points of p, the reference, and of q, the test: Sigma beta = h with
    Sigma = mean_ref psi psi', h = mean_test psi; beta^lambda = g_lambda(Sigma) h (Eq. 12) with the features
    psi of K + 1. By Tikhonov's scheme this is KuLSIF.

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
        Held-out 1/2 mean_ref beta^2 - mean_test beta.
    sigma_ : float
        Kernel width.
    features_ : callable
        Points (n, d) to features (n, r).

    References
    ----------
    D. H. Nguyen, S. Pereverzyev and W. Zellinger, "General regularization in covariate shift adaptation":
    Eq. 12 and 22.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import SpectralRatio
    >>> rng = np.random.default_rng(0)
    >>> model = SpectralRatio().fit(rng.normal(0.0, 1.0, size=(400, 1)), rng.normal(1.0, 1.0, size=(400, 1)))
    >>> low, high = model.ratio([[-1.0], [1.0]])  # exactly 0.22 and 1.65
    >>> bool(low < 0.5 < 1.2 < high)
    True
    """

    def fit(self, ref: ArrayLike, test: ArrayLike) -> Self:
        """Estimate the ratio of test over reference.

        Parameters
        ----------
        ref : array_like of shape (n, d)
            Points of p.
        test : array_like of shape (m, d)
            Points of q.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the dimensions differ, or there are fewer points than folds.
        """
        x, x_ = as_points(ref, "ref"), as_points(test, "test")
        if x.shape[1] != x_.shape[1]:
            raise ValueError(f"test: dimension {x_.shape[1]}, but the reference has {x.shape[1]}")
        for name, points in (("ref", x), ("test", x_)):
            if len(points) < self.folds:
                raise ValueError(f"{name}: {len(points)} points, too few for {self.folds} folds")
        self.sigma_ = self._width(x)
        self.features_ = self._kernel_features(interleaved(x, x_))
        psi, psi_ = self.features_(x), self.features_(x_)
        spectrum = Spectrum.of(psi.T @ psi / len(psi))
        self.lams_ = (spectrum.lambdas(self.filter, min(len(psi), len(psi_))) if self.lams is None
                      else np.asarray(self.lams, dtype=np.float64))  # fmt: skip
        self.path_ = spectrum.solve(self.filter, self.lams_, psi_.mean(axis=0))
        G, g = self._held_out(psi, psi_)
        self.coefficients_ = c = convex(G, g)
        self.loss_ = float(0.5 * c @ G @ c - g @ c)
        self.theta_ = self.coefficients_ @ self.path_  # Eq. 22
        return self

    def ratio(self, x: ArrayLike) -> Floats:
        """Estimate of beta at points.

        Parameters
        ----------
        x : array_like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,), float64
            Never below zero.

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        """
        return np.maximum(self._mapped(x) @ self.theta_, 0.0)

    def candidates(self, x: ArrayLike) -> Floats:
        """Estimates of all lambda, as they are.

        Parameters
        ----------
        x : array_like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, l), float64
            One column per candidate.

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        """
        return np.asarray(self._mapped(x) @ self.path_.T)

    def _held_out(self, psi: Floats, psi_: Floats) -> tuple[Floats, Floats]:
        """G_ku = mean_ref beta_k beta_u and g_k = mean_test beta_k, at points that beta_k has not seen."""
        rng = np.random.default_rng(self.seed)
        part, part_ = folds_of(len(psi), self.folds, rng), folds_of(len(psi_), self.folds, rng)
        G, g = np.zeros((len(self.lams_), len(self.lams_))), np.zeros(len(self.lams_))
        for k in range(self.folds):
            seen = psi[part != k]
            h = psi_[part_ != k].mean(axis=0)
            theta = Spectrum.of(seen.T @ seen / len(seen)).solve(self.filter, self.lams_, h)
            f, f_ = psi[part == k] @ theta.T, psi_[part_ == k] @ theta.T
            G += f.T @ f / len(psi)
            g += f_.sum(axis=0) / len(psi_)
        return G, g


def interleaved(x: Floats, y: Floats) -> Floats:
    """Both sets of points, evenly mixed and each in its order: a budget then takes from both alike."""
    places = np.concatenate([(np.arange(len(x)) + 0.5) / len(x), (np.arange(len(y)) + 0.5) / len(y)])
    return np.concatenate([x, y])[np.argsort(places, kind="stable")]
