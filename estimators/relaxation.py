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

from estimators.base import check_range
from estimators.kernels import Array


@dataclass(frozen=True)
class Relaxation:
    """``cap``: largest multiplier, the slope of the price far out; ``curvature``: c, infinite where there
    is no quadratic part."""

    cap: float = np.inf
    curvature: float = np.inf

    def __post_init__(self) -> None:
        for name in ("cap", "curvature"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name}: must be positive, got {getattr(self, name)}")

    @classmethod
    def hard(cls) -> Relaxation:
        return cls()

    @classmethod
    def quadratic(cls, c: float) -> Relaxation:
        check_range("c", c, 0.0, open_low=True)
        return cls(curvature=c)

    @classmethod
    def huber(cls, c: float, delta: float) -> Relaxation:
        check_range("c", c, 0.0, open_low=True)
        check_range("delta", delta, 0.0, open_low=True)
        return cls(c * delta, c)

    @classmethod
    def linear(cls, beta: float) -> Relaxation:
        check_range("beta", beta, 0.0, open_low=True)
        return cls(cap=beta)

    @property
    def is_hard(self) -> bool:
        return bool(np.isinf(self.cap) and np.isinf(self.curvature))

    def scaled(self, volume: float) -> Relaxation:
        """The same for multipliers ``volume`` times as large: from lebesgue to probability measure."""
        return Relaxation(self.cap * volume, self.curvature * volume)

    def price(self, u: Array) -> Array:
        """h(u) of relaxations u >= 0, element by element."""
        if np.isinf(self.curvature):
            price: Array = np.where(u > 0.0, np.inf if np.isinf(self.cap) else self.cap * u, 0.0)
            return price
        delta = self.cap / self.curvature
        inner = np.minimum(u, delta)
        price = 0.5 * self.curvature * inner**2
        return price if np.isinf(self.cap) else price + self.cap * (u - inner)

    def conjugate(self, lam: Array) -> float:
        """h*(|lam|) summed over the samples; the box is the solver's."""
        return 0.0 if np.isinf(self.curvature) else float(0.5 * lam @ lam / self.curvature)
