"""Tables in memory, and recordings out of order, as files that every command reads."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from connectors.base import Sample


def write_frame(frame: Any, path: Path) -> None:
    """A pandas or polars DataFrame, wide or long, as CSV. TypeError if it is none."""
    if hasattr(frame, "write_csv"):  # polars
        frame.write_csv(path)
        return
    if not (hasattr(frame, "to_csv") and hasattr(frame, "columns")):
        raise TypeError(
            f"recording: expected the path of a file or a DataFrame, got {type(frame).__name__}; for arrays "
            "there is NetworkDetector"
        )
    index, columns = frame.index, frame.columns
    if getattr(columns, "nlevels", 1) > 1:  # (node, component)
        frame = frame.set_axis([".".join(map(str, name)) for name in columns], axis=1)
    if getattr(index, "nlevels", 1) > 1:
        frame = frame.reset_index()
    elif index.name is not None or hasattr(index, "tz") or hasattr(index, "to_timestamp"):
        frame = frame.rename_axis(index=str(index.name or "time")).reset_index()
    frame.to_csv(path, index=False)


def write_sorted(samples: Sequence[Sample], components: Sequence[str], path: Path) -> None:
    """Samples in the order of their times, one a row."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        dim = len(samples[0].values)
        names = components if len(components) == dim > 1 else [f"value{k + 1}" for k in range(dim)]
        rows.writerow(["time", "node", *(names if dim > 1 else ["value"])])
        for sample in sorted(samples, key=lambda one: one.time):
            rows.writerow([repr(sample.time), sample.node, *map(_cell, sample.values)])


def _cell(value: float) -> str:
    return "" if value != value else repr(float(value))
