"""Nodes of which nothing was learnt, new or silent then: they learn from their own samples."""

from __future__ import annotations

import numpy as np

from detector.alignment.samples import Columns
from detector.alignment.ticks import Tick
from detector.preprocessing.history import History
from detector.preprocessing.preprocessor import Preprocessor
from detector.stateful import Arrays, Meta, Rows
from estimators.core.types import Nodes


class ColdStart:
    """Keeps their samples until each has as many as are ``wanted``."""

    def __init__(self, dim: int, wanted: int) -> None:
        self.dim, self.wanted = dim, wanted
        self.nodes: Nodes = np.zeros(0, np.int32)  # whose samples are kept, increasing
        self.history: History | None = None

    def take(self, tick: Tick, preprocess: Preprocessor) -> None:
        """The samples of a tick; nodes that have enough of them are learnt.

        Their scale comes from as many samples as fill all windows; the null moments of their scores are those
        of the other nodes.
        """
        if self.history is None:
            self.nodes = np.flatnonzero(~preprocess.learnt).astype(np.int32)
            self.history = History(len(self.nodes), self.dim)
        for layer in tick.layers:
            here = layer.take(np.isin(layer.nodes, self.nodes))
            if len(here):
                place = np.searchsorted(self.nodes, here.nodes).astype(np.int32)
                self.history.add(Columns(place, here.times, here.values))
        grown = self.history.count >= self.wanted
        if grown.any():
            X, times = self.history.arrays()
            preprocess.adopt(self.nodes[grown], X[:, grown], times)
            self.nodes = self.nodes[~grown]
            self.history = History.of(X[:, ~grown], times) if len(self.nodes) else None

    def state(self) -> tuple[Arrays, Meta]:
        if self.history is None:
            return {}, {}
        return self.history.state()[0] | {"nodes": self.nodes.copy()}, {}

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        if not arrays:
            return
        column = {int(v): k for k, v in enumerate(arrays["nodes"])}
        here = [v for v, row in enumerate(rows.tolist()) if row < 0 or row in column]
        self.nodes = np.array(here, np.int32)
        if here:
            self.history = History(len(here), self.dim)
            kept = [column.get(int(rows[v]), -1) for v in here]
            self.history.restore(arrays, {}, np.array(kept, np.intp))
