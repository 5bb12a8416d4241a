"""Losses by parts (Eq. 5, App. K): how labels are embedded, and which output is the cheapest (Eq. 6).

Every loss is Delta(z, y) = sum_p pi_p L(z_p, y_p) with L(z, y) = <psi(z), phi(y)>. ``embed`` is phi; given
estimates g_p of the expected phi(y_p), ``minimise`` finds z at the least sum_p pi_p <psi(z_p), g_p>, exactly.
Losses that look at the whole output, such as F1, are in estimators/structured/set_losses.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from estimators.core.types import Floats


class PartLoss(Protocol):
    """What `LocalizedPredictor` needs to know of a loss."""

    def embed(self, y: NDArray[Any]) -> Floats:
        """phi of all parts (P, T) of one label y (P, ...)."""
        ...

    def minimise(self, g: Floats, pi: Floats) -> NDArray[Any]:
        """The cheapest output (P, ...), given estimates g (P, T) and the weights pi (P,) of the parts."""
        ...

    def value(self, z: NDArray[Any], y: NDArray[Any], pi: Floats) -> float:
        """Delta(z, y)."""
        ...


class SmoothLoss(PartLoss, Protocol):
    """A loss with real outputs that has a gradient: Algorithm 3 can minimise it."""

    def gradient(self, z: Floats, y: Floats) -> Floats:
        """Of L in z, for one part."""
        ...

    def project(self, z: Floats) -> Floats:
        """The nearest output that is allowed."""
        ...


@dataclass(frozen=True)
class Hamming:
    """Classes 0 .. T - 1; an error costs 1, or what a matrix says.

    Parameters
    ----------
    n_classes : int >= 2
        T.
    costs : ndarray of shape (T, T), optional
        Cost of saying the row where the column is true.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import Hamming
    >>> Hamming(2).value(np.array([0, 1]), np.array([1, 1]), np.array([0.5, 0.5]))
    0.5
    """

    n_classes: int
    costs: Floats | None = None

    def __post_init__(self) -> None:
        if self.n_classes < 2:
            raise ValueError(f"n_classes: must be at least 2, got {self.n_classes}")
        T = self.n_classes
        if self.costs is not None and np.shape(self.costs) != (T, T):
            raise ValueError(f"costs: expected shape {(T, T)}, got {np.shape(self.costs)}")

    @property
    def matrix(self) -> Floats:
        """L (T, T)."""
        return 1.0 - np.eye(self.n_classes) if self.costs is None else np.asarray(self.costs, np.float64)

    def embed(self, y: NDArray[Any]) -> Floats:
        """One-hot.

        Parameters
        ----------
        y : ndarray of shape (P,), int

        Returns
        -------
        ndarray of shape (P, T), float64
        """
        labels = np.asarray(y)
        whole = labels.ndim == 1 and labels.dtype.kind in "iu"
        if not whole or not np.isin(labels, range(self.n_classes)).all():
            raise ValueError(f"y: expected classes 0 to {self.n_classes - 1}, got {labels}")
        return np.asarray(np.eye(self.n_classes)[labels])

    def minimise(self, g: Floats, pi: Floats) -> NDArray[Any]:
        """The cheapest class of every part.

        Parameters
        ----------
        g : ndarray of shape (P, T), float64
        pi : ndarray of shape (P,), float64

        Returns
        -------
        ndarray of shape (P,), int
        """
        return np.asarray((g @ self.matrix.T).argmin(axis=1))

    def value(self, z: NDArray[Any], y: NDArray[Any], pi: Floats) -> float:
        """Weighted cost of the errors.

        Parameters
        ----------
        z, y : ndarray of shape (P,), int
        pi : ndarray of shape (P,), float64

        Returns
        -------
        float
        """
        return float(pi @ self.matrix[z, y])


@dataclass(frozen=True)
class SquaredParts:
    """Multitask least squares: real labels, one or several per part.

    The minimiser of Eq. 6 as printed divides by sum_j alpha_j, which estimates the constant 1 and may be
    negative; here its known value is taken.

    Parameters
    ----------
    low, high : float, default=-inf and inf
        Outputs are kept within.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import SquaredParts
    >>> SquaredParts(low=0.0).minimise(np.array([[-0.2], [0.7]]), np.ones(2) / 2)
    array([0. , 0.7])
    """

    low: float = -np.inf
    high: float = np.inf

    def embed(self, y: NDArray[Any]) -> Floats:
        """The label itself.

        Parameters
        ----------
        y : ndarray of shape (P,) or (P, k), float64

        Returns
        -------
        ndarray of shape (P, k), float64
        """
        return real_labels(y).reshape(len(y), -1)

    def minimise(self, g: Floats, pi: Floats) -> NDArray[Any]:
        """Expected labels, within the bounds.

        Parameters
        ----------
        g : ndarray of shape (P, k), float64
        pi : ndarray of shape (P,), float64

        Returns
        -------
        ndarray of shape (P,), or (P, k), float64
        """
        z = np.clip(g, self.low, self.high)
        return z[:, 0] if z.shape[1] == 1 else z

    def value(self, z: NDArray[Any], y: NDArray[Any], pi: Floats) -> float:
        """Weighted squared error.

        Parameters
        ----------
        z, y : ndarray of shape (P,) or (P, k), float64
        pi : ndarray of shape (P,), float64

        Returns
        -------
        float
        """
        return float(pi @ np.square(real_labels(z) - real_labels(y)).reshape(len(y), -1).sum(axis=1))

    def gradient(self, z: Floats, y: Floats) -> Floats:
        """2 (z - y).

        Parameters
        ----------
        z, y : ndarray of shape (k,), float64

        Returns
        -------
        ndarray of shape (k,), float64
        """
        return 2.0 * (z - y)

    def project(self, z: Floats) -> Floats:
        """Within the bounds.

        Parameters
        ----------
        z : ndarray of float64

        Returns
        -------
        ndarray of float64
        """
        return np.clip(z, self.low, self.high)


@dataclass(frozen=True)
class Angular:
    """Directions without sign, such as those of ridges: sin^2 of the difference (Eq. 24, 25).

    Parameters
    ----------
    None

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import Angular
    >>> round(Angular().value(np.array([0.0]), np.array([np.pi]), np.ones(1)), 9)  # the same direction
    0.0
    """

    def embed(self, y: NDArray[Any]) -> Floats:
        """(cos 2y, sin 2y): sin^2(z - y) = (1 - <(cos 2z, sin 2z), .>) / 2.

        Parameters
        ----------
        y : ndarray of shape (P,), float64

        Returns
        -------
        ndarray of shape (P, 2), float64
        """
        angle = 2.0 * real_labels(y)
        return np.column_stack([np.cos(angle), np.sin(angle)])

    def minimise(self, g: Floats, pi: Floats) -> NDArray[Any]:
        """Half the angle of g.

        Parameters
        ----------
        g : ndarray of shape (P, 2), float64
        pi : ndarray of shape (P,), float64

        Returns
        -------
        ndarray of shape (P,), float64
            Between -pi/2 and pi/2.
        """
        return np.asarray(0.5 * np.arctan2(g[:, 1], g[:, 0]))

    def value(self, z: NDArray[Any], y: NDArray[Any], pi: Floats) -> float:
        """Weighted sin^2.

        Parameters
        ----------
        z, y : ndarray of shape (P,), float64
        pi : ndarray of shape (P,), float64

        Returns
        -------
        float
        """
        return float(pi @ np.square(np.sin(real_labels(z) - real_labels(y))))

    def gradient(self, z: Floats, y: Floats) -> Floats:
        """sin 2 (z - y).

        Parameters
        ----------
        z, y : ndarray of shape (1,), float64

        Returns
        -------
        ndarray of shape (1,), float64
        """
        return np.asarray(np.sin(2.0 * (z - y)))

    def project(self, z: Floats) -> Floats:
        """Any angle is allowed.

        Parameters
        ----------
        z : ndarray of float64

        Returns
        -------
        ndarray of float64
        """
        return z


def real_labels(y: ArrayLike) -> Floats:
    """As float64; ValueError where they are not finite."""
    values = np.asarray(y, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("y: labels must be finite")
    return values
