"""Recorded samples from a file of any form that sources read: JSON lines, CSV, Parquet, long or wide."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from connectors.base import Batch, Expected, Sample, Unreadable
from connectors.codec.decoder import Decode
from connectors.codec.layout import Layout
from connectors.codec.paths import Rejected, parse_time
from connectors.files.first_rows import FileDecode
from connectors.files.reader import FileReader, NotYet
from estimators.core.types import Floats


class Part(NamedTuple):
    """Some samples, and how much of the file has been read up to here, from 0 to 1."""

    batch: Batch
    share: float


class Recording:
    """A file of samples; iterating reads it from the begin, in its order. What is refused is counted in the
    batches, and the first such lines are explained in `problems`."""

    def __init__(self, path: Path, expected: Expected | None = None, decode: Decode | None = None) -> None:
        """`Unreadable` (a ValueError) if the form of the file cannot be told."""
        self.path = path
        self.expected = expected or Expected()
        self.decode = decode or FileDecode()
        self.problems: list[str] = []
        reader = self._open()
        self.layout: Layout = reader.layout
        reader.close()

    def _open(self) -> FileReader:
        try:
            return FileReader(self.path, self.decode, self.expected, explain=True)
        except NotYet:
            raise Unreadable(f"{self.path}: the file is empty, or holds nothing but a header") from None

    def __iter__(self) -> Iterator[Part]:
        reader = self._open()
        self.problems = reader.problems
        try:
            while (batch := reader.read()) is not None:
                yield Part(batch, reader.share)
            yield Part(reader.end(), 1.0)
        finally:
            reader.close()

    def strangers(self) -> tuple[list[str], list[str]]:
        """Of a wide file: columns that belong to no node, and nodes that have no column."""
        if self.layout.nodes is None:
            return [], []
        there = set(self.layout.nodes)
        return self.layout.unused, [name for name in self.expected.nodes or () if name not in there]


class Grid:
    """Samples on the grid of ticks, collected in little memory.

    Of several samples of a node in one tick the last counts; nodes that are not named are left out, unless no
    names are given: then all nodes count, in the order in which they appear.
    """

    def __init__(self, names: Sequence[str] | None, dim: int | None) -> None:
        self._open = names is None
        self.index = {name: v for v, name in enumerate(names or ())}
        self.dim = dim
        self.dims: set[int] = set()  # numbers of values that samples have had
        self._times: list[Floats] = []
        self._nodes: list[Any] = []
        self._values: list[Floats] = []

    @property
    def names(self) -> list[str]:
        return list(self.index)

    def add(self, samples: Sequence[Sample]) -> None:
        if self._open:
            for sample in samples:
                self.index.setdefault(sample.node, len(self.index))
        if self.dim is None and samples:
            self.dim = len(samples[0].values)
        named = [sample for sample in samples if sample.node in self.index]
        known = [sample for sample in named if len(sample.values) == self.dim]
        self.dims.update(len(sample.values) for sample in named)
        if known:
            self._times.append(np.array([sample.time for sample in known]))
            self._nodes.append(np.array([self.index[sample.node] for sample in known], np.int32))
            self._values.append(np.array([sample.values for sample in known], np.float64))

    @property
    def times(self) -> Floats:
        """Of all samples, in the order in which they came."""
        return np.concatenate(self._times) if self._times else np.empty(0)

    @property
    def nodes(self) -> Any:
        return np.concatenate(self._nodes) if self._nodes else np.empty(0, np.int32)

    def rows(self, step: float, origin: float = 0.0) -> tuple[Floats, Floats]:
        """X (T, N, dim), NaN where there is no sample, and the begin of each tick (T,)."""
        if not self._times:
            raise ValueError("no sample of a node of the network in it")
        X, ticks = self._table(np.floor((self.times - origin) / step).astype(np.int64))
        times: Floats = np.asarray(origin + ticks * step, np.float64)
        return X, times

    def distinct(self) -> tuple[Floats, Floats]:
        """As `rows`, but each time that occurs is a row of its own."""
        return self._table(self.times)

    def _table(self, moments: Any) -> tuple[Floats, Any]:
        found, rows = np.unique(moments, return_inverse=True)
        X: Floats = np.full((len(found), len(self.index), self.dim or 1), np.nan)
        X[rows, self.nodes] = np.concatenate(self._values)
        return X, found


def on_grid(
    samples: Sequence[Sample], names: Sequence[str], dim: int, step: float, origin: float = 0.0
) -> tuple[Floats, Floats]:
    """Samples as X (T, N, dim) and the begin of each tick (T,); see `Grid`."""
    grid = Grid(names, dim)
    grid.add(samples)
    return grid.rows(step, origin)


def gather(parts: Iterator[Part] | Recording, progress: Any = None) -> list[Sample]:
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
