"""A whole pipeline state as rows of a database: arrays in pieces with checksums, the rest as JSON."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from numpy.typing import NDArray

from detector.storage import arrays as codec
from detector.storage.journal import Damaged

PIECE = 8 * 2**20  # bytes of one row


@dataclass(frozen=True)
class Snapshot:
    """The state of a pipeline after journal entry `seq` (0 until it is stored), and of the sources then."""

    arrays: Mapping[str, NDArray[Any]]
    meta: Mapping[str, Any]
    positions: Mapping[str, Any] = field(default_factory=dict)
    created: float = 0.0  # unix seconds
    seq: int = 0


def write_snapshot(connection: sqlite3.Connection, seq: int, snapshot: Snapshot) -> int:
    """Insert the rows; the bytes written."""
    meta, positions = msgspec.json.encode(snapshot.meta), msgspec.json.encode(snapshot.positions)
    number = size = 0
    for name, array in snapshot.arrays.items():
        dtype, data = codec.raw(name, array)
        for begin in range(0, max(1, len(data)), PIECE):
            piece = data[begin : begin + PIECE]
            head = _head(seq, number, name, dtype, list(array.shape))
            connection.execute(
                "INSERT INTO snapshot_piece (seq, number, name, dtype, shape, crc, body) "
                "VALUES (?,?,?,?,?,?,?)",
                (seq, number, name, dtype, msgspec.json.encode(list(array.shape)).decode(),
                 zlib.crc32(piece, zlib.crc32(head)), piece),
            )  # fmt: skip
            number += 1
            size += len(piece)
    checksum = zlib.crc32(meta, zlib.crc32(positions, zlib.crc32(_head(seq, number))))
    connection.execute(
        "INSERT INTO snapshot (seq, created, pieces, positions, meta, crc) VALUES (?,?,?,?,?,?)",
        (seq, snapshot.created, number, positions.decode(), meta.decode(), checksum),
    )
    return size + len(meta)


def read_snapshot(connection: sqlite3.Connection, seq: int) -> Snapshot:
    """The snapshot at `seq`; `Damaged` if a byte of it is not as written."""
    created, pieces, positions, meta, crc = connection.execute(
        "SELECT created, pieces, positions, meta, crc FROM snapshot WHERE seq = ?", (seq,)
    ).fetchone()
    expected = zlib.crc32(meta.encode(), zlib.crc32(positions.encode(), zlib.crc32(_head(seq, pieces))))
    if expected != crc:
        raise Damaged(f"snapshot {seq}: description does not match its checksum")
    found: dict[str, tuple[str, list[int], list[bytes]]] = {}
    count = 0
    for number, name, dtype, shape, piece_crc, body in connection.execute(
        "SELECT number, name, dtype, shape, crc, body FROM snapshot_piece WHERE seq = ? ORDER BY number",
        (seq,),
    ):
        sizes = msgspec.json.decode(shape, type=list[int])
        if (
            zlib.crc32(body, zlib.crc32(_head(seq, number, name, dtype, sizes))) != piece_crc
            or number != count
        ):
            raise Damaged(f"snapshot {seq}: piece {number} does not match its checksum")
        found.setdefault(name, (dtype, sizes, []))[2].append(body)
        count += 1
    if count != pieces:
        raise Damaged(f"snapshot {seq}: {count} pieces of {pieces}")
    arrays = {
        name: codec.array(name, dtype, shape, b"".join(bodies))
        for name, (dtype, shape, bodies) in found.items()
    }
    return Snapshot(
        arrays, msgspec.json.decode(meta), msgspec.json.decode(positions), created=created, seq=seq
    )


def _head(*parts: Any) -> bytes:
    return msgspec.json.encode(parts)
