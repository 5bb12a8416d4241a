"""Moments of the two windows in feature space: all that the least-squares estimators see of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimators.core.types import Floats


@dataclass(frozen=True)
class Moments:
    """Sums of psi and psi psi' over every node's reference and test window.

    Sums, not means: those of a fold can be taken away from those of the whole. A node with an empty
    window is *silent*: it has no data term, only its neighbours.
    """

    n_ref: Floats  # (N,)
    n_test: Floats  # (N,)
    ref: Floats  # (N, r) sum psi
    test: Floats  # (N, r)
    ref2: Floats  # (N, r, r) sum psi psi'
    test2: Floats  # (N, r, r)

    @classmethod
    def of(cls, psi_ref: Iterable[Floats], psi_test: Iterable[Floats]) -> Moments:
        """From the features (n_v, r) and (n'_v, r) of every node."""
        n_ref, ref, ref2 = _sums(psi_ref)
        n_test, test, test2 = _sums(psi_test)
        return cls(n_ref, n_test, ref, test, ref2, test2)

    def __add__(self, other: Moments) -> Moments:
        """Moments of both sets of points together."""
        return self._combine(other, 1.0)

    def __sub__(self, other: Moments) -> Moments:
        """What is left when a fold is taken away."""
        return self._combine(other, -1.0)

    def _combine(self, other: Moments, sign: float) -> Moments:
        return Moments(
            self.n_ref + sign * other.n_ref,
            self.n_test + sign * other.n_test,
            self.ref + sign * other.ref,
            self.test + sign * other.test,
            self.ref2 + sign * other.ref2,
            self.test2 + sign * other.test2,
        )

    @property
    def silent(self) -> NDArray[np.bool_]:
        """Nodes (N,) without a reference or without a test point."""
        mask: NDArray[np.bool_] = (self.n_ref == 0.0) | (self.n_test == 0.0)
        return mask

    def system(self, alpha: float, centred: bool = False) -> tuple[Floats, Floats]:
        """A_v = (1 - alpha) H_v + alpha H'_v (N, r, r) and the right-hand side (N, r); zero for silent nodes.

        The plain target is the ratio itself, with right-hand side h'_v = mean_test psi (Eq. 17); the centred
        one is ratio - 1, with right-hand side (1 - alpha) (mean_test psi - mean_ref psi).
        """
        heard = ~self.silent
        by_ref = np.divide(1.0, self.n_ref, out=np.zeros_like(self.n_ref), where=heard)
        by_test = np.divide(1.0, self.n_test, out=np.zeros_like(self.n_test), where=heard)
        A = ((1.0 - alpha) * by_ref)[:, None, None] * self.ref2
        A += (alpha * by_test)[:, None, None] * self.test2
        h = by_test[:, None] * self.test
        if centred:
            h = (1.0 - alpha) * (h - by_ref[:, None] * self.ref)
        return A, h


def _sums(psi: Iterable[Floats]) -> tuple[Floats, Floats, Floats]:
    parts = [(len(x), np.ones(len(x)) @ x, x.T @ x) for x in psi]
    n, first, second = zip(*parts, strict=True)
    return np.array(n, dtype=np.float64), np.stack(first), np.stack(second)


def mapped(
    features: Callable[[Floats], Floats], windows: Sequence[Floats], rows: int = 8192
) -> Iterator[Floats]:
    """Features of every node's window, in blocks of nodes of about ``rows`` points: fast and small."""
    first = 0
    while first < len(windows):
        last, points = first, 0
        while last < len(windows) and points < rows:
            points += len(windows[last])
            last += 1
        block = windows[first:last]
        yield from np.split(features(np.concatenate(block)), np.cumsum([len(x) for x in block])[:-1])
        first = last


def loss(A: Floats, h: Floats, theta: Floats) -> Floats:
    """L_v = 1/2 theta_v' A_v theta_v - h_v' theta_v of every node (N,) (Eq. 20)."""
    quadratic: Floats = 0.5 * np.einsum("...vi,...vi->...v", theta, np.matmul(A, theta[..., None])[..., 0])
    linear: Floats = np.einsum("...vi,...vi->...v", h, theta)
    return quadratic - linear
