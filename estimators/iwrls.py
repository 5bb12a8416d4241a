"""Importance-weighted regularised least squares: a regression fitted where its weights are (Sec. 2 and 5)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from estimators.aggregation import convex, folds_of
from estimators.features import Affine, Features, WithConstant
from estimators.kernels import Array, as_points
from estimators.spectral import Spectrum
from estimators.spectral_model import SpectralModel

# The squared error of a regression is milder than the loss of a ratio: lambda may go further down.
DEEPER = 100.0


def effective_sample_size(weights: ArrayLike) -> float:
    """(sum w)^2 / sum w^2: so many equal weights would say as much."""
    w = np.asarray(weights, dtype=np.float64)
    squares = float(np.square(w).sum())
    return float(w.sum()) ** 2 / squares if squares > 0.0 else 0.0


class Iwrls(SpectralModel):
    """f(x) = psi(x)'theta near y at labelled points of p, weighted by beta = q/p: then f is near y under q.

    Problem: min (1/n) sum beta_i (f(x_i) - y_i)^2, regularised: theta^lambda = g_lambda(G) c with
    G = (1/n) Psi'B Psi, c = (1/n) Psi'B y (Eq. 5). Weights are scaled to a mean of one, y to mean 0 and
    spread 1 under them.

    ``linear`` takes psi(x) = (x, 1), a straight line, instead of kernels. Other parameters: SpectralModel.
    After ``fit`` also: held_out_ (n,) predictions of the labels by fits without their folds; losses_ (l,) of
    the candidates beside ``loss_``, the held-out weighted mean square error; effective_size_ of the weights.
    """

    def __init__(self, *, linear: bool = False, **params: Any) -> None:
        super().__init__(**params)
        self.linear = linear

    def fit(self, x: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Fit to labels y (n,) at x (n, d); without ``weights`` all weigh the same."""
        points, labels = as_points(x), as_points(y, "y")[:, 0]
        w = _weights(weights, len(points))
        if len(labels) != len(points):
            raise ValueError(f"y: {len(labels)} labels, but x has {len(points)} points")
        if len(points) < self.folds:
            raise ValueError(f"x: {len(points)} points, too few for {self.folds} folds")
        self.effective_size_ = effective_sample_size(w)
        centre = float(np.average(labels, weights=w))
        spread = float(np.sqrt(np.average(np.square(labels - centre), weights=w)))
        unit = spread if spread > 0.0 else 1.0
        target = (labels - centre) / unit
        self.sigma_ = self._width(points)
        self.features_ = self._features(points, w)
        psi = self.features_(points)
        spectrum = Spectrum.of((psi * w[:, None]).T @ psi / len(psi))
        self.lams_ = (spectrum.lambdas(self.filter, self.effective_size_, deeper=DEEPER)
                      if self.lams is None else np.asarray(self.lams, dtype=np.float64))  # fmt: skip
        path = spectrum.solve(self.filter, self.lams_, psi.T @ (w * target) / len(psi))
        held_out = self._held_out(psi, target, w)
        G = (held_out * w[:, None]).T @ held_out / len(psi)
        self.coefficients_ = convex(G, held_out.T @ (w * target) / len(psi))
        self.losses_ = np.average(np.square(held_out - target[:, None]), axis=0, weights=w) * unit**2
        self.held_out_ = held_out @ self.coefficients_ * unit + centre
        self.loss_ = float(np.average(np.square(self.held_out_ - labels), weights=w))
        self.path_ = path * unit
        self.path_[:, -1] += centre  # the feature that is one
        self.theta_ = self.coefficients_ @ self.path_  # Eq. 22
        return self

    def predict(self, x: ArrayLike) -> Array:
        """f(x) of the points x (n, d)."""
        return np.asarray(self._mapped(x) @ self.theta_)

    def candidates(self, x: ArrayLike) -> Array:
        """Predictions (n, l) of all lambda."""
        return np.asarray(self._mapped(x) @ self.path_.T)

    def _features(self, x: Array, w: Array) -> Features:
        return WithConstant(Affine.of(x, w)) if self.linear else self._kernel_features(x)

    def _held_out(self, psi: Array, y: Array, w: Array) -> Array:
        """Predictions (n, l) of every point by the candidates of the folds without it."""
        part = folds_of(len(psi), self.folds, np.random.default_rng(self.seed))
        found = np.empty((len(psi), len(self.lams_)))
        for k in range(self.folds):
            seen, left = part != k, part == k
            total = w[seen].sum()
            if total == 0.0:
                found[left] = 0.0
                continue
            weighted = psi[seen] * (w[seen] / total)[:, None]
            spectrum = Spectrum.of(weighted.T @ psi[seen])
            found[left] = psi[left] @ spectrum.solve(self.filter, self.lams_, weighted.T @ y[seen]).T
        return found


def _weights(weights: ArrayLike | None, n: int) -> Array:
    """Checked, and scaled to a mean of one."""
    if weights is None:
        return np.ones(n)
    w = as_points(weights, "weights")[:, 0]
    if len(w) != n:
        raise ValueError(f"weights: {len(w)} values, but x has {n} points")
    if np.any(w < 0.0) or not np.any(w > 0.0):
        raise ValueError("weights: must be zero or above, and not all zero")
    return np.asarray(w / w.mean())
