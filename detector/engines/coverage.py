"""How much of what comes in was learnt, node by node; a warning, once, when most of it no longer is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detector.alignment.ticks import Tick
from detector.engines.base import Engine
from detector.events.model import Event, detector_event
from detector.stateful import Arrays, Meta, Rows, copies, take_rows
from estimators.core.dictionary import Dictionary
from estimators.core.types import Floats
from estimators.spectral.christoffel import Christoffel

EVERY = 20  # ticks between two looks
MEMORY = 0.05
LOW = 0.5  # of what it was while learning
MOST = 5000  # values of the history that tell enough


def known(Z: Floats, dictionary: Dictionary, seed: int) -> Christoffel:
    """What the history Z (T, N, d) has taught, all nodes together."""
    points = Z.reshape(-1, Z.shape[2])
    whole = np.flatnonzero(np.isfinite(points).all(axis=1))
    return Christoffel.of(points[np.random.default_rng(seed).choice(whole, MOST)], dictionary)


class Coverage:
    """Running means over time: 1 is amid what was learnt, 0 where nothing of it was ever near."""

    def __init__(self, n_nodes: int) -> None:
        self.nodes: Floats = np.full(n_nodes, np.nan)  # of each node; NaN until it was looked at
        self.start: float | None = None
        self.low = False

    @property
    def value(self) -> float:
        """Over all nodes; 1 until they were looked at."""
        seen = self.nodes[~np.isnan(self.nodes)]
        return float(seen.mean()) if len(seen) else 1.0

    @property
    def outside(self) -> NDArray[np.bool_]:
        """(N,) nodes whose values the dictionary hardly tells apart."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.nodes < LOW * (self.start or 0.0))

    def look(self, engine: Engine, tick: Tick, number: int) -> list[Event]:
        """Warn once when incoming values leave what was learnt."""
        if number % EVERY or not tick.layers:
            return []
        nodes = tick.layers[0].nodes
        now = engine.coverage(nodes)
        if now is None:
            return []
        if self.start is None:
            self.start = float(np.nanmean(now)) if np.isfinite(now).any() else None
        seen = np.isfinite(now)
        at, now = nodes[seen], now[seen]
        begin = self.start if self.start is not None else 1.0
        old = np.where(np.isnan(self.nodes[at]), np.maximum(now, begin), self.nodes[at])
        self.nodes[at] = old + MEMORY * (now - old)
        before, self.low = self.low, self.value < LOW * begin
        if before or not self.low:
            return []
        text = (
            f"values have left the range that was learnt: coverage {self.value:.2f}, "
            f"{begin:.2f} at the start; learn again"
        )
        return [detector_event("detector.warning", tick.end, text, {"coverage": self.value}, "warning")]

    def forgive(self, v: int) -> None:
        """Node v has a new baseline: it begins as all did."""
        self.nodes[v] = np.nan if self.start is None else self.start

    def state(self) -> tuple[Arrays, Meta]:
        return copies(self, ("nodes",)), {"start": self.start, "low": self.low}

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        self.start, self.low = meta["start"], meta["low"]
        if arrays:  # early versions kept one number for all nodes
            take_rows(self, ("nodes",), arrays, rows)
