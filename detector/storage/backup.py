"""Copies of a state: small ones of what was learnt, made by the daemon in turn, and whole ones on request.

Every copy is a database of its own, in one file, checked before it gets its name; `restore` puts any of them
in the place of a state. Copies are taken from the file, so a running daemon is not disturbed.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from detector.storage.database import (
    APPLICATION,
    FILE,
    StateDamaged,
    StateRefused,
    StateUnavailable,
    open_database,
    translated,
)
from detector.storage.journal import Damaged
from detector.storage.lock import Lock
from detector.storage.recovery import set_aside
from detector.storage.schema import SCHEMA, VERSION
from detector.storage.snapshot import Snapshot, read_snapshot

FOLDER = "backups"
NAME = re.compile(r"learnt-(\d+)\.db")
# What cannot be had again from the sources: everything learnt, and what people said.
LEARNT = {
    "snapshot": "seq = (SELECT max(seq) FROM state.snapshot)",
    "snapshot_piece": "seq = (SELECT max(seq) FROM state.snapshot)",
    "label": "1",
    "model": "1",
    "comment": "1",
    "silence": "1",
    "override": "1",
}


def copies(folder: Path) -> list[Path]:
    """The copies that the daemon has made, oldest first."""
    found = [(int(match[1]), path) for path in (folder / FOLDER).glob("*.db")
             if (match := NAME.fullmatch(path.name))]  # fmt: skip
    return [path for _, path in sorted(found)]


def describe(folder: Path) -> list[dict[str, Any]]:
    """The same for people, JSON-ready, newest first."""
    found = []
    for path in reversed(copies(folder)):
        with contextlib.suppress(OSError):
            stat = path.stat()
            found.append({"name": f"{FOLDER}/{path.name}", "bytes": stat.st_size, "time": stat.st_mtime})
    return found


def copy_learnt(folder: Path, keep: int) -> Path | None:
    """The next copy of what a state has learnt; all but the newest ``keep`` are removed.

    None if nothing is stored yet.
    """
    if _peek(folder / FILE)[1] is None:
        return None
    earlier = copies(folder)
    number = int(earlier[-1].stem.partition("-")[2]) + 1 if earlier else 1
    target = folder / FOLDER / f"learnt-{number:04d}.db"
    with translated(target):
        target.parent.mkdir(mode=0o700, exist_ok=True)
        with _part(target) as part:
            _copy_learnt(folder / FILE, part)
        for path in copies(folder)[:-keep]:
            path.unlink()
    return target


def copy_whole(folder: Path, target: Path) -> None:
    """All of a state, as it is at one moment, in a new file."""
    source = folder / FILE
    if not source.exists():
        raise StateUnavailable(f"there is no state in {folder}")
    if target.exists():
        raise StateRefused(f"{target} exists already")
    with translated(target), _part(target) as part:
        _copy_pages(source, part)


def restore(folder: Path, copy: Path) -> Path | None:
    """Put a copy in the place of a state that no daemon uses; where the former state is now.

    The state gets a new identity: copies and marks of the former one are not taken for its own.
    """
    with contextlib.closing(Lock(folder)), translated(copy):
        check(copy)
        path = folder / FILE
        fresh = path.with_name(f"{FILE}.restored")
        for side in ("", "-wal", "-shm", "-journal"):
            fresh.with_name(fresh.name + side).unlink(missing_ok=True)
        fresh.touch(mode=0o600)
        _copy_pages(copy, fresh)
        with contextlib.closing(open_database(fresh)) as connection:  # brought up to date
            connection.execute("UPDATE identity SET id = lower(hex(randomblob(16)))")
        former = set_aside(path, "replaced") if path.exists() else None
        fresh.rename(path)
        _sync_folder(folder)
    return former


def newest_snapshot(folder: Path, identity: str, after: int) -> tuple[Path, Snapshot] | None:
    """The newest sound snapshot among the copies of this very state, if it is later than ``after``."""
    for path in reversed(copies(folder)):
        with contextlib.suppress(StateDamaged, StateRefused, StateUnavailable):
            owner, seq = _peek(path)
            if owner == identity and seq is not None and seq > after:
                with _reading(path) as connection:
                    return path, read_snapshot(connection, seq)
    return None


def adopt(connection: sqlite3.Connection, copy: Path) -> None:
    """Take over what a copy holds; snapshots and journal of the database itself are forgotten."""
    connection.execute("ATTACH ? AS copy", (f"{copy.absolute().as_uri()}?mode=ro",))
    try:
        connection.execute("BEGIN IMMEDIATE")
        for table in ("journal", "snapshot", "snapshot_piece"):
            connection.execute(f"DELETE FROM main.{table}")
        there = {name for (name,) in connection.execute("SELECT name FROM copy.sqlite_schema")}
        for table in LEARNT.keys() & there:  # a copy of an earlier version has fewer
            connection.execute(f"INSERT OR IGNORE INTO main.{table} SELECT * FROM copy.{table}")
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    finally:
        connection.execute("DETACH copy")


def check(copy: Path) -> None:
    """`StateError` unless a file is a sound state that this program can read."""
    if not copy.is_file():
        raise StateUnavailable(f"there is no file {copy}")
    with _reading(copy) as connection:
        for (seq,) in connection.execute("SELECT seq FROM snapshot ORDER BY seq DESC LIMIT 1").fetchall():
            read_snapshot(connection, seq)


@contextlib.contextmanager
def _reading(copy: Path) -> Iterator[sqlite3.Connection]:
    uri = f"{copy.absolute().as_uri()}?mode=ro"
    with translated(copy), contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise StateDamaged(f"{copy} is no database of the detector")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise StateRefused(f"{copy} has version {version}, this detector knows {VERSION}")
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise StateDamaged(f"{copy}: {found}")
        try:
            yield connection
        except (Damaged, ValueError, TypeError) as error:
            raise StateDamaged(f"{copy}: {error}") from error


def _peek(path: Path) -> tuple[str, int | None]:
    """Whose state a file is, and the number of its newest snapshot; nothing else is looked at."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with translated(path), contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        found: tuple[str, int | None] = connection.execute(
            "SELECT (SELECT id FROM identity), (SELECT max(seq) FROM snapshot)"
        ).fetchone()
    return found


