"""Signals of nodes in the database: blocks of rows, in chunks of nodes, so that a page reads only its own.

A row is mean, low, high of each component, then both statistics, as `pipeline.signal_capture` has it.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from detector.pipeline.signal_capture import Block
from detector.storage.arrays import Unreadable, pack, unpack
from estimators.core.types import Floats32

CHUNK = 64  # nodes of one row of the table
LEVEL = 1  # of compression: the commit must not wait for it


@dataclass(frozen=True, eq=False)
class Signal:
    """Rows of one node, oldest first, each at the middle of its time."""

    times: NDArray[np.float64]
    values: Floats32  # (rows, columns)

    @classmethod
    def joined(cls, parts: Iterable[Signal]) -> Signal:
        """One after the other; of two rows at one time the later part's."""
        kept = [part for part in parts if len(part.times)]
        if not kept:
            return cls(np.zeros(0), np.zeros((0, 0), np.float32))
        columns = kept[-1].values.shape[1]
        kept = [part for part in kept if part.values.shape[1] == columns]
        times = np.concatenate([part.times for part in kept])
        values = np.concatenate([part.values for part in kept])
        # From the end, the first of each time is the latest that was said of it.
        unique, last = np.unique(times[::-1], return_index=True)
        return cls(unique, values[::-1][last])

    def between(self, since: float, until: float) -> Signal:
        inside = (self.times >= since) & (self.times <= until)
        return Signal(self.times[inside], self.values[inside])

    def thinned(self, most: int) -> Signal:
        """At most so many rows: neighbours are put together, so that no extreme is lost."""
        times: NDArray[Any] = self.times
        values: NDArray[Any] = self.values
        dim = (values.shape[1] - 2) // 3
        while len(times) > most:
            if len(times) % 2:
                times, values = np.append(times, times[-1]), np.concatenate([values, values[-1:]])
            a, b = values[0::2], values[1::2]
            both = np.fmax(a, b)
            both[:, :dim] = np.where(
                np.isnan(a[:, :dim]), b[:, :dim],
                np.where(np.isnan(b[:, :dim]), a[:, :dim], (a[:, :dim] + b[:, :dim]) / 2),
            )  # fmt: skip
            both[:, dim : 2 * dim] = np.fmin(a[:, dim : 2 * dim], b[:, dim : 2 * dim])
            times, values = times[0::2] + (times[1::2] - times[0::2]) / 2, both
        return Signal(np.asarray(times, np.float64), np.asarray(values, np.float32))

    def pack(self) -> bytes:
        return zlib.compress(pack({"times": self.times, "values": self.values}), LEVEL)

    @classmethod
    def unpack(cls, body: bytes) -> Signal:
        """`Unreadable` if these are not bytes that `pack` made."""
        arrays = _read(body)
        return cls(arrays["times"], arrays["values"])


def of_block(block: Block, node: int) -> Signal:
    rows = block.values[:, node]
    seen = ~np.isnan(rows).all(axis=1)
    times: NDArray[np.float64] = block.begin + block.width * np.arange(0.5, len(rows))
    return Signal(times[seen], rows[seen])


def insert_blocks(connection: sqlite3.Connection, blocks: Iterable[Block]) -> None:
    """Store blocks; one of the same time, made again after a restart, takes the place of the earlier."""
    for block in blocks:
        names = msgspec.json.encode(block.names)
        layout = zlib.crc32(names)
        connection.execute("INSERT OR IGNORE INTO node_layout (id, names) VALUES (?, ?)", (layout, names))
        for chunk in range(0, len(block.names), CHUNK):
            values = np.ascontiguousarray(block.values[:, chunk : chunk + CHUNK])
            connection.execute(
                "INSERT OR REPLACE INTO node_history (tier, chunk, begin, until, layout, body) "
                "VALUES (?,?,?,?,?,?)",
                (block.tier, chunk // CHUNK, block.begin, block.until, layout,
                 zlib.compress(pack({"values": values}), LEVEL)),
            )  # fmt: skip


