"""The queue in front of the pipeline: bounded by samples, in order of arrival, with room for commands."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from connectors.base import Batch

CAPACITY = 50_000  # samples waiting; beyond it sources are not read


class Owner(NamedTuple):
    """Whose samples they are, and where to count what the stream did not take of them."""

    source: str
    account: dict[str, int] | None = None


@dataclass(slots=True)
class Arrival:
    """A batch from a source, or what was merged of several."""

    source: str | None  # None: merged, then `position` holds those of all sources by name
    batch: Batch
    position: Any  # as it is stored: with the type of the source
    arrived: float = field(default_factory=time.monotonic)
    owners: Sequence[Owner] = ()
    owner_of: NDArray[np.intp] | None = None  # of each sample, its place among the owners

    @property
    def positions(self) -> dict[str, Any]:
        """Where each source goes on after it."""
        return self.position if self.source is None else {self.source: self.position}

    def owned(self) -> tuple[Sequence[Owner], NDArray[np.intp]]:
        """The owners, and which of them each sample has."""
        if self.owner_of is not None:
            return self.owners, self.owner_of
        source, accounts = str(self.source), self.batch.accounts
        if not accounts:
            return [Owner(source)], np.zeros(len(self.batch.samples), np.intp)
        sizes = [size for size, _ in accounts]
        return [Owner(source, account) for _, account in accounts], np.repeat(np.arange(len(sizes)), sizes)


@dataclass(slots=True)
class Command:
    """Something to be done between two batches: an operator's command, the end, or a reload."""

    name: str
    arguments: Mapping[str, Any]
    done: asyncio.Future[Any]


class IngestQueue:
    """Used on the event loop only."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self.samples = 0  # waiting or being worked on
        self._items: deque[Arrival | Command] = deque()
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
        self._items.append(Command(name, arguments, done))
        self._changed.set()
        return done

    async def take(self, most: int) -> list[Arrival] | Command:
        """The next order, or the next arrivals: at least one, else as many as make `most` samples."""
        while not self._items:
            self._changed.clear()
            await self._changed.wait()
        first = self._items.popleft()
        if isinstance(first, Command):
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
            if isinstance(item, Command):
                item.done.cancel()
        self._items.clear()
        self.samples = 0
        self._room.set()

    @property
    def empty(self) -> bool:
        return not self._items and not self.samples
