"""Where, and at which scale, two windows differ: a sparse relative density ratio (after Peifer 2021, Ch. 2).

GRULSIF's loss of one node is separable in the values r(x_n), so r = 1 + f with f sparse over centres and
widths is an instance of Ch. 2: min kappa J(f) + 1/2 ||alpha||^2 + gamma ||alpha||_0. Without a change there
is mostly no atom at all. It explains; it does not detect: it knows nothing of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from estimators.core.base import check_range
from estimators.core.kernels import as_points
from estimators.core.parameters import Parameters
from estimators.core.types import Floats
from estimators.sparse.dual import DualSolution, Quadratic, solve_dual
from estimators.sparse.grid import MultiScaleGrid

WIDTHS = (0.02, 0.75, 10)  # geometric, in units of the reference's spread
QUIET_PAIRS = 40
QUIET_SHARE = 0.75  # of the quiet pairs have no atom


@dataclass(frozen=True)
class Component:
    """One place where mass was gained or lost."""

    center: Floats  # (p,)
    width: float
    mass: float  # q alpha of the cells whose nearest peak this is; > 0: gained
    before: float  # share of the reference within two widths of the centre
    after: float  # the same of the test window


class SparseRatioExplainer(Parameters):
    """Where, and at which scale, two windows differ.

    Parameters
    ----------
    a_rel : float in (0, 1), default=0.1
        Share of the test window in the denominator, GRULSIF's alpha.
    kappa : float > 0, default=300.0
        Weight of the loss.
    gamma : float >= 0, optional
        Price of support on the scale measure; by default taken from the reference: of windows drawn from the
        reference alone, a quarter would have an atom.
    grid : MultiScaleGrid, optional
        For p <= 2 by default one around both windows.
    places : int >= 2, default=341
        Its centres, if p = 1.
    seed : int, default=0
        Of those draws.

    Attributes
    ----------
    score_ : float
        Estimate of the divergence.
    components_ : tuple of Component
        Places where mass was gained or lost, the largest first.
    solution_ : DualSolution
        Values, iterations, and whether it converged.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import SparseRatioExplainer
    >>> rng = np.random.default_rng(0)
    >>> ref, test = rng.normal(size=400), rng.normal(size=200)
    >>> test[:40] = rng.normal(4.0, 0.2, 40)
    >>> first = SparseRatioExplainer().fit(ref, test).components_[0]
    >>> bool(abs(first.center[0] - 4.0) < 0.3), first.mass > 0.0
    (True, True)
    """

    score_: float
    components_: tuple[Component, ...]
    solution_: DualSolution

    def __init__(self, *, a_rel: float = 0.1, kappa: float = 300.0, gamma: float | None = None,
                 grid: MultiScaleGrid | None = None, places: int = 341, seed: int = 0) -> None:  # fmt: skip
        check_range("a_rel", a_rel, 0.0, 1.0, open_low=True, open_high=True)
        check_range("kappa", kappa, 0.0, open_low=True)
        if gamma is not None:
            check_range("gamma", gamma, 0.0)
        check_range("places", places, 2)
        self.a_rel, self.kappa, self.gamma = a_rel, kappa, gamma
        self.grid, self.places, self.seed = grid, places, seed

    def fit(self, ref: ArrayLike, test: ArrayLike) -> Self:
        """Compare two windows.

        Parameters
        ----------
        ref : array_like of shape (n, p)
        test : array_like of shape (m, p)

        Returns
        -------
        self
        """
        before, after = as_points(ref, "ref"), as_points(test, "test")
        for name, window in (("ref", before), ("test", after)):
            if len(window) < 2:
                raise ValueError(f"{name}: needs at least two values, got {len(window)}")
        if before.shape[1] != after.shape[1]:
            raise ValueError(f"test: dimension {after.shape[1]}, but ref has {before.shape[1]}")
        grid = self.grid or _grid(before, after, self.places)
        K = grid.design(np.concatenate([before, after]))
        b, c = self._loss(len(before), len(after))
        gamma = self.quiet_gamma(K[: len(before)], len(after)) if self.gamma is None else self.gamma
        found = solve_dual(K, grid.weights, Quadratic(b, c, self.kappa), gamma, max_iter=100)
        self.solution_, self.score_ = found, float((b - 0.5 * c * found.fitted) @ found.fitted)
        self.components_ = _components(grid, found.alpha, before, after)
        return self

    def quiet_gamma(self, K: Floats, n_test: int) -> float:
        """The price at which ``QUIET_SHARE`` of quiet pairs have no atom.

        alpha = 0 is optimal exactly if |kappa K' b| <= sqrt(2 gamma) everywhere, so nothing has to be solved.

        Parameters
        ----------
        K : ndarray of shape (n, G), float64
            Design of the reference.
        n_test : int
            Samples of the test window.

        Returns
        -------
        float
        """
        rng, n = np.random.default_rng(self.seed), len(K)
        b, _ = self._loss(n, n_test)
        largest = np.empty(QUIET_PAIRS)
        for k in range(QUIET_PAIRS):
            drawn = rng.integers(0, n, n + n_test)
            weight = np.bincount(drawn, weights=b, minlength=n)
            largest[k] = self.kappa * np.abs(weight @ K).max()
        least = 1e-9 * self.kappa  # constant windows: rounding is no change
        return float(0.5 * max(np.quantile(largest, QUIET_SHARE), least) ** 2)

    def _loss(self, n: int, m: int) -> tuple[Floats, Floats]:
        """b and c of J(f) = sum 1/2 c_n f_n^2 - b_n f_n: reference samples first."""
        c = np.concatenate([np.full(n, (1.0 - self.a_rel) / n), np.full(m, self.a_rel / m)])
        b = np.concatenate([np.zeros(n), np.full(m, 1.0 / m)]) - c
        return b, c


def _grid(before: Floats, after: Floats, places: int) -> MultiScaleGrid:
    p = before.shape[1]
    spread = float(before.std(axis=0).max()) or float(after.std(axis=0).max()) or 1.0
    low, high, n = WIDTHS
    both = np.concatenate([before, after])
    if p == 1:
        # A jump far beyond the reference must not stretch the grid until narrow atoms fall between places.
        reach = np.quantile(before, [0.0, 1.0]) + np.array([-1.0, 1.0]) * spread
        inside = (both >= reach[0] - 20.0 * spread) & (both <= reach[1] + 20.0 * spread)
        lo, hi = min(reach[0], both[inside].min()), max(reach[1], both[inside].max())
        least = max(low * spread, 0.5 * (hi - lo) / places)
        return MultiScaleGrid.regular(lo, hi, places, np.geomspace(least, max(high * spread, 2.0 * least), n))
    if p == 2:
        return MultiScaleGrid.build(both, np.geomspace(0.15, high, 5) * spread, spacing=1.0)
    raise ValueError(f"ref: {p} dimensions; explain components one by one, or pairs, or give a grid")


def _components(grid: MultiScaleGrid, alpha: Floats, before: Floats, after: Floats) -> tuple[Component, ...]:
    peaks = grid.local_maxima(alpha)
    if not len(peaks):
        return ()
    cells = grid.atoms
    atoms = cells.take(peaks)
    index = atoms.distinct(alpha[peaks])
    atoms, heights = atoms.take(index), alpha[peaks[index]]
    on = np.flatnonzero(alpha)
    # Each cell belongs to the peak of its own sign that is nearest, in units of widths and of their ratio.
    distance = np.linalg.norm(cells.centers[on][:, None] - atoms.centers, axis=2) / atoms.widths
    distance += np.abs(np.log(cells.widths[on][:, None] / atoms.widths))
    distance[np.sign(alpha[on])[:, None] != np.sign(heights)] = np.inf
    mass = np.bincount(distance.argmin(axis=1), weights=(grid.weights * alpha)[on], minlength=len(atoms))
    found = [Component(z, float(w), float(m), _share(before, z, w), _share(after, z, w))
             for z, w, m in zip(atoms.centers, atoms.widths, mass, strict=True)]  # fmt: skip
    return tuple(sorted(found, key=lambda part: -abs(part.mass)))


def _share(window: Floats, center: Floats, width: float) -> float:
    """Share of a window within two widths of a centre."""
    return float((np.linalg.norm(window - center, axis=1) <= 2.0 * width).mean())
