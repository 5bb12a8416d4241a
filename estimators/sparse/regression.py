"""Sparse multi-scale regression: a signal as few Gaussians, each with its own width (Peifer 2021, Ch. 2, 4).

Smallest support of alpha(z, w) with |y_n - f(x_n)| <= tau + u_n, the relaxation u_n at a price; the peaks of
|alpha| are the atoms. Coefficients are then refitted on the samples that were not strongly relaxed: a plain
refit would let the outliers back in.
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from estimators.core.atoms import Atoms
from estimators.core.base import check_range
from estimators.core.regressor import Regressor, as_labels
from estimators.core.types import Floats
from estimators.sparse.dual import DualSolution, Tube, solve_dual, solve_relative
from estimators.sparse.grid import MultiScaleGrid
from estimators.sparse.relaxation import Relaxation

RIDGE = 1e-8  # times N, of the refit
OUTLIER = 5.0  # tolerances of relaxation beyond which a sample has no part in the refit
RESTS = 0.5  # samples that an atom must rest on: one made of outliers alone goes with them
FAR = 100.0  # spreads; a capped reading pulls no harder from further away, but numbers lose their digits
CENTRES = 200  # at most, in more than two dimensions
NOISE = 3.0  # deviations of the noise within the default tolerance


class SparseMultiScaleRegressor(Regressor):
    """A signal as few Gaussians of different widths: f(x) = sum_l coef_l k(x, z_l; w_l).

    Parameters
    ----------
    tol : float > 0, optional
        tau; by default three deviations of the noise, taken from differences between neighbours in X or from
        what a linear regression leaves, whichever is less.
    rho : float in [0, 1), default=0.2
        Sparsity, free of units.
    gamma : float >= 0, optional
        The same in units of the grid's measure, instead of ``rho``.
    relaxation : Relaxation, optional
        By default Relaxation.huber(100, 0.3), which caps the pull of a sample, for signals of unit size on
        the lebesgue measure.
    refine : bool, default=True
        Move centres and widths off the grid, by variable projection, if they are fewer numbers than samples.
    max_atoms : int, optional
        Keep the strongest.
    grid : MultiScaleGrid, optional
        By default one around X with 16 widths from twice the spacing to a fifth of the range; for p > 2, the
        centres are points of X, at most 200, with 8 widths from a tenth of the range to all of it.
    max_iter : int, default=400
        Of the solver.

    Attributes
    ----------
    atoms_ : Atoms
        Centres and widths.
    coef_ : ndarray of shape (L,), float64
    multipliers_ : ndarray of shape (n,), float64
        Pull of each sample.
    slack_ : ndarray of shape (n,), float64
        How far each sample was relaxed: large for outliers.
    solution_ : DualSolution
        Values, iterations, and whether it converged.
    n_features_in_ : int
        p.
    n_iter_ : int
        Of the solver.

    References
    ----------
    M. Peifer, "Balancing fit and complexity in learned representations", thesis, 2021: Ch. 2 and 4.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import SparseMultiScaleRegressor
    >>> x = np.linspace(-3.0, 3.0, 121)
    >>> y = np.exp(-0.5 * (x / 0.8) ** 2) - np.exp(-0.5 * ((x - 2.0) / 0.2) ** 2)
    >>> model = SparseMultiScaleRegressor(tol=0.05).fit(x, y)
    >>> bool(np.abs(model.predict(x) - y).max() < 0.1), len(model.atoms_) < 8
    (True, True)
    """

    _result = "coef_"
    atoms_: Atoms
    coef_: Floats
    multipliers_: Floats
    slack_: Floats
    solution_: DualSolution
    n_iter_: int

    def __init__(self, *, tol: float | None = None, rho: float = 0.2, gamma: float | None = None,
                 relaxation: Relaxation | None = None, refine: bool = True, max_atoms: int | None = None,
                 grid: MultiScaleGrid | None = None, max_iter: int = 400) -> None:  # fmt: skip
        if tol is not None:
            check_range("tol", tol, 0.0, open_low=True)
        check_range("rho", rho, 0.0, 1.0, open_high=True)
        if gamma is not None:
            check_range("gamma", gamma, 0.0)
        self.tol, self.rho, self.gamma = tol, rho, gamma
        self.relaxation = relaxation
        self.refine, self.max_atoms, self.grid, self.max_iter = refine, max_atoms, grid, max_iter

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Find the atoms, and fit their coefficients to the samples that are no outliers.

        Parameters
        ----------
        X : array_like of shape (n, p)
            Where the signal was read.
        y : array_like of shape (n,)
            What was read.

        Returns
        -------
        self
        """
        points, labels = self._table(X, "X"), as_labels(y)
        if labels.shape[1] != 1:
            raise ValueError(f"y: {labels.shape[1]} columns, but there is one signal")
        target = labels[:, 0]
        if len(points) != len(target):
            raise ValueError(f"y: {len(target)} values, but X has {len(points)}")
        if len(points) < 3:
            raise ValueError(f"X: needs at least three samples, got n_samples={len(points)}")
        tol = self.tol or max(NOISE * noise(points, target), 1e-9 * float(np.ptp(target)), 1e-300)
        relaxation = self.relaxation or Relaxation.huber(100.0, 0.3)
        if np.isfinite(relaxation.cap):
            target = near(target)
        grid = self.grid or _grid(points)
        K, fit = grid.design(points), Tube(target, tol)
        if self.gamma is None:
            found = solve_relative(K, grid.weights, fit, self.rho, relaxation, self.max_iter)
        else:
            found = solve_dual(K, grid.weights, fit, self.gamma, relaxation, self.max_iter)
        self.solution_, self.multipliers_, self.slack_ = found, found.multipliers, found.slack
        self.n_iter_ = found.n_iter
        peaks = grid.local_maxima(found.thresholded)
        atoms = grid.atoms.take(peaks)
        atoms = atoms.take(atoms.distinct(found.thresholded[peaks], self.max_atoms))
        kept = found.slack <= OUTLIER * tol
        if not kept.any():
            kept = np.ones(len(target), np.bool_)
        atoms = atoms.take((atoms.transform(points[kept]) ** 2).sum(axis=0) >= RESTS)
        if self.refine and 0 < len(atoms) * (points.shape[1] + 1) <= kept.sum():
            atoms = _refined(atoms, grid, points[kept], target[kept])
        self.atoms_, self.coef_ = atoms, _coefficients(atoms, points[kept], target[kept])
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """f at points.

        Parameters
        ----------
        X : array_like of shape (n, p)

        Returns
        -------
        ndarray of shape (n,), float64
        """
        points = self._same_table(X, "X")
        values: Floats = self.atoms_.transform(points) @ self.coef_
        return values


