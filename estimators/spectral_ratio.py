"""Ratio of two densities by spectral regularisation: all lambda at once, none chosen (Sec. 3 and 5)."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from estimators.aggregation import convex, folds_of
from estimators.kernels import Array, as_points
from estimators.spectral import Spectrum
from estimators.spectral_model import SpectralModel


class SpectralRatio(SpectralModel):
    """beta = q/p from points of p, the reference, and of q, the test.

    Problem: Sigma beta = h with Sigma = mean_ref psi psi', h = mean_test psi; beta^lambda = g_lambda(Sigma) h
    (Eq. 12) with the features psi of K + 1. By Tikhonov's scheme this is KuLSIF.
    ``loss_`` is the held-out 1/2 mean_ref beta^2 - mean_test beta. Parameters: SpectralModel.
    """

    def fit(self, ref: ArrayLike, test: ArrayLike) -> Self:
        """Estimate the ratio of test (m, d) over reference (n, d)."""
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

    def ratio(self, x: ArrayLike) -> Array:
        """Estimate of beta at the points x (n, d); never below zero."""
        return np.maximum(self._mapped(x) @ self.theta_, 0.0)

    def candidates(self, x: ArrayLike) -> Array:
        """Estimates (n, l) of all lambda, as they are."""
        return np.asarray(self._mapped(x) @ self.path_.T)

    def _held_out(self, psi: Array, psi_: Array) -> tuple[Array, Array]:
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


def interleaved(x: Array, y: Array) -> Array:
    """Both sets of points, evenly mixed and each in its order: a budget then takes from both alike."""
    places = np.concatenate([(np.arange(len(x)) + 0.5) / len(x), (np.arange(len(y)) + 0.5) / len(y)])
    return np.concatenate([x, y])[np.argsort(places, kind="stable")]
