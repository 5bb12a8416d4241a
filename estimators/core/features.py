"""Nystroem features: psi(x) = K_D^(-1/2) k_D(x) (Eq. 36), truncated to numerical rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from estimators.core.dictionary import Dictionary
from estimators.core.kernels import as_points
from estimators.core.types import Floats

Features = Callable[[ArrayLike], Floats]  # points (n, d) to features (n, r)


class Nystroem:
    """Map points to the leading Nystroem features of a dictionary.

    With K_D = U diag(e) U' the features are psi(x) = diag(e)^(-1/2) U' k_D(x): Eq. 36 up to a rotation, which
    changes neither scores nor ratios. psi(x)'psi(y) is the Nystroem approximation of K(x, y), so
    ||psi(x)|| <= 1. With several widths K_D is that of their mean kernel, 1/S of the Gram within each of the
    S widths.

    Parameters
    ----------
    dictionary : Dictionary
        The kernel centres.
    tol : float in [0, 1), default=1e-10
        Eigenvalues below ``tol`` times the largest are left out: a coherence dictionary is very redundant,
        and every later cost goes with r^2.
    rank : int, optional
        Most features.
    jitter : float >= 0, default=0.0
        Added to the diagonal of K_D (the authors' program adds 1e-6); truncation makes it unnecessary.
    outside : bool, default=False
        Add one more feature, sqrt(1 - ||psi(x)||^2): how far x lies out of the span of the atoms. Without it
        a value far from all of them has no features at all, and a large jump looks like little.

    Attributes
    ----------
    projection : ndarray of shape (L, r), float64
        From kernel values to features.
    rank : int
        Number of features.

    Raises
    ------
    ValueError
        If ``tol`` is outside of its range.

    References
    ----------
    "Collaborative likelihood-ratio estimation over graphs", JMLR 26(259), 2025: Eq. 36.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import Dictionary, Nystroem
    >>> psi = Nystroem(Dictionary(np.array([[-1.0], [0.0], [1.0]]), sigma=1.0))
    >>> psi.rank
    3
    >>> x = np.array([[0.0], [1.0]])  # on two atoms: the kernel is exact there
    >>> (psi(x) @ psi(x).T).round(3)
    array([[1.   , 0.607],
           [0.607, 1.   ]])
    """

    def __init__(self, dictionary: Dictionary, tol: float = 1e-10, rank: int | None = None,
                 jitter: float = 0.0, outside: bool = False) -> None:  # fmt: skip
        if not 0.0 <= tol < 1.0:
            raise ValueError(f"tol: relative eigenvalue tolerance must be in [0, 1), got {tol}")
        self.dictionary, self.outside = dictionary, outside
        K = dictionary.gram()
        e, U = np.linalg.eigh(K + jitter * np.eye(len(K)))
        # Never below rounding: an eigenvalue of size eps carries no digits of its own.
        keep = e > max(tol, len(e) * np.finfo(float).eps) * e[-1]
        if rank is not None:
            keep[: max(len(e) - rank, 0)] = False
        e, U = e[keep][::-1], U[:, keep][:, ::-1]
        U *= np.where(U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])] < 0, -1.0, 1.0)  # one sign, always
        self.projection: Floats = np.ascontiguousarray(U / np.sqrt(e * dictionary.n_widths))  # (L, r)

    @property
    def rank(self) -> int:
        """Number of features r."""
        return int(self.projection.shape[1]) + self.outside

    def __call__(self, x: ArrayLike) -> Floats:
        """Features of points.

        Parameters
        ----------
        x : array_like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, r), float64

        Raises
        ------
        ValueError
            If the points have another dimension than the dictionary.
        """
        points, D = as_points(x), self.dictionary
        if points.shape[1] != D.atoms.shape[1]:
            raise ValueError(f"x: dimension {points.shape[1]}, but the dictionary has {D.atoms.shape[1]}")
        features: Floats = D.values(points) @ self.projection
        if self.outside:
            rest = np.sqrt(np.maximum(1.0 - np.einsum("ij,ij->i", features, features), 0.0))
            return np.column_stack([features, rest])
        return features


@dataclass(frozen=True)
class Affine:
    """psi(x) = (x - centre) / scale, by the root of d: a mean square of one where it was made."""

    centre: Floats  # (d,)
    scale: Floats  # (d,)

    @classmethod
    def of(cls, x: Floats, weights: Floats) -> Self:
        """Centre and scale of the points x (n, d); a component that is constant stays as it is."""
        centre = np.average(x, axis=0, weights=weights)
        spread = np.sqrt(np.average(np.square(x - centre), axis=0, weights=weights))
        return cls(centre, np.where(spread > 0.0, spread, 1.0) * np.sqrt(x.shape[1]))

    def __call__(self, x: ArrayLike) -> Floats:
        return (as_points(x) - self.centre) / self.scale


class WithConstant:
    """The features of the kernel K + 1: those of K, and a one. Its functions include the constants."""

    def __init__(self, features: Features) -> None:
        self.features = features

    def __call__(self, x: ArrayLike) -> Floats:
        """Features (n, r + 1) of the points x (n, d)."""
        psi = self.features(x)
        return np.column_stack([psi, np.ones(len(psi))])
