"""Records as JSON lines in a file, with rotation by size; no line twice, none half written."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pydantic import Field

from connectors.base import Accepted, ConnectorError, Settings, Sink, unheard
from connectors.settings.secrets import FilePath
from connectors.settings.units import Size

TAIL = 2**20  # bytes of the end that are searched for ids when the file is opened again
MAX_IDS = 20_000


class _Id(msgspec.Struct):
    id: str


_ID = msgspec.json.Decoder(_Id)


class FileSink(Sink):
    """Appends one JSON object per line and syncs it to disk before `write` returns.

    On opening, a half-written last line is cut off, and the ids in the tail are remembered: a record
    that comes again after a crash is not written again.
    """

    name = "file"
    example = ("path: incidents.jsonl",)

    class Config(Settings):
        path: FilePath = Field(description="The file; it is created, its folder is not.")
        max_size: Size = Field(
            default=64 * 2**20, description="Rotate before the file grows beyond this.", gt=0
        )
        keep: int = Field(default=5, description="Rotated files kept: path.1 is the newest.", ge=1, le=1000)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._descriptor: int | None = None
        self._size = 0
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._lock = asyncio.Lock()

    async def open(self) -> None:
        async with self._lock:
            await asyncio.to_thread(self._open)

    async def write(self, records: Sequence[Mapping[str, Any]], accepted: Accepted = unheard) -> None:
        async with self._lock:
            await asyncio.to_thread(self._write, records)  # all of them or none

    async def close(self) -> None:
        async with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _open(self) -> None:
        if self._descriptor is not None:
            return
        try:
            self._remember(self._rotated(1))
            descriptor = os.open(self.config.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
            try:
                size = os.fstat(descriptor).st_size
                whole = _whole_lines(descriptor, size)
                if whole < size:
                    os.ftruncate(descriptor, whole)
                    os.fsync(descriptor)
            except OSError:
                os.close(descriptor)
                raise
            self._descriptor, self._size = descriptor, whole
            self._remember(self.config.path)
            _sync_folder(self.config.path)
        except OSError as error:
            raise ConnectorError(f"cannot open {self.config.path}: {error.strerror}", retry=True) from None

    def _remember(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return
        for line in lines:
            try:
                self._note(_ID.decode(line).id)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                continue  # the first line of the tail is usually cut; others are not ours

    def _note(self, record_id: str) -> None:
        self._ids[record_id] = None
        self._ids.move_to_end(record_id)
        while len(self._ids) > MAX_IDS:
            self._ids.popitem(last=False)

    def _write(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._open()
        new = {str(record["id"]): record for record in records if str(record["id"]) not in self._ids}
        text = b"".join(msgspec.json.encode(record) + b"\n" for record in new.values())
        if not text:
            return
        if self._size and self._size + len(text) > self.config.max_size:
            self._rotate()
        assert self._descriptor is not None
        try:
            written = 0
            while written < len(text):
                written += os.write(self._descriptor, text[written:])
            os.fsync(self._descriptor)
        except OSError as error:
            self._undo()
            raise ConnectorError(f"cannot write {self.config.path}: {error.strerror}", retry=True) from None
        self._size += len(text)
        for record_id in new:
            self._note(record_id)

    def _undo(self) -> None:
        """Take a half-written batch back; if even that fails, reopening will repair the end."""
        assert self._descriptor is not None
        try:
            os.ftruncate(self._descriptor, self._size)
        except OSError:
            os.close(self._descriptor)
            self._descriptor = None

    def _rotated(self, number: int) -> Path:
        path: Path = self.config.path
        return path.with_name(f"{path.name}.{number}")

    def _rotate(self) -> None:
        assert self._descriptor is not None
        try:
            os.close(self._descriptor)
            self._descriptor = None
            for number in range(self.config.keep - 1, 0, -1):
                if self._rotated(number).exists():
                    self._rotated(number).replace(self._rotated(number + 1))
            self.config.path.replace(self._rotated(1))
        except OSError as error:
            raise ConnectorError(f"cannot rotate {self.config.path}: {error.strerror}", retry=True) from None
        self._open()


def _whole_lines(descriptor: int, size: int) -> int:
    """Length of the file up to and including its last line end."""
    while size > 0:
        start = max(0, size - 2**16)
        found = os.pread(descriptor, size - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        size = start
    return 0


def _sync_folder(path: Path) -> None:
    """Make the file's name as durable as its lines."""
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
