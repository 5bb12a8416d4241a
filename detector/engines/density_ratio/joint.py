"""One event statistic from the density ratio and the level charts, in units of each node's own tail.

    joint_v = max(ratio_v, sqrt(sum of the squares of the positive level charts) / SHARE)
    event_v = joint_v / weight_v

The maximum keeps what either sees best: in quadrature with four charts, changes of shape, which only the
ratio sees, drown in the charts' noise (docs/decisions.md). SHARE brings the charts to the height of the
ratio: on quiet data the root of four squares is about as often above 1.4 h as the ratio is above h.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from detector.stateful import Arrays, Rows, part, under
from estimators.core.graph import Graph
from estimators.core.types import Bools, Floats, Nodes
from estimators.streaming.level_charts import LevelCharts, NullLevels
from estimators.streaming.tail_scale import TailScale

SHARE = 1.4
STALE = 3.0  # an incident ends and the statistic is still above this: the level has not come back
_NULL = ("mean", "spread", "apart_mean", "apart_spread")
_UNITS = ("middle", "unit")


class JointStatistic:
    """Level charts of one or two views beside a density ratio.

    ``dims``: components of each view; ``fixed``: references of the charts stay once they are full.
    """

    def __init__(self, graph: Graph, dims: Sequence[int], reference: int, fixed: bool = False) -> None:
        self.graph, self.dims, self.reference, self.fixed = graph, tuple(dims), reference, fixed
        self.charts = [LevelCharts(graph, (dim,), reference, fixed=fixed) for dim in dims]
        self.null: list[NullLevels] | None = None  # of each view; None: charts count for nothing
        self.tails = TailScale.neutral(graph.n_nodes)
        self.joint, self.event = np.full((2, graph.n_nodes), np.nan)
        self.undecided = np.zeros(graph.n_nodes, np.bool_)  # nodes on which the ratio says nothing yet
        for charts in self.charts:
            charts.undecided = self.undecided

    def slide(self, view: int, nodes: Nodes, x: Floats) -> None:
        """One new value of view ``view`` for each of the distinct ``nodes``."""
        if view < len(self.charts):
            self.charts[view].slide(nodes, x)

    def update(self, ratio: Floats, rows: Nodes) -> None:
        """After the ratio's statistic (N,) and the values of ``rows`` and of their neighbours moved."""
        self.chart(rows)
        self.join(ratio)

    def chart(self, rows: Nodes) -> None:
        """Bring the charts of ``rows`` up to date: different rows at a time by different threads."""
        for charts, null in zip(self.charts, self.null or (), strict=False):
            charts.update(null, rows)

    def join(self, ratio: Floats) -> None:
        """Bring ``event`` up to date by the ratio's statistic (N,) and the charts as they are."""
        if self.null is None:
            self.joint[:] = ratio
        else:
            energy = np.zeros(len(ratio))
            for charts in self.charts:
                energy += charts.energy
            np.maximum(ratio, np.sqrt(energy) / SHARE, out=self.joint)
        np.divide(self.joint, self.tails.weight, out=self.event)

    def follow(
        self, live: NDArray[np.bool_], event: NDArray[np.bool_], memory: int, ticked: NDArray[np.bool_]
    ) -> None:
        """The tick ends: tails of ``live`` nodes are followed, not where an ``event`` is, or was lately.

        Nodes that have not ``ticked`` stay as they are.
        """
        self.tails.follow(self.joint, live, event, memory, ticked)

    def hold(self, nodes: Sequence[int]) -> None:
        """Freeze the references of ``nodes``."""
        for charts in self.charts:
            charts.hold(nodes, True)

    def release(self, nodes: Sequence[int]) -> None:
        """They follow again; where the level has not come back, what is now is the baseline from here on.

        Else the frozen reference would open the same incident again, for as long as windows are. Of a node
        that is back the windows have been told to `forget` the change: there the reference holds.
        """
        some = np.asarray(nodes, np.int32)
        for charts in self.charts:
            charts.hold(some, False)
            charts.settle(some[self.joint[some] > STALE])

    def adopt(self, v: int, keep: int) -> None:
        """The latest ``keep`` values of node v are normal, and its reference follows again."""
        for charts in self.charts:
            charts.hold([v], False)
            charts.adopt(v, keep)

    def forget(self, v: int) -> None:
        """What node v did lately was a fault that is over."""
        for charts in self.charts:
            charts.forget(v)

    def restart(self, nodes: Nodes) -> None:
        for charts in self.charts:
            charts.restart(nodes)

    def fresh(self) -> JointStatistic:
        """What was learnt, with empty windows."""
        made = JointStatistic(self.graph, self.dims, self.reference, self.fixed)
        made.null, made.tails = self.null, copy.copy(self.tails)
        return made

    def copy(self) -> JointStatistic:
        """A statistic that goes its own way from here."""
        twin = copy.copy(self)
        twin.charts, twin.tails = [copy.copy(charts) for charts in self.charts], copy.copy(self.tails)
        twin.joint, twin.event = self.joint.copy(), self.event.copy()
        twin.undecided = self.undecided.copy()
        for charts in twin.charts:
            for name, value in vars(charts).items():
                if isinstance(value, np.ndarray):
                    setattr(charts, name, value.copy())
            charts.undecided = twin.undecided
        return twin

    def state(self) -> Arrays:
        arrays: Arrays = {"joint": self.joint.copy()}
        for k, charts in enumerate(self.charts):
            arrays |= under(f"view{k}", charts.state())
            if self.null is not None:
                arrays |= under(
                    f"null{k}", {name: np.array(getattr(self.null[k], name)) for name in (*_NULL, *_UNITS)}
                )
        return arrays | (under("tails", self.tails.state()) if self.tails.adapts else {})

    @classmethod
    def restored(
        cls,
        graph: Graph,
        reference: int,
        arrays: Arrays,
        rows: Rows,
        fixed: bool,
        undecided: Bools,
    ) -> JointStatistic:
        """Continue from `state`; one of version 0.1 has no charts. ``undecided``: by the ratio, as it is."""
        views = [part(f"view{k}", arrays) for k in range(2)]
        made = cls(graph, [view["test"].shape[2] for view in views if view], reference, fixed)
        made.undecided[:] = undecided
        for k, charts in enumerate(made.charts):
            charts.restore(views[k], rows)
        if part("null0", arrays):
            made.null = [_null(part(f"null{k}", arrays), rows) for k in range(len(made.charts))]
        if tails := part("tails", arrays):
            made.tails = TailScale.restored(tails, rows)
        for charts, null in zip(made.charts, made.null or (), strict=False):
            charts.update(null)
        if "joint" in arrays:  # as it was, since the next tick follows the tails by it
            made.joint = np.where(rows >= 0, arrays["joint"][rows], np.nan)
            np.divide(made.joint, made.tails.weight, out=made.event)
        return made


def _null(arrays: Arrays, rows: Rows) -> NullLevels:
    """A new node is taken to be as the median one."""

    def picked(array: Floats) -> Floats:
        middle = np.median(array, axis=0)
        return np.ascontiguousarray(np.where((rows >= 0)[:, None], array[rows], middle))

    units = [np.stack([picked(one) for one in arrays[name]]) for name in _UNITS]
    return NullLevels(*(picked(arrays[name]) for name in _NULL), *units)
