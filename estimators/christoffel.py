"""The regularised Christoffel function (Eq. 19): how little a point has in common with a reference."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from estimators.base import check_range
from estimators.features import Nystroem
from estimators.kernels import Array, as_points
from estimators.spectral import Spectrum


class Christoffel:
    """C(x) = <K_x, (lambda I + Sigma)^-1 K_x> with Sigma the mean of K_x K_x' over the reference.

    In features it is psi(x)'(lambda I + Sigma)^-1 psi(x); what of K_x lies outside of their span has nothing
    in common with any atom, and counts 1/lambda. The mean over the reference is the effective dimension.

    Parameters
    ----------
    features : Nystroem features, of a kernel with K(x, x) = 1.
    lam : None is lambda_* of Theorem 3.4.
    """

    def __init__(self, features: Nystroem, lam: float | None = None) -> None:
        if features.outside:
            raise ValueError("features: this score itself counts what lies outside of the atoms' span")
        if lam is not None:
            check_range("lam", lam, 0.0, open_low=True)
        self.features, self.lam = features, lam

    def fit(self, ref: ArrayLike) -> Christoffel:
        """Learn the reference (n, d)."""
        points = as_points(ref, "ref")
        if not len(points):
            raise ValueError("ref: no point")
        psi = self.features(points)
        self.spectrum_ = Spectrum.of(psi.T @ psi / len(psi))
        self.lam_ = self.spectrum_.least_lambda(len(psi)) if self.lam is None else self.lam
        self.effective_dimension_ = self.spectrum_.effective_dimension(self.lam_)
        return self

    def __call__(self, x: ArrayLike) -> Array:
        """C(x) of the points x (n, d): at most 1/lambda."""
        psi = self.features(x)
        within = np.square(psi @ self.spectrum_.U) @ (1.0 / (self.lam_ + self.spectrum_.s))
        outside = np.maximum(1.0 - np.einsum("ij,ij->i", psi, psi), 0.0)
        return np.asarray(within + outside / self.lam_)

    def novelty(self, x: ArrayLike) -> Array:
        """lambda C(x) in (0, 1]: near 0 amid the reference, 1 where nothing of it was ever near."""
        return np.minimum(self.lam_ * self(x), 1.0)
