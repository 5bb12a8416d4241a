"""River's detectors, one per node and component, in the place of the engine: to compare on one's own data.

They see one stream at a time and promise no rate of false alarms; a drift counts as an alarm for a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from detector.engines.base import Engine, Progress
from detector.engines.calibration_report import CalibrationReport
from detector.settings.core import Settings
from detector.stateful import Arrays, Meta, Rows, copies, take_rows
from estimators.core.graph import Graph
from estimators.core.types import Nodes

ALARM_FOR = 10  # samples that a drift counts


def _detector(name: str, seed: int) -> Any:
    from river import drift

    made = {
        "adwin": drift.ADWIN,
        "kswin": lambda: drift.KSWIN(seed=seed),
        "page-hinkley": drift.PageHinkley,
    }
    return made[name]()


class RiverEngine:
    """An `Engine` of river's detectors; statistic 1 while a drift counts, else 0."""

    residual = 0.0
    atoms = 0
    common = None  # each node knows nothing of the others
    shared = None

    def __init__(self, n_nodes: int, dim: int, settings: Settings) -> None:
        self.settings, self.dim = settings, dim
        need = settings.windows.reference + settings.windows.tests[-1]
        self.z = np.zeros((n_nodes, need, dim), np.float32)  # latest values, from which detectors are rebuilt
        self.stamps = np.zeros((n_nodes, need))
        self.count = np.zeros(n_nodes, np.int64)
        self.left = np.zeros(n_nodes, np.int64)  # samples that the last drift still counts
        self.node = np.full(n_nodes, np.nan)
        self.silent = np.zeros(n_nodes, np.bool_)
        self._made: list[list[Any]] = [self._new(v) for v in range(n_nodes)]

    @classmethod
    def empty(cls, graph: Graph, dim: int, settings: Settings) -> Self:
        return cls(graph.n_nodes, dim, settings)

    @classmethod
    def calibrate(
        cls,
        Z: NDArray[np.float64],
        graph: Graph,
        settings: Settings,
        step: float,
        progress: Progress | None = None,
        levels: NDArray[np.float64] | None = None,
    ) -> tuple[Self, CalibrationReport]:
        """Nothing is learnt, and nothing is promised."""
        name = settings.estimator.name
        why = f"{name} looks at each node alone and promises no rate of false incidents"
        report = CalibrationReport.without_promise(why, len(Z), step, threshold=0.5)
        return cls.empty(graph, Z.shape[2], settings), report

    def fresh(self) -> Self:
        return type(self)(len(self.node), self.dim, self.settings)

    def _new(self, v: int) -> list[Any]:
        return [
            _detector(self.settings.estimator.name, self.settings.alarm.seed + v) for _ in range(self.dim)
        ]

    @property
    def event(self) -> NDArray[np.float64]:
        return self.node

    inside = event

    @property
    def scores(self) -> NDArray[np.float64]:
        return self.node[:, None]

    standard_scores = scores

    def slide(self, nodes: Nodes, z: NDArray[Any], times: NDArray[Any] | None = None) -> None:
        values = z.astype(np.float32)
        times = np.full(len(nodes), np.nan) if times is None else times
        for v, x, time in zip(nodes.tolist(), values, times.tolist(), strict=True):
            slot = self.count[v] % len(self.z[v])
            self.z[v, slot], self.stamps[v, slot] = x, time
            self.count[v] += 1
            drift = self._update(v, x)
            self.left[v] = ALARM_FOR if drift else max(self.left[v] - 1, 0)
            self.node[v] = float(self.left[v] > 0)

    def _update(self, v: int, x: NDArray[np.float32]) -> bool:
        drift = False
        for made, value in zip(self._made[v], x.tolist(), strict=True):
            made.update(value)
            drift |= bool(made.drift_detected)
        return drift

    def levels(self, nodes: Nodes, x: NDArray[Any]) -> None:
        """River's detectors look at the preprocessed values only."""

    def finish(self) -> None:
        self.node[self.silent] = np.nan

    def restart(self, nodes: Nodes) -> None:
        for v in nodes.tolist():
            self.count[v] = self.left[v] = 0
            self.node[v] = np.nan
            self._made[v] = self._new(v)

    def silence(self, silent: NDArray[np.bool_]) -> None:
        self.silent = silent.copy()

    def hold(self, nodes: list[int]) -> None:
        """River's detectors adapt by themselves."""

    release = hold

    def rebaseline(self, v: int, keep: int) -> None:
        self.restart(np.array([v], np.int32))

    def forget(self, v: int, keep: int) -> None:
        """River's detectors keep no windows."""

    def refill(self, v: int, reference: NDArray[np.float32]) -> None:
        self.restart(np.array([v], np.int32))

    def ratio(self, v: int, x: NDArray[Any]) -> None:
        """None is estimated."""

    def coverage(self, nodes: Nodes) -> NDArray[np.float64] | None:
        return None

    def _order(self, v: int) -> NDArray[np.intp]:
        n = min(int(self.count[v]), len(self.z[v]))
        return np.asarray((self.count[v] - n + np.arange(n)) % len(self.z[v]))

    def reference(self, v: int) -> NDArray[np.float32]:
        return np.asarray(self.z[v, self._order(v)][: -self.settings.windows.tests[-1]])

    def recent(self, v: int) -> NDArray[np.float32]:
        return np.asarray(self.z[v, self._order(v)][-self.settings.windows.tests[-1] :])

    def times(self, v: int) -> NDArray[np.float64]:
        return np.asarray(self.stamps[v, self._order(v)][-self.settings.windows.tests[-1] :])

    def time_of_latest(self, nodes: NDArray[np.intp], k: int) -> NDArray[np.float64]:
        slot = (self.count[nodes] - k) % self.stamps.shape[1]
        return np.where(self.count[nodes] >= k, self.stamps[nodes, slot], np.nan)

    def log_ratio(self, v: int) -> NDArray[np.float64]:
        """No ratio is known: the alarm is dated to where it came."""
        n = len(self.times(v))
        return np.where(np.arange(n) >= n - ALARM_FOR, 1.0, -1.0)

    _STATE = ("z", "stamps", "count", "left", "node", "silent")

    def state(self) -> tuple[Arrays, Meta]:
        """River keeps its state to itself: detectors are built anew from the latest values, here too."""
        self._rebuild()
        return copies(self, self._STATE), {}

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        take_rows(self, self._STATE, arrays, rows)
        self._rebuild()

    def _rebuild(self) -> None:
        for v in range(len(self._made)):
            self._made[v] = self._new(v)
            for x in self.z[v, self._order(v)]:
                self._update(v, x)


if TYPE_CHECKING:
    _checked: type[Engine] = RiverEngine
