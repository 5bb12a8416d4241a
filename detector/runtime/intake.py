"""From the sources to the queue of the pipeline: several partitions are merged by event time on the way.

With a single partition a batch goes straight to the queue. Otherwise one task moves what the merge releases.
A position is handed on with the samples that it covers, so what is held is neither stored nor acknowledged;
of a batch that is released in part, the number of samples to skip when it is read again is stored as well.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from connectors.base import Batch, Sample, join_position
from detector.runtime.ingest_queue import Arrival, IngestQueue, Owner
from detector.runtime.merge import PLACEHOLDER, Merge, Release
from detector.runtime.partition import Partition, Slice
from detector.settings.alignment import AlignSettings

log = logging.getLogger("detector.source")
MOST = 20_000  # samples of one release
# How long others wait, at first, for a source that has not connected, or is there but has no partitions yet.
UNKNOWN_S = 60.0


@dataclass
class _Stored:
    """What the state will hold about a source: up to where its samples have gone on."""

    kind: str
    replayable: bool
    position: Any = None
    skip: dict[str, int] = field(default_factory=dict)  # samples after it that have gone on too, by partition
    known: dict[str, int] = field(default_factory=dict)  # of these, the ones that will be read again

    def leave_out(self, part: str, batch: Batch) -> int:
        """How many samples at the beginning of a batch had gone on before the last stop."""
        known = min(self.known.get(part, 0), len(batch.samples))
        if known:
            self.known[part] -= known
        return known

    def advance(self, part: str, one: Slice) -> dict[str, Any]:
        if one.whole:
            self.position = join_position(self.position, one.batch)
            after = self.skip.pop(part, 0) - len(one.batch.samples)  # those may reach into the next batch
            if after > 0:
                self.skip[part] = after
        elif self.replayable:
            self.skip[part] = one.last
        return self.record()

    def record(self) -> dict[str, Any]:
        found = {"type": self.kind, "position": self.position}
        return found | ({"skip": dict(self.skip)} if self.skip else {})


class Intake:
    """Used on the event loop only."""

    def __init__(
        self, queue: IngestQueue, settings: AlignSettings, stream_time: Callable[[], float | None]
    ) -> None:
        self.queue = queue
        self.merge = Merge(settings)
        self._stream_time = stream_time  # the newest time that the pipeline believes
        self._stored: dict[str, _Stored] = {}
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._moving = False

    # ---------------------------------------------------------------------------------- for sources

    def register(
        self, source: str, kind: str, replayable: bool, position: Any, skip: Mapping[str, int]
    ) -> None:
        """A source whose samples have gone on up to that position, and so many after it by partition."""
        self._stored[source] = _Stored(kind, replayable, position, dict(skip), dict(skip))
        self.expect(source, ())

    def connected(self, source: str) -> None:
        """It knows its partitions: those that give nothing are silent."""
        self.merge.connected(source, time.monotonic())
        self._changed.set()

    def expect(self, source: str, partitions: Collection[str]) -> None:
        """Its partitions, as it knows them now; none at all: it does not know them yet."""
        patience = None if partitions else UNKNOWN_S
        self.merge.expect(source, partitions or (PLACEHOLDER,), time.monotonic(), patience)
        self._changed.set()

    async def room(self, source: str) -> Collection[str]:
        """Waits until some partition of the source may be read; those that may not."""
        while True:
            full = self.merge.full(source)
            if len(full) < max(1, len(self.merge.of(source))):
                return full
            self._room.clear()
            await self._room.wait()

    async def put(self, source: str, batch: Batch) -> None:
        """Take over what a source has read; waits while there is no room."""
        stored = self._stored[source]
        part = batch.partition or PLACEHOLDER
        first = stored.leave_out(part, batch) if stored.known else 0
        if len(self.merge) <= 1 and not self.merge.held and not self._moving:
            position = stored.advance(part, Slice(batch, first, len(batch.samples), 0.0))
            if first:
                batch = Batch(batch.samples[first:], None, len(batch.samples) - first)
            await self.queue.put(Arrival(source, batch, position))
            return
        now = self._stream_time()
        if now is not None:
            self.merge.frontier = max(self.merge.frontier, now)
        self.merge.take(source, batch, time.monotonic(), first)
        self._changed.set()

    def end(self, source: str) -> None:
        """The source gives nothing more."""
        self.merge.end(source)
        self._changed.set()

    def forget(self, source: str) -> None:
        """The source is gone, with what is held of it: it was not acknowledged."""
        self.merge.forget(source)
        self._stored.pop(source, None)
        self._changed.set()

    async def drained(self, sources: Collection[str]) -> None:
        """Waits until everything of these has gone on."""
        while self._moving or any(not part.empty for name in sources for part in self.merge.of(name)):
            self._room.clear()
            await self._room.wait()

    def describe(self, source: str) -> dict[str, Any]:
        """Its partitions, for pages, JSON-ready."""
        return {part.name: part.describe() for part in self.merge.of(source) if part.name or part.count}

    # ---------------------------------------------------------------------------------- moving

    async def run(self) -> None:
        """Move what is released to the queue, until cancelled."""
        while True:
            now = time.monotonic()
            self._changed.clear()
            released = self.merge.release(now, MOST)
            if released.slices:
                self._moving = True
                try:
                    await self.queue.put(self._arrival(released))
                finally:
                    self._moving = False
                self._room.set()
                continue
            self._room.set()
            try:
                async with asyncio.timeout(self.merge.next_look(now) if self.merge.held else None):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _arrival(self, released: Release) -> Arrival:
        samples: list[Sample] = []
        owners: list[Owner] = []
        sizes: list[int] = []
        positions: dict[str, Any] = {}
        for part, one in released.slices:
            samples += one.samples
            positions[part.source] = self._advance(part, one)
            for owner, size in _owners(part.source, one):
                owners.append(owner)
                sizes.append(size)
        arrived = min(one.arrived for _, one in released.slices)
        index = np.repeat(np.arange(len(owners)), sizes)
        if released.order is not None:
            samples = [samples[i] for i in released.order.tolist()]
            index = index[released.order]
        batch = Batch(samples=samples, received=len(samples))
        return Arrival(None, batch, positions, arrived, owners, index)

    def _advance(self, part: Partition, one: Slice) -> Any:
        stored = self._stored.get(part.source)
        return None if stored is None else stored.advance(part.name, one)


def _owners(source: str, one: Slice) -> list[tuple[Owner, int]]:
    """Whose samples these are: those of the source, or of each of its senders."""
    if not one.batch.accounts:
        return [(Owner(source), one.last - one.first)]
    found, at = [], 0
    for size, account in one.batch.accounts:
        here = min(at + size, one.last) - max(at, one.first)
        if here > 0:
            found.append((Owner(source, account), here))
        at += size
    return found
