"""Each node's statistic in units of its own upper tail, followed while the stream goes on.

    weight_v = a_v / median a        a_v: the upper quantile of v's statistic on quiet data, at least 1
    log a_v += RATE (1[S_v > a_v] - p_v)        p_v: how often it was passed on quiet data

A node that is restless by nature pays for itself: it neither makes the network deaf nor raises most of the
false alarms. The update is the stochastic approximation of a quantile (Robbins and Monro 1951): the share of
ticks above a_v returns to p_v when the data grow more restless, without any assumption on their law. It never
falls below what was learnt: nothing vouches for a threshold lower than the history did.

What happens is no restlessness. Nodes of an incident and those linked to them wait, and then for as long as
it is in the windows; what an event has taught them before it was told is taken back. One that nobody tells
of counts little: of ticks above a_v that belong together, LONGEST count. Else one event that is missed by a
little raises the bar for the next, and a day of events makes the network deaf.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimators.core.types import Floats

UPPER = 0.99
RATE = (
    0.005  # of adaptation: the scale doubles after 140 exceedances in a row, halves after 14,000 ticks below
)
LONGEST = 10  # ticks above the quantile that count
SPAN = 4  # memories within which they belong together
SHARES = (0.002, 0.05)  # of ticks above the quantile that are believed
LONG_AGO = 10**9
OWN = 0.5  # weight of a node's own quantile, in logarithms, against the network's median


class TailScale:
    """Weights (N,) by which statistics are divided.

    Parameters
    ----------
    quantile : ndarray (N,)
        a_v at the end of learning.
    share : ndarray (N,)
        p_v.
    unit : float
        Median of the quantiles at the end of learning, by which weights are relative; it stays.
    """

    def __init__(self, quantile: Floats, share: Floats, unit: float) -> None:
        self.quantile, self.share, self.unit = quantile, share, unit
        self.floor = quantile.copy()
        self.lately = np.zeros(len(quantile), np.int64)  # ticks above a_v that counted in the latest span
        self.age = np.full(len(quantile), LONG_AGO)  # ticks since that began
        self.waits = np.zeros(len(quantile), np.int64)  # ticks until a node is followed again
        self.adapts = True

    @classmethod
    def fit(cls, S: NDArray[Any], memory: float) -> TailScale:
        """From statistics S (T, N) on quiet data, each tick judged by the rest; NaN: no decision.

        Windows reach back over ``memory`` rows.
        """
        seen = np.isfinite(S).any(axis=0)
        own = np.ones(S.shape[1])
        if seen.any():
            own[seen] = np.maximum(np.nanquantile(S[:, seen], UPPER, axis=0), 1.0)
        middle = float(np.median(np.log(own[seen]))) if seen.any() else 0.0
        quantile = np.where(seen, np.exp(OWN * np.log(own) + (1.0 - OWN) * middle), np.exp(middle))
        ticks = np.maximum(np.isfinite(S).sum(axis=0), 1)
        span = max(round(SPAN * memory), 1)
        with np.errstate(invalid="ignore"):
            over = np.add.reduceat(quantile < S, np.arange(0, len(S), span), axis=0, dtype=np.int64)
        share = np.clip(np.minimum(over, LONGEST).sum(axis=0) / ticks, *SHARES)
        return cls(quantile, share, float(np.median(quantile)))

    @classmethod
    def neutral(cls, n_nodes: int) -> TailScale:
        """All weights one, for ever: what a state of an earlier version has."""
        made = cls(np.ones(n_nodes), np.full(n_nodes, 0.01), 1.0)
        made.adapts = False
        return made

    @property
    def weight(self) -> Floats:
        return np.asarray(self.quantile / self.unit)

    def follow(
        self,
        S: Floats,
        live: NDArray[np.bool_],
        event: NDArray[np.bool_],
        memory: int,
        ticked: NDArray[np.bool_] | None = None,
    ) -> None:
        """After a tick with statistics S (N,), as they are before weighting; nodes that are not live stay.

        What happens at nodes with an ``event`` is in the windows for ``memory`` ticks from then on. For nodes
        that have not ``ticked`` no time has passed at all.
        """
        if not self.adapts:
            return
        before = [(name, getattr(self, name)) for name in ("quantile", "lately", "age", "waits")]
        taken_back = np.maximum(self.quantile * np.exp(-RATE * self.lately), self.floor)
        self.quantile = np.where(event, taken_back, self.quantile)
        self.waits = np.where(event, memory, np.maximum(self.waits - 1, 0))
        age = np.where(
            event, LONG_AGO, self.age + 1
        )  # arrays are made anew: copies of this object share them
        lately = np.where(age < SPAN * memory, self.lately, 0)
        moves = live & np.isfinite(S) & (self.waits == 0)
        with np.errstate(invalid="ignore"):
            counts = moves & (self.quantile < S) & (lately < LONGEST)
        self.age = np.where(counts & (lately == 0), 0, age)
        self.lately = lately + counts
        moved = np.maximum(self.quantile * np.exp(RATE * (counts - self.share)), self.floor)
        self.quantile = np.where(moves, moved, self.quantile)
        if ticked is not None and not ticked.all():
            for name, was in before:
                setattr(self, name, np.where(ticked, getattr(self, name), was))

    def state(self) -> dict[str, NDArray[Any]]:
        names = ("quantile", "floor", "share", "lately", "age", "waits")
        return {name: getattr(self, name).copy() for name in names} | {"unit": np.array(self.unit)}

    @classmethod
    def restored(cls, arrays: dict[str, NDArray[Any]], rows: NDArray[np.intp]) -> TailScale:
        """Continue from `state`; a new node (row -1) is taken to be as restless as the median one."""
        quantile = np.where(rows >= 0, arrays["quantile"][rows], np.median(arrays["quantile"]))
        share = np.where(rows >= 0, arrays["share"][rows], np.median(arrays["share"]))
        made = cls(quantile, share, float(arrays["unit"]))
        made.floor = np.where(rows >= 0, arrays["floor"][rows], np.median(arrays["floor"]))
        for name in ("lately", "age", "waits"):
            if name in arrays:  # early states have none
                getattr(made, name)[rows >= 0] = arrays[name][rows[rows >= 0]]
        return made
