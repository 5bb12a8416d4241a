"""Spectral regularisation: filters g_lambda, and all their solutions from one eigendecomposition.

Equation numbers are those of "General regularization in covariate shift adaptation" (Nguyen, Pereverzyev and
Zellinger). x = g_lambda(A) b stands for the solution of A x = b where A is singular, or nearly so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from estimators.core.base import check_range
from estimators.core.types import Floats


@dataclass(frozen=True)
class Filter:
    """A family of functions g_lambda(t) on the spectrum t >= 0 of a matrix, and what is known of it."""

    g: Callable[[Floats, float], Floats]
    gamma_0: float  # |1 - t g| <= gamma_0 (Eq. 6)
    gamma_half: float  # sqrt(t) |g| <= gamma_half / sqrt(lambda)
    gamma_1: float  # |g| <= gamma_1 / lambda (printed with the constant of the line before)
    qualification: float  # largest nu with t^nu |1 - t g| <= constant * lambda^nu (Eq. 7)

    def __call__(self, t: Floats, lam: float) -> Floats:
        return self.g(t, lam)


def iterated_tikhonov(order: int = 3) -> Filter:
    """g = (1 - lambda^nu / (lambda + t)^nu) / t: nu ridge solutions, each drawn towards the one before."""
    check_range("order", order, 1)

    def g(t: Floats, lam: float) -> Floats:
        # As an exponential: the difference of two numbers near one has no digits where t is small.
        return _over(-np.expm1(-order * np.log1p(t / lam)), t, order / lam)

    return Filter(g, 1.0, float(np.sqrt(order)), float(order), float(order))


def tikhonov() -> Filter:
    """g = 1 / (lambda + t): the ridge. A density ratio with it is KuLSIF."""
    return Filter(lambda t, lam: 1.0 / (lam + t), 1.0, 0.5, 1.0, 1.0)


def cut_off() -> Filter:
    """g = 1/t where t >= lambda, else 0: as many principal components as lambda lets in."""

    def g(t: Floats, lam: float) -> Floats:
        kept = t >= lam
        return np.where(kept, 1.0 / np.where(kept, t, 1.0), 0.0)

    return Filter(g, 1.0, 1.0, 1.0, np.inf)


def landweber(mu: float = 0.5) -> Filter:
    """g = sum over k < m of mu (1 - mu t)^k: from zero, m = 1/lambda steps of gradient descent of length mu.

    Steps are shorter where they would diverge, mu t > 1; 1/2 need not be for kernels with K(x, x) <= 2.
    """
    check_range("mu", mu, 0.0, open_low=True)

    def g(t: Floats, lam: float) -> Floats:
        step = 1.0 / max(1.0 / mu, float(np.max(t, initial=0.0)))
        m = np.floor(1.0 / lam + 1e-9)  # the inverse of 1/m may fall short of m by a rounding
        if m == 0.0:
            return np.zeros_like(t)
        with np.errstate(divide="ignore"):  # log(0): solved by the first step
            return _over(-np.expm1(m * np.log1p(-np.minimum(step * t, 1.0))), t, m * step)

    return Filter(g, 1.0, float(np.sqrt(mu)), mu, np.inf)


SCHEMES: dict[str, Filter] = {
    "tikhonov": tikhonov(),
    "iterated": iterated_tikhonov(),
    "cutoff": cut_off(),
    "landweber": landweber(),
}


def scheme_named(name: str, order: int | None = None) -> Filter:
    """The filter called ``name``; ``order`` is that of "iterated", which alone has one."""
    if name not in SCHEMES:
        raise ValueError(f"scheme: unknown name {name!r}; known: {', '.join(sorted(SCHEMES))}")
    if order is None:
        return SCHEMES[name]
    if name != "iterated":
        raise ValueError(f"order: {name!r} has none; 'iterated' has")
    return iterated_tikhonov(order)


@dataclass(frozen=True)
class Spectrum:
    """A symmetric matrix without negative eigenvalues, A = U diag(s) U'."""

    s: Floats  # (r,)
    U: Floats  # (r, r)

    @classmethod
    def of(cls, A: Floats) -> Self:
        s, U = np.linalg.eigh(A)
        return cls(np.maximum(s, 0.0), U)  # below zero by rounding only

    def solve(self, g: Filter, lams: Sequence[float] | Floats, b: Floats) -> Floats:
        """g_lambda(A) b (l, r) for all lambda, r^2 each; (l, r, k) if b is (r, k)."""
        if b.ndim == 2:
            return np.stack([self.solve(g, lams, column) for column in b.T], axis=-1)
        Ub = self.U.T @ b
        solutions: Floats = np.stack([g(self.s, float(lam)) * Ub for lam in lams]) @ self.U.T
        return solutions

    def effective_dimension(self, lam: float) -> float:
        """N(lambda) = sum of s / (s + lambda): how many directions lambda leaves free."""
        return float(np.sum(self.s / (self.s + lam)))

    def least_lambda(self, n: float) -> float:
        """lambda_* of Theorem 3.4, N(lambda_*) / lambda_* = n: below it, n points determine nothing."""
        largest = float(self.s.max(initial=0.0))
        if largest == 0.0:
            return 1.0 / n
        low, high = min(largest, 0.5 / n), float(np.sqrt(self.s.sum() / n))
        for _ in range(60):  # halving by hand: scipy.optimize would cost every daemon 12 MB
            middle = float(np.sqrt(low * high))
            low, high = (middle, high) if self.effective_dimension(middle) > n * middle else (low, middle)
        return low

    def lambdas(self, g: Filter, n: float, size: int = 12, deeper: float = 1.0) -> Floats:
        """Grid from the norm of A down to where g is as large as 1 / lambda_*, or ``deeper`` times that."""
        least = g.gamma_1 * self.least_lambda(n) / deeper
        return np.geomspace(max(float(self.s.max(initial=0.0)), least), least, size)


def _over(above: Floats, t: Floats, limit: float) -> Floats:
    """above / t, and its limit at zero."""
    positive = t > 1e-290  # the smallest floats of all have no digits left
    return np.where(positive, above / np.where(positive, t, 1.0), limit)