def _copy_learnt(source: Path, target: Path) -> None:
    uri = f"{target.absolute().as_uri()}?mode=rwc"
    with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30.0)) as copy:
        copy.execute("ATTACH ? AS state", (f"{source.absolute().as_uri()}?mode=ro",))
        copy.executescript(
            f"BEGIN; {SCHEMA} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
        )
        for table, condition in LEARNT.items():
            copy.execute(f"INSERT INTO main.{table} SELECT * FROM state.{table} WHERE {condition}")
        copy.execute("UPDATE main.identity SET id = (SELECT id FROM state.identity)")
        copy.execute("COMMIT")


def _copy_pages(source: Path, target: Path) -> None:
    """By SQLite's own backup: one consistent moment, with what is still in the write-ahead log."""
    uri = f"{source.absolute().as_uri()}?mode=ro"
    with (
        contextlib.closing(sqlite3.connect(uri, uri=True, timeout=30.0)) as old,
        contextlib.closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new)
        new.execute("PRAGMA journal_mode = DELETE")  # one file: a copy has no log


@contextlib.contextmanager
def _part(target: Path) -> Iterator[Path]:
    """A file under another name until it is whole, checked and on disk."""
    part = target.with_name(f".{target.name}.part")
    try:
        part.unlink(missing_ok=True)
        part.touch(mode=0o600)
        yield part
        check(part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.rename(target)
        _sync_folder(target.parent)
    finally:
        for side in ("", "-journal"):
            part.with_name(part.name + side).unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
