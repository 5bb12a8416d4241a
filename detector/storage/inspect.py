"""Looking into a state folder from outside, without disturbing the daemon that owns it."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np

from detector.storage import cases as tables
from detector.storage import records
from detector.storage.arrays import unpack
from detector.storage.backup import describe
from detector.storage.database import FILE, StateRefused, StateUnavailable, translated
from detector.storage.journal import Damaged
from detector.storage.recovery import files_aside
from detector.storage.schema import VERSION, migrate
from detector.storage.snapshot import Snapshot, read_snapshot


def inspect(folder: Path) -> dict[str, Any]:
    """What a state folder holds, JSON-ready; a running daemon is not disturbed."""
    with _opened(folder) as (_, version), reading(folder) as connection:

        def ask(question: str) -> Any:
            return connection.execute(question).fetchone()[0]

        snapshots = [
            {
                "seq": seq,
                "created": created,
                "age": max(0.0, time.time() - created),
                "pieces": pieces,
                "bytes": size,
            }
            for seq, created, pieces, size in connection.execute(
                "SELECT seq, created, pieces, (SELECT ifnull(sum(length(body)), 0) FROM snapshot_piece p "
                "WHERE p.seq = s.seq) FROM snapshot s ORDER BY seq DESC"
            )
        ]
        newest = snapshots[0]["seq"] if snapshots else 0
        return {
            "path": str(folder / FILE),
            "version": version,
            "bytes": sum(path.stat().st_size for path in folder.glob(f"{FILE}*") if path.is_file()),
            "sound": ask("PRAGMA quick_check(1)") == "ok",
            "snapshots": snapshots,
            "journal": {
                "entries": ask(f"SELECT count(*) FROM journal WHERE seq > {newest}"),
                "samples": ask(f"SELECT ifnull(sum(count), 0) FROM journal WHERE seq > {newest}"),
                "bytes": ask(f"SELECT ifnull(sum(length(body)), 0) FROM journal WHERE seq > {newest}"),
            },
            "positions": _positions(connection),
            "records": ask("SELECT count(*) FROM record"),
            "incidents": ask("SELECT count(DISTINCT incident) FROM record WHERE incident IS NOT NULL"),
            "labels": ask("SELECT count(*) FROM label"),
            "case_files": {
                "count": ask("SELECT count(*) FROM case_file"),
                "waiting": ask("SELECT count(*) FROM case_file WHERE examined = 0"),
                "labelled": ask(
                    "SELECT count(*) FROM case_file WHERE incident IN (SELECT incident FROM label)"
                ),
                "bytes": ask("SELECT ifnull(sum(length(meta) + length(body)), 0) FROM case_file"),
            },
            "models": tables.list_models(connection),
            "outbox": dict(
                connection.execute(
                    "SELECT sink, count(*) FROM outbox WHERE since IS NULL GROUP BY sink"
                ).fetchall()
            ),
            "set_aside": records.count_set_aside(connection),
            "damaged_files": files_aside(folder),
            "backups": describe(folder),
        }


def export_files(folder: Path, target: Path) -> dict[str, int]:
    """Every sound case file and model into a folder: NAME.json and NAME.npz each; how many of both."""
    counts = {"case_files": 0, "models": 0}
    for kind, name, meta, body in _files(folder):
        path = target / kind / quote(name, safe=" ")  # names come from people
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f"{path.name}.json").write_bytes(msgspec.json.format(meta, indent=2))
        with path.with_name(f"{path.name}.npz").open("wb") as file:
            np.savez(file, **unpack(body))  # type: ignore[arg-type]
        counts[kind] += 1
    return counts


def _files(folder: Path) -> Iterator[tuple[str, str, bytes, bytes]]:
    """Kind, name, JSON and packed arrays. Errors of the caller are not taken for those of the database."""
    with reading(folder) as connection:
        for kind, rows in (("case_files", tables.stored_cases), ("models", tables.stored_models)):
            for name, meta, body in rows(connection):
                yield kind, name, meta, body


def export(folder: Path) -> Iterator[dict[str, Any]]:
    """Every stored record, oldest first, then every label that people gave; for files and later learning."""
    with reading(folder) as connection:
        for record in records.everything(connection):
            yield {"kind": "record", **record.content()}
        for incident, moment, body in connection.execute(
            "SELECT incident, time, body FROM label ORDER BY number"
        ):
            yield {"kind": "label", "incident": incident, "time": moment, "record": msgspec.json.decode(body)}


def set_aside(folder: Path) -> list[dict[str, Any]]:
    """Every record that a sink would not take, oldest first, as `/api/v1/outbox` lists them."""
    with reading(folder) as connection:
        return [
            {"sink": one.sink, "since": one.since, "tries": one.tries, "error": one.error,
             "record": record.content()}
            for one, record in records.list_set_aside(connection)
        ]  # fmt: skip


def load_snapshot(folder: Path) -> Snapshot | None:
    """The newest sound snapshot of a folder, read only: for tools that look into a state."""
    with reading(folder) as connection:
        for (seq,) in connection.execute("SELECT seq FROM snapshot ORDER BY seq DESC").fetchall():
            with contextlib.suppress(Damaged, msgspec.MsgspecError):
                return read_snapshot(connection, seq)
    return None


def _positions(connection: sqlite3.Connection) -> dict[str, Any]:
    row = connection.execute("SELECT positions, seq FROM snapshot ORDER BY seq DESC LIMIT 1").fetchone()
    positions: dict[str, Any] = msgspec.json.decode(row[0]) if row else {}
    for source, position in connection.execute(
        "SELECT source, position FROM journal WHERE source IS NOT NULL AND seq > ? ORDER BY seq",
        (row[1] if row else 0,),
    ):
        positions[source] = msgspec.json.decode(position)
    return positions


@contextlib.contextmanager
def reading(folder: Path) -> Iterator[sqlite3.Connection]:
    """A connection that only reads; to a copy, brought up to date, if an earlier version wrote the state."""
    with _opened(folder) as (connection, version):
        if version == VERSION:
            yield connection
            return
        with contextlib.closing(sqlite3.connect("", isolation_level=None)) as copy:  # a temporary file
            connection.backup(copy)
            migrate(copy, version)
            yield copy


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[tuple[sqlite3.Connection, int]]:
    """The file as it is, and its version."""
    path = folder / FILE
    if not path.exists():
        raise StateUnavailable(f"there is no state in {folder}")
    with (
        translated(path),
        contextlib.closing(sqlite3.connect(_uri(path), uri=True)) as connection,
    ):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise StateRefused(f"{path} has version {version}, this detector knows {VERSION}")
        yield connection, version


def _uri(path: Path) -> str:
    return f"{path.absolute().as_uri()}?mode=ro"
