"""Level charts: window means of every node now against before, with its neighbours and against them.

    D      = mean of the last M values - mean of the R values before them     per node and component
    z      = (D - mean) / spread                                              by its null moments
    shared = weighted mean over v and its neighbours of sum_c z_c^2           the level moves here
    apart  = sum_c e_c^2,  e = z_v - mean of the neighbours' z, standardised  it moves here and not there
    chart  = (cbrt(value) - middle) / unit                                    nearly normal in the upper tail

The density ratio sees any change of distribution that neighbours share; most faults of real sensors are
changes of level on one or few nodes, which two window means see sooner. ``apart`` removes what a whole
neighbourhood does together (weather, load, a daily cycle), and shows a lost relation. Charts of several
*views* of the same samples (as preprocessed, and as plain levels) stand side by side: whitening and
differencing hide a lasting change of level, plain levels hide small changes behind slow movement.

Sums are exact: values are kept as whole numbers, so that a stream that was stopped goes on with the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import estimators.streaming._level_charts as _level_charts
from estimators.core.graph import Graph
from estimators.core.types import Floats, Nodes

TEST = 25  # M: samples that stand for now; shorter windows see bursts only, longer ones come late
UNIT = 2.0**-10  # values are kept in steps of about a thousandth of the baseline spread
FAR = 2.0**20  # and within this many of them, so that they fit
CLIP = 20.0  # a value further from the reference, and a neighbour's movement beyond it, weigh no more
FLOOR = 0.1  # least spread of a difference, as a share of that of independent samples: constant sensors
LATEST = 4  # the last quarter of a window says whether the level is back
TRUST = 3.0  # independent windows at which a node's own moments count for half
NOBODY = -(2**23)  # is in step with a node; exact in single precision
FOLLOWS, STAYS, FILLS = 0, 1, 2  # what a reference does; the last: it stays once it is full
UPPER, NORMAL = 0.99, 2.326  # quantile that sets the unit of a chart, and that of a normal law


@dataclass
class NullLevels:
    """What the charts do on quiet data: of D and of the contrasts per component, of charts per view."""

    mean: Floats  # (N, D)
    spread: Floats  # (N, D)
    apart_mean: Floats  # (N, D)
    apart_spread: Floats  # (N, D)
    middle: Floats  # (2, N, V) of the cube roots: shared, apart
    unit: Floats  # (2, N, V)

    def first(self, n: int) -> NullLevels:
        """Those of the first ``n`` nodes."""
        return NullLevels(*(np.ascontiguousarray(array[..., :n, :]) for array in vars(self).values()))


class LevelCharts:
    """Window sums of all nodes, and the charts built on them.

    Parameters
    ----------
    graph : Graph
        The links over which levels are shared and contrasted.
    views : sequence of int
        Components of each view; values have sum(views) components.
    reference : int
        R, the samples that stand for "before".
    test : int
        M, the samples that stand for "now".
    fixed : bool
        References stay once they are full.

    Attributes
    ----------
    energy : ndarray (N,)
        Sum of the squares of the positive charts: zero on quiet data half of the time.
    """

    def __init__(
        self, graph: Graph, views: Sequence[int], reference: int, test: int = TEST, fixed: bool = False
    ) -> None:
        n, dim = graph.n_nodes, sum(views)
        self.graph, self.views = graph, tuple(views)
        self.view = np.repeat(np.arange(len(views)), views).astype(np.int32)
        self.self_weight = graph.mean_weight
        self.least = min(test, reference)
        self.test = np.zeros((n, test, dim), np.int32)
        self.ref = np.zeros((n, reference, dim), np.int32)
        self.test_head, self.test_count, self.ref_head, self.ref_count = np.zeros((4, n), np.int32)
        self.test_sum, self.ref_sum = np.zeros((2, n, dim), np.int64)
        self.held, self._nobody = np.zeros((2, n + graph.ghosts), np.uint8)
        self.fixed = fixed
        self.held[:] = FILLS if fixed else FOLLOWS
        self.mutes = not fixed  # nodes of incidents say nothing about their neighbours
        self.undecided = np.zeros(n, np.bool_)  # nor do nodes of which nothing can be said themselves
        # Samples until the windows hold the same ticks as those of all neighbours again. Before, they do with
        # neighbours that restarted at the same time, and with none after a change of the node alone.
        self.behind = np.zeros(n + graph.ghosts, np.int32)
        self.alone = np.zeros(n, np.bool_)
        self.difference, self.apart = np.full((2, n, dim), np.nan)
        self.z = np.full((n + graph.ghosts, dim), np.nan)
        self.values = np.full((2, n, len(views)), np.nan)
        self._own = np.full((n + graph.ghosts, len(views)), np.nan)
        self.energy = np.zeros(n)
        self._everyone: Nodes = np.arange(n, dtype=np.int32)

    def slide(self, nodes: Nodes, x: Floats) -> None:
        """One new value x (k, D) of each of the distinct ``nodes`` (k,)."""
        whole = np.clip(np.rint(x / UNIT), -FAR, FAR).astype(np.int32)
        self.behind[nodes] = np.maximum(self.behind[nodes] - 1, 0)
        self.alone[nodes] &= self.behind[nodes] > 0
        _level_charts.slide(
            nodes, whole, self.test, self.test_head, self.test_count, self.test_sum, self.ref, self.ref_head,
            self.ref_count, self.ref_sum, self.held, self.least, round(CLIP / UNIT),
        )  # fmt: skip

    def differ(self, rows: Nodes | None = None) -> Floats:
        """D (N, D), brought up to date for ``rows``."""
        _level_charts.differences(
            self._everyone if rows is None else rows, self.test_sum, self.test_count, self.ref_sum,
            self.ref_count, UNIT, self.test.shape[1], self.ref.shape[1], self.least, self.difference,
        )  # fmt: skip
        return self.difference

    def update(self, null: NullLevels, rows: Nodes | None = None) -> None:
        """Bring ``energy`` up to date after values of ``rows`` (with their neighbours; default all) moved."""
        rows = self._everyone if rows is None else rows
        self.differ(rows)
        self._values(rows, null)
        self.energy[rows] = 0.0
        for k, values in enumerate(self.values):
            _level_charts.join(rows, values, null.middle[k], null.unit[k], self.energy)

    def _values(self, rows: Nodes, null: NullLevels) -> None:
        g = self.graph
        _level_charts.standardise(rows, self.difference, null.mean, null.spread, self.z)
        _level_charts.squares(rows, self.view, self.z, self._own)
        mute = (self.held if self.mutes else self._nobody).copy()
        mute[: g.n_nodes] |= self.undecided
        _level_charts.shared(
            rows, g.indptr, g.indices, g.weights, self.self_weight, mute, self._own, self.values[0]
        )
        step = self.behind.copy()  # nodes of which it is equal are in step
        step[: g.n_nodes][self.alone] = -1 - np.flatnonzero(self.alone)
        _level_charts.contrasts(rows, g.indptr, g.indices, g.weights, CLIP, mute, step, self.z, self.apart)
        _level_charts.standardise(rows, self.apart, null.apart_mean, null.apart_spread, self.apart)
        _level_charts.squares(rows, self.view, self.apart, self.values[1])

    def fit(self, D: Floats, independent: float) -> NullLevels:
        """Null moments from differences D (T, N, D) of quiet ticks, NaN where there was none.

        Each node's spread and unit are drawn towards the median of all nodes, the more so the fewer
        ``independent`` windows there were: errors of single nodes are what false alarms are made of.
        """
        n, dim = D.shape[1:]
        V = len(self.views)
        least = FLOOR * np.sqrt(1.0 / self.test.shape[1] + 1.0 / self.ref.shape[1])
        mean = _mean(D)
        spread = np.maximum(_shrunk(_spread(D), independent), least)
        trial = LevelCharts.__new__(LevelCharts)
        trial.__dict__ |= self.__dict__ | {
            "z": np.empty((n, dim)), "apart": np.empty((n, dim)), "_own": np.empty((n, V)),
            "values": np.empty((2, n, V)),
        }  # fmt: skip
        no, one, none = np.zeros((n, dim)), np.ones((n, dim)), np.zeros((2, 0, 0))
        plain = NullLevels(mean, spread, no, one, none, none)
        E = np.empty_like(D)
        shared = np.empty((len(D), n, V))
        for t, difference in enumerate(D):
            trial.difference = difference
            trial._values(self._everyone, plain)
            E[t], shared[t] = trial.apart, trial.values[0]
        apart_mean = _mean(E)
        apart_spread = np.maximum(_shrunk(_spread(E), independent), FLOOR)
        squares = np.square((E - apart_mean) / apart_spread)
        apart = np.stack([squares[:, :, self.view == w].sum(axis=2) for w in range(V)], axis=2)
        units = [_units(np.cbrt(values), independent) for values in (shared, apart)]
        middle, unit = (np.stack(part) for part in zip(*units, strict=True))
        return NullLevels(mean, spread, apart_mean, apart_spread, middle, unit)

    def hold(self, nodes: Sequence[int] | Nodes, held: bool) -> None:
        """Freeze the reference of ``nodes``, or let it follow again; where it is fixed, fill."""
        self.held[nodes] = STAYS if held else FILLS if self.fixed else FOLLOWS

    @property
    def width(self) -> int:
        """Numbers that a node tells."""
        return self.z.shape[1] + 1

    def told(self, nodes: Nodes) -> Floats:
        """What ``nodes`` say to their neighbours (k, D + 1): their standardised differences; NaN: nothing.

        Last, how far they are behind; NOBODY: in step with nobody.
        """
        z = self.z[nodes]
        if self.mutes:
            z[self.held[nodes] > 0] = np.nan
        z[self.undecided[nodes]] = np.nan
        return np.column_stack([z, np.where(self.alone[nodes], NOBODY, self.behind[nodes])])

    def hear(self, ghosts: Nodes, told: Floats) -> None:
        """What the nodes of which ``ghosts`` are copies `told`."""
        at = np.asarray(self.graph.n_nodes + ghosts, np.int32)
        self.z[at], self.behind[at] = told[:, :-1], np.nan_to_num(told[:, -1])
        _level_charts.squares(at, self.view, self.z, self._own)

    def forget(self, v: int) -> None:
        """What is in the test window of v was a fault that is over; the reference stays."""
        self._change(v)
        self.test_head[v] = self.test_count[v] = 0
        self.test_sum[v] = 0

    def settle(self, nodes: Nodes) -> None:
        """What held the reference of ``nodes`` is over, and their test windows still differ from it.

        Where the latest values are nearer to the reference than to the window they close, the level is back:
        the reference stays, and the window fills anew. Else what is now is the reference.
        """
        latest = max(self.test.shape[1] // LATEST, 1)
        for v in nodes.tolist():
            self._change(v)
            count, M = int(self.test_count[v]), self.test.shape[1]
            if not count or not self.ref_count[v]:
                continue
            ring = self.test[v, (self.test_head[v] - count + np.arange(count)) % M]
            before = self.ref_sum[v] / self.ref_count[v]
            moved, now = ring.mean(axis=0) - before, ring[-latest:].mean(axis=0) - before
            if now @ moved < 0.5 * (moved @ moved):
                self.forget(v)
            else:
                self.adopt(v, count)

    def adopt(self, v: int, keep: int) -> None:
        """The latest ``keep`` values of v are its normal: test window and reference go on from them."""
        (M, R), keep = (self.test.shape[1], self.ref.shape[1]), min(keep, int(self.test_count[v]))
        self._change(v)
        kept = self.test[v, (self.test_head[v] - keep + np.arange(keep)) % M]
        self.test[v, :keep], self.test_sum[v] = kept, kept.sum(axis=0, dtype=np.int64)
        self.test_count[v], self.test_head[v] = keep, keep % M
        kept = kept[max(keep - R, 0) :]
        self.ref[v, : len(kept)], self.ref_sum[v] = kept, kept.sum(axis=0, dtype=np.int64)
        self.ref_count[v], self.ref_head[v] = len(kept), len(kept) % R

    def _fall_behind(self, nodes: Nodes | int) -> None:
        """The windows of ``nodes`` hold other ticks than those of their neighbours, until they are full anew.

        What moves all of them together, such as a day, moves the means of such windows by different amounts.
        """
        self.behind[nodes] = self.ref.shape[1] + self.test.shape[1]

    def _change(self, v: int) -> None:
        """The windows of node v are changed to others than a stream gives."""
        self._fall_behind(v)
        self.alone[v] = True

    def restart(self, nodes: Nodes) -> None:
        """Their windows start anew."""
        self._fall_behind(nodes)
        for array in (
            self.test_head,
            self.test_count,
            self.ref_head,
            self.ref_count,
            self.test_sum,
            self.ref_sum,
        ):
            array[nodes] = 0

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays for `restore`; sums follow from them."""
        names = ("test", "test_head", "test_count", "ref", "ref_head", "ref_count", "held", "behind", "alone")
        # The weight follows from the graph, and must not move with nodes that come or go.
        n = self.graph.n_nodes
        return {name: getattr(self, name)[:n].copy() for name in names} | {
            "weight": np.array(self.self_weight)
        }

    def restore(self, arrays: dict[str, NDArray[Any]], rows: NDArray[np.intp]) -> None:
        """Continue from `state`; ``rows`` says which of the old nodes each node was, -1 for a new one."""
        new, old = np.flatnonzero(rows >= 0), rows[rows >= 0]
        self.self_weight = float(arrays["weight"])
        for name, array in arrays.items():
            if name != "weight":
                getattr(self, name)[new] = array[old]
        self._fall_behind(np.flatnonzero(rows < 0).astype(np.int32))
        M, R = self.test.shape[1], self.ref.shape[1]
        # Rings fill from the front, so that what counts is the front until they are full.
        for ring, count, size, total in (
            (self.test, self.test_count, M, self.test_sum), (self.ref, self.ref_count, R, self.ref_sum),
        ):  # fmt: skip
            seen = np.arange(size)[None, :] < count[:, None]
            total[:] = np.where(seen[:, :, None], ring, 0).sum(axis=1, dtype=np.int64)


