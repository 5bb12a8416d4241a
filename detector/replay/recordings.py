"""Recorded samples from a file: JSON lines, long CSV (a row is one sample) and wide CSV (a row is one time).

The long forms are those of sources, and so is their decoding. A wide file has the time in its first column
and one further column per node, or per node and component (`pump-1.temperature`); an empty cell is missing.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from connectors.base import Batch, Sample
from connectors.codec.decoder import Decode, Decoder
from connectors.codec.lines import LineCutter
from connectors.codec.paths import Rejected, TimeFormat, parse_time
from connectors.codec.tables import csv_header
from estimators.core.types import Floats

CHUNK = 2**20
ROWS = 256  # of a wide file, in one batch
MAX_FIRST = 2**24  # bytes in which the first line must end: 100,000 columns
_MISSING = {"", "na", "nan", "null", "none"}


class Part(NamedTuple):
    """Some samples, and how much of the file has been read up to here, from 0 to 1."""

    batch: Batch
    share: float


class Form(NamedTuple):
    """How a file is written."""

    is_wide: bool
    decode: Decode
    header: list[str]


def look_at(path: Path, decode: Decode | None = None) -> Form:
    """Tell the form of a file by its first lines; a given ``decode`` decides instead."""
    with path.open("rb") as file:
        first, second = file.readline(MAX_FIRST), file.readline(MAX_FIRST)
    if decode is not None:
        return Form(False, decode, [])
    if not first.strip():
        raise ValueError(f"{path}: the file is empty")
    if first.lstrip()[:1] in (b"{", b"["):
        return Form(False, Decode(), [])
    delimiter = max(",;\t", key=lambda mark: first.count(mark.encode()))
    header = csv_header(first, delimiter)
    if len(header) < 2 or not all(header):
        raise ValueError(f"{path}, line 1: expected JSON lines, or the names of at least two CSV columns")
    is_wide = "node" not in header
    if not is_wide and "time" not in header:
        raise ValueError(
            f"{path}, line 1: long CSV needs a column called time (columns: {', '.join(header)[:200]})"
        )
    cells = next(csv.reader([second.decode(errors="replace")], delimiter=delimiter), [])
    time = cells[0 if is_wide else header.index("time")] if len(cells) == len(header) else ""
    if is_wide and (len(set(header)) != len(header)):
        twice = next(name for name in header if header.count(name) > 1)
        raise ValueError(f"{path}, line 1: two columns are called {twice!r}")
    return Form(is_wide, Decode(format="csv", delimiter=delimiter, time_format=_time_format(time)), header)


def _time_format(text: str) -> TimeFormat:
    try:
        float(text)
    except ValueError:
        return "iso8601"
    return "unix"


def read_recording(
    path: Path, *, dim: int, names: Sequence[str] | None = None, components: Sequence[str] | None = None,
    decode: Decode | None = None,
) -> Iterator[Part]:  # fmt: skip
    """The samples of a file in its order; what is refused is counted in the batches."""
    form = look_at(path, decode)
    return _wide(path, form, dim, names, components) if form.is_wide else _long(path, form)


def _long(path: Path, form: Form) -> Iterator[Part]:
    decoder, cutter = Decoder(form.decode), LineCutter(form.decode)
    decoder.open()
    size, done = max(1, path.stat().st_size), 0
    with path.open("rb") as file:
        while True:
            chunk = file.read(CHUNK)
            done += len(chunk)
            batch = Batch()
            whole = cutter.feed(chunk, batch) if chunk else cutter.end(batch)
            if whole:
                decoder.lines(whole, batch, header=cutter.header)
            yield Part(batch, min(1.0, done / size))
            if not chunk:
                return


def wide_columns(
    header: Sequence[str], dim: int, names: Sequence[str] | None, components: Sequence[str] | None
) -> list[tuple[str, list[int]]]:
    """For each node the columns of its components, in their order."""
    columns = {name: i for i, name in enumerate(header) if i > 0}
    if dim == 1 and (names is None or any(name in columns for name in names)):
        chosen = columns if names is None else [name for name in names if name in columns]
        return [(name, [columns[name]]) for name in chosen]
    if names is None:
        names = list(dict.fromkeys(name.rpartition(".")[0] for name in columns if "." in name))
    parts = components or list(dict.fromkeys(n.rpartition(".")[2] for n in columns if "." in n))
    found = [
        (name, [columns[f"{name}.{part}"] for part in parts])
        for name in names
        if all(f"{name}.{part}" in columns for part in parts)
    ]
    return [(name, places) for name, places in found if len(places) == dim]


def strangers(
    path: Path, *, dim: int, names: Sequence[str], components: Sequence[str] | None = None
) -> tuple[list[str], list[str]]:
    """Of a wide file: columns that belong to no node, and nodes that have no column."""
    form = look_at(path)
    if not form.is_wide:
        return [], []
    found = wide_columns(form.header, dim, names, components)
    if not found:
        return [], []  # an error, which reading it will tell
    used = {0, *(place for _, places in found for place in places)}
    there = {name for name, _ in found}
    unused = [column for place, column in enumerate(form.header) if place not in used]
    return unused, [name for name in names if name not in there]


def _wide(
    path: Path, form: Form, dim: int, names: Sequence[str] | None, components: Sequence[str] | None
) -> Iterator[Part]:
    columns = wide_columns(form.header, dim, names, components)
    if not columns:
        wanted, there = repr(names[0]) if names else "a node", ", ".join(form.header[1:])[:200]
        raise ValueError(f"{path}: no column for {wanted} with {dim} component(s); columns: {there}")
    time_format = form.decode.time_format or "unix"
    size, done = max(1, path.stat().st_size), 0
    batch, rows = Batch(), 0
    with path.open("rb") as file:
        done += len(file.readline())
        for raw in file:
            done += len(raw)
            if raw.isspace():
                continue
            _row(raw, form, columns, time_format, batch)
            rows += 1
            if rows % ROWS == 0:
                yield Part(batch, min(1.0, done / size))
                batch = Batch()
    yield Part(batch, 1.0)


def _row(
    raw: bytes, form: Form, columns: list[tuple[str, list[int]]], time_format: TimeFormat, into: Batch
) -> None:
    try:
        cells = next(
            csv.reader([raw.decode().rstrip("\r\n")], delimiter=form.decode.delimiter, strict=True), []
        )
        if len(cells) != len(form.header):
            raise Rejected("malformed")
        moment = parse_time(cells[0] if time_format == "iso8601" else float(cells[0]), time_format)
        if not math.isfinite(moment):
            raise Rejected("time")
    except (UnicodeDecodeError, csv.Error):
        into.reject("malformed", len(columns))
        return
    except (Rejected, ValueError) as refused:
        into.reject(refused.reason if isinstance(refused, Rejected) else "time", len(columns))
        return
    for name, places in columns:
        try:
            values = tuple(_number(cells[place]) for place in places)
        except ValueError:
            into.reject("values")
            continue
        if all(map(math.isnan, values)):
            continue  # this node said nothing at this time
        into.accept([Sample(moment, name, values)])


def _number(cell: str) -> float:
    if cell.strip().lower() in _MISSING:
        return math.nan
    value = float(cell)
    if not math.isfinite(value):
        raise ValueError(cell)
    return value


def on_grid(
    samples: Sequence[Sample], names: Sequence[str], dim: int, step: float, origin: float = 0.0
) -> tuple[Floats, Floats]:
    """Samples as X (T, N, dim), NaN where there is none, and the begin of each tick (T,).

    Of several samples of a node in one tick the last counts; nodes that are not named are left out.
    """
    index = {name: v for v, name in enumerate(names)}
    known = [sample for sample in samples if sample.node in index and len(sample.values) == dim]
    if not known:
        raise ValueError("no sample of a node of the network in it")
    ticks = np.floor((np.array([sample.time for sample in known]) - origin) / step).astype(np.int64)
    found, rows = np.unique(ticks, return_inverse=True)
    X: Floats = np.full((len(found), len(names), dim), np.nan)
    X[rows, [index[sample.node] for sample in known]] = [sample.values for sample in known]
    times: Floats = np.asarray(origin + found * step, np.float64)
    return X, times


def gather(parts: Iterator[Part], progress: Any = None) -> list[Sample]:
    """All samples of a recording."""
    samples: list[Sample] = []
    for part in parts:
        samples += part.batch.samples
        if progress is not None:
            progress("reading", part.share)
    return samples


def time_of(text: str) -> float:
    """Unix seconds from what people write: a number, or ISO 8601."""
    try:
        time = float(text)
    except ValueError:
        try:
            time = parse_time(text, "iso8601")
        except Rejected:
            time = math.nan
    if not math.isfinite(time):
        raise ValueError(f"{text!r} is no time: write 2026-11-16T08:00:00Z or unix seconds")
    return time
