"""Samples from a file: the whole of it, or its growing end through rotations."""

from __future__ import annotations

import asyncio
import os
import zlib
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import Field

from connectors.base import Batch, ConnectorError, Settings, Source
from connectors.codec.decoder import Decode, Decoder
from connectors.codec.lines import LineCutter
from connectors.settings.secrets import FilePath
from connectors.settings.units import Duration

CHUNK = 2**20
HEAD = 256  # bytes of the beginning that tell a file from a later one with the same inode


class FileSource(Source):
    """JSON lines, CSV or line protocol from a file, whole or followed like `tail -F`.

    The position names the file by inode and by its first bytes (inodes are reused), and the offset
    of the first line not yet read. A file renamed away is read to its end before its successor.
    """

    name = "file"
    replayable = True
    example = ("path: samples.jsonl", "mode: tail")
    guarantee = (
        "No lost alert, no distinct duplicate, as long as a rotated file stays beside the new one "
        "until it is read; what copytruncate cuts off unread is lost."
    )

    class Config(Settings):
        path: FilePath = Field(description="The file.")
        mode: Literal["whole", "tail"] = Field(
            default="whole", description="Stop at the end, or wait for more."
        )
        start: Literal["begin", "end"] = Field(
            default="begin", description="Where to start in tail mode if there is no saved position."
        )
        poll: Duration = Field(default=0.2, description="How often a followed file is polled.", gt=0)
        decode: Decode = Field(default=Decode(), description="How a line is read.")

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.ends = config.mode == "whole"
        self._decoder = Decoder(config.decode)
        self._file: IO[bytes] | None = None
        self._inode = 0
        self._offset = 0  # of the first byte not yet read
        self._behind: list[Path] = []  # rotated files still to be read before the current one
        self._begin()

    def _begin(self) -> None:
        self._cutter = LineCutter(self.config.decode)
        self._offset = 0

    async def open(self, position: Any) -> None:
        self._decoder.open()
        await self.close()
        await asyncio.to_thread(self._open, position)

    def _open(self, position: Any) -> None:
        self._behind = []
        if position is not None:
            found = self._find(position)
            if found:
                self._behind = found[1:]
                self._start(found[0], position["offset"])
                return
        if position is None and self.config.mode == "tail" and self.config.start == "end":
            self._start(self.config.path, None)
        else:
            self._start(self.config.path, 0)

    def _find(self, position: Any) -> list[Path]:
        """The file of a position and all later ones of the same name, oldest first; or nothing."""
        folder, name = self.config.path.parent, self.config.path.name
        try:
            beside = [path for path in folder.iterdir() if path.name.startswith(name) and path.is_file()]
            stats = {
                path: path.stat() for path in beside if path.suffix not in (".gz", ".xz", ".zst", ".bz2")
            }
        except OSError as error:
            raise ConnectorError(f"cannot look into {folder}: {error}", retry=True) from None
        for path, stat in stats.items():
            if stat.st_ino == position["inode"] and stat.st_size >= position["offset"]:
                with path.open("rb") as file:
                    if _head(file, position["head"][0]) != position["head"]:
                        continue
                later = [p for p, s in stats.items() if s.st_mtime_ns > stat.st_mtime_ns and p != path]
                later = [p for p in later if p != self.config.path]
                current = [] if path == self.config.path else [self.config.path]
                return [path, *sorted(later, key=lambda p: stats[p].st_mtime_ns), *current]
        return []

    def _start(self, path: Path, offset: int | None) -> None:
        """Open a file at an offset (None: its end); a followed file need not exist yet."""
        self._begin()
        try:
            file = path.open("rb")
        except FileNotFoundError as error:
            if self.config.mode == "tail":
                return
            raise ConnectorError(f"cannot open {path}: {error.strerror}", retry=False) from None
        except OSError as error:
            raise ConnectorError(f"cannot open {path}: {error.strerror}", retry=True) from None
        self._file, self._inode = file, os.fstat(file.fileno()).st_ino
        if offset is None:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - CHUNK))
            offset = file.tell() + file.read().rfind(b"\n") + 1
        if offset and self._cutter.wants_header:
            file.seek(0)
            self._cutter.feed(file.readline(), Batch())
        file.seek(offset)
        self._offset = offset

    async def read(self) -> Batch | None:
        while True:
            # Not in a task of its own: if this is cancelled, the file offset is put back below.
            batch, ended = await self._step_in_thread()
            if batch is not None and (batch.received or batch.position is not None):
                return batch
            if ended:
                return None
            await asyncio.sleep(self.config.poll)

    async def _step_in_thread(self) -> tuple[Batch | None, bool]:
        step = asyncio.ensure_future(asyncio.to_thread(self._step))
        before = self._offset - self._cutter.pending
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            await asyncio.gather(step, return_exceptions=True)
            if self._file is not None and step.exception() is None and step.result()[0] is not None:
                self._rewind(before)
            raise

    def _rewind(self, offset: int) -> None:
        """Give back what a cancelled read had taken: it never crosses into another file."""
        assert self._file is not None
        header = self._cutter.header
        self._begin()
        self._cutter.header = header
        self._file.seek(offset)
        self._offset = offset

    def _step(self) -> tuple[Batch | None, bool]:
        """Read one chunk: (a batch or None, whether the stream has ended)."""
        try:
            if self._file is None:
                self._start(self.config.path, 0)
            if self._file is None:
                return None, False
            chunk = self._file.read(CHUNK)
            if not chunk:
                return self._at_end()
        except OSError as error:
            raise ConnectorError(f"cannot read {self.config.path}: {error}", retry=True) from None
        self._offset += len(chunk)
        batch = Batch()
        whole = self._cutter.feed(chunk, batch)
        if whole:
            self._decoder.lines(whole, batch, header=self._cutter.header)
        if whole or batch.received:
            batch.position = self._position()
        return batch, False

    def _at_end(self) -> tuple[Batch | None, bool]:
        assert self._file is not None
        if self._behind or self.config.mode == "whole" or self._rotated():
            batch = Batch()
            whole = self._cutter.end(batch)
            if whole:
                self._decoder.lines(whole, batch, header=self._cutter.header)
            if batch.received:
                batch.position = self._position()
                return batch, False
            if not self._behind and self.config.mode == "whole":
                return None, True
            self._file.close()
            self._file = None
            self._start(self._behind.pop(0) if self._behind else self.config.path, 0)
            return None, False
        if os.fstat(self._file.fileno()).st_size < self._offset:  # truncated in place
            self._begin()
            self._file.seek(0)
        return None, False

    def _rotated(self) -> bool:
        try:
            return os.stat(self.config.path).st_ino != self._inode
        except FileNotFoundError:
            return False  # renamed, and the successor is not there yet

    def _position(self) -> dict[str, Any]:
        assert self._file is not None
        head = _head(self._file, HEAD)
        return {"inode": self._inode, "offset": self._offset - self._cutter.pending, "head": head}

    async def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _head(file: IO[bytes], length: int) -> list[int]:
    """Length and checksum of a file's first bytes."""
    first = os.pread(file.fileno(), length, 0)
    return [len(first), zlib.crc32(first)]
