"""Ratio of two densities by spectral regularisation: all lambda at once, none chosen (Sec. 3 and 5)."""

from __future__ import annotations

from typing import Any, Self

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

    ``centred`` starts at beta = 1, no shift, where the document starts at 0: beta^lambda = 1 +
    g_lambda(Sigma) (h - mean_ref psi); what the candidates' shares leave of one is the share of beta = 1.
    ``loss_`` is the held-out 1/2 mean_ref beta^2 - mean_test beta. Other parameters: SpectralModel.
    """

    def __init__(self, *, centred: bool = True, **params: Any) -> None:
        super().__init__(**params)
        self.centred = centred

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
        self.path_ = spectrum.solve(self.filter, self.lams_, self._target(psi, psi_))
        G, g = self._held_out(psi, psi_)
        shares = convex(G, g)
        self.loss_ = float(0.5 * shares @ G @ shares - g @ shares) - 0.5 * self.centred
        self.coefficients_ = shares[: len(self.lams_)]
        self.theta_ = self.coefficients_ @ self.path_  # Eq. 22
        return self

    def ratio(self, x: ArrayLike) -> Array:
        """Estimate of beta at the points x (n, d); never below zero."""
        return np.maximum(self._mapped(x) @ self.theta_ + self.centred, 0.0)

    def candidates(self, x: ArrayLike) -> Array:
        """Estimates (n, l) of all lambda, as they are."""
        return np.asarray(self._mapped(x) @ self.path_.T + self.centred)

    def _target(self, psi: Array, psi_: Array) -> Array:
        h: Array = psi_.mean(axis=0) - self.centred * psi.mean(axis=0)
        return h

    def _held_out(self, psi: Array, psi_: Array) -> tuple[Array, Array]:
        """G and g of the candidates, each at the points that its fit has not seen; zero is one of them."""
        rng = np.random.default_rng(self.seed)
        part, part_ = folds_of(len(psi), self.folds, rng), folds_of(len(psi_), self.folds, rng)
        size = len(self.lams_) + self.centred
        G, g = np.zeros((size, size)), np.zeros(size)
        used = slice(len(self.lams_))
        for k in range(self.folds):
            seen, seen_ = psi[part != k], psi_[part_ != k]
            theta = Spectrum.of(seen.T @ seen / len(seen)).solve(
                self.filter, self.lams_, self._target(seen, seen_)
            )
            f, f_ = psi[part == k] @ theta.T, psi_[part_ == k] @ theta.T
            G[used, used] += f.T @ f / len(psi)
            g[used] += f_.sum(axis=0) / len(psi_) - self.centred * f.sum(axis=0) / len(psi)
        return G, g


def interleaved(x: Array, y: Array) -> Array:
    """Both sets of points, evenly mixed and each in its order: a budget then takes from both alike."""
    places = np.concatenate([(np.arange(len(x)) + 0.5) / len(x), (np.arange(len(y)) + 0.5) / len(y)])
    return np.concatenate([x, y])[np.argsort(places, kind="stable")]
