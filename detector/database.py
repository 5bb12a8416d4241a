"""The SQLite file itself: who may use it, which version it is, what to do when it is damaged."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

FILE = "detector.db"
LOCK = "lock"
APPLICATION = 0x64746374  # "dtct": tells our files from other SQLite databases
VERSION = 2
KEPT_DAMAGED = 2  # files set aside that are kept for a look
TABLES = ("journal", "snapshot", "snapshot_piece", "record", "label", "outbox", "case_file", "model")

FIRST = """
CREATE TABLE journal (
    seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, source TEXT, position TEXT, count INTEGER NOT NULL,
    crc INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE snapshot (
    seq INTEGER PRIMARY KEY, created REAL NOT NULL, pieces INTEGER NOT NULL, positions TEXT NOT NULL,
    meta TEXT NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE snapshot_piece (
    seq INTEGER NOT NULL, number INTEGER NOT NULL, name TEXT NOT NULL, dtype TEXT NOT NULL,
    shape TEXT NOT NULL, crc INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (seq, number));
CREATE TABLE record (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, incident TEXT, event TEXT NOT NULL,
    time REAL NOT NULL, crc INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX record_incident ON record (incident, number);
CREATE TABLE label (
    number INTEGER PRIMARY KEY AUTOINCREMENT, incident TEXT NOT NULL, time REAL NOT NULL,
    crc INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX label_incident ON label (incident);
CREATE TABLE outbox (sink TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (sink, id)) WITHOUT ROWID;
"""
AFTERMATH = """
CREATE TABLE case_file (
    number INTEGER PRIMARY KEY AUTOINCREMENT, incident TEXT NOT NULL, stage TEXT NOT NULL, time REAL NOT NULL,
    crc INTEGER NOT NULL, meta BLOB NOT NULL, body BLOB NOT NULL, examined INTEGER NOT NULL DEFAULT 0,
    UNIQUE (incident, stage));
CREATE INDEX case_file_waiting ON case_file (number) WHERE examined = 0;
CREATE TABLE model (
    kind TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, created REAL NOT NULL,
    crc INTEGER NOT NULL, meta BLOB NOT NULL, body BLOB NOT NULL, PRIMARY KEY (kind, name, version));
"""
SCHEMA = FIRST + AFTERMATH

# From version n to n + 1: statements that run in one transaction with the new version number.
MIGRATIONS: dict[int, str] = {1: AFTERMATH}


class StateError(Exception):
    """The state cannot be used."""


class StateUnavailable(StateError):
    """The disk says no for now: full, read-only, failing. Worth trying again."""


class StateDamaged(StateError):
    """The file is not a sound database any more."""


class StateRefused(StateError):
    """Somebody has to decide: another daemon, another owner, a newer version, another configuration."""


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's and the system's errors as one of ours."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or isinstance(
            error, sqlite3.IntegrityError
        ):
            raise StateDamaged(f"{path}: {error}") from error
        if code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA) and "no such" in str(error):
            raise StateDamaged(f"{path}: {error}") from error
        raise StateUnavailable(f"{path}: {error}") from error
    except UnicodeError as error:  # SQLite quotes damaged names in its messages
        raise StateDamaged(f"{path}: text that is not UTF-8") from error
    except OSError as error:
        raise StateUnavailable(f"{path}: {error.strerror}") from error


class Lock:
    """One daemon per state folder. The system lets go of it when the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StateUnavailable(f"state folder {folder} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise StateRefused(f"state folder {folder} is in use by another process") from None

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def open_database(path: Path) -> sqlite3.Connection:
    """A checked connection; creates the file. Raises one of the errors above."""
    with translated(path):
        new = not path.exists() or path.stat().st_size == 0
        if new:
            path.touch(mode=0o600)
        if path.stat().st_uid != os.geteuid():
            raise StateRefused(f"{path} belongs to user {path.stat().st_uid}, we are {os.geteuid()}")
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
        try:
            _prepare(connection, path, new)
        except BaseException:
            connection.close()
            raise
        return connection


def _prepare(connection: sqlite3.Connection, path: Path, new: bool) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA journal_size_limit = 8388608")
    connection.execute("PRAGMA trusted_schema = OFF")
    if new:
        connection.executescript(
            f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA application_id = {APPLICATION}; "
            f"PRAGMA user_version = {VERSION}; COMMIT;"
        )
        return
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION:
        raise StateDamaged(f"{path} is no database of the detector")
    if version > VERSION:
        raise StateRefused(
            f"{path} has version {version}, written by a newer detector; this one knows {VERSION}"
        )
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise StateDamaged(f"{path}: {found}")
    migrate(connection, version)


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring an older file up to date, one version after the other, each in one transaction."""
    for step in range(version, VERSION):
        connection.executescript(
            f"BEGIN IMMEDIATE; {MIGRATIONS[step]} PRAGMA user_version = {step + 1}; COMMIT;"
        )


def set_aside(path: Path) -> Path:
    """Rename a damaged database with its side files, so that a fresh one can be made. Its new name."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    moved = path.with_name(f"{path.name}.damaged-{stamp}")
    number = 1
    while moved.exists():
        moved = path.with_name(f"{path.name}.damaged-{stamp}.{number}")
        number += 1
    with translated(path):
        for suffix in ("", "-wal", "-shm"):
            side = path.with_name(path.name + suffix)
            if side.exists():
                side.rename(moved.with_name(moved.name + suffix))
        for name in damaged_files(path.parent)[:-KEPT_DAMAGED]:
            gone = path.with_name(name)
            for suffix in ("", "-wal", "-shm"):
                gone.with_name(gone.name + suffix).unlink(missing_ok=True)
    return moved


def damaged_files(folder: Path) -> list[str]:
    """Names of the databases set aside, oldest first: the stamp in the name tells."""
    found = (path.name for path in folder.glob(f"{FILE}.damaged-*"))
    return sorted(name for name in found if not name.endswith(("-wal", "-shm")))


def salvage(damaged: Path, fresh: sqlite3.Connection) -> dict[str, int]:
    """Copy every row that can still be read from a damaged file; rows per table.

    Whether the rows are *right* is for the checksums of journal and snapshots to say.
    """
    copied = dict.fromkeys(TABLES, 0)
    try:
        old = sqlite3.connect(f"{damaged.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
    except sqlite3.Error:
        return copied
    with contextlib.closing(old):
        for table in TABLES:
            with contextlib.suppress(sqlite3.Error, UnicodeError):
                columns = [row[1] for row in fresh.execute(f"PRAGMA table_info({table})")]
                names, marks = ", ".join(columns), ", ".join("?" * len(columns))
                fresh.execute("BEGIN IMMEDIATE")
                try:
                    for row in old.execute(f"SELECT {names} FROM {table}"):
                        fresh.execute(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})", row)
                        copied[table] += 1
                except (sqlite3.Error, UnicodeError):
                    pass  # what came before the damage is kept
                fresh.execute("COMMIT")
    return copied
