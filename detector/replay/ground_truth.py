"""What people know of a recording: when there really was something, and where. Read from a CSV file.

Columns: ``start`` and, if known, ``end``, ``nodes`` (separated by spaces, ``;`` or ``|``), ``kind``,
``direction`` (``up`` or ``down``) and ``series``; others are not used. Times are numbers or
ISO 8601, as in the recording.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from detector.replay.recordings import time_of


@dataclass(frozen=True)
class Label:
    """One real event; ``end`` is NaN where nobody knows it."""

    start: float
    end: float = math.nan
    nodes: frozenset[str] = frozenset()
    kind: str = ""
    direction: str = ""  # up or down; empty: either

    def fits(self, direction: str, nodes: Collection[str]) -> bool:
        """Whether an alarm of that direction at these nodes may be about this event.

        It names one of the label's nodes, if there are any, and does not have the opposite direction.
        """
        if self.nodes and self.nodes.isdisjoint(nodes):
            return False
        return not (self.direction and direction) or self.direction == direction

    def until(self, grace: float) -> float:
        """The last moment at which finding it still counts."""
        return self.start + grace if math.isnan(self.end) else max(self.end, self.start)


def read_labels(path: Path, series: str | None = None) -> list[Label]:
    """The labels of a file, earliest first; of one ``series`` only, if it is named."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        names = [name.strip().lower() for name in rows.fieldnames or ()]
        if "start" not in names:
            raise ValueError(
                f"{path}, line 1: labels need a column called start (columns: {', '.join(names)})"
            )
        rows.fieldnames = names
        found = []
        for row in rows:
            place = f"{path}, line {rows.line_num}"
            text = {name: (row.get(name) or "").strip() for name in names}
            if not any(text.values()) or (series and text.get("series") not in (None, "", series)):
                continue
            start, end = _time(text["start"], place, "start"), _time(text.get("end", ""), place, "end")
            if math.isnan(start):
                raise ValueError(f"{place}: start is missing")
            if end < start:
                raise ValueError(f"{place}: end {text['end']} is before start {text['start']}")
            nodes = frozenset(name for name in re.split(r"[\s;|]+", text.get("nodes", "")) if name)
            direction = text.get("direction", "").lower()
            if direction not in ("", "up", "down"):
                raise ValueError(f"{place}: direction must be up or down (got {direction!r})")
            found.append(Label(start, end, nodes, text.get("kind", ""), direction))
    return sorted(found, key=lambda label: label.start)


def _time(text: str, place: str, column: str) -> float:
    try:
        return time_of(text) if text else math.nan
    except ValueError as error:
        raise ValueError(f"{place}: {column} {error}") from None
