"""How far the database had come, noted outside of it: tells when the database was set back.

SQLite ends its write-ahead log at the first frame that does not match its checksum, without an error: after
such damage the database is sound, and older. So after every commit the newest journal entry and the newest
record are noted in a file of two slots, written in turn, each with a checksum: a torn write costs one slot.
A commit is on disk before its note is made, so a note is never ahead of a database that is whole.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from pathlib import Path

import msgspec

FILE = "detector.mark"
SLOT = 512  # bytes: one sector of a disk
SYNC_S = 10.0  # a crash of the process loses no note; one of the machine at most those of this time


class Mark(msgspec.Struct, frozen=True):
    """What a database had reached after a commit."""

    store: str  # identity of the database
    seq: int  # newest journal entry or snapshot
    record: int  # number of the newest record
    time: float  # unix seconds of the commit
    number: int = 0  # of the note: clocks may jump


class MarkFile:
    """A note that cannot be written is left out: the one before it is less sharp, and not wrong."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._descriptor = -1
        self._next = 0
        self._synced = 0.0

    def read(self) -> Mark | None:
        """The newest note; None if there is none that is whole."""
        try:
            data = self.path.read_bytes()[: 2 * SLOT]
        except OSError:
            return None
        found = [mark for begin in (0, SLOT) if (mark := _decode(data[begin : begin + SLOT])) is not None]
        newest = max(found, key=lambda mark: mark.number, default=None)
        self._next = newest.number + 1 if newest is not None else 0
        return newest

    def write(self, mark: Mark) -> None:
        with contextlib.suppress(OSError):
            if self._descriptor < 0:
                self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            note = msgspec.structs.replace(mark, number=self._next)
            os.pwrite(self._descriptor, _encode(note), self._next % 2 * SLOT)
            self._next += 1
            if time.monotonic() - self._synced >= SYNC_S:
                self.sync()

    def sync(self) -> None:
        """Have it on disk."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.fdatasync(self._descriptor)
                self._synced = time.monotonic()

    def close(self) -> None:
        self.sync()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _encode(mark: Mark) -> bytes:
    text = msgspec.json.encode(mark)
    return (b"%08x %s\n" % (zlib.crc32(text), text)).ljust(SLOT)


def _decode(slot: bytes) -> Mark | None:
    """None for anything that is not as it was written."""
    checksum, _, text = slot.rstrip().partition(b" ")
    try:
        return msgspec.json.decode(text, type=Mark) if int(checksum, 16) == zlib.crc32(text) else None
    except (ValueError, msgspec.MsgspecError):
        return None
