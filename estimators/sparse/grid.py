"""Grid over centres and widths on which a coefficient function alpha(z, w) lives (Peifer 2021, Ch. 2).

A model is f(x) = sum_j q_j alpha_j k(x, z_j; w_j) over the cells j of the grid: the integral (2.7) over all
centres and all widths. q is the measure of a cell, and the price of support gamma has its units:

    lebesgue      dz dw
    probability   dz dw, brought to a sum of one: what Algorithm 1's mean over draws computes
    scale         dz dw / w^(p + 1), brought to a sum of one: narrow cells weigh as much as wide ones
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from estimators.core.atoms import Atoms
from estimators.core.kernels import as_points
from estimators.core.types import Floats

MEASURES = ("lebesgue", "probability", "scale")
MOST_CELLS = 200_000  # of a regular grid; beyond it the design matrix alone is gigabytes


@dataclass(frozen=True)
class MultiScaleGrid:
    """Centres times widths: cell s M + m has centre places[m] and width scales[s].

    Made by ``build``, ``regular`` or ``candidates``.

    Parameters
    ----------
    places : ndarray of shape (M, p), float64
        Centres.
    scales : ndarray of shape (S,), float64
        Widths, increasing.
    weights : ndarray of shape (S M,), float64
        q, the measure of each cell.
    measure : {"lebesgue", "probability", "scale"}
        What q is; the price of support has its units.
    shape : tuple of int, optional
        Of the places where they form a regular grid; None where they are candidates.

    References
    ----------
    M. Peifer, "Balancing fit and complexity in learned representations", thesis, 2021: Ch. 2, (2.7).

    Examples
    --------
    >>> from estimators import MultiScaleGrid
    >>> grid = MultiScaleGrid.regular(0.0, 1.0, 11, [0.1, 0.2], "lebesgue")
    >>> grid.design([0.0, 0.5]).shape
    (2, 22)
    """

    places: Floats
    scales: Floats
    weights: Floats  # q (S M,)
    measure: str
    shape: tuple[int, ...] | None = None

    @classmethod
    def build(cls, X: ArrayLike, widths: ArrayLike, spacing: float = 0.5, margin: float = 1.0,
              measure: str = "scale") -> MultiScaleGrid:  # fmt: skip
        """Regular grid around points.

        Parameters
        ----------
        X : array_like of shape (n, p)
            Points, p <= 2.
        widths : array_like of shape (S,)
            Positive and increasing.
        spacing : float, default=0.5
            Step between centres, in units of the least width.
        margin : float, default=1.0
            Room beyond the points, in units of the geometric mean of the widths.
        measure : {"scale", "lebesgue", "probability"}

        Returns
        -------
        MultiScaleGrid
        """
        points, scales = as_points(X, "X"), _widths(widths)
        if not len(points):
            raise ValueError("X: no point to build a grid around")
        border = margin * float(np.exp(np.log(scales).mean()))
        lows, highs = points.min(axis=0) - border, points.max(axis=0) + border
        counts = np.ceil((highs - lows) / (spacing * scales[0])).astype(int) + 1
        return cls.regular(lows, highs, counts.tolist(), scales, measure)

    @classmethod
    def regular(cls, low: ArrayLike, high: ArrayLike, counts: Sequence[int] | int, widths: ArrayLike,
                measure: str = "scale") -> MultiScaleGrid:  # fmt: skip
        """Centres evenly spaced in each of p <= 2 directions.

        Parameters
        ----------
        low, high : array_like of shape (p,)
            First and last centre.
        counts : int or sequence of int
            Centres in each direction.
        widths : array_like of shape (S,)
            Positive and increasing.
        measure : {"scale", "lebesgue", "probability"}

        Returns
        -------
        MultiScaleGrid
        """
        lows, highs = (np.atleast_1d(np.asarray(x, dtype=np.float64)) for x in (low, high))
        shape = (counts,) if isinstance(counts, int) else tuple(int(n) for n in counts)
        if len(shape) > 2:
            raise ValueError(f"X: a regular grid in {len(shape)} dimensions is too large; give candidates")
        if min(shape) < 2 or not (highs > lows).all():
            raise ValueError(f"counts: a grid needs two places and room between them, got {shape}")
        scales = _widths(widths)
        if int(np.prod(shape)) * len(scales) > MOST_CELLS:
            raise ValueError(f"widths: {shape} places times {len(scales)} widths are more than {MOST_CELLS}")
        axes = [np.linspace(a, b, n) for a, b, n in zip(lows, highs, shape, strict=True)]
        places = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
        cell = float(np.prod([axis[1] - axis[0] for axis in axes]))
        return cls(places, scales, _weights(measure, scales, len(places), cell, len(shape)), measure, shape)

    @classmethod
    def candidates(cls, places: ArrayLike, widths: ArrayLike,
                   measure: str = "probability") -> MultiScaleGrid:  # fmt: skip
        """Given centres, all widths at each (PII''): for p >= 3, where a regular grid would be too large.

        Parameters
        ----------
        places : array_like of shape (M, p)
            Centres.
        widths : array_like of shape (S,)
            Positive and increasing.
        measure : {"probability", "scale", "lebesgue"}

        Returns
        -------
        MultiScaleGrid
        """
        points, scales = as_points(places, "places"), _widths(widths)
        if not len(points):
            raise ValueError("places: no candidate")
        q = _weights(measure, scales, len(points), 1.0 / len(points), points.shape[1])
        return cls(points, scales, q, measure)

    @property
    def atoms(self) -> Atoms:
        """All cells as atoms."""
        n = len(self.scales)
        return Atoms(np.tile(self.places, (n, 1)), np.repeat(self.scales, len(self.places)))

    @property
    def volume(self) -> float:
        """Measure of the whole grid."""
        return float(self.weights.sum())

    @property
    def id(self) -> str:
        """Name of exactly this grid and measure: sites may only share what was found on the same one."""
        digest = hashlib.sha256(f"gaussian {self.measure} {self.places.shape} {self.scales.shape}".encode())
        for part in (self.places, self.scales, self.weights):
            digest.update(np.ascontiguousarray(part, dtype="<f8").tobytes())
        return digest.hexdigest()[:16]

    def design(self, X: ArrayLike) -> Floats:
        """Every atom at every point.

        Parameters
        ----------
        X : array_like of shape (n, p)

        Returns
        -------
        ndarray of shape (n, G), float64
        """
        points = as_points(X, "X")
        if points.shape[1] != self.places.shape[1]:
            raise ValueError(f"X: dimension {points.shape[1]}, but the grid has {self.places.shape[1]}")
        distance2: Floats = cdist(points, self.places, "sqeuclidean")
        K = np.empty((len(points), len(self.scales), len(self.places)))
        np.multiply(distance2[:, None, :], (-0.5 / self.scales**2)[:, None], out=K)
        return np.exp(K, out=K).reshape(len(points), -1)

    def local_maxima(self, alpha: Floats) -> NDArray[np.intp]:
        """Cells where |alpha| > 0 is largest among the neighbours in width and place; one per plateau.

        Candidates have no neighbours in place: each has its maxima over the widths.

        Parameters
        ----------
        alpha : ndarray of shape (G,), float64

        Returns
        -------
        ndarray of int
        """
        shape = (len(self.scales), *(self.shape or (len(self.places),)))
        height = np.pad(np.abs(alpha).reshape(shape), 1)
        inner = tuple(slice(1, -1) for _ in shape)
        top = height[inner]
        peak = top > 0.0
        reach = [(-1, 0, 1)] * len(shape) if self.shape else [(-1, 0, 1), (0,)]
        for step in itertools.product(*reach):
            if any(step):
                other = height[tuple(slice(1 + k, 1 + k + n) for k, n in zip(step, shape, strict=True))]
                peak &= top > other if step > (0,) * len(shape) else top >= other
        return np.flatnonzero(peak)


def _widths(widths: ArrayLike) -> Floats:
    scales = np.atleast_1d(np.asarray(widths, dtype=np.float64))
    if scales.ndim != 1 or not len(scales) or not (scales > 0.0).all() or (np.diff(scales) <= 0.0).any():
        raise ValueError(f"widths: must be positive and increasing, got {scales}")
    return scales


def _weights(measure: str, scales: Floats, n_places: int, cell: float, p: int) -> Floats:
    if measure not in MEASURES:
        raise ValueError(f"measure: must be one of {', '.join(MEASURES)}, got {measure!r}")
    steps: Any = np.gradient(scales) if len(scales) > 1 else np.ones(1)
    per_scale = cell * steps / (scales ** (p + 1) if measure == "scale" else 1.0)
    q: Floats = np.repeat(per_scale, n_places)
    return q if measure == "lebesgue" else q / q.sum()
