"""Losses by parts that look at the whole output: the order of its parts, and F1 of a set of them (App. K)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimators.core.types import Floats
from estimators.structured.part_losses import real_labels


@dataclass(frozen=True)
class Ranking:
    """Parts in the order of their relevance: a pair in the wrong order costs its difference in relevance.

    Delta(z, y) = mean over pairs of max(y_u - y_v, 0) [z puts v before u]: parts of Eq. 5 are the pairs. The
    loss differs by what z does not change from one linear in y, so that expected relevances of single items
    are enough, and sorting them is exact.

    Parameters
    ----------
    None

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import Ranking
    >>> Ranking().minimise(np.array([[0.1], [2.0], [0.4]]), np.ones(3) / 3)  # rank of each part, 0 first
    array([2, 0, 1])
    """

    def embed(self, y: NDArray[Any]) -> Floats:
        """The relevances.

        Parameters
        ----------
        y : ndarray of shape (P,), float64

        Returns
        -------
        ndarray of shape (P, 1), float64
        """
        return real_labels(y).reshape(len(y), 1)

    def minimise(self, g: Floats, pi: Floats) -> NDArray[Any]:
        """Ranks by expected relevance, the largest first.

        Parameters
        ----------
        g : ndarray of shape (P, 1), float64
        pi : ndarray of shape (P,), float64

        Returns
        -------
        ndarray of shape (P,), int
            A permutation of 0 .. P - 1.
        """
        ranks = np.empty(len(g), np.int64)
        ranks[np.argsort(-g[:, 0], kind="stable")] = np.arange(len(g))
        return ranks

    def value(self, z: NDArray[Any], y: NDArray[Any], pi: Floats) -> float:
        """Mean over pairs; pairs have equal weights.

        Parameters
        ----------
        z : ndarray of shape (P,), int
            Ranks.
        y : ndarray of shape (P,), float64
            Relevances.
        pi : ndarray of shape (P,), float64

        Returns
        -------
        float
        """
        better = np.maximum(real_labels(y)[:, None] - real_labels(y), 0.0)
        wrong = np.asarray(z)[:, None] > np.asarray(z)
        return float((better * wrong).sum() / max(len(y) * (len(y) - 1) / 2, 1))


@dataclass(frozen=True)
class FOne:
    """1 - F1 of a set of parts: y_p = 1 for its members, 0 for others.

    F1 = 2 z'y / (|z| + |y|), and 1 if both are empty. A part of the label is (y_p, |y|) (App. K): phi has one
    column for every size of the set, so |y| is seen by the parts although it is no part itself.

    Parameters
    ----------
    largest : int >= 1
        Most members of a set.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import FOne
    >>> round(FOne(3).value(np.array([1, 1, 0]), np.array([1, 0, 0]), np.ones(3) / 3), 3)
    0.333
    """

    largest: int

    def __post_init__(self) -> None:
        if self.largest < 1:
            raise ValueError(f"largest: must be at least 1, got {self.largest}")

    def embed(self, y: NDArray[Any]) -> Floats:
        """Column s > 0: y_p if the set has s members; column 0: 1 if it has none.

        Parameters
        ----------
        y : ndarray of shape (P,), 0 or 1

        Returns
        -------
        ndarray of shape (P, largest + 1), float64
        """
        labels = np.asarray(y)
        if labels.ndim != 1 or not np.isin(labels, (0, 1)).all():
            raise ValueError(f"y: expected zeros and ones, got {labels}")
        size = int(labels.sum())
        if size > self.largest:
            raise ValueError(f"y: a set of {size} members, at most {self.largest} are expected")
        made = np.zeros((len(labels), self.largest + 1))
        made[:, size] = labels if size else 1.0
        return made

    def minimise(self, g: Floats, pi: Floats) -> NDArray[Any]:
        """For every size the best members, then the best size: exact.

        Parameters
        ----------
        g : ndarray of shape (P, largest + 1), float64
        pi : ndarray of shape (P,), float64
            Not used: F1 has no weights.

        Returns
        -------
        ndarray of shape (P,), int
        """
        n, sizes = len(g), np.arange(1, self.largest + 1)
        best, gain = np.zeros(n, np.int64), float(g[:, 0].mean())  # nobody: right if the set is empty
        for k in range(1, min(self.largest, n) + 1):
            worth = g[:, 1:] @ (2.0 / (k + sizes))
            members = np.argsort(-worth, kind="stable")[:k]
            if (found := float(worth[members].sum())) > gain:
                best, gain = np.zeros(n, np.int64), found
                best[members] = 1
        return best

    def value(self, z: NDArray[Any], y: NDArray[Any], pi: Floats) -> float:
        """1 - F1.

        Parameters
        ----------
        z, y : ndarray of shape (P,), 0 or 1
        pi : ndarray of shape (P,), float64
            Not used.

        Returns
        -------
        float
        """
        both = float(np.sum(z) + np.sum(y))
        return 1.0 - (2.0 * float(np.dot(z, y)) / both if both else 1.0)
