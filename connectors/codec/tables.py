"""CSV rows and InfluxDB line protocol as objects that the decoder's paths can walk."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

_MISSING = {"", "na", "n/a", "nan", "null", "none", "-"}
# 1.234,5 and 1 234,5: groups of three digits before a decimal comma
_GROUPED = re.compile(r"[-+]?[0-9]{1,3}(?:[.\u00a0 ][0-9]{3})+(?:,[0-9]*)?")


def csv_header(line: bytes, delimiter: str) -> list[str]:
    """Column names of a header line; empty if it cannot be read."""
    try:
        return [
            name.strip()
            for name in next(csv.reader([line.decode().lstrip("\ufeff")], delimiter=delimiter), [])
        ]
    except (UnicodeDecodeError, csv.Error):
        return []


def csv_rows(
    data: bytes, delimiter: str, columns: list[str] | None, as_text: set[str], decimal: str = "."
) -> Iterator[dict[str, Any] | None]:
    """One object per line, None for a line that is no row; numbers become numbers, gaps None.

    Columns in `as_text` stay text: a node named 007 keeps its zeros.

    A row is one line: quoted line breaks are not supported, so that a stray quote cannot swallow
    the rest of the file.
    """
    lines = [line for line in data.split(b"\n") if line and not line.isspace()]
    if columns is None and lines:
        columns = csv_header(lines[0], delimiter)
        lines = lines[1:]
    for line in lines:
        try:
            # The line end is cut: a bare carriage return inside a line would end the row early.
            row = next(csv.reader([line.decode().rstrip("\r")], delimiter=delimiter, strict=True), [])
        except (UnicodeDecodeError, csv.Error):
            yield None
            continue
        if columns is None or len(row) != len(columns):
            yield None
            continue
        item: dict[str, Any] = {
            name: text.strip() if name in as_text else cell_value(text, decimal)
            for name, text in zip(columns, row, strict=True)
        }
        yield item


def cell_value(text: str, decimal: str = ".") -> Any:
    """A number, None for a gap, or the text itself."""
    stripped = text.strip()
    if stripped.lower() in _MISSING:
        return None
    digits = stripped
    if decimal == ",":
        if "." in digits or " " in digits or "\u00a0" in digits:
            # A point in a column of decimal commas is either a mark of thousands or a mistake, not a decimal.
            if _GROUPED.fullmatch(digits) is None:
                return stripped
            digits = digits.replace(".", "").replace(" ", "").replace("\u00a0", "")
        digits = digits.replace(",", ".", 1)
    try:
        found = float(digits)
    except ValueError:
        return stripped
    return found if math.isfinite(found) else stripped


def influx_lines(data: bytes, parse: Callable[[str], dict[str, Any]]) -> Iterator[dict[str, Any] | None]:
    """One object per line: measurement, tags, fields, time; and the defaults for node and values.

    The default node is the series key (measurement and sorted tags), the default values are the
    numeric fields in order of their names: what InfluxDB itself calls one series.
    """
    for line in data.split(b"\n"):
        line = line.strip()
        if not line or line.startswith(b"#"):
            continue
        try:
            # As text: given bytes, the parser (2.0.1) crashes the process on a string field that is not
            # UTF-8. Millions of mutated texts did it no harm.
            text = line.decode()
            if "\0" in text:
                raise ValueError("NUL byte")
            item = parse(text)
        except Exception:  # whatever the parser raises (its own error is no ValueError), the line is bad
            yield None
            continue
        tags = "".join(f",{name}={value}" for name, value in sorted(item["tags"].items()))
        item["node"] = item["measurement"] + tags
        fields = item["fields"]
        item["values"] = [
            fields[name]
            for name in sorted(fields)
            if isinstance(fields[name], (int, float)) and not isinstance(fields[name], bool)
        ]
        yield item
