"""An engine that compares means: simple, fast, and blind to all that leaves the mean alone."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from detector.engines.base import Progress
from detector.engines.calibration_report import CalibrationReport
from detector.settings.core import Settings
from detector.stateful import Arrays, Meta, Rows, copies, take_rows
from estimators.core.graph import Graph
from estimators.core.types import Bools, Floats, Floats32, Indices, Nodes


class MeanShiftEngine:
    """Largest difference between the means of a node's longest test window and of its reference, in standard
    errors; every node by itself."""

    residual = 0.0  # nothing is solved
    atoms = 0  # there is no dictionary
    common = None  # nodes know nothing of one another
    shared = None

    def __init__(self, n_nodes: int, dim: int, settings: Settings) -> None:
        self.settings, self.dim = settings, dim
        before, after = settings.windows.reference, settings.windows.tests[-1]
        self.ref = np.zeros((n_nodes, before, dim), np.float32)  # rings, as `seen` and `kept` count
        self.test = np.zeros((n_nodes, after, dim), np.float32)
        self.stamps = np.full((n_nodes, after), np.nan)  # of `test`
        self.seen = np.zeros(n_nodes, np.int64)  # values that came
        self.kept = np.zeros(n_nodes, np.int64)  # of them that have left the test window for the reference
        self.held = np.zeros(n_nodes, np.bool_)
        self.silent = np.zeros(n_nodes, np.bool_)
        self.node: Floats = np.full(n_nodes, np.nan)

    @classmethod
    def empty(cls, graph: Graph, dim: int, settings: Settings) -> Self:
        return cls(graph.n_nodes, dim, settings)

    @classmethod
    def calibrate(
        cls,
        Z: Floats,
        graph: Graph,
        settings: Settings,
        step: float,
        progress: Progress | None = None,
        levels: Floats | None = None,
    ) -> tuple[Self, CalibrationReport]:
        """The threshold is what the history itself hardly reaches; that is a habit, not a promise."""
        engine = cls.empty(graph, Z.shape[2], settings)
        largest = np.full(len(Z), np.nan)
        for t, z in enumerate(Z):
            nodes = np.flatnonzero(np.isfinite(z).all(axis=1)).astype(np.int32)
            engine.slide(nodes, z[nodes])
            engine.finish()
            if np.isfinite(engine.node).any():
                largest[t] = np.nanmax(engine.node)
            if progress is not None:
                progress("means", (t + 1) / len(Z))
        threshold = 1.2 * float(np.nanmax(largest)) if np.isfinite(largest).any() else 6.0
        why = "mean-shift has a threshold by the history, and promises no rate of false incidents"
        report = CalibrationReport.without_promise(why, len(Z), step, threshold)
        return engine.fresh(), report

    def fresh(self) -> Self:
        return type(self)(len(self.node), self.dim, self.settings)

    # ------------------------------------------------------------------------------------- the stream

    def slide(self, nodes: Nodes, z: Floats, times: Floats | None = None) -> None:
        slot = self.seen[nodes] % self.test.shape[1]
        leaves = (self.seen[nodes] >= self.test.shape[1]) & ~self.held[nodes]
        to, place = nodes[leaves], slot[leaves]
        self.ref[to, self.kept[to] % self.ref.shape[1]] = self.test[to, place]
        self.kept[to] += 1
        self.test[nodes, slot] = z
        self.stamps[nodes, slot] = np.nan if times is None else times
        self.seen[nodes] += 1

    def levels(self, nodes: Nodes, x: Floats) -> None:
        """The preprocessed values are enough for this engine."""

    def finish(self) -> None:
        m = self.test.shape[1]
        n = np.minimum(self.kept, self.ref.shape[1])
        inside = np.arange(self.ref.shape[1])[None, :, None] < n[:, None, None]
        count = np.maximum(n, 1)[:, None]
        mean = np.where(inside, self.ref, 0.0).sum(axis=1) / count
        spread = np.sqrt((np.where(inside, self.ref - mean[:, None], 0.0) ** 2).sum(axis=1) / count)
        error = np.maximum(spread, 1e-6) * np.sqrt(1.0 / m + 1.0 / count)
        statistic = (np.abs(self.test.mean(axis=1) - mean) / error).max(axis=1)
        known = (self.seen >= m) & (n >= m) & ~self.silent
        self.node = np.where(known, statistic, np.nan)

    def restart(self, nodes: Nodes) -> None:
        self.seen[nodes] = self.kept[nodes] = 0
        self.stamps[nodes] = np.nan
        self.node[nodes] = np.nan

    def silence(self, silent: Bools) -> None:
        self.silent = silent.copy()

    def hold(self, nodes: list[int]) -> None:
        self.held[nodes] = True

    def release(self, nodes: list[int]) -> None:
        self.held[nodes] = False

    def rebaseline(self, v: int, keep: int) -> None:
        latest = self.recent(v)[-keep:][-self.ref.shape[1] :]
        self.ref[v, : len(latest)] = latest
        self.kept[v] = len(latest)

    def forget(self, v: int, keep: int) -> None:
        """Its test window is short: what is over leaves it by itself."""

    def refill(self, v: int, reference: Floats32) -> None:
        self.restart(np.array([v], np.int32))
        latest = reference[-self.ref.shape[1] :]
        self.ref[v, : len(latest)] = latest
        self.kept[v] = len(latest)

    # ------------------------------------------------------------------------------------- statistics

    @property
    def event(self) -> Floats:
        return self.node

    inside = event

    @property
    def scores(self) -> Floats:
        return self.node[:, None]

    standard_scores = scores

    # -------------------------------------------------------------------------- evidence about a node

    def reference(self, v: int) -> Floats32:
        return np.asarray(self.ref[v, _order(self.kept[v], self.ref.shape[1])])

    def recent(self, v: int) -> Floats32:
        return np.asarray(self.test[v, _order(self.seen[v], self.test.shape[1])])

    def times(self, v: int) -> Floats:
        return np.asarray(self.stamps[v, _order(self.seen[v], self.test.shape[1])])

    def time_of_latest(self, nodes: Indices, k: int) -> Floats:
        enough = (self.seen[nodes] >= k) & (k <= self.test.shape[1])
        return np.where(enough, self.stamps[nodes, (self.seen[nodes] - k) % self.test.shape[1]], np.nan)

    def log_ratio(self, v: int) -> Floats:
        """Of two normal densities with the spread of the reference and the means before and after."""
        before, x = self.reference(v).astype(np.float64), self.recent(v).astype(np.float64)
        if not len(before) or not len(x):
            return np.zeros(len(x))
        scale = np.maximum(before.std(axis=0), 1e-6)
        u, shift = (x - before.mean(axis=0)) / scale, (x.mean(axis=0) - before.mean(axis=0)) / scale
        return np.asarray((u * shift - shift**2 / 2.0).sum(axis=1))

    def ratio(self, v: int, x: Floats) -> Floats | None:
        return None

    def coverage(self, nodes: Nodes) -> Floats | None:
        return None

    # ------------------------------------------------------------------------------------------ state

    _STATE = ("ref", "test", "stamps", "seen", "kept", "held", "silent", "node")

    def state(self) -> tuple[Arrays, Meta]:
        return copies(self, self._STATE), {}

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        take_rows(self, self._STATE, arrays, rows)


def _order(count: Any, size: int) -> NDArray[np.intp]:
    """Places of a ring in the order of time."""
    n = min(int(count), size)
    return np.asarray((int(count) - n + np.arange(n)) % size)
