"""Losses of footprints (Eq. 5): labels 0, not affected, and 1 .. T - 1, the types, at the nodes of a network.

Both embed labels, given as rows of probabilities; expectations of uncertain ones (Algorithm 2) come out by
themselves, since phi is linear in them. Both are a `PartLoss`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimators.core.types import Floats
from estimators.structured.labelling import (
    UNKNOWN,
    Coupling,
    Labels,
    expected_cost,
    many_types,
    objective,
    one_type,
)
from estimators.structured.part_losses import Hamming
from estimators.structured.set_losses import FOne


@dataclass(frozen=True)
class FootprintCosts:
    """A cost for every pair of said and true label, node by node; "unknown" and linked nodes where wanted.

    Parameters
    ----------
    n_classes : int >= 2
        T.
    costs : ndarray of shape (T, T)
        Of saying the row where the column is true.
    one_type : bool, default=True
        All affected nodes have one type (exact).
    abstain : float > 0, optional
        Cost of "unknown".
    edge_weight : float in [0, 1), default=0.0
        Share of linked nodes in the objective, where there is a coupling.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import FootprintCosts
    >>> loss = FootprintCosts(2, np.array([[0.0, 2.0], [1.0, 0.0]]))  # a missed node costs 2
    >>> loss.minimise(np.array([[0.6, 0.4], [0.7, 0.3]]), np.ones(2) / 2)
    array([1, 0])
    """

    n_classes: int
    costs: Floats
    one_type: bool = True
    abstain: float | None = None
    edge_weight: float = 0.0

    @property
    def columns(self) -> int:
        """Of the embedding."""
        return self.n_classes

    def rows(self, H: Floats, members: NDArray[Any]) -> Floats:
        """phi (m, T) of labels H (m, T): themselves.

        Parameters
        ----------
        H : ndarray of shape (m, T), float64
            Probabilities.
        members : ndarray of shape (m,), int
            Affected nodes in the event of each row; not used.

        Returns
        -------
        ndarray of shape (m, T), float64
        """
        return H

    def embed(self, y: NDArray[Any]) -> Floats:
        """One-hot.

        Parameters
        ----------
        y : ndarray of shape (P,), int

        Returns
        -------
        ndarray of shape (P, T), float64
        """
        return Hamming(self.n_classes).embed(y)

    def minimise(self, g: Floats, pi: Floats) -> Labels:
        """The cheapest labels without coupling; weights are equal.

        Parameters
        ----------
        g : ndarray of shape (P, T), float64
        pi : ndarray of shape (P,), float64

        Returns
        -------
        ndarray of shape (P,), int
        """
        return self.cheapest(g, Coupling.none())[0]

    def cheapest(self, g: Floats, coupling: Coupling) -> tuple[Labels, float]:
        """Labels (n,) at the least F of estimates g (n, T), and F.

        Parameters
        ----------
        g : ndarray of shape (n, T), float64
        coupling : Coupling

        Returns
        -------
        labels : ndarray of shape (n,), int64
        objective : float
        """
        U = expected_cost(g, self.costs)
        if self.abstain is not None:
            U = np.minimum(U, self.abstain)  # what costs more than "unknown" is not said
        pi = (1.0 - self.edge_weight if len(coupling.beta) else 1.0) / max(len(U), 1)
        z = (one_type if self.one_type else many_types)(pi * U, coupling)
        least = objective(z, pi * U, coupling)
        if self.abstain is not None:
            z = np.where(U[np.arange(len(z)), z] >= self.abstain, UNKNOWN, z)
        return z, least

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
        return Hamming(self.n_classes, self.costs).value(z, y, pi)


@dataclass(frozen=True)
class FootprintFOne:
    """1 - F1 of the set of affected nodes (App. K); then the type of its members, by Hamming.

    The embedding has the T classes, and a column for every size of the set: E[affected and |y| = s] is what
    F1 needs of a part beside its own label.

    Parameters
    ----------
    n_classes : int >= 2
        T.
    largest : int >= 1
        Most members of a set.
    one_type : bool, default=True
        All members have one type.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import FootprintFOne
    >>> loss = FootprintFOne(2, 3)
    >>> loss.minimise(loss.embed(np.array([0, 1, 1])), np.ones(3) / 3)
    array([0, 1, 1])
    """

    n_classes: int
    largest: int
    one_type: bool = True

    @property
    def columns(self) -> int:
        """Of the embedding."""
        return self.n_classes + self.largest + 1

    def rows(self, H: Floats, members: NDArray[Any]) -> Floats:
        """phi (m, T + largest + 1) of labels H (m, T) in events with so many members each.

        Parameters
        ----------
        H : ndarray of shape (m, T), float64
            Probabilities.
        members : ndarray of shape (m,), int
            Affected nodes in the event of each row; more than ``largest`` count as that many.

        Returns
        -------
        ndarray of shape (m, T + largest + 1), float64
        """
        size = np.minimum(np.asarray(members), self.largest)
        sizes = np.zeros((len(H), self.largest + 1))
        sizes[np.arange(len(H)), size] = np.where(size > 0, 1.0 - H[:, 0], 1.0)
        return np.column_stack([H, sizes])

    def embed(self, y: NDArray[Any]) -> Floats:
        """The same of one event's labels.

        Parameters
        ----------
        y : ndarray of shape (P,), int

        Returns
        -------
        ndarray of shape (P, T + largest + 1), float64
        """
        H = Hamming(self.n_classes).embed(y)
        return self.rows(H, np.full(len(H), np.count_nonzero(y)))

    def minimise(self, g: Floats, pi: Floats) -> Labels:
        """The set of the largest expected F1, and its type.

        Parameters
        ----------
        g : ndarray of shape (P, T + largest + 1), float64
        pi : ndarray of shape (P,), float64
            Not used: F1 has no weights.

        Returns
        -------
        ndarray of shape (P,), int
        """
        return self.cheapest(g, Coupling.none())[0]

    def cheapest(self, g: Floats, coupling: Coupling) -> tuple[Labels, float]:
        """Labels (n,) of the largest expected F1, and 1 less that.

        Parameters
        ----------
        g : ndarray of shape (n, T + largest + 1), float64
        coupling : Coupling
            Must be none.

        Returns
        -------
        labels : ndarray of shape (n,), int64
        objective : float
        """
        types, sizes = g[:, 1 : self.n_classes], g[:, self.n_classes :]
        pi = np.full(len(g), 1.0 / max(len(g), 1))
        chosen = FOne(self.largest).minimise(sizes, pi) if len(g) else np.zeros(0, np.int64)
        members = np.flatnonzero(chosen)
        z = np.zeros(len(g), np.int64)
        if not len(members):
            return z, 1.0 - float(sizes[:, 0].mean()) if len(g) else 0.0
        best = types[members].sum(axis=0).argmax() if self.one_type else types[members].argmax(axis=1)
        z[members] = 1 + best
        worth = sizes[:, 1:] @ (2.0 / (len(members) + np.arange(1, self.largest + 1)))
        return z, 1.0 - float(worth[members].sum())

    def value(self, z: NDArray[Any], y: NDArray[Any], pi: Floats) -> float:
        """1 - F1 of the sets; types are not judged.

        Parameters
        ----------
        z, y : ndarray of shape (P,), int
        pi : ndarray of shape (P,), float64
            Not used.

        Returns
        -------
        float
        """
        return FOne(self.largest).value((np.asarray(z) > 0).astype(int), (np.asarray(y) > 0).astype(int), pi)
