"""Unit-norm kernels, K(x, x) = 1, and the median heuristic for their width.

gaussian   K(x, y) = exp(-||x - y||^2 / (2 sigma^2))
laplace    K(x, y) = exp(-||x - y||_1 / sigma)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist, pdist

from estimators.core.types import Floats


def gaussian(x: Floats, y: Floats, sigma: float) -> Floats:
    """Gaussian kernel matrix (n, m) between the rows of x (n, d) and y (m, d)."""
    # Dividing first keeps squares of huge and of tiny scales finite and above zero.
    K: Floats = cdist(x / sigma, y / sigma, "sqeuclidean")
    K *= -0.5
    return np.exp(K, out=K)


def laplace(x: Floats, y: Floats, sigma: float) -> Floats:
    """Laplace kernel matrix (n, m) between the rows of x (n, d) and y (m, d)."""
    K: Floats = cdist(x / sigma, y / sigma, "cityblock")
    np.negative(K, out=K)
    return np.exp(K, out=K)


Kernel = Callable[[Floats, Floats, float], Floats]

KERNELS: dict[str, Kernel] = {"gaussian": gaussian, "laplace": laplace}
_METRIC = {"gaussian": "euclidean", "laplace": "cityblock"}


def kernel_named(name: str) -> Kernel:
    """The kernel called ``name``."""
    if name not in KERNELS:
        raise ValueError(f"kernel: unknown name {name!r}; known: {', '.join(sorted(KERNELS))}")
    return KERNELS[name]


def as_points(x: ArrayLike, what: str = "x") -> Floats:
    """``x`` as an (n, d) float64 array; a vector becomes n points of dimension one."""
    if hasattr(x, "toarray"):
        raise ValueError(f"{what}: sparse matrices are not supported, use toarray()")
    given = np.asarray(x)
    if given.dtype.kind == "c":
        raise ValueError(f"{what}: Complex data not supported")
    points: Floats = given.astype(np.float64, copy=False)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2:
        raise ValueError(f"{what}: expected an (n, d) array, got shape {points.shape}")
    if not np.isfinite(points).all():
        row, column = np.argwhere(~np.isfinite(points))[0]
        raise ValueError(
            f"{what}[{row}, {column}] is {points[row, column]}: values must be finite, not NaN or inf"
        )
    return points


def median_distance(x: ArrayLike, kernel: str = "gaussian", default: float = 1.0,
                    max_points: int = 1000) -> float:  # fmt: skip
    """Median pairwise distance of the points x (n, d): the usual width of the kernel.

    Distances of zero (duplicated points) do not count; ``default`` is the answer where no other are: 1.0
    does not divide by zero. More than ``max_points`` points are thinned evenly.
    """
    points = as_points(x)
    if len(points) > max_points:
        points = points[np.linspace(0, len(points) - 1, max_points).astype(np.intp)]
    largest = float(np.abs(points).max()) if len(points) > 1 else 0.0
    if largest == 0.0:
        return default
    distances = pdist(points / largest, _METRIC[kernel])  # scaled: 1e300 must not overflow
    distances = distances[distances > 0.0]
    width = float(np.median(distances)) * largest if distances.size else 0.0
    return width if np.isfinite(width) and width > 0.0 else default


def node_widths(windows: Sequence[Floats], kernel: str = "gaussian") -> list[float]:
    """Median distances of the nodes that have one; nodes without two different points have none.

    [1.0] if no node has: a network is as wide as its nodes that tell, and never divides by zero.
    """
    widths = [median_distance(x, kernel, default=0.0) for x in windows]
    return [width for width in widths if width > 0.0] or [1.0]
