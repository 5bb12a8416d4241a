"""Samples as columns: names become indices, lists of objects become arrays, misfits are counted.

The only place that looks at samples one Python object at a time, and only to pull their fields out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from detector.network.node_index import NodeIndex
from detector.settings.alignment import MAX_TIME as MAX_TIME
from estimators.core.types import Floats, Nodes

REASONS = (
    "node",  # not a node of the network
    "dimension",  # not the configured number of components
    "time",  # not finite, or outside the years that float seconds can hold
    "infinite",  # a component is infinite
    "missing",  # no component at all, or one that the missing policy cannot fill
    "future",  # too far ahead of the stream, and nothing confirmed it
    "late",  # its tick was already closed
    "duplicate",  # same node and time as a sample taken before
)


class Sampled(Protocol):
    """What a sample must show; `connectors.Sample` does."""

    @property
    def time(self) -> float: ...
    @property
    def node(self) -> str: ...
    @property
    def values(self) -> Sequence[float]: ...


@dataclass(frozen=True, slots=True)
class Columns:
    """n samples in arrival order; node -1 is unknown, a missing component is NaN."""

    nodes: Nodes  # (n,)
    times: Floats  # (n,) unix seconds
    values: Floats  # (n, d)

    def __len__(self) -> int:
        return len(self.times)

    def take(self, which: Any) -> Columns:
        """The samples at those positions, slice or mask."""
        return Columns(self.nodes[which], self.times[which], self.values[which])

    def kept(self, which: NDArray[np.bool_]) -> Columns:
        """Those of the mask; itself if it has them all."""
        return self if which.all() else self.take(which)

    @classmethod
    def empty(cls, dim: int) -> Columns:
        return cls(np.zeros(0, np.int32), np.zeros(0), np.zeros((0, dim)))

    @classmethod
    def join(cls, parts: Sequence[Columns]) -> Columns:
        """The parts one after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.nodes for part in parts]),
            np.concatenate([part.times for part in parts]),
            np.concatenate([part.values for part in parts]),
        )


def from_samples(node_index: NodeIndex, samples: Sequence[Sampled], dim: int) -> tuple[Columns, int]:
    """Columns of those samples with ``dim`` components, and how many had another number of them."""
    rejected = 0
    values = _matrix([sample.values for sample in samples], dim)
    if values is None:
        # A ragged batch: the rare case pays for looking at each sample.
        fitting = [sample for sample in samples if len(sample.values) == dim]
        rejected = len(samples) - len(fitting)
        samples = fitting
        values = np.array([sample.values for sample in samples], np.float64).reshape(len(samples), dim)
    find = node_index.index.get
    nodes = np.array([find(sample.node, -1) for sample in samples], np.int32)
    times = np.array([sample.time for sample in samples], np.float64)
    if len(nodes) and nodes.min() < 0:
        node_index.note_unknown([samples[i].node for i in np.flatnonzero(nodes < 0).tolist()])
    return Columns(nodes, times, values), rejected


def _matrix(rows: Sequence[Sequence[float]], dim: int) -> Floats | None:
    """Rows as (n, dim), or None where a row has another length."""
    try:
        if dim == 1:  # four times faster than the general way
            return np.array([value for (value,) in rows], np.float64).reshape(-1, 1)
        values = np.array(rows, np.float64)
    except ValueError:
        return None
    if not rows:
        return np.zeros((0, dim))
    return values if values.shape == (len(rows), dim) else None


def typical_interval(samples: Columns) -> float:
    """Seconds between two samples of a node: the median over nodes of their medians; NaN if none has two.

    What to choose ``step`` by when the user has not: the other time settings follow from it.
    """
    order = np.lexsort((samples.times, samples.nodes))
    nodes, gaps = samples.nodes[order], np.diff(samples.times[order])
    counted = (nodes[1:] == nodes[:-1]) & (nodes[1:] >= 0) & (gaps > 0.0)
    nodes, gaps = nodes[1:][counted], gaps[counted]
    if not len(gaps):
        return float("nan")
    order = np.lexsort((gaps, nodes))
    nodes, gaps = nodes[order], gaps[order]
    _, first, count = np.unique(nodes, return_index=True, return_counts=True)
    return float(np.median(gaps[first + (count - 1) // 2]))
