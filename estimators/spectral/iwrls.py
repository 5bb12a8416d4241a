"""Importance-weighted regularised least squares: a regression fitted where its weights are (Sec. 2 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from estimators.core.features import Affine, Features, WithConstant
from estimators.core.kernels import as_points
from estimators.core.regressor import Regressor, as_labels
from estimators.core.types import Floats
from estimators.spectral.aggregation import convex, folds_of
from estimators.spectral.filters import Filter, Spectrum
from estimators.spectral.model import SpectralModel

# The squared error of a regression is milder than the loss of a ratio: lambda may go further down.
DEEPER = 100.0


def effective_sample_size(weights: ArrayLike) -> float:
    """(sum w)^2 / sum w^2: so many equal weights would say as much."""
    w = np.asarray(weights, dtype=np.float64)
    squares = float(np.square(w).sum())
    return float(w.sum()) ** 2 / squares if squares > 0.0 else 0.0


class Iwrls(SpectralModel, Regressor):
    """Importance-weighted regularised least squares: a regression fitted where its weights are.

    f(x) = psi(x)'theta is near y at labelled points of p, weighted by beta = q/p: then f is near y under q.

        min (1/n) sum beta_i (f(x_i) - y_i)^2, regularised: theta^lambda = g_lambda(G) c with
        G = (1/n) Psi'B Psi, c = (1/n) Psi'B y                                                     (Eq. 5)

    Weights are scaled to a mean of one, y to mean 0 and spread 1 under them. Labels may be vectors: the
    candidates are then functions with k components, and have one mean: inner products add up over them.

    Parameters
    ----------
    linear : bool, default=False
        Take psi(x) = (x, 1), a straight line, instead of kernels.
    **params
        The following:
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
    path_ : ndarray of shape (l, r), or (l, r, k) with labels of k components, float64
        Their parameters.
    coefficients_ : ndarray of shape (l,), float64
        Their shares.
    theta_ : ndarray of shape (r,), or (r, k), float64
        Their mean (Eq. 22).
    loss_ : float
        Held-out weighted mean square error.
    sigma_ : float
        Kernel width.
    features_ : callable
        Points (n, d) to features (n, r).
    held_out_ : ndarray of shape (n,), or (n, k), float64
        Predictions of the labels by fits without their folds.
    losses_ : ndarray of shape (l,), float64
        Held-out losses of the candidates.
    effective_size_ : float
        Effective sample size of the weights.
    n_features_in_ : int
        d.

    References
    ----------
    D. H. Nguyen, S. Pereverzyev and W. Zellinger, "General regularization in covariate shift adaptation":
    Eq. 5 and 22.

    Examples
    --------
    A line fitted where the weights are, to a curve:

    >>> import numpy as np
    >>> from estimators import Iwrls
    >>> x = np.linspace(-2.0, 2.0, 200)[:, None]
    >>> y = x[:, 0] ** 2
    >>> right = Iwrls(linear=True).fit(x, y, weights=(x[:, 0] > 1.0).astype(float))
    >>> right.predict([[1.5]]).round(1)
    array([2.3])
    >>> round(right.effective_size_)
    50
    """

    _multi_output = True

    def __init__(self, *, linear: bool = False, scheme: str | Filter = "iterated", order: int | None = None,
                 lams: Sequence[float] | None = None, sigma: float | None = None, kernel: str = "gaussian",
                 folds: int = 5, seed: int = 0, mu: float = 0.9, budget: int = 256) -> None:  # fmt: skip
        super().__init__(scheme=scheme, order=order, lams=lams, sigma=sigma, kernel=kernel, folds=folds,
                         seed=seed, mu=mu, budget=budget)  # fmt: skip
        self.linear = linear

    def fit(self, x: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Fit to labels.

        Parameters
        ----------
        x : array_like of shape (n, d)
            Points.
        y : array_like of shape (n,) or (n, k)
            Their labels, numbers or vectors.
        weights : array_like of shape (n,), optional
            Importance weights, none negative; by default all weigh the same.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the arguments do not fit together, or there are fewer points than folds.
        """
        points, labels = self._table(x, "x"), as_labels(y)  # (n, k)
        w = _weights(weights, len(points))
        if len(labels) != len(points):
            raise ValueError(f"y: {len(labels)} labels, but x has {len(points)} points")
        if len(points) < self.folds:
            raise ValueError(f"x: n_samples={len(points)}, too few for {self.folds} folds")
        self.effective_size_ = effective_sample_size(w)
        centre = np.average(labels, axis=0, weights=w)  # (k,)
        spread = np.sqrt(np.average(np.square(labels - centre), axis=0, weights=w))
        unit = np.where(spread > 0.0, spread, 1.0)
        target = (labels - centre) / unit
        self.sigma_ = self._width(points)
        self.features_ = self._features(points, w)
        psi = self.features_(points)
        spectrum = Spectrum.of((psi * w[:, None]).T @ psi / len(psi))
        self.lams_ = (spectrum.lambdas(self.filter, self.effective_size_, deeper=DEEPER)
                      if self.lams is None else np.asarray(self.lams, dtype=np.float64))  # fmt: skip
        path = spectrum.solve(self.filter, self.lams_, psi.T @ (w[:, None] * target) / len(psi))  # (l, r, k)
        held_out = self._held_out(psi, target, w)  # (n, l, k)
        G = np.einsum("n,nak,nbk->ab", w, held_out, held_out) / len(psi)
        self.coefficients_ = convex(G, np.einsum("n,nak,nk->a", w, held_out, target) / len(psi))
        missed = np.square((held_out - target[:, None]) * unit).sum(axis=2)
        self.losses_ = np.average(missed, axis=0, weights=w)
        predicted = np.einsum("nak,a->nk", held_out, self.coefficients_) * unit + centre
        self.loss_ = float(np.average(np.square(predicted - labels).sum(axis=1), weights=w))
        path = path * unit
        path[:, -1] += centre  # the feature that is one
        theta = np.tensordot(self.coefficients_, path, 1)  # Eq. 22
        flat = np.asarray(y).ndim == 1
        self.held_out_, self.path_, self.theta_ = (
            part[..., 0] if flat else part for part in (predicted, path, theta)
        )
        return self

    def predict(self, x: ArrayLike) -> Floats:
        """The regression at points.

        Parameters
        ----------
        x : array_like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,), or (n, k), float64
            f(x).

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        """
        return np.asarray(self._mapped(self._same_table(x, "x")) @ self.theta_)

    def candidates(self, x: ArrayLike) -> Floats:
        """Predictions of all lambda.

        Parameters
        ----------
        x : array_like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, l), or (n, l, k), float64
            One column per candidate.

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        """
        return np.tensordot(self._mapped(self._same_table(x, "x")), self.path_, axes=(1, 1))

    def _features(self, x: Floats, w: Floats) -> Features:
        return WithConstant(Affine.of(x, w)) if self.linear else self._kernel_features(x)

    def _held_out(self, psi: Floats, y: Floats, w: Floats) -> Floats:
        """Predictions (n, l, k) of every point by the candidates of the folds without it."""
        part = folds_of(len(psi), self.folds, np.random.default_rng(self.seed))
        found = np.empty((len(psi), len(self.lams_), y.shape[1]))
        for k in range(self.folds):
            seen, left = part != k, part == k
            total = w[seen].sum()
            if total == 0.0:
                found[left] = 0.0
                continue
            weighted = psi[seen] * (w[seen] / total)[:, None]
            spectrum = Spectrum.of(weighted.T @ psi[seen])
            theta = spectrum.solve(self.filter, self.lams_, weighted.T @ y[seen])  # (l, r, k)
            found[left] = np.tensordot(psi[left], theta, axes=(1, 1))
        return found


def _weights(weights: ArrayLike | None, n: int) -> Floats:
    """Checked, and scaled to a mean of one."""
    if weights is None:
        return np.ones(n)
    w = as_points(weights, "weights")[:, 0]
    if len(w) != n:
        raise ValueError(f"weights: {len(w)} values, but x has {n} points")
    if np.any(w < 0.0) or not np.any(w > 0.0):
        raise ValueError("weights: must be zero or above, and not all zero")
    return np.asarray(w / w.mean())
