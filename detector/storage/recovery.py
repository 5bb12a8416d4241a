"""Damage: a file that is no sound database, rows that do not match their checksums, a database set back.

A damaged file is set aside and what can be read of it is copied into a fresh one. Everything that is found is
a `Damage`: words for the log, and what was lost until when.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from detector.events.model import iso
from detector.storage import cases, records
from detector.storage.console import remarks
from detector.storage.database import FILE, translated
from detector.storage.mark import Mark
from detector.storage.schema import TABLES, rename

KEPT_DAMAGED = 2  # files set aside that are kept for a look
SIDES = ("", "-wal", "-shm")


@dataclass
class Damage:
    """What was found, and what it has cost as far as that is known. Times are unix seconds."""

    text: str
    entries: int = 0  # of the journal that are gone
    records: int = 0  # that are gone
    since: float | None = None  # the last commit that is still there
    until: float | None = None  # the last commit that is gone

    def add(self, other: Damage) -> None:
        """Something more that was found with it."""
        self.text = f"{self.text}; {other.text}"
        self.entries += other.entries
        self.records += other.records
        self.since = other.since if self.since is None else self.since
        self.until = other.until if self.until is None else self.until

    def details(self) -> dict[str, Any]:
        """For records and the status, JSON-ready."""
        return {
            "damage": self.text, "lost_entries": self.entries, "lost_records": self.records,
            "lost_since": self.since, "lost_until": self.until,
        }  # fmt: skip


def set_back(connection: sqlite3.Connection, mark: Mark) -> Damage | None:
    """What a database lacks of what its mark says it had reached; None if it lacks nothing."""
    seq, record = reached(connection)
    if seq >= mark.seq and record >= mark.record:
        return None
    since = connection.execute(
        "SELECT max(time) FROM (SELECT time FROM journal UNION ALL SELECT created FROM snapshot)"
    ).fetchone()[0]
    entries, lost = max(0, mark.seq - seq), max(0, mark.record - record)
    begin = "" if since is None else f" after {iso(since)}"
    text = (
        f"the database is older than it was: {entries} journal entries and {lost} records committed{begin} "
        f"until {iso(mark.time)} are lost"
    )
    return Damage(text, entries, lost, since, mark.time)


def reached(connection: sqlite3.Connection) -> tuple[int, int]:
    """Numbers of the newest journal entry or snapshot, and of the newest record there ever was."""
    seq = connection.execute(
        "SELECT ifnull(max(seq), 0) FROM (SELECT seq FROM journal UNION ALL SELECT seq FROM snapshot)"
    ).fetchone()[0]
    record = connection.execute("SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = 'record'")
    return seq, record.fetchone()[0]


def scrub(connection: sqlite3.Connection) -> Damage | None:
    """Remove rows that do not match their checksums, and tell of them.

    Not those of journal and snapshots, which are checked when they are read.
    """
    found = []
    for table, crc, columns, sound in _CHECKS:
        rows = connection.execute(f"SELECT rowid, {crc}, {columns} FROM {table}")
        bad = [(row[0],) for row in rows if not _is_sound(sound, row)]
        if bad:
            connection.executemany(f"DELETE FROM {table} WHERE rowid = ?", bad)
            found.append(f"{len(bad)} of {table}")
    if not found:
        return None
    return Damage(f"rows that did not match their checksums are removed: {', '.join(found)}")


def _is_sound(checksum: Callable[..., int], row: tuple[Any, ...]) -> bool:
    try:
        return bool(checksum(*row[2:]) == row[1])
    except (msgspec.MsgspecError, zlib.error, UnicodeError, TypeError, ValueError, KeyError):
        return False


class _Said(msgspec.Struct):
    """What columns repeat of a record's body."""

    id: str
    event: str | None = None
    time: float | None = None


