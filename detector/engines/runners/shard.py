"""Some parts of a network, wherever they are: turns in, what is told and the statistics out.

A turn is everything that has happened since the one before. Turns are numbered: one that was taken already is
answered once more and does nothing, so that whoever asks may repeat it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector.engines.density_ratio.engine import DensityRatioEngine
from estimators.core.types import Floats, Floats32, Nodes


@dataclass
class Turn:
    """What a shard does next: ``calls`` of its engine in order, in its own numbers of nodes."""

    number: int
    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    heard: Floats32 | None = None  # boxes of the ghosts that are held elsewhere
    finish: bool = False  # the tick ends

    @property
    def size(self) -> int:
        """Bytes, about."""
        arrays = [x for _, given in self.calls for x in given if isinstance(x, np.ndarray)]
        return sum(array.nbytes for array in arrays) + (0 if self.heard is None else self.heard.nbytes)


@dataclass
class Answer:
    """After a turn: boxes of the nodes that are read elsewhere, and the statistics of all nodes held."""

    number: int
    told: Floats32
    statistics: Floats  # (3, n): node, event, inside


class OutOfTurn(Exception):
    """The shard is another one than was thought: it has begun anew, or lacks turns."""


class Shard:
    """``read``: which of the boundary nodes are read elsewhere."""

    def __init__(self, engine: DensityRatioEngine, read: Nodes) -> None:
        self.engine, self.read = engine, read
        self._far = np.flatnonzero(engine.cut.source < 0)
        self.last: Answer | None = None

    def turn(self, turn: Turn) -> Answer:
        """Take it; once more if it is the one before."""
        done = self.last.number if self.last else -1
        if self.last is not None and turn.number == done:
            return self.last
        if done >= 0 and turn.number != done + 1:
            raise OutOfTurn(f"turn {turn.number} after {done}")
        engine = self.engine
        if turn.heard is not None:
            engine.boundary.hear(self._far, turn.heard)
        for name, given in turn.calls:
            getattr(engine, name)(*given)
        if turn.finish:
            engine.finish()
        statistics = np.stack([engine.node, engine.event, engine.inside])
        self.last = Answer(turn.number, engine.boundary.told[self.read], statistics)
        return self.last

    def ask(self, number: int, name: str, given: tuple[Any, ...]) -> Any:
        """What the engine's attribute or method ``name`` says after turn ``number``."""
        if self.last is None or self.last.number != number:
            raise OutOfTurn(f"asked about turn {number}")
        found = attrgetter(name)(self.engine)
        return found(*given) if callable(found) else found


def of_all(held: list[NDArray[np.int32]], some: list[NDArray[Any]], axis: int = 0) -> NDArray[Any]:
    """An array over all nodes from those over the nodes that each shard has ``held``."""
    shape = list(some[0].shape)
    shape[axis] = sum(map(len, held))
    whole = np.empty(shape, some[0].dtype)
    for nodes, array in zip(held, some, strict=True):
        whole[(slice(None),) * axis + (nodes,)] = array
    return whole
