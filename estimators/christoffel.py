"""The regularised Christoffel function (Eq. 19): how little a point has in common with a reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from estimators.base import check_range
from estimators.dictionary import Dictionary
from estimators.features import Nystroem
from estimators.kernels import Array, as_points
from estimators.spectral import Spectrum

NEGLIGIBLE = 1e-3  # directions that can cover no more than this are left out


@dataclass(frozen=True, eq=False)
class Christoffel:
    """C(x) = <K_x, (lambda I + Sigma)^-1 K_x> with Sigma the mean of K_x K_x' over the reference.

    With Sigma = U diag(s) U' in features psi = P'k of a dictionary,
        lambda C(x) = K(x, x) - sum_j s_j / (s_j + lambda) (u_j'psi(x))^2 = K(x, x) - ||B'k(x)||^2:
    what of K_x lies outside of the features' span has nothing in common with any atom, and counts in full.
    The mean of C over the reference is the effective dimension N(lambda).
    """

    dictionary: Dictionary
    B: Array  # (L, r)
    lam: float

    @classmethod
    def of(cls, ref: ArrayLike, dictionary: Dictionary, lam: float | None = None, tol: float = 1e-10) -> Self:
        """Learn the reference (n, d). ``lam``: None is lambda_* of Theorem 3.4; ``tol``: see Nystroem."""
        points = as_points(ref, "ref")
        if not len(points):
            raise ValueError("ref: no point")
        if lam is not None:
            check_range("lam", lam, 0.0, open_low=True)
        features = Nystroem(dictionary, tol=tol)
        psi = features(points)
        spectrum = Spectrum.of(psi.T @ psi / len(psi))
        lam = spectrum.least_lambda(len(psi)) if lam is None else lam
        kept = spectrum.s / (spectrum.s + lam)
        much = kept > NEGLIGIBLE
        return cls(dictionary, features.projection @ (spectrum.U[:, much] * np.sqrt(kept[much])), lam)

    def __call__(self, x: ArrayLike) -> Array:
        """C(x) of the points x (n, d): at most K(x, x) / lambda."""
        return np.asarray(self.novelty(x) * self._norm / self.lam)

    def novelty(self, x: ArrayLike) -> Array:
        """lambda C(x) / K(x, x) in [0, 1]: near 0 amid the reference, 1 where nothing of it was ever near."""
        return 1.0 - self.coverage(x)

    def coverage(self, x: ArrayLike) -> Array:
        """1 - novelty."""
        points, D = as_points(x), self.dictionary
        if points.shape[1] != D.atoms.shape[1]:
            raise ValueError(f"x: dimension {points.shape[1]}, but the dictionary has {D.atoms.shape[1]}")
        common = D.values(points) @ self.B
        covered: Array = np.minimum(np.einsum("ij,ij->i", common, common) / self._norm, 1.0)
        return covered

    @property
    def _norm(self) -> int:
        """K(x, x): a dictionary of several widths is a sum of as many kernels."""
        return 1 if self.dictionary.widths is None else len(np.unique(self.dictionary.widths))
