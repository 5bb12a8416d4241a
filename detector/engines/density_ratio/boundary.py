"""What crosses cuts between parts: parameters and pooled scores of boundary nodes, a tick old, in float32.

    box = theta (S r) | four levels on their walk over the graph (4 S), muted | charts (D, behind) | moved

A box says all that a neighbour reads of a node, whatever is open there: held nodes say nothing in the charts.
After a tick every part tells of its boundary nodes; before the next one what was heard goes into the ghosts.
Parts in one engine hear each other by themselves; what is held elsewhere is brought by `hear`, and where
nothing comes any more `lose` says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from detector.stateful import Arrays
from estimators.core.partition import Cut
from estimators.core.types import Bools, Floats32, Nodes
from estimators.streaming.graph_statistics import GraphStatistics
from estimators.streaming.level_charts import LevelCharts
from estimators.streaming.windows import WindowBank


class Boundary:
    """Boxes (k, W) of the nodes at the cuts of ``cut``."""

    def __init__(
        self, cut: Cut, bank: WindowBank, statistics: GraphStatistics, charts: Sequence[LevelCharts]
    ) -> None:
        self.cut = cut
        self._follow(bank, statistics, charts)
        self._mine = np.flatnonzero(cut.source >= 0)
        self._places = np.searchsorted(cut.boundary, cut.source[self._mine])
        silence = np.full(self.width, np.nan, np.float32)
        silence[: self._theta], silence[self._theta + self._levels - 1], silence[-1] = 0.0, 0.0, 0.0
        self.used: Floats32 = np.tile(silence, (len(cut.nodes), 1))  # what ghosts are
        self.heard = self.used.copy()  # what they will be in the next tick
        self.told: Floats32 = np.tile(
            silence, (len(cut.boundary), 1)
        )  # of boundary nodes after the last tick

    def _follow(self, bank: WindowBank, statistics: GraphStatistics, charts: Sequence[LevelCharts]) -> None:
        self.bank, self.statistics, self.charts = bank, statistics, charts
        self._theta = int(np.prod(bank.theta.shape[1:]))
        self._levels = 4 * bank.theta.shape[1] + 1

    @property
    def width(self) -> int:
        """Numbers in a box."""
        return self._theta + self._levels + sum(charts.width for charts in self.charts) + 1

    @property
    def parameters(self) -> int:
        """How many of them come first that are parameters, and always numbers; others may be NaN."""
        return self._theta

    def hear(self, ghosts: NDArray[np.integer], boxes: Floats32) -> None:
        """Boxes (k, W) of the nodes of which ``ghosts`` are copies, for the next tick."""
        self.heard[ghosts] = boxes

    def lose(self, ghosts: NDArray[np.integer]) -> None:
        """Nothing is known any more of the nodes of which ``ghosts`` are copies.

        They are taken to be quiet: parameters, scores and charts of zero, which is where those of quiet nodes
        lie on average. A mean over fewer neighbours would vary more than it did when thresholds were learnt.
        """
        self.heard[ghosts] = 0.0

    def take(self) -> tuple[Nodes, Nodes]:
        """A tick begins: ghosts become what was heard. Which of them changed, and which had samples."""
        heard, used = self.heard, self.used
        changed = np.flatnonzero(~((heard == used) | (np.isnan(heard) & np.isnan(used))).all(axis=1))
        if len(changed):
            self.used[changed] = heard[changed]
            self._put(changed.astype(np.int32))
        return changed.astype(np.int32), np.flatnonzero(heard[:, -1] > 0.0).astype(np.int32)

    def _put(self, ghosts: Nodes) -> None:
        boxes = self.used[ghosts].astype(np.float64)
        theta, levels, charted = np.split(boxes[:, :-1], [self._theta, self._theta + self._levels], axis=1)
        self.bank.theta[self.bank.n_nodes + ghosts] = theta.reshape(-1, *self.bank.theta.shape[1:])
        self.statistics.hear(ghosts, levels)
        at = 0
        for charts in self.charts:
            charts.hear(ghosts, charted[:, at : at + charts.width])
            at += charts.width

    def tell(self, moved: Bools | None = None) -> None:
        """A tick ended in which the nodes ``moved`` (n,) had samples; None: the same ones, told once more."""
        at = self.cut.boundary
        if not len(at):
            return
        told, end = self.told, self._theta + self._levels
        told[:, : self._theta] = self.bank.theta[at].reshape(len(at), -1)
        told[:, self._theta : end] = self.statistics.told(at)
        for charts in self.charts:
            z = charts.told(at)
            told[:, end : end + z.shape[1]] = z
            end += z.shape[1]
        if moved is not None:
            told[:, -1] = moved[at]
        self.heard[self._mine] = told[self._places]

    def copy(self, bank: WindowBank, statistics: GraphStatistics, charts: Sequence[LevelCharts]) -> Boundary:
        """The same between other windows."""
        twin = object.__new__(Boundary)
        twin.cut, twin._mine, twin._places = self.cut, self._mine, self._places
        twin._follow(bank, statistics, charts)
        twin.used, twin.heard, twin.told = self.used.copy(), self.heard.copy(), self.told.copy()
        return twin

    def state(self) -> Arrays:
        return {"nodes": self.cut.nodes.copy(), "used": self.used.copy(), "heard": self.heard.copy()}

    def restore(self, arrays: Arrays, old: NDArray[np.intp]) -> None:
        """Continue from `state`; ``old`` (G,): the numbers that the nodes of the ghosts had there, or -1."""
        if arrays["used"].shape[1:] != self.used.shape[1:]:
            return  # of another form: heard anew after the next tick
        known = np.flatnonzero(np.isin(old, arrays["nodes"]))
        at = np.searchsorted(arrays["nodes"], old[known])
        self.used[known], self.heard[known] = arrays["used"][at], arrays["heard"][at]
        self._put(np.arange(len(self.used), dtype=np.int32))
