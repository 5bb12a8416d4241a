"""Kernel affine hull machines: a smooth surface around the samples of one class, and the distance to it.

Letters and equation numbers of Kumar et al., JAIR 83:16 (2025). A point y is sent to

    A(y) = sum_i h^i(P y) y^i / sum_i h^i(P y)                                             (69)

where h^i is the kernel ridge fit of the indicator of sample i in whitened principal coordinates. The weights
sum to one, so A(y) lies in the affine hull of the samples, and Gamma(y) = ||y - A(y)|| (13) is small only
near them. Everything is closed form but one scalar fixed point.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import cdist

from estimators.core.base import check_range
from estimators.core.kernels import as_points
from estimators.core.parameters import NotFittedError, Parameters
from estimators.core.types import Floats


class Kahm(Parameters):
    """Kernel affine hull machine: a smooth surface around the samples of one class, and the distance to it.

    A point y is sent to A(y) = sum_i h^i(P y) y^i / sum_i h^i(P y) (Eq. 69), an affine combination of the
    samples; Gamma(y) = ||y - A(y)|| (Eq. 13) is small only near them.

    Parameters
    ----------
    n_max : int >= 1, default=20
        Largest dimension n of the subspace (App. B).
    support : int >= 1, optional, default=3
        Samples that each direction of the subspace must have: n <= N / 3. With few samples and all directions
        the affine hull is everything, and the map extrapolates. None: the document's.
    min_range : float > 0, default=1e-3
        Directions along which the samples span less are dropped (App. B).
    tol : float > 0, default=1e-12
        Stop of the fixed point, relative to tau.
    guard : float >= 1, optional, default=2.0
        The denominator of Eq. 69 can vanish outside of the samples, and Theorem 2.2 then fails. Where the
        image would leave ``guard`` radii of the samples around their mean, it is the limit of large lambda
        instead, a convex combination. None: the document's.

    Attributes
    ----------
    Y_ : ndarray of shape (N, p), float64
        The samples.
    n_ : int
        Dimension of the subspace.
    tau_, lam_ : float
        Of Eq. 75 to 79.
    v_ : ndarray of shape (N,), float64
        Weights of the denominator.
    mean_ : ndarray of shape (p,), float64
        Mean of the samples.
    radius_ : float
        Largest distance of a sample from it.

    References
    ----------
    M. Kumar et al., "Geometrically inspired kernel machines for collaborative learning beyond gradient
    descent", JAIR 83:16, 2025: Eq. 13, 69 to 79, App. B.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import Kahm
    >>> Y = np.random.default_rng(0).normal(size=(60, 2))
    >>> machine = Kahm().fit(Y)
    >>> near, far = machine.distance([[0.0, 0.0], [8.0, 8.0]])
    >>> bool(near < 1.0 < far)
    True
    """

    _result = "Y_"

    def __init__(self, *, n_max: int = 20, support: int | None = 3, min_range: float = 1e-3,
                 tol: float = 1e-12, guard: float | None = 2.0) -> None:  # fmt: skip
        check_range("n_max", n_max, 1)
        check_range("min_range", min_range, 0.0, open_low=True)
        check_range("tol", tol, 0.0, open_low=True)
        if support is not None:
            check_range("support", support, 1)
        if guard is not None:
            check_range("guard", guard, 1.0)
        self.n_max, self.support, self.min_range, self.tol, self.guard = (
            n_max,
            support,
            min_range,
            tol,
            guard,
        )

    def fit(self, Y: ArrayLike) -> Self:
        """Build the machine of the samples.

        Parameters
        ----------
        Y : array_like of shape (N, p)
            Should be of order one: lambda is their square.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there is no sample, or one is not finite.
        """
        Y = as_points(Y, "Y")
        N, p = Y.shape
        if N == 0 or p == 0:
            raise ValueError(f"Y: no sample, shape {Y.shape}")
        self.Y_, self.mean_ = Y, Y.mean(axis=0)
        centred = Y - self.mean_
        self.radius_ = float(np.linalg.norm(centred, axis=1).max())
        self.tau_ = 2.0 / (p * N) * float(np.vdot(Y, Y))
        if not np.isfinite(self.tau_):
            raise ValueError("Y: the squares overflow; scale the samples to order one")
        _, s, directions = np.linalg.svd(centred, full_matrices=False)
        self.n_ = n = self._dimension(Y, directions)
        theta = s[:n] ** 2 / max(N - 1, 1)
        self.encoding_: Floats = directions[:n].T / np.sqrt(theta)  # y -> theta^(-1/2) P y
        self.Z_: Floats = Y @ self.encoding_
        if n == 0:
            self.lam_, self.v_, self.B_ = 1.5 * self.tau_, np.full(N, 1.0 / N), Y.T / N  # A(y) = mean
            return self
        sigma, U = np.linalg.eigh(np.exp(-self._exponents(self.Z_)))  # (71), (74)
        sigma = np.maximum(sigma, 0.0)
        energy = np.einsum("ij,ij->i", U.T @ Y, U.T @ Y) / (p * N)
        self.lam_ = fixed_point(sigma, energy, self.tau_, self.tau_ / 4.0, self.tol) + self.tau_  # (75)
        G = (U / (sigma + self.lam_)) @ (U.T @ np.column_stack([Y, np.ones(N)]))
        self.B_, self.v_ = G[:, :p].T, G[:, p]
        return self

    def image(self, y: ArrayLike) -> Floats:
        """A(y) (Eq. 69) of points.

        Parameters
        ----------
        y : array_like of shape (M, p)

        Returns
        -------
        ndarray of shape (M, p), float64

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        ValueError
            If the points have another dimension than the samples.
        """
        y = self._points(y)
        a = self._exponents(y @ self.encoding_)
        k = np.exp(a.min(axis=1, keepdims=True) - a)  # a factor of k cancels: no 0/0 far away
        with np.errstate(divide="ignore", invalid="ignore"):
            image: Floats = (k @ self.B_.T) / (k @ self.v_)[:, None]
        if self.guard is not None:
            inside = np.linalg.norm(image - self.mean_, axis=1) <= self.guard * self.radius_
            away = ~(inside & (k @ self.v_ > 0.0))  # NaN is away
            image[away] = k[away] @ self.Y_ / k[away].sum(axis=1, keepdims=True)
        return image

    def distance(self, y: ArrayLike) -> Floats:
        """Gamma(y) (Eq. 13) of points.

        Parameters
        ----------
        y : array_like of shape (M, p)

        Returns
        -------
        ndarray of shape (M,), float64

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        ValueError
            If the points have another dimension than the samples.
        """
        y = self._points(y)
        gamma: Floats = np.linalg.norm(y - self.image(y), axis=1)
        return gamma

    def loo_distance(self) -> Floats:
        """Distance of every sample to the machine without it; subspace, whitening and lambda are kept.

        Returns
        -------
        ndarray of shape (N,), float64

        Raises
        ------
        ValueError
            If there is one sample, or all are equal.
        """
        N = len(self._samples())
        if N < 2 or self.n_ == 0:
            raise ValueError("loo_distance: one sample, or equal ones: nothing is left without it")
        K = np.exp(-self._exponents(self.Z_))
        H = np.linalg.solve(K + self.lam_ * np.eye(N), K).T
        own = np.diag(H)
        left = (H @ self.Y_ - own[:, None] * self.Y_) / (H.sum(axis=1) - own)[:, None]
        gamma: Floats = np.linalg.norm(self.Y_ - left, axis=1)
        return gamma

    def _dimension(self, Y: Floats, directions: Floats) -> int:
        """Subspace dimension (App. B), with the cap by samples."""
        N, p = Y.shape
        n: int = min(self.n_max, p, N - 1)
        if self.support is not None:
            n = min(n, max(1, N // self.support))
        spans = np.ptp(Y @ directions[:n].T, axis=0)
        while n and spans[:n].min() < self.min_range:
            n -= 1
        return n

    def _exponents(self, z: Floats) -> Floats:
        """||z - z_i||^2 / 2n (71) of whitened points z (M, n)."""
        exponents: Floats = cdist(z, self.Z_, "sqeuclidean") if self.n_ else np.zeros((len(z), len(self.Z_)))
        return exponents / (2.0 * max(self.n_, 1))

    def _samples(self) -> Floats:
        self._check_fitted()
        return self.Y_

    def _points(self, y: ArrayLike) -> Floats:
        points, p = as_points(y, "y"), self._samples().shape[1]
        if points.shape[1] != p:
            raise ValueError(f"y: dimension {points.shape[1]}, but the samples have {p}")
        return points


class KahmGroup:
    """Machine of many samples: k-means parts, one Kahm each, the nearest one decides (Eq. 65 to 67).

    Parameters
    ----------
    block : int >= 2, default=250
        About so many samples to a part.
    seed : int, default=0
        Of k-means.
    **machine
        Parameters of the parts (see Kahm).

    Attributes
    ----------
    parts_ : list of Kahm
        The machines.
    Y_ : ndarray of shape (N, p), float64
        Samples, part after part.
    sizes_ : ndarray of shape (n_parts,), float64
        Samples of each part.

    References
    ----------
    M. Kumar et al., JAIR 83:16, 2025: Eq. 65 to 67.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import KahmGroup
    >>> Y = np.random.default_rng(0).normal(size=(100, 2))
    >>> group = KahmGroup(block=50).fit(Y)
    >>> len(group.parts_), int(group.sizes_.sum())
    (2, 100)
    >>> group.distance(Y[:3]).shape
    (3,)
    """

    def __init__(self, *, block: int = 250, seed: int = 0, **machine: Any) -> None:
        check_range("block", block, 2)
        check_range("seed", seed, 0)
        Kahm(**machine)
        self.block, self.seed, self.machine = block, seed, machine

    def fit(self, Y: ArrayLike, sizes: ArrayLike | None = None) -> Self:
        """Build the machines of the samples.

        Parameters
        ----------
        Y : array_like of shape (N, p)
            The samples.
        sizes : array_like of shape (n_parts,), optional
            Cuts them into consecutive parts, which restores a group from ``Y_`` and ``sizes_``; by default
            parts are found by k-means.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If ``sizes`` do not cut the samples.
        """
        Y = as_points(Y, "Y")
        cuts = [Y[rows] for rows in self._parts(Y)] if sizes is None else _cut(Y, np.asarray(sizes))
        self.parts_ = [Kahm(**self.machine).fit(part) for part in cuts]
        return self

    @property
    def Y_(self) -> Floats:
        """Samples, part after part."""
        return np.concatenate([part.Y_ for part in self._fitted()])

    @property
    def sizes_(self) -> Floats:
        """Samples of each part."""
        return np.array([len(part.Y_) for part in self._fitted()], dtype=np.float64)

    def distance(self, y: ArrayLike) -> Floats:
        """Gamma(y) of points: the smallest over the parts (Eq. 67).

        Parameters
        ----------
        y : array_like of shape (M, p)

        Returns
        -------
        ndarray of shape (M,), float64

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        ValueError
            If the points have another dimension than the samples.
        """
        nearest: Floats = np.min([part.distance(y) for part in self._fitted()], axis=0)
        return nearest

    def image(self, y: ArrayLike) -> Floats:
        """Image of points, each on the part nearest to it.

        Parameters
        ----------
        y : array_like of shape (M, p)

        Returns
        -------
        ndarray of shape (M, p), float64

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        ValueError
            If the points have another dimension than the samples.
        """
        images = np.stack([part.image(y) for part in self._fitted()])
        nearest = np.linalg.norm(as_points(y) - images, axis=2).argmin(axis=0)
        chosen: Floats = images[nearest, np.arange(len(nearest))]
        return chosen

    def _parts(self, Y: Floats) -> list[NDArray[np.intp]]:
        """Rows of every part; single samples join the part nearest to them."""
        S = min(-(-len(Y) // self.block), len(np.unique(Y, axis=0)))  # (65), with the ceiling
        if S <= 1:
            return [np.arange(len(Y))]
        centres, owner = kmeans2(Y, S, minit="++", seed=np.random.default_rng(self.seed), missing="warn")
        counts = np.bincount(owner, minlength=S)
        large = np.flatnonzero(counts >= 2)
        for row in np.flatnonzero(counts[owner] < 2):
            owner[row] = large[cdist(Y[row : row + 1], centres[large]).argmin()]
        return [np.flatnonzero(owner == part) for part in large]

    def _fitted(self) -> list[Kahm]:
        if not hasattr(self, "parts_"):
            raise NotFittedError("KahmGroup: call fit first")
        return self.parts_


def fixed_point(sigma: Floats, energy: Floats, tau: float, e: float, tol: float) -> float:
    """The e with e = f(e, tau) (76)-(79), from eigenvalues of K and the energy of Y along its eigenvectors.

    Differences shrink to 4/27 or less at every step from any start ``e`` >= 0, so it ends.
    """
    while True:
        lam = e + tau
        before, e = e, float((lam / (sigma + lam)) ** 2 @ energy)  # (77), (78)
        if abs(e - before) <= max(tol, 4.0 * np.finfo(float).eps) * tau:
            return e


def _cut(Y: Floats, sizes: Floats) -> list[Floats]:
    """The samples cut into consecutive parts."""
    counts = sizes.astype(np.intp)
    if counts.ndim != 1 or (counts != sizes).any() or (counts < 1).any() or counts.sum() != len(Y):
        raise ValueError(f"sizes: {sizes.tolist()} do not cut {len(Y)} samples into parts")
    return np.split(Y, np.cumsum(counts)[:-1])
