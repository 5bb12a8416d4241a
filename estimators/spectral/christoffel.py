"""The regularised Christoffel function (Eq. 19): how little a point has in common with a reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from estimators.core.base import check_range
from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.kernels import as_points
from estimators.core.types import Floats
from estimators.spectral.filters import Spectrum

NEGLIGIBLE = 1e-3  # directions that can cover no more than this are left out


@dataclass(frozen=True, eq=False)
class Christoffel:
    """The regularised Christoffel function: how little a point has in common with a reference.

    C(x) = <K_x, (lambda I + Sigma)^-1 K_x> with Sigma the mean of K_x K_x' over the reference (Eq. 19). With
    Sigma = U diag(s) U' in features psi = P'k of a dictionary,

        lambda C(x) = K(x, x) - sum_j s_j / (s_j + lambda) (u_j'psi(x))^2 = K(x, x) - ||B'k(x)||^2:

    what of K_x lies outside of the features' span has nothing in common with any atom, and counts in full.
    The mean of C over the reference is the effective dimension N(lambda). Made by ``Christoffel.of``.

    Parameters
    ----------
    dictionary : Dictionary
        The kernel centres.
    B : ndarray of shape (L, r), float64
        From kernel values to what the reference covers.
    lam : float > 0
        lambda.

    References
    ----------
    D. H. Nguyen, S. Pereverzyev and W. Zellinger, "General regularization in covariate shift adaptation":
    Eq. 19, Theorem 3.4.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import Christoffel, Dictionary
    >>> ref = np.random.default_rng(0).normal(size=(500, 1))
    >>> known = Christoffel.of(ref, Dictionary.build([ref], mu_graph=0.5))
    >>> known.novelty([[0.0], [20.0]]).round(1)
    array([0., 1.])
    """

    dictionary: Dictionary
    B: Floats
    lam: float

    @classmethod
    def of(cls, ref: ArrayLike, dictionary: Dictionary, lam: float | None = None, tol: float = 1e-10) -> Self:
        """Learn a reference.

        Parameters
        ----------
        ref : array_like of shape (n, d)
            Points of the reference.
        dictionary : Dictionary
            The kernel centres.
        lam : float > 0, optional
            By default lambda_* of Theorem 3.4.
        tol : float, default=1e-10
            As of Nystroem.

        Returns
        -------
        Christoffel

        Raises
        ------
        ValueError
            If there is no point.
        """
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

    def __call__(self, x: ArrayLike) -> Floats:
        """C(x) of points.

        Parameters
        ----------
        x : array_like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,), float64
            At most K(x, x) / lambda.

        Raises
        ------
        ValueError
            If the points have another dimension than the dictionary.
        """
        return np.asarray(self.novelty(x) * self._norm / self.lam)

    def novelty(self, x: ArrayLike) -> Floats:
        """lambda C(x) / K(x, x) of points.

        Parameters
        ----------
        x : array_like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,), float64
            In [0, 1]: near 0 amid the reference, 1 where nothing of it was ever near.

        Raises
        ------
        ValueError
            If the points have another dimension than the dictionary.
        """
        return 1.0 - self.coverage(x)

    def coverage(self, x: ArrayLike) -> Floats:
        """1 - novelty.

        Parameters
        ----------
        x : array_like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,), float64
            In [0, 1].

        Raises
        ------
        ValueError
            If the points have another dimension than the dictionary.
        """
        points, D = as_points(x), self.dictionary
        if points.shape[1] != D.atoms.shape[1]:
            raise ValueError(f"x: dimension {points.shape[1]}, but the dictionary has {D.atoms.shape[1]}")
        common = D.values(points) @ self.B
        covered: Floats = np.minimum(np.einsum("ij,ij->i", common, common) / self._norm, 1.0)
        return covered

    @property
    def _norm(self) -> int:
        """K(x, x): a dictionary of several widths is a sum of as many kernels."""
        return 1 if self.dictionary.widths is None else len(np.unique(self.dictionary.widths))
