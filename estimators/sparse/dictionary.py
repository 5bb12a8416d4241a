"""A dictionary with widths of its own: few atoms where a single width needs many (after Peifer 2021, Ch. 2).

The density of quiet values is written sparsely over centres and widths: narrow atoms on narrow modes, wide
ones on wide. A coarse cover is added, since a change may put values where there were none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from estimators.core.atoms import Atoms
from estimators.core.base import check_range
from estimators.core.dictionary import coherent_subset
from estimators.core.kernels import as_points
from estimators.core.parameters import Parameters
from estimators.core.types import Floats
from estimators.sparse.dual import Tube, solve_relative
from estimators.sparse.grid import MultiScaleGrid
from estimators.sparse.relaxation import Relaxation

POINTS = 250  # of the values, evenly picked
PLACES = 341  # centres of the grid in one dimension; candidates in more
TOL = 0.05
PRICE = Relaxation.huber(1000.0, 0.3)  # on a measure of volume one, for a target of size one
WIDTHS = (0.02, 0.7, 10)  # geometric, in units of the values' spread
COVER_COHERENCE = 0.1
CANDIDATE_COHERENCE = 0.9  # of the places, from three dimensions on: that of a dictionary of one width


class SparseDictionary(Parameters):
    """Few atoms of different widths for a cloud of values.

    Parameters
    ----------
    rho : float in [0, 1), default=0.2
        Sparsity.
    power : float in (0, 1], default=0.25
        Of the density that is fitted; below one it lifts thin regions.
    cover : float > 0, default=0.25
        Width of the coarse cover, in units of the values' spread; made wider until it takes at most half of
        the atoms.
    max_atoms : int >= 2, default=32
        Hard budget.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import SparseDictionary
    >>> atoms = SparseDictionary(max_atoms=12).fit(np.random.default_rng(0).normal(size=300))
    >>> len(atoms) <= 12, len(set(atoms.widths)) > 1
    (True, True)
    """

    def __init__(self, *, rho: float = 0.2, power: float = 0.25, cover: float = 0.25,
                 max_atoms: int = 32) -> None:  # fmt: skip
        check_range("rho", rho, 0.0, 1.0, open_high=True)
        check_range("power", power, 0.0, 1.0, open_low=True)
        check_range("cover", cover, 0.0, open_low=True)
        check_range("max_atoms", max_atoms, 2)
        self.rho, self.power, self.cover, self.max_atoms = rho, power, cover, max_atoms

    def fit(self, X: ArrayLike) -> Atoms:
        """Atoms for values: those of the cover first, then peaks from the strongest on.

        Parameters
        ----------
        X : array_like of shape (n, p)

        Returns
        -------
        Atoms
        """
        points = as_points(X, "X")
        if len(points) < 2:
            raise ValueError(f"X: needs at least two values, got {len(points)}")
        points = points[np.linspace(0, len(points) - 1, min(len(points), POINTS)).astype(np.intp)]
        spread = float(points.std(axis=0).max())
        if spread == 0.0:
            return Atoms(points[:1], np.ones(1))  # one value: any width tells another one from it
        cover = self._cover(points, spread)
        density = _density(points)
        target = (density / density.max()) ** self.power
        grid = _grid(points, spread, float(cover.widths[0]))
        found = solve_relative(grid.design(points), grid.weights, Tube(target, TOL), self.rho,
                               PRICE, max_iter=300)  # fmt: skip
        peaks = grid.local_maxima(found.alpha)
        strength = np.concatenate([np.full(len(cover), np.inf), found.alpha[peaks]])
        both = Atoms(np.concatenate([cover.centers, grid.atoms.centers[peaks]]),
                     np.concatenate([cover.widths, grid.atoms.widths[peaks]]))  # fmt: skip
        return both.take(both.distinct(strength, self.max_atoms))

    def _cover(self, points: Floats, spread: float) -> Atoms:
        width = self.cover * spread
        while True:
            centers = coherent_subset(points, COVER_COHERENCE, width, budget=self.max_atoms)
            if len(centers) <= max(1, self.max_atoms // 2):
                return Atoms(centers, np.full(len(centers), width))
            width *= 1.5


def _density(points: Floats) -> Floats:
    """Gaussians on the points, each as wide as the way to its k-th neighbour."""
    n, p = points.shape
    distance = cdist(points, points)
    k = min(max(5, n // 15), n - 1)
    b = np.maximum(np.partition(distance, k, axis=1)[:, k], 1e-3 * points.std(axis=0).max())
    density: Floats = (np.exp(-0.5 * (distance / b) ** 2) / b**p).mean(axis=1)
    return density


def _grid(points: Floats, spread: float, cover: float) -> MultiScaleGrid:
    """Places and widths to choose from; ``cover`` is the width of the coarse cover."""
    low, high, n = WIDTHS
    p = points.shape[1]
    widths = np.geomspace(low, high, n) * spread
    if p == 1:
        margin = widths.mean()
        return MultiScaleGrid.regular(points.min() - margin, points.max() + margin, PLACES, widths)
    if p == 2:
        return MultiScaleGrid.candidates(points, widths, "scale")
    # Points are far apart, so that good atoms are wide, and most of them would be alike. And atoms of two
    # nearly equal widths share no function, but the weight: the widest ones are as wide as the cover.
    places = coherent_subset(points, CANDIDATE_COHERENCE, cover)
    return MultiScaleGrid.candidates(places, np.geomspace(low * spread, cover, n), "scale")
