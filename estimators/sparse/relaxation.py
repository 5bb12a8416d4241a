"""Prices of relaxing a constraint: resilient constraints (Peifer 2021, Ch. 4).

Constraint n may be violated by u at a price h(u); the relaxation stops where price and gain balance, which is
h'(u) = multiplier. In the dual a price is its conjugate, lam^2 / (2 c), and a box, |lam| <= cap:

    hard        no u > 0                                     may be infeasible, chases outliers
    quadratic   h(u) = c/2 u^2                               always feasible; influence unbounded
    huber       the same up to delta, then c delta (u - delta/2)   (4.55); influence capped at c delta
    linear      h(u) = beta u                                soft margin; influence capped at beta
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from estimators.core.base import check_range
from estimators.core.types import Floats


@dataclass(frozen=True)
class Relaxation:
    """Price of relaxing a constraint; made by ``hard``, ``quadratic``, ``huber`` or ``linear``.

    Parameters
    ----------
    cap : float > 0, default=inf
        Largest multiplier: the slope of the price far out.
    curvature : float > 0, default=inf
        c of the quadratic part; infinite where there is none.

    References
    ----------
    M. Peifer, "Balancing fit and complexity in learned representations", thesis, 2021: Ch. 4, (4.55).

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import Relaxation
    >>> Relaxation.huber(100.0, 0.3).price(np.array([0.1, 1.0])).round(2)
    array([ 0.5, 25.5])
    >>> Relaxation.hard().is_hard
    True
    """

    cap: float = np.inf
    curvature: float = np.inf

    def __post_init__(self) -> None:
        for name in ("cap", "curvature"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name}: must be positive, got {getattr(self, name)}")

    @classmethod
    def hard(cls) -> Relaxation:
        """No relaxation at any price.

        Returns
        -------
        Relaxation
        """
        return cls()

    @classmethod
    def quadratic(cls, c: float) -> Relaxation:
        """h(u) = c/2 u^2.

        Parameters
        ----------
        c : float > 0
            Curvature.

        Returns
        -------
        Relaxation
        """
        check_range("c", c, 0.0, open_low=True)
        return cls(curvature=c)

    @classmethod
    def huber(cls, c: float, delta: float) -> Relaxation:
        """Quadratic up to ``delta``, then straight on (4.55).

        Parameters
        ----------
        c : float > 0
            Curvature.
        delta : float > 0
            Where it goes straight on; the pull of a sample is at most c delta.

        Returns
        -------
        Relaxation
        """
        check_range("c", c, 0.0, open_low=True)
        check_range("delta", delta, 0.0, open_low=True)
        return cls(c * delta, c)

    @classmethod
    def linear(cls, beta: float) -> Relaxation:
        """h(u) = beta u.

        Parameters
        ----------
        beta : float > 0
            Slope, and the largest pull of a sample.

        Returns
        -------
        Relaxation
        """
        check_range("beta", beta, 0.0, open_low=True)
        return cls(cap=beta)

    @property
    def is_hard(self) -> bool:
        """Whether nothing may be relaxed."""
        return bool(np.isinf(self.cap) and np.isinf(self.curvature))

    def scaled(self, volume: float) -> Relaxation:
        """The same for multipliers ``volume`` times as large: from lebesgue to probability measure.

        Parameters
        ----------
        volume : float > 0

        Returns
        -------
        Relaxation
        """
        return Relaxation(self.cap * volume, self.curvature * volume)

    def price(self, u: Floats) -> Floats:
        """h(u), element by element.

        Parameters
        ----------
        u : ndarray of float64
            Relaxations, not negative.

        Returns
        -------
        ndarray of float64
        """
        if np.isinf(self.curvature):
            price: Floats = np.where(u > 0.0, np.inf if np.isinf(self.cap) else self.cap * u, 0.0)
            return price
        delta = self.cap / self.curvature
        inner = np.minimum(u, delta)
        price = 0.5 * self.curvature * inner**2
        return price if np.isinf(self.cap) else price + self.cap * (u - inner)

    def conjugate(self, lam: Floats) -> float:
        """h*(|lam|) summed over the samples; the box is the solver's.

        Parameters
        ----------
        lam : ndarray of shape (n,), float64
            Multipliers.

        Returns
        -------
        float
        """
        return 0.0 if np.isinf(self.curvature) else float(0.5 * lam @ lam / self.curvature)
