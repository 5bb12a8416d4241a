"""How well the dictionary covers what comes in; a warning, once, when it no longer does."""

from __future__ import annotations

from detector.engine import Engine
from detector.events import Event, detector_event
from detector.river_engine import RiverEngine
from detector.ticks import Tick

EVERY = 20  # ticks between two looks
MEMORY = 0.05
LOW = 0.5  # of what it was while learning


class Coverage:
    """A running mean of the kernel value between new points and their nearest atoms."""

    def __init__(self) -> None:
        self.value = 1.0
        self.start: float | None = None
        self.low = False

    def look(self, engine: Engine | RiverEngine, tick: Tick, number: int) -> list[Event]:
        """Warn once when incoming values leave the range that the dictionary was learnt on."""
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
