"""Looking into a state folder from outside, without disturbing the daemon that owns it."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from detector import records
from detector.aftermath import tables
from detector.database import (
    FILE,
    VERSION,
    StateRefused,
    StateUnavailable,
    damaged_files,
    translated,
)
from detector.journal import Damaged
from detector.snapshot import Snapshot, read_snapshot


def inspect(folder: Path) -> dict[str, Any]:
    """What a state folder holds, JSON-ready; a running daemon is not disturbed."""
    with reading(folder) as connection:

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
            "version": ask("PRAGMA user_version"),
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
            **_aftermath(connection, ask),
            "outbox": dict(connection.execute("SELECT sink, count(*) FROM outbox GROUP BY sink").fetchall()),
            "damaged_files": damaged_files(folder),
        }


def _aftermath(connection: sqlite3.Connection, ask: Callable[[str], Any]) -> dict[str, Any]:
    if ask("PRAGMA user_version") < 2:  # the daemon will bring it up to date
        return {}
    return {
        "case_files": {
            "count": ask("SELECT count(*) FROM case_file"),
            "waiting": ask("SELECT count(*) FROM case_file WHERE examined = 0"),
            "labelled": ask("SELECT count(*) FROM case_file WHERE incident IN (SELECT incident FROM label)"),
            "bytes": ask("SELECT ifnull(sum(length(meta) + length(body)), 0) FROM case_file"),
        },
        "models": tables.list_models(connection),
    }


def export_files(folder: Path, target: Path) -> dict[str, int]:
    """Every sound case file and model into a folder: NAME.json and NAME.npz each; how many of both."""
    counts = {"case_files": 0, "models": 0}
    for kind, name, meta, body in _files(folder):
        path = target / kind / quote(name, safe=" ")  # names come from people
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f"{path.name}.json").write_bytes(msgspec.json.format(meta, indent=2))
        path.with_name(f"{path.name}.npz").write_bytes(body)
        counts[kind] += 1
    return counts


def _files(folder: Path) -> Iterator[tuple[str, str, bytes, bytes]]:
    """Kind, name, JSON and npz. Errors of whoever writes them are not taken for those of the database."""
    with reading(folder) as connection:
        if connection.execute("PRAGMA user_version").fetchone()[0] < 2:
            return
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
        yield connection


def _uri(path: Path) -> str:
    return f"{path.absolute().as_uri()}?mode=ro"
