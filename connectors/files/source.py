"""Samples from a file: the whole of it, or its growing end through rotations."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from connectors.base import Batch, ConnectorError, Expected, Settings, Source, Unreadable
from connectors.files.first_rows import GZIP, FileDecode, magic
from connectors.files.reader import FileReader, NotYet, head
from connectors.settings.secrets import FilePath
from connectors.settings.units import Duration


class FileSource(Source):
    """JSON lines, CSV, Parquet or line protocol from a file, whole or followed like `tail -F`.

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
        decode: FileDecode = Field(default=FileDecode(), description="How the file is read.")

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.ends = config.mode == "whole"
        self._expected, self._again = Expected(), False
        self._reader: FileReader | None = None
        self._problem: str | None = None
        self._behind: list[Path] = []  # rotated files still to be read before the current one

    @classmethod
    def requires(cls, config: Any = None) -> dict[str, tuple[str, ...]]:
        """Parquet needs a library of its own."""
        form = getattr(getattr(config, "decode", None), "format", "auto")
        is_parquet = form == "parquet" or (
            form == "auto" and getattr(config, "path", Path()).suffix == ".parquet"
        )
        return {**super().requires(config), **({"parquet": ("pyarrow",)} if is_parquet else {})}

    def expect(self, expected: Expected) -> None:
        """Nodes that come later have columns, too: an open table is looked at again."""
        self._again = self._reader is not None and expected != self._expected
        self._expected = expected

    async def open(self, position: Any) -> None:
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
            packed = (".gz", ".xz", ".zst", ".bz2")
            stats = {
                path: path.stat() for path in beside if path.suffix not in packed or path == self.config.path
            }
        except OSError as error:
            raise ConnectorError(f"cannot look into {folder}: {error}", retry=True) from None
        for path, stat in stats.items():
            if stat.st_ino == position["inode"]:
                with path.open("rb") as file:
                    # What is packed may hold more than its size.
                    short = stat.st_size < position["offset"] and magic(path)[:2] != GZIP
                    if short or head(file, position["head"][0]) != position["head"]:
                        continue
                later = [p for p, s in stats.items() if s.st_mtime_ns > stat.st_mtime_ns and p != path]
                later = [p for p in later if p != self.config.path]
                current = [] if path == self.config.path else [self.config.path]
                return [path, *sorted(later, key=lambda p: stats[p].st_mtime_ns), *current]
        return []

    def _start(self, path: Path, offset: int | None) -> None:
        """Open a file at an offset (None: its end); a followed file need not exist yet."""
        tail = self.config.mode == "tail"
        try:
            reader = FileReader(path, self.config.decode, self._expected, explain=True)
        except FileNotFoundError as error:
            if tail:
                return
            raise ConnectorError(f"cannot open {path}: {error.strerror}", retry=False) from None
        except NotYet:
            return
        except Unreadable as error:
            raise ConnectorError(str(error), retry=tail) from None
        except OSError as error:
            raise ConnectorError(f"cannot open {path}: {error.strerror}", retry=True) from None
        if tail and (reader.is_parquet or reader.is_packed):
            reader.close()
            raise ConnectorError(f"{path}: only text can be followed; give  mode: whole", retry=False)
        reader.seek(offset)
        self._reader = reader

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
        before = self._reader.resume if self._reader is not None else 0
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            await asyncio.gather(step, return_exceptions=True)
            if self._reader is not None and step.exception() is None and step.result()[0] is not None:
                # Give back what a cancelled read had taken: it never crosses into another file.
                self._reader.seek(before)
            raise

    def _step(self) -> tuple[Batch | None, bool]:
        """Read one chunk: (a batch or None, whether the stream has ended)."""
        try:
            if self._again and self._reader is not None:
                position = self._reader.position()
                self._reader.close()
                self._reader, self._again = None, False
                self._open(position)
            if self._reader is None:
                self._start(self.config.path, 0)
            if self._reader is None:
                return None, self.config.mode == "whole"  # there is nothing in it
            before = self._reader.resume
            batch = self._reader.read()
            self._note(self._reader)
            if batch is None:
                return self._at_end(self._reader)
        except OSError as error:
            raise ConnectorError(f"cannot read {self.config.path}: {error}", retry=True) from None
        if batch.received or self._reader.resume > before:
            batch.position = self._reader.position()
        return batch, False

    def _note(self, reader: FileReader) -> None:
        if self._problem is None and reader.problems:
            self._problem = reader.problems[0]

    def _at_end(self, reader: FileReader) -> tuple[Batch | None, bool]:
        if self._behind or self.config.mode == "whole" or self._rotated(reader):
            batch = reader.end()
            self._note(reader)
            if batch.received:
                batch.position = reader.position()
                return batch, False
            if not self._behind and self.config.mode == "whole":
                return None, True
            reader.close()
            self._reader = None
            self._start(self._behind.pop(0) if self._behind else self.config.path, 0)
            return None, False
        if reader.size < reader.offset:  # truncated in place, and perhaps written anew in another form
            reader.close()
            self._reader = None
        return None, False

    def _rotated(self, reader: FileReader) -> bool:
        try:
            return os.stat(self.config.path).st_ino != reader.inode
        except FileNotFoundError:
            return False  # renamed, and the successor is not there yet

    @property
    def problem(self) -> str | None:
        return self._problem

    async def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
