"""The first rows of a file, and from them how it is written: JSON lines, CSV or Parquet, long or wide."""

from __future__ import annotations

import csv
import gzip
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

import msgspec
from pydantic import Field

from connectors.base import Expected, Unreadable
from connectors.codec.decoder import Decode
from connectors.codec.fast_json import UNDECODABLE
from connectors.codec.layout import (
    TIME_NAMES,
    Layout,
    find_decimal,
    find_delimiter,
    find_layout,
    named,
    time_format_of,
)
from connectors.codec.tables import cell_value, csv_header

ROWS = 200  # that are looked at
MAX_FIRST = 2**24  # bytes in which the first line must end: 100,000 columns
MAX_ROWS = 2**24  # bytes of further lines that are looked at
PARQUET, GZIP = b"PAR1", b"\x1f\x8b"


class FileDecode(Decode):
    """How a file is read; keys that are not set are derived from its first rows."""

    format: Literal["auto", "json", "csv", "influx", "parquet"] = Field(  # type: ignore[assignment]
        default="auto",
        description="Format of the file; auto: JSON lines, CSV (one sample a row, or one time a row and a "
        "column per node) or Parquet, told by its first rows.",
    )


def magic(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)


def open_bytes(path: Path) -> IO[bytes]:
    """The bytes of a text file, unpacked if it is gzipped."""
    return gzip.open(path, "rb") if magic(path)[:2] == GZIP else path.open("rb")  # type: ignore[return-value]


def look_at(path: Path, given: Decode, expected: Expected) -> Layout | None:
    """How a file is written; None while it is empty. `Unreadable` if that cannot be told.

    What the configuration leaves open is found from the first rows; settings that say all are kept.
    """
    form = getattr(given, "format", "json")
    start = magic(path)
    if form == "parquet" or (form == "auto" and start == PARQUET):
        from connectors.files.parquet import first_rows

        header, rows = first_rows(path, ROWS)
        return _found(path, header, rows, given, expected, "json")
    if form in ("json", "influx"):
        return Layout(_as(given, form), [], None, [], [])
    with open_bytes(path) as file:
        first = file.readline(MAX_FIRST)
        while first and first.isspace():
            first = file.readline(MAX_FIRST)
        lines = file.readlines(MAX_ROWS if len(first) > 4096 else ROWS * 4096)[:ROWS] if first else []
    if not first:
        return None
    if form == "auto" and first.lstrip(b"\xef\xbb\xbf \t")[:1] in (b"{", b"["):
        return _json(path, [first, *lines], given, expected)
    return _csv(path, first, lines, given, expected)


def _json(path: Path, lines: list[bytes], given: Decode, expected: Expected) -> Layout:
    plain = Layout(_as(given, "json"), [], None, [], [])
    rows: list[dict[str, Any]] = []
    for line in lines:
        try:
            found = msgspec.json.decode(line)
        except UNDECODABLE:
            continue  # a document over several lines, or a broken line: what the decoder makes of it counts
        rows += [row for row in (found if isinstance(found, list) else [found]) if isinstance(row, dict)]
    mapped = (
        given.node,
        given.node_constant,
        given.values,
        given.nodes,
        given.records,
        given.columnar or None,
    )
    header = list(dict.fromkeys(name for row in rows for name in row))
    if not rows or _is_plain(header, rows) or any(key is not None for key in mapped):
        return plain
    return _found(path, header, rows, given, expected, "json")


def _is_plain(header: list[str], rows: list[dict[str, Any]]) -> bool:
    """The default form, which is read fastest."""
    if "node" not in header or not {"value", "values"} & set(header):
        return False
    if "time" not in header:
        return named(header, TIME_NAMES) is None  # times of arrival
    try:
        return time_format_of("time", rows) in (None, "unix", "iso8601")
    except ValueError:
        return False


def _csv(path: Path, first: bytes, lines: list[bytes], given: Decode, expected: Expected) -> Layout | None:
    try:
        text = first.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        hint = "; it looks like UTF-16" if first[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        raise Unreadable(f"{path}, line 1: not UTF-8 text at byte {error.start}{hint}") from None
    fixed = "delimiter" in given.model_fields_set
    delimiter = given.delimiter if fixed else find_delimiter(text)
    header = given.columns or csv_header(first, delimiter)
    if len(header) < 2:
        raise Unreadable(
            f"{path}, line 1: expected JSON lines, CSV with the names of at least two columns, or Parquet "
            f"(got {text[:60]!r})"
        )
    if given.format == "csv" and (given.node or given.node_constant or "node" in header):
        return Layout(_as(given, "csv"), header, None, [], [])  # all is said; the time may be that of arrival
    if given.columns is None:
        _check_names(path, header)
    rows = [cells for line in lines if (cells := cells_of(line, delimiter)) and len(cells) == len(header)]
    if not any(line.endswith(b"\n") for line in lines) and not rows:
        return None
    if not rows:
        found = len(cells_of(lines[0], delimiter))
        raise Unreadable(f"{path}, line 2: expected {len(header)} cells as in line 1, got {found}")
    cells = [cell for row in rows for cell in row]
    decimal = given.decimal if "decimal" in given.model_fields_set else find_decimal(cells, delimiter)
    spelt = _as(given, "csv", delimiter=delimiter, decimal=decimal)
    typed = [
        {name: cell_value(cell, decimal) for name, cell in zip(header, row, strict=True)} for row in rows
    ]
    return _found(path, header, typed, spelt, expected, "csv")


def _check_names(path: Path, header: list[str]) -> None:
    numbers = [name for name in header if isinstance(cell_value(name, ","), float)]
    if 2 * len(numbers) > len(header) and isinstance(cell_value(header[0], ","), float):
        raise Unreadable(f"{path}, line 1: expected the names of the columns, got numbers: {header[0]}, ...")
    for place, name in enumerate(header):
        if not name and place:
            raise Unreadable(f"{path}, line 1: column {place + 1} has no name")
        if name and header.index(name) != place:
            raise Unreadable(f"{path}, line 1: two columns are called {name!r}")


def cells_of(line: bytes, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line.decode().rstrip("\r\n")], delimiter=delimiter, strict=True), [])
    except (UnicodeDecodeError, csv.Error):
        return []


def _found(
    path: Path, header: list[str], rows: list[dict[str, Any]], given: Decode, expected: Expected,
    form: Literal["json", "csv"],
) -> Layout:  # fmt: skip
    try:
        layout = find_layout(header, list(islice(rows, ROWS)), _as(given, form), expected)
    except ValueError as error:
        raise Unreadable(f"{path}: {error}") from None
    return layout


def _as(given: Decode, form: str, **more: Any) -> Decode:
    """The settings a decoder takes: what was found stands in the place of auto."""
    known = {name: getattr(given, name) for name in given.model_fields_set if name != "format"}
    return Decode.model_validate({**known, **more, "format": form})