def _of_record(id: str, incident: str | None, event: str, moment: float, body: bytes) -> int:
    said = msgspec.json.decode(body, type=_Said)
    if said.event not in (None, event) or said.time not in (None, moment):
        raise ValueError("columns and body differ")
    return records.Record(id, incident, event, moment, body).checksum()


def _of_label(incident: str, moment: float, body: bytes) -> int:
    return _of_record(msgspec.json.decode(body, type=_Said).id, incident, "incident.labelled", moment, body)


def _of_file(meta: bytes, body: bytes, *head: str | int) -> int:
    return cases.checksum(meta, body, *head)


def _of_signal(body: bytes) -> int:
    zlib.decompress(body)  # which has a checksum of its own
    return 0


_CHECKS: tuple[tuple[str, str, str, Callable[..., int]], ...] = (
    ("record", "crc", "id, incident, event, time, body", _of_record),
    ("label", "crc", "incident, time, body", _of_label),
    ("case_file", "crc", "meta, body, incident, stage", _of_file),
    ("model", "crc", "meta, body, kind, name, version", _of_file),
    ("comment", "crc", "body, incident, who", remarks.checksum),
    ("audit", "crc", "body, who, action, subject", remarks.checksum),
    ("silence", "crc", "body", zlib.crc32),
    ("override", "crc", "body", zlib.crc32),
    ("node_layout", "id", "names", zlib.crc32),
    ("node_history", "0", "body", _of_signal),
    ("incident_signal", "0", "body", _of_signal),
)


# ------------------------------------------------------------------------------- files set aside


def set_aside(path: Path, why: str = "damaged") -> Path:
    """Rename a database with its side files, so that another can take its place. Its new name."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    moved = path.with_name(f"{path.name}.{why}-{stamp}")
    number = 1
    while moved.exists():
        moved = path.with_name(f"{path.name}.{why}-{stamp}.{number}")
        number += 1
    with translated(path):
        for suffix in SIDES:
            side = path.with_name(path.name + suffix)
            if side.exists():
                side.rename(moved.with_name(moved.name + suffix))
        for name in files_aside(path.parent, why)[:-KEPT_DAMAGED]:
            for suffix in SIDES:
                path.with_name(name + suffix).unlink(missing_ok=True)
    return moved


def files_aside(folder: Path, why: str = "damaged") -> list[str]:
    """Names of the databases set aside, oldest first: the stamp in the name tells."""
    found = (path.name for path in folder.glob(f"{FILE}.{why}-*"))
    return sorted(name for name in found if not name.endswith(SIDES[1:]))


def salvage(damaged: Path, fresh: sqlite3.Connection) -> dict[str, int]:
    """Copy every row that can still be read from a damaged file; rows per table.

    Whether the rows are *right* is for their checksums to say.
    """
    copied = dict.fromkeys(TABLES, 0)
    try:
        old = sqlite3.connect(f"{damaged.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
    except sqlite3.Error:
        return copied
    with contextlib.closing(old):
        for table in TABLES:
            with contextlib.suppress(sqlite3.Error, UnicodeError):
                copied[table] = _copy_table(table, old, fresh)
    fresh.execute("BEGIN IMMEDIATE")
    rename(fresh)  # the damaged file may be of an earlier version
    fresh.execute("COMMIT")
    return copied


def _copy_table(table: str, old: sqlite3.Connection, fresh: sqlite3.Connection) -> int:
    """As far as it can be read; an earlier version may have fewer columns."""
    there, wanted = ([row[1] for row in db.execute(f"PRAGMA table_info({table})")] for db in (old, fresh))
    columns = [column for column in wanted if column in there]
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    copied = 0
    fresh.execute("BEGIN IMMEDIATE")
    try:
        for row in old.execute(f"SELECT {names} FROM {table}"):
            fresh.execute(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})", row)
            copied += 1
    except (sqlite3.Error, UnicodeError):
        pass  # what came before the damage is kept
    fresh.execute("COMMIT")
    return copied
