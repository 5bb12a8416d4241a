"""Localized structured prediction with any loss by parts: learning (Alg. 1), inference exact or by Alg. 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve

from estimators.core.base import check_range
from estimators.core.kernels import as_points, gaussian, median_distance
from estimators.core.parameters import Parameters
from estimators.core.types import Floats
from estimators.structured.part_losses import PartLoss

LEAST_RIDGE = 1e-8
MOST_PARTS = 20_000  # a kernel matrix of 3 GB


class LocalizedPredictor(Parameters):
    """From inputs with parts to outputs with parts, under any loss by parts (Eq. 5, 6 and 9).

        f(x) = argmin_z sum_p pi_p sum_j alpha_j(x, p) L(z_p, eta_j),   alpha(x, p) = (K + m lam I)^-1 v(x, p)

    with the kernel K_B = local K_L + universal K_U of Remark 3: K_L compares parts wherever they stand
    (Eq. 20), K_U whole inputs at the same part (Eq. 13). The first learns from few inputs, the second is
    universal, the sum is both.

    Parameters
    ----------
    loss : PartLoss
        Hamming, SquaredParts, Angular, Ranking, FOne, or one of your own.
    sigma : float > 0, optional
        Width of K_L, on descriptors of parts; by default their median distance.
    lam : float > 0, default=1e-3
        Ridge.
    local : float >= 0, default=1.0
        Weight of K_L.
    universal : float >= 0, default=0.0
        Weight of K_U; needs inputs with the same number of parts in the same order.
    sigma_universal : float > 0, optional
        Width of K_U; by default the median distance of whole inputs.

    Attributes
    ----------
    parts_ : ndarray of shape (m, D), float64
        Parts learnt from, all parts of all inputs.
    labels_ : list of ndarray
        Labels of the inputs.

    See Also
    --------
    FootprintPredictor : this with Hamming costs on ego-networks of a sensor graph.
    PartRidge : the regression alone, also with Nystroem centres.

    References
    ----------
    C. Ciliberto, F. Bach and A. Rudi, "Localized structured prediction", 2018: Eq. 5, 6, 9, 13, 20, Remark 3,
    Algorithms 1 and 3, App. J and K.

    Examples
    --------
    Which parts of a signal are a bump, from a handful of signals:

    >>> import numpy as np
    >>> from estimators import Hamming, LocalizedPredictor
    >>> rng = np.random.default_rng(0)
    >>> y = [np.roll(np.repeat([1, 0], [3, 9]), k) for k in range(6)]
    >>> x = [np.column_stack([one, np.roll(one, 1)]) + rng.normal(0.0, 0.2, (12, 2)) for one in y]
    >>> model = LocalizedPredictor(Hamming(2)).fit(x, y)
    >>> new = np.roll(np.repeat([1, 0], [3, 9]), 8)  # at a place where no bump was
    >>> model.predict(np.column_stack([new, np.roll(new, 1)])).tolist() == new.tolist()
    True
    """

    _result = "parts_"
    parts_: Floats
    labels_: list[NDArray[Any]]

    def __init__(self, loss: PartLoss, *, sigma: float | None = None, lam: float = 1e-3, local: float = 1.0,
                 universal: float = 0.0, sigma_universal: float | None = None) -> None:  # fmt: skip
        for name, width in (("sigma", sigma), ("sigma_universal", sigma_universal)):
            if width is not None:
                check_range(name, width, 0.0, open_low=True)
        check_range("lam", lam, 0.0, open_low=True)
        check_range("local", local, 0.0)
        check_range("universal", universal, 0.0)
        if local + universal == 0.0:
            raise ValueError("universal: one of local and universal must be above 0")
        self.loss, self.sigma, self.lam = loss, sigma, lam
        self.local, self.universal, self.sigma_universal = local, universal, sigma_universal

    def fit(self, X: Sequence[ArrayLike], Y: Sequence[ArrayLike]) -> Self:
        """Learn from inputs and their labels.

        Parameters
        ----------
        X : sequence of n arrays of shape (P_i, D)
            Descriptors of the parts of every input.
        Y : sequence of n arrays of shape (P_i, ...)
            Labels of the parts, as the loss takes them.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If inputs and labels do not fit together, the message naming the input; or if there are more than
            20,000 parts.
        """
        inputs = [as_points(x, f"X[{i}]") for i, x in enumerate(X)]
        labels = [np.asarray(y) for y in Y]
        if not inputs or len(inputs) != len(labels):
            raise ValueError(f"Y: {len(labels)} labels for {len(inputs)} inputs")
        for i, (x, y) in enumerate(zip(inputs, labels, strict=True)):
            if len(x) != len(y):
                raise ValueError(f"Y[{i}]: {len(y)} part labels, but X[{i}] has {len(x)} parts")
            if x.shape[1] != inputs[0].shape[1]:
                raise ValueError(f"X[{i}]: descriptors of {x.shape[1]}, but X[0] has {inputs[0].shape[1]}")
            if self.universal and len(x) != len(inputs[0]):
                raise ValueError(f"X[{i}]: {len(x)} parts, but X[0] has {len(inputs[0])}; "
                                 "the universal kernel needs the same")  # fmt: skip
        m = sum(map(len, inputs))
        if m > MOST_PARTS:
            raise ValueError(f"X: {m} parts, but the kernel of more than {MOST_PARTS} takes gigabytes; "
                             "PartRidge(centres=...) takes any number")  # fmt: skip
        self.labels_, self.parts_ = labels, np.concatenate(inputs)
        self._place = np.concatenate([np.arange(len(x)) for x in inputs])
        self._input = np.repeat(np.arange(len(inputs)), [len(x) for x in inputs])
        self._flat = np.stack([x.ravel() for x in inputs]) if self.universal else np.empty((len(inputs), 0))
        self._sigma = median_distance(self.parts_) if self.sigma is None else self.sigma
        median = median_distance(self._flat) if self.universal else 1.0
        self._sigma_universal = self.sigma_universal or median
        K = self._kernel(self.parts_, self._flat[self._input], self._place)
        K[np.diag_indices_from(K)] += len(K) * max(self.lam, LEAST_RIDGE)
        self._factor = cho_factor(K, lower=True)
        self._B = cho_solve(self._factor, np.concatenate([self.loss.embed(y) for y in labels]))
        return self

    def scores(self, x: ArrayLike) -> Floats:
        """alpha_j(x, p) of all parts of one input.

        Parameters
        ----------
        x : array_like of shape (P, D)

        Returns
        -------
        ndarray of shape (P, m), float64
        """
        return np.asarray(cho_solve(self._factor, self._values(x).T).T)

    def embed(self, x: ArrayLike) -> Floats:
        """g(x, p) = sum_j alpha_j(x, p) phi(eta_j): expected embedded labels.

        Parameters
        ----------
        x : array_like of shape (P, D)

        Returns
        -------
        ndarray of shape (P, T), float64
        """
        return np.asarray(self._values(x) @ self._B)

    def predict(self, x: ArrayLike, pi: ArrayLike | None = None) -> NDArray[Any]:
        """The output at the least expected loss (Eq. 6), exactly.

        Parameters
        ----------
        x : array_like of shape (P, D)
            Descriptors of the parts of one input.
        pi : array_like of shape (P,), optional
            Weights of the parts; by default equal.

        Returns
        -------
        ndarray of shape (P, ...)
            As the loss has it.

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        """
        g = self.embed(x)
        return self.loss.minimise(g, _weights(pi, len(g)))

    def predict_stochastic(self, x: ArrayLike, pi: ArrayLike | None = None, *, steps: int = 20_000,
                           step: float = 0.5, seed: int = 0) -> Floats:  # fmt: skip
        """The same by Algorithm 3, for losses with a gradient: slow, and needs no minimiser of the loss.

        Draws a part p by pi and a label j by |alpha_j(x, p)|, and takes a step of length step / sqrt(t)
        against the gradient; the mean of the second half of the iterates is returned (the last one, as the
        document has it, keeps the noise of its step).

        Parameters
        ----------
        x : array_like of shape (P, D)
        pi : array_like of shape (P,), optional
            Weights of the parts; by default equal.
        steps : int >= 2, default=20000
            Iterations.
        step : float > 0, default=0.5
            Length of the first.
        seed : int, default=0
            Of the draws.

        Returns
        -------
        ndarray of shape (P,), or (P, k), float64

        Raises
        ------
        TypeError
            If the loss has no gradient.
        """
        loss: Any = self.loss
        if not (hasattr(loss, "gradient") and hasattr(loss, "project")):
            raise TypeError(f"loss: {type(loss).__name__} has no gradient; predict is exact for it")
        check_range("steps", steps, 2)
        check_range("step", step, 0.0, open_low=True)
        alpha = self.scores(x)
        weights = _weights(pi, len(alpha))
        eta = np.concatenate([np.asarray(y, np.float64).reshape(len(y), -1) for y in self.labels_])
        size = np.abs(alpha).sum(axis=1)  # A(x, p)
        share = np.cumsum(np.abs(alpha) / np.where(size > 0.0, size, 1.0)[:, None], axis=1)
        rng = np.random.default_rng(seed)
        parts = rng.choice(len(alpha), size=steps, p=weights / weights.sum())
        draws = rng.random(steps)
        z, mean, kept = np.zeros((len(alpha), eta.shape[1])), np.zeros((len(alpha), eta.shape[1])), 0
        scale = step / max(float(size.max()), 1e-300)
        for t in range(steps):
            p = int(parts[t])
            j = min(int(np.searchsorted(share[p], draws[t])), alpha.shape[1] - 1)
            slope = np.sign(alpha[p, j]) * size[p] * loss.gradient(z[p], eta[j])
            z[p] = loss.project(z[p] - scale / np.sqrt(t + 1.0) * slope)
            if t >= steps // 2:
                mean += z
                kept += 1
        mean /= kept
        return mean[:, 0] if mean.shape[1] == 1 else mean

    def _values(self, x: ArrayLike) -> Floats:
        self._check_fitted()
        points = as_points(x, "x")
        if points.shape[1] != self.parts_.shape[1]:
            raise ValueError(f"x: descriptors of {points.shape[1]}, learnt were {self.parts_.shape[1]}")
        if self.universal and points.size != self._flat.shape[1]:
            raise ValueError(f"x: {len(points)} parts, learnt were {self._flat.shape[1] // points.shape[1]}")
        flat = np.tile(points.ravel(), (len(points), 1)) if self.universal else np.empty((len(points), 0))
        return self._kernel(points, flat, np.arange(len(points)))

    def _kernel(self, points: Floats, flat: Floats, place: NDArray[Any]) -> Floats:
        """K_B between some parts and those learnt from."""
        K = self.local * gaussian(points, self.parts_, self._sigma)
        if self.universal:
            whole = gaussian(flat, self._flat, self._sigma_universal)[:, self._input]
            K += self.universal * whole * (place[:, None] == self._place)
        return K


def _weights(pi: ArrayLike | None, n: int) -> Floats:
    if pi is None:
        return np.full(n, 1.0 / n)
    weights = np.asarray(pi, dtype=np.float64)
    if weights.shape != (n,) or not (weights >= 0.0).all() or not weights.any():
        raise ValueError(f"pi: expected {n} weights, none negative and not all zero, got {weights}")
    return weights
