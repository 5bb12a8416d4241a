"""What the console draws of every node: values and statistics over time, in rows of fixed width. Pure.

Rows of the fine tier are as narrow as one tick if the network is small; those of the coarse tier hold several
of the fine ones. A block of rows that is full is put down for storage; the block under way is part of the
state, so that a restart goes on with it and the same blocks come out again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector.alignment.ticks import Tick
from detector.stateful import Arrays, Meta, Rows
from estimators.core.types import Floats32

ROWS = 30  # of a block
COMPONENTS = 4  # of a sample that are kept: its first ones
TIER_BYTES = 5 * 2**20  # that the rows of a tier's span should have, uncompressed
SPANS = (3 * 3600.0, 7 * 86400.0)  # seconds that each tier should reach back, at least
TICKS = (1000, 10_000)  # the same in ticks, for streams of long steps
FINE, COARSE = range(2)


class Columns(NamedTuple):
    """Places of the numbers in a row of one node, for ``dim`` components."""

    dim: int

    @property
    def width(self) -> int:
        return 3 * self.dim + 2  # mean, lowest and highest of each component; two statistics

    @property
    def mean(self) -> slice:
        return slice(0, self.dim)

    @property
    def low(self) -> slice:
        return slice(self.dim, 2 * self.dim)

    @property
    def high(self) -> slice:
        return slice(2 * self.dim, 3 * self.dim)

    @property
    def statistics(self) -> slice:
        return slice(3 * self.dim, 3 * self.dim + 2)


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of all nodes: (rows, N, columns), NaN where nothing came."""

    tier: int
    begin: float
    width: float  # of one row, in seconds
    names: tuple[str, ...]
    values: Floats32

    @property
    def until(self) -> float:
        return self.begin + self.width * len(self.values)

    def of(self, names: Sequence[str]) -> Block:
        """The part of some nodes, those it has."""
        index = {name: v for v, name in enumerate(self.names)}
        kept = [name for name in names if name in index]
        values = self.values[:, [index[name] for name in kept]]
        return Block(self.tier, self.begin, self.width, tuple(kept), values)


