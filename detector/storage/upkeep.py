"""Keeping the database small: what is pruned, when free pages go back to the disk, how large each part is.

Runs with every snapshot. Each kind of row has a bound of its own, so that none can crowd out another.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from detector.settings.diagnosis import DiagnosisSettings
from detector.settings.service import StateSettings
from detector.storage import cases, records
from detector.storage.backup import copies
from detector.storage.console import incident_signals, remarks, signals
from detector.storage.database import FILE

SLACK = 8 * 2**20  # bytes of free pages that may stay: the next journal and snapshot use them
STEP = 4 * 2**20  # bytes given back to the disk at one time
PARTS = {
    "journal": "SELECT sum(length(body)) FROM journal",
    "snapshots": "SELECT sum(length(body)) FROM snapshot_piece",
    "records": "SELECT sum(length(body)) FROM record",
    "labels": "SELECT sum(length(body)) FROM label",
    "cases": "SELECT sum(length(meta) + length(body)) FROM case_file",
    "models": "SELECT sum(length(meta) + length(body)) FROM model",
    "signals": "SELECT ifnull((SELECT sum(length(body)) FROM node_history), 0) + "
    "ifnull((SELECT sum(length(body)) FROM incident_signal), 0)",
    "comments": "SELECT sum(length(body)) FROM comment",
    "audit": "SELECT sum(length(body)) FROM audit",
}
FILES = ("database", "wal", "backups")


@dataclass(frozen=True)
class Bounds:
    """How much of each kind is kept. What people labelled has bounds of its own."""

    records: int = 10_000
    record_bytes: int = 8 * 2**20
    labelled_bytes: int = 4 * 2**20  # records of labelled incidents; and, once more, the labels
    cases: int = 1000
    case_bytes: int = 6 * 2**20
    labelled_case_bytes: int = 12 * 2**20
    set_aside_bytes: int = 2 * 2**20  # of each sink
    signal_bytes: int = 10 * 2**20  # of nodes; and half of it, once more, of incidents

    @classmethod
    def of(cls, state: StateSettings, diagnosis: DiagnosisSettings) -> Bounds:
        """As configured."""
        return cls(
            state.history, state.history_size, state.labelled_size,
            diagnosis.keep, diagnosis.keep_size, diagnosis.keep_labelled_size,
            state.set_aside_size, state.signals_size,
        )  # fmt: skip


def prune(connection: sqlite3.Connection, bounds: Bounds) -> int:
    """Forget what is beyond the bounds, oldest first; how many case files nobody had analyzed yet."""
    records.prune(connection, bounds.records, bounds.record_bytes, bounds.labelled_bytes)
    records.prune_labels(connection, bounds.labelled_bytes)
    incident_signals.keep(connection)
    incident_signals.prune(connection, bounds.signal_bytes // 2)
    signals.prune(connection, bounds.signal_bytes)
    remarks.prune(connection)
    records.prune_told(connection)
    return cases.prune_cases(connection, bounds.cases, bounds.case_bytes, bounds.labelled_case_bytes)


def shrink(connection: sqlite3.Connection) -> None:
    """Move the write-ahead log into the database, and give back free pages beyond the slack, in steps."""
    size, free = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "freelist_count")
    )
    spare = free - SLACK // size
    if spare > 0:
        # As a script: a statement without columns would be taken one step, which is one page.
        connection.executescript(f"PRAGMA incremental_vacuum({min(spare, STEP // size)})")
    connection.execute("PRAGMA busy_timeout = 0")  # somebody who reads is not waited for
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.execute("PRAGMA busy_timeout = 5000")


def sizes(folder: Path, connection: sqlite3.Connection) -> dict[str, int]:
    """Bytes of every part of the database and of the files."""
    found = {part: connection.execute(question).fetchone()[0] or 0 for part, question in PARTS.items()}
    for part, path in zip(FILES, (folder / FILE, folder / f"{FILE}-wal"), strict=False):
        found[part] = path.stat().st_size if path.exists() else 0
    found["backups"] = sum(path.stat().st_size for path in copies(folder))
    return found
