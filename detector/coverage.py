"""How much of what comes in was learnt; a warning, once, when it no longer is."""

from __future__ import annotations

import numpy as np

from detector.engine import Engine
from detector.events import Event, detector_event
from detector.river_engine import RiverEngine
from detector.samples import Floats
from detector.ticks import Tick
from estimators.christoffel import Christoffel
from estimators.dictionary import Dictionary

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
    """A running mean over nodes and time: 1 is amid what was learnt, 0 where nothing of it was ever near."""

    def __init__(self) -> None:
        self.value = 1.0
        self.start: float | None = None
        self.low = False

    def look(self, engine: Engine | RiverEngine, tick: Tick, number: int) -> list[Event]:
        """Warn once when incoming values leave what was learnt."""
        if number % EVERY:
            return []
        now = engine.coverage(tick.layers[0].nodes) if tick.layers else None
        if now is None:
            return []
        if self.start is None:
            self.start = self.value = now
        self.value += MEMORY * (now - self.value)
        before, self.low = self.low, self.value < LOW * self.start
        if before or not self.low:
            return []
        text = (
            f"values have left the range that was learnt: coverage {self.value:.2f}, "
            f"{self.start:.2f} at the start; learn again"
        )
        return [detector_event("detector.warning", tick.end, text, {"coverage": self.value}, "warning")]

    def state(self) -> list[float | bool | None]:
        return [self.value, self.start, self.low]

    def restore(self, state: list[float | bool | None]) -> None:
        self.value, self.start, self.low = state  # type: ignore[assignment]
