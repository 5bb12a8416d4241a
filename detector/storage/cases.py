"""Case files and models in the database; rows that do not match their checksum count as not there."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from numpy.typing import NDArray

from detector.events.model import Labels
from detector.incidents.case import Case, Stage
from detector.storage.arrays import Unreadable, pack, unpack
from detector.storage.case_codec import decode, encode

Key = tuple[str, Stage]
VERSIONS = 3  # of one model that are kept


@dataclass(frozen=True, eq=False)
class Model:
    """Something learnt, by the analyzer that uses it: JSON and arrays, versions numbered from 1 on."""

    kind: str  # name of the analyzer
    name: str
    version: int
    created: float  # unix seconds
    meta: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


# ------------------------------------------------------------------------------------- case files


def insert_cases(connection: sqlite3.Connection, cases: Iterable[Case]) -> None:
    """Store new ones; what is there already stays as it is."""
    for case in cases:
        meta, body = encode(case)
        connection.execute(
            "INSERT OR IGNORE INTO case_file (incident, stage, time, crc, meta, body) VALUES (?,?,?,?,?,?)",
            (case.incident, case.stage, case.time, checksum(meta, body, *case.key), meta, body),
        )


def mark_analyzed(connection: sqlite3.Connection, keys: Iterable[Key]) -> None:
    connection.executemany("UPDATE case_file SET examined = 1 WHERE incident = ? AND stage = ?", list(keys))


def waiting(connection: sqlite3.Connection) -> list[Key]:
    """Those that were not analyzed yet, oldest first."""
    return connection.execute(
        "SELECT incident, stage FROM case_file WHERE examined = 0 ORDER BY number"
    ).fetchall()


def read_case(connection: sqlite3.Connection, incident: str, stage: Stage) -> Case | None:
    """None: there is none. `Unreadable` if its bytes are not what was written."""
    row = connection.execute(
        "SELECT crc, meta, body FROM case_file WHERE incident = ? AND stage = ?", (incident, stage)
    ).fetchone()
    if row is None:
        return None
    if checksum(row[1], row[2], incident, stage) != row[0]:
        raise Unreadable(f"case file {incident} {stage} does not match its checksum")
    return decode(row[1], row[2])


def case_keys(connection: sqlite3.Connection) -> list[Key]:
    """All, oldest first."""
    return connection.execute("SELECT incident, stage FROM case_file ORDER BY number").fetchall()


def prune_cases(connection: sqlite3.Connection, keep: int, size: int, labelled_size: int) -> int:
    """Forget the oldest beyond ``keep`` or ``size`` bytes; how many of them were not analyzed yet.

    Those of labelled incidents, from which analyzers learn, count by themselves, by ``labelled_size`` only.
    """
    gone = connection.execute(
        "SELECT number, examined FROM (SELECT number, examined, labelled, row_number() OVER newest AS place, "
        "sum(bytes) OVER newest AS total FROM (SELECT number, examined, "
        "length(meta) + length(body) AS bytes, incident IN (SELECT incident FROM label) AS labelled "
        "FROM case_file) WINDOW newest AS (PARTITION BY labelled ORDER BY number DESC)) "
        "WHERE NOT labelled AND place > ? OR total > CASE labelled WHEN 1 THEN ? ELSE ? END",
        (keep, labelled_size, size),
    ).fetchall()
    connection.executemany("DELETE FROM case_file WHERE number = ?", [(number,) for number, _ in gone])
    return sum(not examined for _, examined in gone)


def labels(connection: sqlite3.Connection) -> dict[str, Labels]:
    """The latest labels of each labelled incident, the first labelled first."""
    found: dict[str, Labels] = {}
    for incident, body in connection.execute("SELECT incident, body FROM label ORDER BY number"):
        try:
            said = msgspec.convert(msgspec.json.decode(body)["labels"], Labels)
        except (msgspec.MsgspecError, KeyError, TypeError):
            continue
        found[incident] = said
    return found


def stored_cases(connection: sqlite3.Connection) -> Iterator[tuple[str, bytes, bytes]]:
    """Name, JSON and packed arrays of every sound case file, oldest first."""
    for incident, stage, crc, meta, body in connection.execute(
        "SELECT incident, stage, crc, meta, body FROM case_file ORDER BY number"
    ):
        if checksum(meta, body, incident, stage) == crc:
            yield f"{incident}-{stage}", meta, body


# ----------------------------------------------------------------------------------------- models


def read_models(connection: sqlite3.Connection, kind: str) -> list[Model]:
    """The newest sound version of each model of a kind, by name."""
    found: dict[str, Model] = {}
    for row in connection.execute(
        "SELECT kind, name, version, created, crc, meta, body FROM model WHERE kind = ? "
        "ORDER BY name, version", (kind,),
    ):  # fmt: skip
        kind, name, version, created, crc, meta, body = row
        if checksum(meta, body, kind, name, version) != crc:
            continue
        try:
            found[name] = Model(kind, name, version, created, msgspec.json.decode(meta), unpack(body))
        except (msgspec.MsgspecError, Unreadable):
            continue
    return list(found.values())


def write_model(connection: sqlite3.Connection, kind: str, name: str, created: float,
                meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> int:  # fmt: skip
    """Store the next version; its number. Old ones beyond `VERSIONS` are forgotten."""
    version: int = (
        1
        + connection.execute(
            "SELECT ifnull(max(version), 0) FROM model WHERE kind = ? AND name = ?", (kind, name)
        ).fetchone()[0]
    )
    text, body = msgspec.json.encode(meta), pack(arrays)
    connection.execute(
        "INSERT INTO model (kind, name, version, created, crc, meta, body) VALUES (?,?,?,?,?,?,?)",
        (kind, name, version, created, checksum(text, body, kind, name, version), text, body),
    )
    connection.execute(
        "DELETE FROM model WHERE kind = ? AND name = ? AND version <= ?", (kind, name, version - VERSIONS)
    )
    return version


def forget_model(connection: sqlite3.Connection, kind: str, name: str) -> bool:
    """All versions of it; False if there was none."""
    gone = connection.execute("DELETE FROM model WHERE kind = ? AND name = ?", (kind, name)).rowcount
    return gone > 0


def stored_models(connection: sqlite3.Connection) -> Iterator[tuple[str, bytes, bytes]]:
    """Name, JSON and packed arrays of every sound version of every model."""
    for kind, name, version, crc, meta, body in connection.execute(
        "SELECT kind, name, version, crc, meta, body FROM model ORDER BY kind, name, version"
    ):
        if checksum(meta, body, kind, name, version) == crc:
            yield f"{kind}-{name}-{version}", meta, body


def list_models(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """The newest version of every model, without its contents; JSON-ready."""
    rows = connection.execute(
        "SELECT kind, name, max(version), created, length(body) FROM model GROUP BY kind, name "
        "ORDER BY kind, name"
    )
    return [dict(zip(("kind", "name", "version", "created", "bytes"), row, strict=True)) for row in rows]


def count_models(connection: sqlite3.Connection) -> dict[str, int]:
    """Models by kind."""
    return dict(connection.execute("SELECT kind, count(DISTINCT name) FROM model GROUP BY kind").fetchall())


def checksum(meta: bytes, body: bytes, *head: str | int) -> int:
    return zlib.crc32(body, zlib.crc32(meta, zlib.crc32(msgspec.json.encode(head))))
