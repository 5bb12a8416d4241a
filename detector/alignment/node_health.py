"""What each node did so far: its last values, gaps, silence, and whether it is stuck.

Samples come layer by layer, each node at most once per layer and in the order of its times.

hold     A missing component takes the node's last known value of that component, for at most ``max_hold``
         samples in a row and only if that value is not older than ``max_gap``. Where it cannot, the sample
         is rejected, but the components that it has are known from then on.
gap      Two samples of a node more than ``max_gap`` seconds apart: its windows must start anew.
silent   No sample of the node for ``silent_after`` seconds of stream time, counted for a node never heard
         from the stream's beginning, or since it joined the network. When the whole network was silent for
         that long, it is the stream that paused, not every node: the count starts again with the next sample
         of any node.
stuck    The value did not change in any component for ``stuck_after`` samples, and for twice as many as it
         ever did before; a node that never changed is constant, not stuck. While ``learning``, no node is
         stuck, and every run counts as usual.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detector.alignment.samples import Columns
from detector.stateful import Arrays, Meta, Rows, copies, take_rows
from estimators.core.types import Floats, Nodes

STUCK_FACTOR = 2  # times the longest constant run known: rounded and event-like sensors repeat themselves
_PER_NODE = ("last_time", "last_value", "known_value", "known_time", "known_age", "run", "longest", "varied",
             "stuck", "silent")  # fmt: skip


class NodeHealth:
    """State of N nodes with d components each."""

    def __init__(self, n_nodes: int, dim: int, *, max_gap: float, silent_after: float, stuck_after: int,
                 max_hold: int) -> None:  # fmt: skip
        self.max_gap, self.silent_after = max_gap, silent_after
        self.stuck_after, self.max_hold = stuck_after, max_hold
        self.learning = False
        self.last_time: Floats = np.full(n_nodes, np.nan)
        self.last_value: Floats = np.full((n_nodes, dim), np.nan)
        self.known_value: Floats = np.full((n_nodes, dim), np.nan)
        self.known_time: Floats = np.full((n_nodes, dim), np.nan)
        self.known_age: NDArray[np.int64] = np.zeros((n_nodes, dim), np.int64)  # samples since it was known
        self.run: NDArray[np.int64] = np.zeros(n_nodes, np.int64)  # samples with the present value
        self.longest: NDArray[np.int64] = np.zeros(n_nodes, np.int64)  # longest finished run
        self.varied: NDArray[np.bool_] = np.zeros(n_nodes, np.bool_)
        self.stuck: NDArray[np.bool_] = np.zeros(n_nodes, np.bool_)
        self.silent: NDArray[np.bool_] = np.zeros(n_nodes, np.bool_)
        self.joined: Floats = np.full(n_nodes, -np.inf)  # when it became part of a running network
        self.resumed = 0.0  # since when the stream runs without a pause
        self.until: float | None = None  # end of the latest tick
        self._check_at = -np.inf  # no node can become silent before; a bound, so not part of the state

    def begin(self, start: float) -> None:
        """A tick begins at that time."""
        if self.until is None or start - self.until > self.silent_after:
            self.resumed = start

    def observe(self, layer: Columns) -> tuple[Columns, Nodes, int]:
        """Take one layer: its samples with holes filled, nodes that restart, and how many were rejected."""
        n = len(layer)
        layer = self._fill(layer)
        nodes, times, values = layer.nodes, layer.times, layer.values
        restart = nodes[times - self.last_time[nodes] > self.max_gap]  # NaN: never heard, nothing to restart
        self.last_time[nodes] = times
        run = self.run[nodes]
        same = (values == self.last_value[nodes]).all(axis=1)
        changed = ~same & (run > 0)
        usual = changed & ~self.stuck[nodes]
        longest = np.where(usual, np.maximum(self.longest[nodes], run), self.longest[nodes])
        run = np.where(same, run + 1, 1)
        varied = self.varied[nodes] | changed
        self.last_value[nodes], self.run[nodes] = values, run
        self.longest[nodes], self.varied[nodes] = longest, varied
        enough = np.maximum(self.stuck_after, STUCK_FACTOR * longest)
        self.stuck[nodes] = varied & (run >= enough) & (not self.learning)
        return layer, restart, n - len(layer)

    def _fill(self, layer: Columns) -> Columns:
        nodes, values = layer.nodes, layer.values
        if values.shape[1] == 1:
            return layer  # a sample without its only component never comes this far
        times = layer.times[:, None]
        missing = np.isnan(values)
        if not missing.any():
            self.known_value[nodes], self.known_time[nodes], self.known_age[nodes] = values, times, 0
            return layer
        age = self.known_age[nodes] + 1
        known_value, known_time = self.known_value[nodes], self.known_time[nodes]
        fillable = missing & (age <= self.max_hold) & (times - known_time <= self.max_gap)
        self.known_value[nodes] = np.where(missing, known_value, values)
        self.known_time[nodes] = np.where(missing, known_time, times)
        self.known_age[nodes] = np.where(missing, age, 0)
        filled = Columns(nodes, layer.times, np.where(fillable, known_value, values))
        whole = ~np.isnan(filled.values).any(axis=1)
        return filled if whole.all() else filled.take(whole)

    def end(self, until: float, heard: Nodes) -> tuple[Nodes, Nodes]:
        """The tick ends at that time, with samples of ``heard``: the nodes now silent, and those returned."""
        none = np.zeros(0, np.int32)
        self.until = until
        returned = none
        if self.silent.any():
            returned = np.unique(heard[self.silent[heard]])
            if len(returned):
                self.silent[returned] = False
                self._check_at = -np.inf
        if until < self._check_at:
            return none, returned
        since = np.fmax(self.last_time, np.maximum(self.joined, self.resumed))
        lost = (until - since > self.silent_after) & ~self.silent
        self.silent |= lost
        # Later samples only move a node's deadline away, so the earliest one is a safe time to look again.
        # (0.999: rounding must not make it late.)
        self._check_at = float(since[~self.silent].min(initial=np.inf)) + 0.999 * self.silent_after
        return np.flatnonzero(lost).astype(np.int32), returned

    def set_back(self) -> None:
        """Times before now mean nothing any more: as if no node had been heard, though its values count."""
        self.last_time[:] = self.known_time[:] = np.nan
        self.joined[:] = -np.inf
        self.until, self._check_at = None, -np.inf

    def learn(self, history: Floats) -> None:
        """Take from a learning period (T, N, d; NaN = missing) which nodes vary, and their longest runs."""
        for v in range(history.shape[1]):
            series = history[~np.isnan(history[:, v]).any(axis=1), v]
            if not len(series):
                continue
            changes = np.flatnonzero((series[1:] != series[:-1]).any(axis=1)) + 1
            runs = np.diff(np.concatenate([[0], changes, [len(series)]]))
            self.longest[v] = max(int(self.longest[v]), int(runs.max()))
            self.varied[v] |= bool(len(changes))

    def state(self) -> tuple[Arrays, Meta]:
        """Arrays (N, ...) and JSON from which `restore` continues exactly."""
        return copies(self, (*_PER_NODE, "joined")), {
            "resumed": self.resumed,
            "until": self.until,
            "learning": self.learning,
        }

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        take_rows(self, _PER_NODE, arrays, rows)
        self.resumed, self.until, self.learning = meta["resumed"], meta["until"], bool(meta["learning"])
        if "joined" in arrays:  # not in states of version 0.1
            take_rows(self, ("joined",), arrays, rows)
        if self.until is not None:
            self.joined[rows < 0] = self.until
        self._check_at = -np.inf
