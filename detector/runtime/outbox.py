"""What one sink has still to take, oldest first, in memory; the database holds it for the next start."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Literal

from detector.storage.records import Record


class Outbox:
    """Bounded in records and bytes; what does not fit is dropped by policy, and told to the caller.

    What is being sent stays: while that is all there is, one record more may wait.
    """

    def __init__(self, records: int, size: int, full: Literal["drop_oldest", "drop_newest"]) -> None:
        self.limit(records, size, full)
        self.bytes = 0
        self._waiting: deque[Record] = deque()
        self._held = 0  # at the front: being sent right now, not to be dropped
        self._filled = asyncio.Event()

    def limit(self, records: int, size: int, full: Literal["drop_oldest", "drop_newest"]) -> None:
        self._most_records, self._most_bytes, self._full = records, size, full

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, records: Iterable[Record]) -> list[Record]:
        """The records that were dropped to stay within bounds."""
        dropped = []
        for record in records:
            if self._over(1, len(record.body)) and self._full == "drop_newest":
                dropped.append(record)
                continue
            while self._over(1, len(record.body)) and len(self._waiting) > self._held:
                oldest = self._waiting[self._held]
                del self._waiting[self._held]
                self.bytes -= len(oldest.body)
                dropped.append(oldest)
            self._waiting.append(record)
            self.bytes += len(record.body)
        if self._waiting:
            self._filled.set()
        return dropped

    def _over(self, records: int, size: int) -> bool:
        return len(self._waiting) + records > self._most_records or self.bytes + size > self._most_bytes

    async def wait(self) -> None:
        """Until there is something to send."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()

    def hold(self, most: int) -> list[Record]:
        """The first records, kept in place until `release`."""
        held = list(islice(self._waiting, most))
        self._held = len(held)
        return held

    def release(self, taken: int) -> None:
        """The first `taken` of the held ones are done with; the others stay."""
        for _ in range(taken):
            self.bytes -= len(self._waiting.popleft().body)
        self._held = 0
