"""The state of the daemon: one SQLite database, one transaction for everything that belongs together.

    journal    what was accepted since the last snapshot but one, each entry with its source's position
    snapshot   the whole pipeline after a journal entry; the previous one is kept
    case_file  what was known of an incident when it was examined, or is still to be; `model` what was learnt
    record     what was said (events), with `label` for what people said back; `outbox` what is still to send

Used from one thread at a time. Blocking: the daemon calls it from a thread of its own.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from detector import records
from detector.aftermath import tables
from detector.aftermath.casefile import CaseFile
from detector.aftermath.tables import Key
from detector.database import (
    FILE,
    Lock,
    StateDamaged,
    StateError,
    StateRefused,
    StateUnavailable,
    open_database,
    salvage,
    set_aside,
    translated,
)
from detector.journal import Damaged, Entry
from detector.records import Record
from detector.snapshot import Snapshot, read_snapshot, write_snapshot
from detector.state_view import export, inspect

__all__ = [
    "Bundle", "Snapshot", "StateDamaged", "StateError", "StateRefused", "StateUnavailable", "Store",
    "export", "inspect",
]  # fmt: skip

Result = TypeVar("Result")
GENERATIONS = 2  # snapshots kept, each with the journal after it


@dataclass
class Bundle:
    """What one transaction holds."""

    entries: list[Entry] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    sinks: tuple[str, ...] = ()  # the records are addressed to these
    delivered: list[tuple[str, str]] = field(default_factory=list)  # (sink, record id) to forget
    snapshot: Snapshot | None = None  # after all entries
    cases: list[CaseFile] = field(default_factory=list)
    examined: list[Key] = field(default_factory=list)
    gap: bool = False  # entries before these were given up: the snapshot stands for them

    @property
    def empty(self) -> bool:
        return not (
            self.entries or self.records or self.delivered or self.snapshot or self.cases or self.examined
        )

    @property
    def samples(self) -> int:
        return sum(entry.count for entry in self.entries)

    @property
    def size(self) -> int:
        return sum(len(entry.body) for entry in self.entries)

    def shed_cases(self, most: int) -> int:
        """Give up the oldest case files beyond so many bytes; how many."""
        sizes = [case.size for case in self.cases]
        lost = 0
        while sum(sizes[lost:]) > most:
            lost += 1
        del self.cases[:lost]
        return lost


class Store:
    """The database of one state folder, locked for us."""

    def __init__(
        self, folder: Path, history: int = 10_000, keep_cases: tuple[int, int] = (1000, 2**28)
    ) -> None:
        self.folder, self.path, self.history = folder, folder / FILE, history
        self.keep_cases = keep_cases  # number, bytes
        self.lost_cases = 0  # dropped before anybody examined them
        self.damages: list[str] = []  # what was found damaged, in words, for log and counter
        self.journal_size = 0  # bytes since the last snapshot
        self.snapshot_time: float | None = None
        self.snapshot_size = 0
        self._lock = Lock(folder)
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise

    # ---------------------------------------------------------------------------------- opening

    def _open(self) -> None:
        try:
            self._connection = open_database(self.path)
        except StateDamaged as damage:
            self._replace(damage)
        self._inode = self.path.stat().st_ino
        with translated(self.path):
            self._seq: int = self._connection.execute(
                "SELECT ifnull(max(seq), 0) FROM (SELECT seq FROM journal UNION ALL SELECT seq FROM snapshot)"
            ).fetchone()[0]

    def _replace(self, damage: StateDamaged) -> None:
        """Set the damaged file aside and save what can be read of it into a fresh one."""
        aside = set_aside(self.path)
        self._connection = open_database(self.path)
        saved = salvage(aside, self._connection)
        found = ", ".join(f"{count} of {table}" for table, count in saved.items() if count) or "nothing"
        self.damages.append(f"{damage}; set aside as {aside.name}, rows saved: {found}")

    def repair(self, damage: StateDamaged) -> None:
        """The database went bad under way, or away: start a fresh one. The next bundle needs a snapshot."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        if self.path.exists():
            self._replace(damage)
        else:
            with translated(self.path):
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._connection = open_database(self.path)
            self.damages.append(f"{damage}; started a fresh one")
        self._inode = self.path.stat().st_ino
        self._seq += 1  # a gap: the salvaged journal does not lead to what comes now

    def load(self) -> Snapshot | None:
        """The newest sound snapshot, or None. Damaged ones are removed and told of."""
        with translated(self.path):
            rows = self._connection.execute("SELECT seq FROM snapshot ORDER BY seq DESC").fetchall()
            for (seq,) in rows:
                try:
                    found = read_snapshot(self._connection, seq)
                except (Damaged, msgspec.MsgspecError, TypeError, ValueError) as damage:
                    self.damages.append(str(damage))
                    self._forget_snapshots("seq = ?", seq)
                    continue
                self.snapshot_time = found.created
                return found
        return None

    def discard(self) -> None:
        """Forget journal and snapshots: a clean start, with records, labels and outbox kept."""
        with self._transaction():
            self._connection.execute("DELETE FROM journal")
            self._forget_snapshots("1")

    def _forget_snapshots(self, condition: str, *values: int) -> None:
        self._connection.execute(f"DELETE FROM snapshot WHERE {condition}", values)
        self._connection.execute(f"DELETE FROM snapshot_piece WHERE {condition}", values)

    def journal(self, after: int) -> Iterator[Entry]:
        """The entries after a snapshot's seq, in order, as far as they are sound and without gap.

        What comes after a damaged entry is cut off for good: its source is read again from before.
        """
        expected = after + 1
        self.journal_size = 0
        with translated(self.path):
            rows = self._connection.execute(
                "SELECT seq, kind, body, source, position, count, crc FROM journal "
                "WHERE seq > ? ORDER BY seq",
                (after,),
            )
            for seq, kind, body, source, position, count, crc in rows:
                damaged = seq != expected
                with contextlib.suppress(msgspec.MsgspecError, TypeError, ValueError):
                    entry = Entry(kind, body, source, msgspec.json.decode(position or "null"), count)
                    if not damaged and entry.checksum(seq) == crc:
                        yield entry
                        self.journal_size += len(body)
                        expected += 1
                        continue
                self.damages.append(f"journal: entry {expected} is missing or damaged; cut off there")
                break
            else:
                return
        with self._transaction():
            self._connection.execute("DELETE FROM journal WHERE seq >= ?", (expected,))
        self._seq = expected - 1

    # ---------------------------------------------------------------------------------- writing

    def commit(self, bundle: Bundle) -> None:
        """All of it or nothing, on disk when this returns."""
        seq = self._seq + bundle.gap
        size = self.journal_size
        with self._transaction():
            for entry in bundle.entries:
                seq += 1
                position = msgspec.json.encode(entry.position).decode()
                self._connection.execute(
                    "INSERT INTO journal (seq, kind, source, position, count, crc, body) "
                    "VALUES (?,?,?,?,?,?,?)",
                    (seq, entry.kind, entry.source, position, entry.count, entry.checksum(seq), entry.body),
                )
                size += len(entry.body)
            records.insert(self._connection, bundle.records, bundle.sinks)
            records.delivered(self._connection, bundle.delivered)
            tables.insert_cases(self._connection, bundle.cases)
            tables.mark_examined(self._connection, bundle.examined)
            if bundle.snapshot is not None:
                self.snapshot_size = write_snapshot(self._connection, seq, bundle.snapshot)
                self._prune()
        self._seq, self.journal_size = seq, size
        if bundle.snapshot is not None:
            self.journal_size, self.snapshot_time = 0, bundle.snapshot.created

    def _prune(self) -> None:
        """Keep the newest snapshots and the journal that leads from the oldest kept one to now."""
        rows = self._connection.execute("SELECT seq FROM snapshot ORDER BY seq DESC").fetchall()
        oldest = rows[min(len(rows), GENERATIONS) - 1][0]
        self._forget_snapshots("seq < ?", oldest)
        # With a single snapshot there is nothing older to fall back to, and the journal before it is useless.
        self._connection.execute("DELETE FROM journal WHERE seq <= ?", (oldest,))
        records.prune(self._connection, self.history)
        self.lost_cases += tables.prune_cases(self._connection, *self.keep_cases)

    def delivered(self, done: Sequence[tuple[str, str]]) -> None:
        with self._transaction():
            records.delivered(self._connection, done)

    def probe(self) -> None:
        """Raises if the disk takes nothing: a transaction without change would not touch it."""
        with self._transaction():
            self._connection.execute("INSERT OR IGNORE INTO outbox (sink, id) VALUES ('', '')")
            self._connection.execute("DELETE FROM outbox WHERE sink = '' AND id = ''")

    def drop_sinks(self, keep: Sequence[str]) -> int:
        """Forget what was addressed to sinks that no longer exist; how many records that were."""
        with self._transaction():
            marks = ",".join("?" * len(keep))
            return self._connection.execute(
                f"DELETE FROM outbox WHERE sink NOT IN ({marks})", list(keep)
            ).rowcount

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with translated(self.path):
            try:
                moved = self.path.stat().st_ino != self._inode
            except FileNotFoundError:
                moved = True
            if moved:  # SQLite would go on writing to a file that nobody will find again
                raise StateDamaged(f"{self.path} was removed or replaced")
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite rolls back by itself on some errors, among them a full disk.
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    # ---------------------------------------------------------------------------------- reading

    def unknown(self, ids: Sequence[str]) -> set[str]:
        with translated(self.path):
            return records.unknown(self._connection, ids)

    def pending(self, sink: str) -> list[Record]:
        with translated(self.path):
            return records.pending(self._connection, sink)

    def incidents(self, limit: int) -> list[Record]:
        """The last record of each incident, newest first."""
        with translated(self.path):
            return records.latest(self._connection, limit)

    def incident(self, incident: str) -> list[Record]:
        with translated(self.path):
            return records.of_incident(self._connection, incident)

    def findings(self, incidents: Sequence[str]) -> list[Record]:
        with translated(self.path):
            return records.findings(self._connection, incidents)

    def records_after(self, id: str, limit: int) -> list[Record]:
        with translated(self.path):
            return records.after(self._connection, id, limit)

    def false_alarms(self) -> tuple[float | None, set[str]]:
        """When watching began, and the incidents that people called false since."""
        with translated(self.path):
            begun = records.first_time(self._connection, "detector.calibrated")
            return begun, records.labelled_false(self._connection)

    def read(self, question: Callable[..., Result], *arguments: Any) -> Result:
        """Put a question of another table's module, which takes the connection first."""
        with translated(self.path):
            return question(self._connection, *arguments)

    def write(self, change: Callable[..., Result], *arguments: Any) -> Result:
        """The same for a change, in a transaction of its own."""
        with self._transaction():
            return change(self._connection, *arguments)

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        self._lock.release()