def read_signals(
    connection: sqlite3.Connection, names: Iterable[str], tier: int, since: float, until: float
) -> dict[str, Signal]:
    """What is stored of these nodes between two times; rows that cannot be read are left out."""
    wanted = list(names)
    parts: dict[str, list[Signal]] = {name: [] for name in wanted}
    for layout, body in connection.execute("SELECT id, names FROM node_layout").fetchall():
        index = {name: v for v, name in enumerate(msgspec.json.decode(body, type=list[str]))}
        chunks: dict[int, list[str]] = {}
        for name in wanted:
            if name in index:
                chunks.setdefault(index[name] // CHUNK, []).append(name)
        for chunk, inside in chunks.items():
            rows = connection.execute(
                "SELECT begin, until, body FROM node_history WHERE tier = ? AND chunk = ? AND layout = ? "
                "AND until > ? AND begin <= ? ORDER BY begin",
                (tier, chunk, layout, since, until),
            )
            for begin, end, packed in rows:
                try:
                    values = _read(packed)["values"]
                except (Unreadable, KeyError):
                    continue
                block = Block(tier, begin, (end - begin) / len(values), (), values)
                for name in inside:
                    parts[name].append(of_block(block, index[name] % CHUNK))
    return {name: Signal.joined(found).between(since, until) for name, found in parts.items()}


def blocks_since(connection: sqlite3.Connection, tier: int, since: float) -> list[float]:
    """When the blocks of a tier begin that reach beyond a time, oldest first."""
    rows = connection.execute(
        "SELECT DISTINCT begin FROM node_history WHERE tier = ? AND until > ? ORDER BY begin", (tier, since)
    )
    return [begin for (begin,) in rows]


def highest(connection: sqlite3.Connection, tier: int, begin: float) -> dict[float, float]:
    """The largest event statistic of all nodes in each row of the blocks that begin at a time."""
    found: dict[float, float] = {}
    rows = connection.execute(
        "SELECT until, body FROM node_history WHERE tier = ? AND begin = ?", (tier, begin)
    )
    for until, packed in rows:
        try:
            values = _read(packed)["values"]
        except (Unreadable, KeyError):
            continue
        add_highest(found, Block(tier, begin, (until - begin) / len(values), (), values))
    return found


def add_highest(found: dict[float, float], block: Block) -> None:
    """The same of a block, joined with what was ``found`` of other nodes."""
    times = block.begin + block.width * np.arange(0.5, len(block.values))
    pooled = np.where(np.isnan(block.values[:, :, -1]), -np.inf, block.values[:, :, -1])
    for time, value in zip(times.tolist(), pooled.max(axis=1, initial=-np.inf).tolist(), strict=True):
        if value > found.get(time, -np.inf):
            found[time] = value


def begins(connection: sqlite3.Connection) -> dict[int, float]:
    """Since when there is something of each tier."""
    return dict(connection.execute("SELECT tier, min(begin) FROM node_history GROUP BY tier").fetchall())


def prune(connection: sqlite3.Connection, size: int) -> None:
    """Forget the oldest blocks of each tier beyond its share of ``size`` bytes."""
    there = begins(connection)
    for tier in there:
        connection.execute(
            "DELETE FROM node_history WHERE tier = ? AND begin IN (SELECT begin FROM (SELECT begin, "
            "sum(bytes) OVER (ORDER BY begin DESC) AS total FROM (SELECT begin, sum(length(body)) AS bytes "
            "FROM node_history WHERE tier = ? GROUP BY begin)) WHERE total > ?)",
            (tier, tier, size // len(there)),
        )
    connection.execute("DELETE FROM node_layout WHERE id NOT IN (SELECT layout FROM node_history)")


def _read(body: bytes) -> dict[str, NDArray[Any]]:
    try:
        return unpack(zlib.decompress(body))
    except zlib.error as error:
        raise Unreadable(f"no signal: {error}") from None
