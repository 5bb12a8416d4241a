"""Gaussian atoms of many widths: k(x, z; w) = exp(-||x - z||^2 / (2 w^2)) at a short list of (z, w)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from estimators.core.kernels import as_points
from estimators.core.types import Floats

SAME = 0.99  # atoms whose functions correlate more than this are one atom


@dataclass(frozen=True)
class Atoms:
    """Centres z (L, p) and widths w (L,) of L atoms."""

    centers: Floats
    widths: Floats

    def __post_init__(self) -> None:
        centers, widths = as_points(self.centers, "centers"), np.asarray(self.widths, dtype=np.float64)
        if widths.shape != (len(centers),):
            raise ValueError(f"widths: shape {widths.shape}, but there are {len(centers)} centers")
        if not ((widths > 0.0) & np.isfinite(widths)).all():
            raise ValueError(f"widths: must be positive, got {widths[~(widths > 0.0)]}")
        object.__setattr__(self, "centers", centers)
        object.__setattr__(self, "widths", widths)

    def __len__(self) -> int:
        return len(self.widths)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Atoms:
        return Atoms(self.centers[index], self.widths[index])

    def transform(self, x: ArrayLike) -> Floats:
        """Values (n, L) of the atoms at the points x (n, p)."""
        points = as_points(x)
        if points.shape[1] != self.centers.shape[1]:
            raise ValueError(f"x: dimension {points.shape[1]}, but the atoms have {self.centers.shape[1]}")
        K: Floats = cdist(points, self.centers, "sqeuclidean")
        K *= -0.5 / self.widths**2
        return np.exp(K, out=K)

    def correlation(self) -> Floats:
        """(L, L) correlation in L2(R^p) of the atoms' functions."""
        sum2 = self.widths[:, None] ** 2 + self.widths**2
        distance2 = cdist(self.centers, self.centers, "sqeuclidean")
        shape = (2.0 * np.outer(self.widths, self.widths) / sum2) ** (self.centers.shape[1] / 2)
        correlation: Floats = shape * np.exp(-0.5 * distance2 / sum2)
        return correlation

    def distinct(self, strength: Floats, most: int | None = None) -> NDArray[np.intp]:
        """Indices, strongest first, of atoms that do not repeat a stronger one; at most ``most``."""
        correlation = self.correlation()
        kept: list[int] = []
        for k in np.argsort(-np.abs(strength), kind="stable"):
            if most is not None and len(kept) == most:
                break
            if not (correlation[k][kept] > SAME).any():
                kept.append(int(k))
        return np.array(kept, np.intp)
