"""The queue in front of the pipeline: bounded by samples, in order of arrival, with room for commands."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.base import Batch

CAPACITY = 50_000  # samples waiting; beyond it sources are not read


@dataclass(slots=True)
class Arrival:
    """A batch that came through a door."""

    source: str
    batch: Batch
    position: Any  # as it is stored: with the type of the source
    arrived: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class Order:
    """Something to be done between two batches: an operator's command, the end, or a reload."""

    name: str
    arguments: Mapping[str, Any]
    done: asyncio.Future[Any]


class Intake:
    """Used on the event loop only."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self.samples = 0  # waiting or being worked on
        self._items: deque[Arrival | Order] = deque()
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def put(self, arrival: Arrival) -> None:
        """Waits while there is no room: whoever reads a source stops reading it."""
        while self.samples and self.samples + arrival.batch.received > self.capacity:
            self._room.clear()
            await self._room.wait()
        self.samples += arrival.batch.received
        self._items.append(arrival)
        self._changed.set()

    def order(self, name: str, arguments: Mapping[str, Any]) -> asyncio.Future[Any]:
        """Takes its turn behind what has arrived before; never waits for room."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._items.append(Order(name, arguments, done))
        self._changed.set()
        return done

    async def take(self, most: int) -> list[Arrival] | Order:
        """The next order, or the next arrivals: at least one, else as many as make `most` samples."""
        while not self._items:
            self._changed.clear()
            await self._changed.wait()
        first = self._items.popleft()
        if isinstance(first, Order):
            return first
        taken, count = [first], first.batch.received
        while self._items and isinstance(self._items[0], Arrival):
            count += self._items[0].batch.received
            if count > most:
                break
            following = self._items.popleft()
            assert isinstance(following, Arrival)
            taken.append(following)
        return taken

    def finished(self, arrivals: list[Arrival]) -> None:
        """These have been worked on: their room is free."""
        self.samples -= sum(arrival.batch.received for arrival in arrivals)
        self._room.set()

    def clear(self) -> None:
        """Give up what waits; it was never acknowledged, so its source will give it again."""
        for item in self._items:
            if isinstance(item, Order):
                item.done.cancel()
        self._items.clear()
        self.samples = 0
        self._room.set()

    @property
    def empty(self) -> bool:
        return not self._items and not self.samples
