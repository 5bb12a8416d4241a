"""Numbers from the columns of a CSV file: a header, then one row per observation."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from connectors.codec.tables import csv_header
from estimators.core.types import Floats

MISSING = {"", "na", "nan", "null", "none"}


@dataclass(frozen=True)
class Columns:
    """The text of a table; columns become numbers when somebody asks for them."""

    where: str  # the file, for messages
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]  # where each row stands

    @classmethod
    def read(cls, data: bytes, where: str) -> Columns:
        """Comma, semicolon or tab, told by the header. ValueError names file and line."""
        first, _, rest = data.partition(b"\n")
        if not first.strip():
            raise ValueError(f"{where}: the file is empty")
        delimiter = max(",;\t", key=lambda mark: first.count(mark.encode()))
        names = csv_header(first.rstrip(b"\r"), delimiter)
        if not names or not all(names) or any(_is_number(name) for name in names):
            raise ValueError(f"{where}, line 1: expected the names of the columns")
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{where}, line 1: two columns are called {twice!r}")
        rows, lines = [], []
        for number, line in enumerate(rest.split(b"\n"), 2):
            if not line.strip():
                continue
            try:
                cells = next(csv.reader([line.decode().rstrip("\r")], delimiter=delimiter, strict=True))
            except (UnicodeDecodeError, csv.Error) as error:
                raise ValueError(f"{where}, line {number}: {error}") from None
            if len(cells) != len(names):
                raise ValueError(
                    f"{where}, line {number}: {len(cells)} cells, but there are {len(names)} columns"
                )
            rows.append(tuple(cell.strip() for cell in cells))
            lines.append(number)
        return cls(where, tuple(names), tuple(rows), tuple(lines))

    def numbers(self, wanted: Sequence[str]) -> Floats:
        """(n, len(wanted)); NaN where a cell is empty. ValueError: no such column, or a cell is no number."""
        for name in wanted:
            if name not in self.names:
                known = ", ".join(self.names[:20])
                raise ValueError(f"{self.where}: there is no column {name!r} (columns: {known})")
        found = np.empty((len(self.rows), len(wanted)))
        for k, name in enumerate(wanted):
            at = self.names.index(name)
            for i, row in enumerate(self.rows):
                found[i, k] = self._number(row[at], name, self.lines[i])
        return found

    def _number(self, text: str, name: str, line: int) -> float:
        if text.lower() in MISSING:
            return math.nan
        try:
            number = float(text)
        except ValueError:
            number = math.inf
        if not math.isfinite(number):
            raise ValueError(f"{self.where}, line {line}: {name} is {text[:40]!r}, which is no finite number")
        return number


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def complete(values: Floats) -> tuple[Floats, int]:
    """The rows without a missing cell, and how many others there were."""
    whole = np.isfinite(values).all(axis=1)
    return values[whole], int(np.count_nonzero(~whole))


def thinned(values: Floats, most: int) -> Floats:
    """At most so many rows, evenly chosen."""
    if len(values) <= most:
        return values
    return values[np.linspace(0, len(values) - 1, most).astype(np.intp)]
