"""One recording from an offset on, in batches: what sources follow and commands read whole."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from connectors.base import Batch, Expected
from connectors.codec.decoder import Decode, Decoder
from connectors.codec.layout import Layout
from connectors.codec.lines import LineCutter
from connectors.codec.paths import LAST_TIME, Rejected, number, parse_path, parse_time
from connectors.codec.tables import cell_value
from connectors.files.first_rows import GZIP, PARQUET, cells_of, look_at, magic, open_bytes

CHUNK = 2**20
HEAD = 256  # bytes of the beginning that tell a file from a later one with the same inode
PROBLEMS = 5  # bad lines that are explained


class NotYet(Exception):
    """The file is empty, or holds nothing but a header: how it is written cannot be told yet."""


class FileReader:
    """An open file. ``offset`` counts the bytes of text that were read, or the rows of Parquet."""

    def __init__(self, path: Path, decode: Decode, expected: Expected, *, explain: bool = False) -> None:
        """OSError, `Unreadable` or `NotYet`; with ``explain`` bad lines get into `problems`."""
        self.path = path
        layout = look_at(path, decode, expected)
        if layout is None:
            raise NotYet(path)
        self.layout: Layout = layout
        start = magic(path)
        self.is_parquet, self.is_packed = start == PARQUET, start[:2] == GZIP
        self.decoder = Decoder(layout.decode)
        self.decoder.open()
        self.problems: list[str] = []
        self.offset = 0
        self._explain = explain
        self._line: int | None = 1  # None: not known, after a jump
        self._rows: Iterator[list[dict[str, Any]]] | None = None
        self._file: IO[bytes] = path.open("rb") if self.is_parquet else open_bytes(path)
        self._stat = os.stat(self._file.fileno())
        self._cutter = LineCutter(layout.decode)
        self.seek(0)

    @property
    def inode(self) -> int:
        return self._stat.st_ino

    @property
    def size(self) -> int:
        """Bytes on disk, now."""
        return os.fstat(self._file.fileno()).st_size

    @property
    def resume(self) -> int:
        """The offset of what has not been given yet."""
        return self.offset - self._cutter.pending

    @property
    def share(self) -> float:
        """How much of the file has been read, from 0 to 1."""
        if self.is_parquet:
            from connectors.files.parquet import count_rows

            return min(1.0, self.offset / max(1, count_rows(self.path)))
        at = self._file.fileobj.tell() if self.is_packed else self.offset  # type: ignore[attr-defined]
        return min(1.0, float(at) / max(1, self.size))

    def seek(self, offset: int | None) -> None:
        """Go on from there; None: the begin of the last line, which is not whole yet."""
        header = self._cutter.header
        self._cutter = LineCutter(self.layout.decode)
        self._cutter.header = header
        if self.is_parquet:
            from connectors.files.parquet import rows_from

            self.offset = offset or 0
            self._rows = rows_from(self.path, self.offset)
            return
        if offset is None:
            self._file.seek(max(0, self.size - CHUNK))
            offset = self._file.tell() + self._file.read().rfind(b"\n") + 1
        if offset and self._cutter.wants_header and header is None:
            self._file.seek(0)
            self._cutter.feed(self._file.readline(), Batch())
        self._file.seek(offset)
        self.offset, self._line = offset, None if offset else 1

    def read(self) -> Batch | None:
        """The next batch, perhaps an empty one; None: nothing more for now."""
        if self._rows is not None:
            rows = next(self._rows, None)
            if rows is None:
                return None
            batch = Batch()
            self.decoder.rows(rows, batch)
            if batch.rejected:
                self._note_rows(rows)
            self.offset += len(rows)
            return batch
        chunk = self._file.read(CHUNK)
        if not chunk:
            return None
        self.offset += len(chunk)
        batch = Batch()
        self._decode(self._cutter.feed(chunk, batch), batch)
        return batch

    def end(self) -> Batch:
        """The file has ended: what is left is a line, too."""
        batch = Batch()
        self._decode(self._cutter.end(batch), batch)
        return batch

    def _decode(self, whole: bytes, into: Batch) -> None:
        if not whole:
            return
        before = sum(into.rejected.values())
        self.decoder.lines(whole, into, header=self._cutter.header)
        if self._explain:
            if sum(into.rejected.values()) > before and len(self.problems) < PROBLEMS:
                self._note_lines(whole)
            if self._line is not None:
                self._line += whole.count(b"\n")

    def _note_lines(self, whole: bytes) -> None:
        begin = self._line
        first = (begin or 0) + (self._cutter.wants_header and self._cutter.header is not None)
        for place, line in enumerate(whole.split(b"\n"), start=first):
            if len(self.problems) >= PROBLEMS:
                return
            if not line or line.isspace():
                continue
            batch = Batch()
            self.decoder.lines(line, batch, header=self._cutter.header)
            if batch.rejected:
                why = explain(line, self.layout, self._cutter.header, next(iter(batch.rejected)))
                where = "" if begin is None else f", line {place}"
                self.problems.append(f"{self.path}{where}: {why}")

    def _note_rows(self, rows: list[dict[str, Any]]) -> None:
        for place, row in enumerate(rows, start=self.offset + 1):
            batch = Batch()
            self.decoder.rows([row], batch)
            if batch.rejected and len(self.problems) < PROBLEMS:
                why = _bad_cell(row, self.layout) or next(iter(batch.rejected))
                self.problems.append(f"{self.path}, row {place}: {why}")

    def position(self) -> dict[str, Any]:
        """By inode and first bytes (inodes are reused), and the offset of what was not given yet."""
        return {"inode": self.inode, "offset": self.resume, "head": self.head(HEAD)}

    def head(self, length: int) -> list[int]:
        """Length and checksum of the first bytes on disk."""
        return head(self._file, length)

    def close(self) -> None:
        self._file.close()


def head(file: IO[bytes], length: int) -> list[int]:
    """Length and checksum of a file's first bytes."""
    first = os.pread(file.fileno(), length, 0)
    return [len(first), zlib.crc32(first)]


def explain(line: bytes, layout: Layout, header: list[str] | None, reason: str) -> str:
    """Why a line was refused: the column and the value where that can be told."""
    text = line.decode(errors="replace").strip()
    short = text if len(text) <= 80 else f"{text[:77]}..."
    names = layout.decode.columns or header
    if layout.decode.format != "csv" or names is None:
        return f"{reason}: {short}"
    cells = cells_of(line, layout.decode.delimiter)
    if len(cells) != len(names):
        return f"expected {len(names)} cells, got {len(cells)}: {short}"
    decimal = layout.decode.decimal
    row = {name: cell_value(cell, decimal) for name, cell in zip(names, cells, strict=True)}
    return _bad_cell(row, layout) or f"{reason}: {short}"


def _bad_cell(row: dict[str, Any], layout: Layout) -> str | None:
    decode = layout.decode
    time = str(parse_path(decode.time or "time")[0])
    try:
        cell = row.get(time)
        found = parse_time("" if cell is None else cell, decode.time_format)
        if not 0 <= found < LAST_TIME:
            raise Rejected("time")
    except Rejected:
        return f"column {time!r}: {row.get(time)!r} is no time"
    fields = [field for fields in (decode.nodes or {}).values() for field in fields]
    values = [decode.values] if isinstance(decode.values, str) else decode.values or []
    for field in fields or [str(parse_path(path)[0]) for path in values] or list(row):
        try:
            cell = row.get(field)
            for one in cell if isinstance(cell, list) else [cell]:
                number(one)
        except Rejected:
            return f"column {field!r}: {row.get(field)!r} is no number"
    return None
