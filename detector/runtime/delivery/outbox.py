"""What one sink has still to take, oldest first, in memory; the database holds it for the next start."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Literal

from detector.storage.records import Record


def ordering_key(record: Record) -> str:
    """Records of one key keep their order: those of an incident; others have a key each."""
    return record.incident or record.id


class Outbox:
    """Bounded in records and bytes; what does not fit is dropped by policy, and told to the caller.

    What is being sent stays: while that is all there is, one record more may wait.
    """

    def __init__(self, records: int, size: int, full: Literal["drop_oldest", "drop_newest"]) -> None:
        self.limit(records, size, full)
        self.bytes = 0
        self._waiting: dict[str, Record] = {}  # by id, in order
        self._held: set[str] = set()  # being sent right now, not to be dropped
        self._filled = asyncio.Event()

    def limit(self, records: int, size: int, full: Literal["drop_oldest", "drop_newest"]) -> None:
        self._most_records, self._most_bytes, self._full = records, size, full

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, id: str) -> bool:
        return id in self._waiting

    @property
    def records(self) -> list[Record]:
        return list(self._waiting.values())

    def add(self, records: Iterable[Record]) -> list[Record]:
        """The records that were dropped to stay within bounds."""
        dropped = []
        for record in records:
            if record.id in self._waiting:
                continue
            if self._over(1, len(record.body)) and self._full == "drop_newest":
                dropped.append(record)
                continue
            while self._over(1, len(record.body)) and len(self._waiting) > len(self._held):
                oldest = next(id for id in self._waiting if id not in self._held)
                dropped.append(self._waiting[oldest])
                self.take(oldest)
            self._waiting[record.id] = record
            self.bytes += len(record.body)
        if self._waiting:
            self._filled.set()
        return dropped

    def _over(self, records: int, size: int) -> bool:
        return len(self._waiting) + records > self._most_records or self.bytes + size > self._most_bytes

    async def filled(self) -> None:
        """Until something was added, or waits since `wait_for_more`."""
        await self._filled.wait()

    def wait_for_more(self) -> None:
        """From now on, `filled` is about what is added later."""
        self._filled.clear()

    def hold(self, most: int, without: Collection[str] = ()) -> list[Record]:
        """The first records, of no key that is left out, kept in place until `take` or `release`."""
        held: list[Record] = []
        size = 0
        for record in self._waiting.values():
            size += len(record.body)
            if len(held) == min(most, self._most_records) or (held and size > self._most_bytes):
                break
            if not without or ordering_key(record) not in without:
                held.append(record)
        self._held = {record.id for record in held}
        return held

    def hold_behind(self, record: Record) -> list[Record]:
        """Hold the next one of its key, if there is any."""
        own = [one for one in self._waiting.values() if ordering_key(one) == ordering_key(record)]
        held = own[own.index(record) + 1 :][:1] if record in own else []
        self._held = {one.id for one in held}
        return held

    def take(self, id: str) -> Record | None:
        """This one is done with; None if it does not wait."""
        record = self._waiting.pop(id, None)
        if record is not None:
            self.bytes -= len(record.body)
            self._held.discard(id)
        return record

    def release(self) -> None:
        """What is held and was not taken may be dropped again."""
        self._held = set()