def widths(n_nodes: int, dim: int, step: float) -> tuple[float, ...]:
    """Of the rows of each tier; one tier if the fine one reaches as far as the coarse one should."""
    row = 4 * max(n_nodes, 1) * Columns(dim).width
    fitting = max(1, TIER_BYTES // row)
    in_ticks = [
        max(1, math.ceil(max(span / step, ticks) / fitting)) for span, ticks in zip(SPANS, TICKS, strict=True)
    ]
    fine = in_ticks[FINE]
    folded = math.ceil(in_ticks[COARSE] / fine)
    return (step * fine,) if folded == 1 else (step * fine, step * fine * folded)


class Tier:
    """The block under way, and the row of it that is being filled."""

    def __init__(self, number: int, width: float, n_nodes: int, columns: Columns) -> None:
        self.number, self.width, self.columns = number, width, columns
        self.row: int | None = None  # counted from time zero
        self.n_nodes = n_nodes

    def begin_at(self, row: int) -> None:
        """The first row; until then nothing is held."""
        n, columns = self.n_nodes, self.columns
        self.row = row
        self.values: Floats32 = np.full((ROWS, n, columns.width), np.nan, np.float32)
        self.sum: NDArray[np.float64] = np.zeros((n, columns.dim))
        self.count: NDArray[np.int32] = np.zeros(n, np.int32)
        self.now: Floats32 = np.full((n, columns.width), np.nan, np.float32)

    def enter(self, row: int) -> tuple[float, Floats32] | None:
        """Go on to another row; the begin and the rows of the block if that was left."""
        if self.row is None:
            self.begin_at(row)
            return None
        if row == self.row:
            return None
        self.settle()
        left = None
        if row // ROWS != self.row // ROWS:
            left = self.begin, self.values.copy()
            self.values[:] = np.nan
        self.row = row
        self.sum[:], self.count[:], self.now[:] = 0.0, 0, np.nan
        return left

    def settle(self) -> None:
        """Write the row under way to its place."""
        assert self.row is not None
        seen = self.count > 0
        self.now[seen, self.columns.mean] = self.sum[seen] / self.count[seen, None]
        self.values[self.row % ROWS] = self.now

    @property
    def begin(self) -> float:
        assert self.row is not None
        return self.row // ROWS * ROWS * self.width

    def add(self, nodes: NDArray[np.int32], mean: NDArray[np.floating], low: NDArray[np.floating],
            high: NDArray[np.floating]) -> None:  # fmt: skip
        self.sum[nodes] += mean
        self.count[nodes] += 1
        for place, values, keep in ((self.columns.low, low, np.fmin), (self.columns.high, high, np.fmax)):
            self.now[nodes, place] = keep(self.now[nodes, place], values)

    def add_statistics(self, statistics: NDArray[np.floating]) -> None:
        place = self.columns.statistics
        self.now[:, place] = np.fmax(self.now[:, place], statistics)


class SignalCapture:
    """Both tiers of one network."""

    def __init__(self, names: tuple[str, ...], dim: int, step: float) -> None:
        self.names, self.columns = names, Columns(min(dim, COMPONENTS))
        self.tiers = [
            Tier(number, width, len(names), self.columns)
            for number, width in enumerate(widths(len(names), self.columns.dim, step))
        ]

    def step(self, tick: Tick, statistic: NDArray[np.floating], pooled: NDArray[np.floating]) -> list[Block]:
        """Take a tick with the statistics after it; the blocks that are full."""
        blocks = []
        fine = self.tiers[FINE]
        row = math.floor(tick.start / fine.width + 1e-6)
        if fine.row is not None and row != fine.row:
            blocks += self._fold()
        blocks += self._enter(fine, row)
        for layer in tick.layers:
            values = layer.values[:, : self.columns.dim]
            fine.add(layer.nodes, values, values, values)
        fine.add_statistics(np.stack([statistic, pooled], axis=1).astype(np.float32))
        return blocks

    def _fold(self) -> list[Block]:
        """Put the fine row that is done into the coarse one."""
        if len(self.tiers) == 1:
            return []
        fine, coarse = self.tiers
        assert fine.row is not None
        fine.settle()
        blocks = self._enter(coarse, math.floor((fine.row + 0.5) * fine.width / coarse.width))
        nodes = np.flatnonzero(fine.count).astype(np.int32)
        row, columns = fine.now[nodes], self.columns
        coarse.add(nodes, row[:, columns.mean], row[:, columns.low], row[:, columns.high])
        coarse.add_statistics(fine.now[:, columns.statistics])
        return blocks

    def _enter(self, tier: Tier, row: int) -> list[Block]:
        left = tier.enter(row)
        return [] if left is None else [Block(tier.number, left[0], tier.width, self.names, left[1])]

    def under_way(self, nodes: list[int]) -> list[Block]:
        """The blocks that are not full yet, of these nodes."""
        found = []
        names = tuple(self.names[v] for v in nodes)
        for tier in self.tiers:
            if tier.row is not None:
                tier.settle()
                found.append(Block(tier.number, tier.begin, tier.width, names, tier.values[:, nodes]))
        return found

    def state(self) -> tuple[Arrays, Meta]:
        arrays: Arrays = {}
        for tier in self.tiers:
            if tier.row is not None:
                used = tier.row % ROWS + 1
                arrays |= {
                    f"{tier.number}.values": tier.values[:used].copy(), f"{tier.number}.sum": tier.sum.copy(),
                    f"{tier.number}.count": tier.count.copy(), f"{tier.number}.now": tier.now.copy(),
                }  # fmt: skip
        return arrays, {"rows": [tier.row for tier in self.tiers], "widths": [t.width for t in self.tiers]}

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        """Rows of another width, because nodes came or went, are not gone on with."""
        if meta["widths"] != [tier.width for tier in self.tiers]:
            return
        kept = rows >= 0
        for tier, row in zip(self.tiers, meta["rows"], strict=True):
            if row is None:
                continue
            tier.begin_at(row)
            stored = arrays[f"{tier.number}.values"]
            tier.values[: len(stored), kept] = stored[:, rows[kept]]
            for name, into in (("sum", tier.sum), ("count", tier.count), ("now", tier.now)):
                into[kept] = arrays[f"{tier.number}.{name}"][rows[kept]]
