"""Each node's statistic in units of its own upper tail, followed while the stream goes on.

    weight_v = a_v / median a        a_v: the upper quantile of v's statistic on quiet data, at least 1
    log a_v += RATE (1[S_v > a_v] - p_v)        p_v: how often it was passed on quiet data

A node that is restless by nature pays for itself: it neither makes the network deaf nor raises most of the
false alarms. The update is the stochastic approximation of a quantile (Robbins and Monro 1951): the share of
ticks above a_v returns to p_v when the data grow more restless, without any assumption on their law. It never
falls below what was learnt: nothing vouches for a threshold lower than the history did.

What happens is no restlessness. Nodes of an incident and those linked to them wait, and then for as long as
it is in the windows; what an event has taught them before it was told is taken back. Else a day of events
makes the network deaf, each raising the bar for the next one at its neighbours.
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
SHARES = (0.002, 0.05)  # of ticks above the quantile that are believed
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
        self.lately = np.zeros_like(quantile)  # rise of log a_v that an event would explain
        self.calm = np.zeros(len(quantile), np.int64)  # ticks since a_v was passed
        self.waits = np.zeros(len(quantile), np.int64)  # ticks until a node is followed again
        self.adapts = True

    @classmethod
    def fit(cls, S: NDArray[Any]) -> TailScale:
        """From statistics S (T, N) on quiet data, each tick judged by the rest; NaN: no decision."""
        seen = np.isfinite(S).any(axis=0)
        own = np.ones(S.shape[1])
        if seen.any():
            own[seen] = np.maximum(np.nanquantile(S[:, seen], UPPER, axis=0), 1.0)
        middle = float(np.median(np.log(own[seen]))) if seen.any() else 0.0
        quantile = np.where(seen, np.exp(OWN * np.log(own) + (1.0 - OWN) * middle), np.exp(middle))
        ticks = np.maximum(np.isfinite(S).sum(axis=0), 1)
        with np.errstate(invalid="ignore"):
            share = np.clip((quantile < S).sum(axis=0) / ticks, *SHARES)
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

    def follow(self, S: Floats, live: NDArray[np.bool_], event: NDArray[np.bool_], memory: int) -> None:
        """After a tick with statistics S (N,), as they are before weighting; nodes that are not live stay.

        What happens at nodes with an ``event`` is in the windows for ``memory`` ticks from then on.
        """
        if not self.adapts:
            return
        taken_back = self.quantile * np.exp(-self.lately)
        self.quantile = np.where(event, np.maximum(taken_back, self.floor), self.quantile)
        self.waits = np.where(event, memory, np.maximum(self.waits - 1, 0))
        with np.errstate(invalid="ignore"):
            step = RATE * ((self.quantile < S) - self.share)
        step = np.where(live & np.isfinite(S) & (self.waits == 0), step, 0.0)
        moved = np.maximum(self.quantile * np.exp(step), self.floor)
        self.quantile = np.where(step == 0.0, self.quantile, moved)
        self.calm = np.where(step > 0.0, 0, np.minimum(self.calm + 1, memory))
        risen = np.minimum(self.lately + np.maximum(step, 0.0), RATE * memory)
        self.lately = np.where(event | (self.calm == memory), 0.0, risen)

    def state(self) -> dict[str, NDArray[Any]]:
        names = ("quantile", "floor", "share", "lately", "calm", "waits")
        return {name: getattr(self, name).copy() for name in names} | {"unit": np.array(self.unit)}

    @classmethod
    def restored(cls, arrays: dict[str, NDArray[Any]], rows: NDArray[np.intp]) -> TailScale:
        """Continue from `state`; a new node (row -1) is taken to be as restless as the median one."""
        quantile = np.where(rows >= 0, arrays["quantile"][rows], np.median(arrays["quantile"]))
        share = np.where(rows >= 0, arrays["share"][rows], np.median(arrays["share"]))
        made = cls(quantile, share, float(arrays["unit"]))
        made.floor = np.where(rows >= 0, arrays["floor"][rows], np.median(arrays["floor"]))
        for name in ("lately", "calm", "waits"):
            if name in arrays:  # early states have none
                getattr(made, name)[rows >= 0] = arrays[name][rows[rows >= 0]]
        return made
