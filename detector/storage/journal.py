"""What happened since the last snapshot, in a form that the pipeline can be given again.

An `Entry` is a run of samples (of one source, with its position; or merged of several, whose positions
follow in entries without samples), an operator's command, what another box told of the nodes at a cut, the
end of the stream, or a *rebuild*: the moment at which the pipeline factorised its blocks for a snapshot.
Entries replayed in order after a snapshot bring a pipeline to the same state, bit for bit.

Samples are stored as columns: the names met, then per sample the index of its name, its time and its values.
"""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np

from connectors.base import Sample

Kind = Literal["samples", "command", "rebuild", "flush", "boundary"]
INDEX, FLOAT = np.dtype("<u4"), np.dtype("<f8")


class _Head(msgspec.Struct):
    names: list[str]
    count: int
    # Components of every sample; -1: they differ, and the lengths stand before the values.
    dim: int


_HEAD = msgspec.msgpack.Decoder(_Head)


class Damaged(ValueError):
    """Bytes that are not what was written."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal. `position` is where its source goes on after it, JSON-ready."""

    kind: Kind
    body: bytes = b""
    source: str | None = None
    position: Any = None
    count: int = 0  # samples

    def checksum(self, seq: int) -> int:
        """Over everything, so that neither a flipped bit nor a row in the wrong place goes unseen."""
        head = msgspec.json.encode([seq, self.kind, self.source, self.position, self.count])
        return zlib.crc32(self.body, zlib.crc32(head))


def samples_entry(source: str | None, samples: Sequence[Sample], position: Any) -> Entry:
    return Entry("samples", encode_samples(samples), source, position, len(samples))


def command_entry(name: str, arguments: Mapping[str, Any]) -> Entry:
    return Entry("command", msgspec.json.encode([name, arguments]))


def decode_command(body: bytes) -> tuple[str, dict[str, Any]]:
    return msgspec.json.decode(body, type=tuple[str, dict[str, Any]])


def encode_samples(samples: Sequence[Sample]) -> bytes:
    codes: dict[str, int] = {}
    index = np.array([codes.setdefault(sample.node, len(codes)) for sample in samples], INDEX)
    times = np.array([sample.time for sample in samples], FLOAT)
    lengths = {len(sample.values) for sample in samples}
    parts = [index.tobytes(), times.tobytes()]
    if len(lengths) <= 1:
        dim = lengths.pop() if lengths else 0
    else:
        dim = -1
        parts.append(np.array([len(sample.values) for sample in samples], INDEX).tobytes())
    if dim == 1:
        values = np.array([sample.values[0] for sample in samples], FLOAT)
    else:
        values = np.array([value for sample in samples for value in sample.values], FLOAT)
    head = msgspec.msgpack.encode(_Head(list(codes), len(samples), dim))
    return b"".join((len(head).to_bytes(4, "little"), head, *parts, values.tobytes()))


def decode_samples(body: bytes) -> list[Sample]:
    """The samples as they were; `Damaged` if the bytes do not fit together."""
    try:
        size = int.from_bytes(body[:4], "little")
        head = _HEAD.decode(body[4 : 4 + size])
        at, n = 4 + size, head.count
        index = np.frombuffer(body, INDEX, n, at)
        times = np.frombuffer(body, FLOAT, n, at + 4 * n)
        at += 12 * n
        if head.dim < 0:
            ends = np.cumsum(np.frombuffer(body, INDEX, n, at), dtype=np.int64)
            at += 4 * n
            flat = np.frombuffer(body, FLOAT, int(ends[-1]), at).tolist()
            rows = [
                tuple(flat[begin:end])
                for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)
            ]
        else:
            matrix = np.frombuffer(body, FLOAT, n * head.dim, at).reshape(n, head.dim)
            rows = list(map(tuple, matrix.tolist()))
        names = head.names
        return [
            Sample(time, names[i], row)
            for time, i, row in zip(times.tolist(), index.tolist(), rows, strict=True)
        ]
    except (ValueError, IndexError, msgspec.MsgspecError) as error:
        raise Damaged(f"journal: samples cannot be read: {error}") from None


# --------------------------------------------------------------------------------------- the table


def append_entries(connection: sqlite3.Connection, after: int, entries: Sequence[Entry], now: float) -> None:
    """Store entries under the numbers that follow ``after``."""
    for seq, entry in enumerate(entries, after + 1):
        position = msgspec.json.encode(entry.position).decode()
        connection.execute(
            "INSERT INTO journal (seq, kind, source, position, count, crc, body, time) "
            "VALUES (?,?,?,?,?,?,?,?)",
            (seq, entry.kind, entry.source, position, entry.count, entry.checksum(seq), entry.body, now),
        )


def read_entries(
    connection: sqlite3.Connection, after: int
) -> Iterator[tuple[int, Entry | None, float | None]]:
    """Number, entry and time of commit; None in place of one that is damaged, or not the next."""
    expected = after
    for seq, kind, body, source, position, count, crc, moment in connection.execute(
        "SELECT seq, kind, body, source, position, count, crc, time FROM journal WHERE seq > ? ORDER BY seq",
        (after,),
    ):
        expected += 1
        found = None
        with contextlib.suppress(msgspec.MsgspecError, TypeError, ValueError):
            entry = Entry(kind, body, source, msgspec.json.decode(position or "null"), count)
            if seq == expected and entry.checksum(seq) == crc:
                found = entry
        yield seq, found, moment


def reach(connection: sqlite3.Connection, after: int) -> int:
    """The number of the last entry that can be repeated after a snapshot."""
    reached = after
    for seq, entry, _ in read_entries(connection, after):
        if entry is None:
            break
        reached = seq
    return reached