def _mean(x: Floats) -> Floats:
    seen = np.isfinite(x)
    total = np.where(seen, x, 0.0).sum(axis=0)
    return np.asarray(total / np.maximum(seen.sum(axis=0), 1))


def _spread(x: Floats) -> Floats:
    return np.sqrt(_mean(np.square(x - _mean(x))))


def _shrunk(x: Floats, independent: float) -> Floats:
    """Logarithms drawn towards the median over nodes (axis 0); nodes without any value take it."""
    share = independent / (independent + TRUST)
    logs = np.log(np.maximum(x, 1e-12))
    known = x > 0.0
    centre = np.array(
        [np.median(column[k]) if k.any() else 0.0 for column, k in zip(logs.T, known.T, strict=True)]
    )
    return np.asarray(np.exp(np.where(known, share * logs + (1.0 - share) * centre, centre)))


def _units(roots: Floats, independent: float) -> tuple[Floats, Floats]:
    """Median and upper spread (N, V) of the cube roots (T, N, V): charts are normal where it counts."""
    seen = np.isfinite(roots).any(axis=0)
    quiet = np.where(seen, roots, 0.0)
    middle = _shrunk(np.nanmedian(quiet, axis=0), independent)
    upper = np.nanquantile(quiet, UPPER, axis=0)
    unit = _shrunk(np.maximum(upper - middle, 0.0) / NORMAL, independent / 2.0)
    return middle, np.maximum(unit, FLOOR)
