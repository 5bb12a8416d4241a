"""The SQLite file itself: how it is opened and checked, its version, and what can be wrong with it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from detector.storage.schema import SCHEMA, VERSION, migrate, wrong_table

FILE = "detector.db"
APPLICATION = 0x64746374  # "dtct": tells our files from other SQLite databases


class StateError(Exception):
    """The state cannot be used."""


class StateUnavailable(StateError):
    """The disk says no for now: full, read-only, failing. Worth trying again."""


class StateDamaged(StateError):
    """The file is not a sound database any more."""


class StateRefused(StateError):
    """Somebody has to decide: another daemon, another owner, a newer version, another configuration."""


class StateInUse(StateRefused):
    """Another process has it: usable once that has ended."""


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
        unreadable = "no such" in str(error) or "decode" in str(error)  # names in the schema
        if code in (sqlite3.SQLITE_OK, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA) and unreadable:
            raise StateDamaged(f"{path}: {error}") from error
        raise StateUnavailable(f"{path}: {error}{_why(path, code)}") from error
    except UnicodeError as error:  # SQLite quotes damaged names in its messages
        raise StateDamaged(f"{path}: text that is not UTF-8") from error
    except OSError as error:
        raise StateUnavailable(f"{path}: {error.strerror}") from error


def _why(path: Path, code: int) -> str:
    """What SQLite does not say of a disk that failed: that its file system has become read-only."""
    with contextlib.suppress(OSError):
        if code == sqlite3.SQLITE_IOERR and os.statvfs(path.parent).f_flag & os.ST_RDONLY:
            return ": Read-only file system"
    return ""


def open_database(path: Path) -> sqlite3.Connection:
    """A checked connection; creates the file. Raises one of the errors above."""
    with translated(path):
        new = not path.exists() or path.stat().st_size == 0
        if new:
            path.touch(mode=0o600)
        if path.stat().st_uid != os.geteuid():
            raise StateRefused(f"{path} belongs to user {path.stat().st_uid}, we are {os.geteuid()}")
        connection = sqlite3.connect(
            path.absolute().as_uri(), uri=True, isolation_level=None, check_same_thread=False, timeout=5.0
        )
        try:
            _prepare(connection, path, new)
        except BaseException:
            connection.close()
            raise
        return connection


def _prepare(connection: sqlite3.Connection, path: Path, new: bool) -> None:
    if new:  # before the first table: pages that are free can be given back to the disk
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA journal_size_limit = 4194304")
    connection.execute("PRAGMA trusted_schema = OFF")
    if new:
        connection.executescript(
            f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA application_id = {APPLICATION}; "
            f"PRAGMA user_version = {VERSION}; COMMIT;"
        )
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION or version < 1:
        raise StateDamaged(f"{path} is no database of the detector")
    if version > VERSION:
        raise StateRefused(
            f"{path} has version {version}, written by a newer detector; this one knows {VERSION}"
        )
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise StateDamaged(f"{path}: {found}")
    if version < VERSION:
        _keep_former(connection, path, version)
    try:
        migrate(connection, version)
    except sqlite3.OperationalError as error:
        if "already exists" in str(error) or "duplicate column" in str(error):
            raise StateDamaged(f"{path} is not of version {version}, as it says: {error}") from error
        raise
    if (table := wrong_table(connection)) is not None:
        raise StateDamaged(f"{path}: the columns of table {table} are not those of version {VERSION}")
    if connection.execute("PRAGMA auto_vacuum").fetchone()[0] == 0:  # a file of version 0.1
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        with contextlib.suppress(sqlite3.OperationalError):  # no room for a copy: it stays as large as it is
            connection.execute("VACUUM")


def _keep_former(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """A copy of a state as the earlier release wrote it: the way back, if somebody has to go back to it."""
    kept = path.with_name(f"{path.name}.version-{version}")
    if kept.exists():
        return
    try:
        kept.touch(mode=0o600)
        with contextlib.closing(sqlite3.connect(kept)) as copy:
            connection.backup(copy)
    except (sqlite3.Error, OSError):  # no room for it: an upgrade needs none
        kept.unlink(missing_ok=True)