def noise(points: Floats, y: Floats) -> float:
    """Deviation of the noise of y, from its first differences in order of a one-dimensional x.

    In more dimensions from those between nearest neighbours, unless a linear regression leaves less:
    neighbours are far apart there, and both contain some of the signal.
    """
    n, p = points.shape
    if p == 1:
        return _deviation(np.diff(y[np.argsort(points[:, 0], kind="stable")])) / math.sqrt(2.0)
    from scipy.spatial import KDTree

    nearest = KDTree(points).query(points, k=2)[1][:, 1]
    apart = _deviation(y - y[nearest]) / math.sqrt(2.0)
    if n <= p + 1:
        return apart
    line = np.column_stack([points, np.ones(n)])
    rest = y - line @ np.linalg.lstsq(line, y, rcond=None)[0]
    return min(apart, _deviation(rest) * math.sqrt(n / (n - p - 1)))


def _deviation(values: Floats) -> float:
    return float(1.4826 * np.median(np.abs(values - np.median(values))))


def near(y: Floats) -> Floats:
    """Targets no further from the median than ``FAR`` spreads: exact under a cap, and the solver's sums
    keep their digits."""
    low, middle, high = np.quantile(y, [0.05, 0.5, 0.95])
    reach = FAR * (high - low)
    clipped: Floats = np.clip(y, middle - reach, middle + reach) if reach > 0.0 else y
    return clipped


def _grid(points: Floats) -> MultiScaleGrid:
    span = float(np.ptp(points, axis=0).max())
    if span == 0.0:
        raise ValueError("X: all points are equal, so there is no width to choose")
    if points.shape[1] > 2:
        some = points[np.linspace(0, len(points) - 1, min(len(points), CENTRES)).astype(np.intp)]
        return MultiScaleGrid.candidates(some, np.geomspace(span / 10.0, span, 8), "lebesgue")
    least = min(2.0 * span / len(points) ** (1.0 / points.shape[1]), span / 10.0)
    return MultiScaleGrid.build(points, np.geomspace(least, span / 5.0, 16), measure="lebesgue")


def _coefficients(atoms: Atoms, points: Floats, y: Floats) -> Floats:
    """Ridge least squares on the atoms (Sec. 2.4)."""
    P = atoms.transform(points)
    coef = np.linalg.solve(P.T @ P + RIDGE * len(y) * np.eye(len(atoms)), P.T @ y)
    return np.asarray(coef, dtype=np.float64)


def _refined(atoms: Atoms, grid: MultiScaleGrid, points: Floats, y: Floats) -> Atoms:
    """Variable projection: least squares in centres and log widths, the coefficients eliminated."""
    from scipy.optimize import least_squares  # as in sparse_dual.py

    n, p = atoms.centers.shape

    def unpack(x: Floats) -> Atoms:
        return Atoms(x[: n * p].reshape(n, p), np.exp(x[n * p :]))

    def residual(x: Floats) -> Floats:
        tried = unpack(x)
        miss: Floats = tried.transform(points) @ _coefficients(tried, points, y) - y
        return miss

    def jacobian(x: Floats) -> Floats:
        tried = unpack(x)
        P, coef = tried.transform(points), _coefficients(tried, points, y)
        away = (points[:, None, :] - tried.centers) / tried.widths[:, None] ** 2  # (N, n, p)
        slope = P * coef
        J = np.concatenate([(slope[:, :, None] * away).reshape(len(y), n * p),
                            slope * (away**2).sum(axis=2) * tried.widths**2], axis=1)  # fmt: skip
        Q = np.linalg.qr(P)[0]
        projected: Floats = J - Q @ (Q.T @ J)  # Kaufman: what the coefficients would take up anyway
        return projected

    lows, highs = grid.places.min(axis=0), grid.places.max(axis=0)
    low = np.concatenate([np.tile(lows, n), np.full(n, np.log(grid.scales[0] / 2.0))])
    high = np.concatenate([np.tile(highs, n), np.full(n, np.log(grid.scales[-1] * 2.0))])
    x0 = np.clip(np.concatenate([atoms.centers.ravel(), np.log(atoms.widths)]), low + 1e-9, high - 1e-9)
    best = least_squares(residual, x0, jac=jacobian, bounds=(low, high), max_nfev=30)
    return unpack(best.x)
