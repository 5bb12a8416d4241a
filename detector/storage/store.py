"""The state of the daemon: one SQLite database, one transaction for everything that belongs together.

    journal    what was accepted since the last snapshot but one, each entry with its source's position
    snapshot   the whole pipeline after a journal entry; the previous one is kept
    case_file  what was known of an incident when it was analyzed, or is still to be; `model` what was learnt
    record     what was said (events), with `label` for what people said back; `outbox` what is still to send

Used from one thread at a time. Blocking: the daemon calls it from a thread of its own.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from detector.events.model import iso
from detector.storage import backup, records, recovery, signals, upkeep
from detector.storage import cases as tables
from detector.storage.bundle import Bundle
from detector.storage.database import (
    FILE,
    StateDamaged,
    StateError,
    StateRefused,
    StateUnavailable,
    open_database,
    translated,
)
from detector.storage.inspect import export, inspect
from detector.storage.journal import Damaged, Entry, append_entries, reach, read_entries
from detector.storage.lock import Lock
from detector.storage.mark import Mark, MarkFile
from detector.storage.records import Record, SetAside
from detector.storage.recovery import Damage
from detector.storage.snapshot import Snapshot, read_snapshot, write_snapshot
from detector.storage.upkeep import Bounds

__all__ = [
    "Bundle", "Snapshot", "StateDamaged", "StateError", "StateRefused", "StateUnavailable", "Store",
    "export", "inspect",
]  # fmt: skip

Result = TypeVar("Result")
GENERATIONS = 2  # snapshots kept, each with the journal after it


class Store:
    """The database of one state folder, locked for us."""

    def __init__(self, folder: Path, bounds: Bounds | None = None) -> None:
        self.folder, self.path, self.bounds = folder, folder / FILE, bounds or Bounds()
        self.lost_cases = 0  # dropped before they were analyzed
        self.set_aside: dict[str, int] = {}  # records that a sink would not take, by sink
        self.lost_set_aside: dict[str, int] = {}  # of these, given up beyond their bound
        self.damages: list[Damage] = []  # what was found, for log, counter and records
        self.journal_size = 0  # bytes since the last snapshot
        self.snapshot_time: float | None = None
        self.snapshot_size = 0
        self.sizes: dict[str, int] = {}  # bytes of each part, when the latest snapshot was stored
        self._lock = Lock(folder)
        self._mark = MarkFile(folder)
        try:
            self._open()
        except BaseException:
            self._lock.close()
            raise

    # ---------------------------------------------------------------------------------- opening

    def _open(self) -> None:
        mark, there = self._mark.read(), self.path.exists() and self.path.stat().st_size > 0
        try:
            self._connection = open_database(self.path)
        except StateDamaged as damage:
            self._replace(damage)
            there = False
        with translated(self.path):
            if mark is not None and not there:  # made anew by us: it goes on for the one that was there
                self._connection.execute("UPDATE identity SET id = ?", (mark.store,))
            self._know()
            if mark is not None and mark.store == self._identity:
                lost = recovery.set_back(self._connection, mark)
                if lost is not None:
                    self._tell(lost)

    def _know(self) -> None:
        """What is asked of the file once."""
        self._inode = self.path.stat().st_ino
        self._identity: str = self._connection.execute("SELECT id FROM identity").fetchone()[0]
        self._seq, self._record = recovery.reached(self._connection)

    def _tell(self, found: Damage) -> None:
        """Note a damage. What is found in one opening is one damage, told once, with all that is known."""
        if self.damages:
            self.damages[-1].add(found)
        else:
            self.damages.append(found)

    def _replace(self, damage: StateDamaged) -> None:
        """Set the damaged file aside and save what can be read of it into a fresh one."""
        aside = recovery.set_aside(self.path)
        self._connection = open_database(self.path)
        saved = recovery.salvage(aside, self._connection)
        found = ", ".join(f"{count} of {table}" for table, count in saved.items() if count) or "nothing"
        self.damages.append(Damage(f"{damage}; set aside as {aside.name}, rows saved: {found}"))

    @property
    def in_place(self) -> bool:
        """Whether the path still leads to the folder and the file that we use."""
        try:
            return self._lock.in_place and self.path.stat().st_ino == self._inode
        except OSError:
            return False

    def repair(self, damage: StateDamaged) -> None:
        """The database went bad under way, or away: start a fresh one. The next bundle needs a snapshot.

        `StateRefused` if another daemon, or another state, has taken the place of our folder.
        """
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        self._mark.close()
        if not self._lock.in_place:
            self._lock.close()
            self._lock = Lock(self.folder)
            if self.path.exists():
                raise StateRefused(f"state folder {self.folder} was replaced by another state")
        if self.path.exists():
            self._replace(damage)
        else:
            self._connection = open_database(self.path)
            self.damages.append(Damage(f"{damage}; started a fresh one"))
        with translated(self.path):
            self._connection.execute("UPDATE identity SET id = ?", (self._identity,))
            seq = self._seq
            self._know()
        self._seq = max(seq, self._seq) + 1  # a gap: the salvaged journal does not lead to what comes now

    def load(self) -> Snapshot | None:
        """The newest sound snapshot, or None. Damaged ones are removed and told of.

        After damage that may be one from a copy of what was learnt: nothing is learnt twice.
        """
        with translated(self.path):
            if (found := recovery.scrub(self._connection)) is not None:
                self._tell(found)
            snapshot = self._newest()
            seq = 0 if snapshot is None else snapshot.seq
            copy = backup.newest_snapshot(self.folder, self._identity, seq)
            if copy is not None and copy[1].seq > reach(self._connection, seq):
                path, snapshot = copy
                backup.adopt(self._connection, path)
                self._seq = snapshot.seq
                self._tell(Damage(f"going on from {backup.FOLDER}/{path.name} of {iso(snapshot.created)}"))
            if snapshot is not None:
                self.snapshot_time = snapshot.created
                self.snapshot_size = sum(array.nbytes for array in snapshot.arrays.values())
            self.sizes = upkeep.sizes(self.folder, self._connection)
            self.set_aside = records.count_set_aside(self._connection)
        return snapshot

    def _newest(self) -> Snapshot | None:
        rows = self._connection.execute("SELECT seq FROM snapshot ORDER BY seq DESC").fetchall()
        for (seq,) in rows:
            try:
                return read_snapshot(self._connection, seq)
            except (Damaged, msgspec.MsgspecError, TypeError, ValueError) as damage:
                self._tell(Damage(str(damage)))
                self._forget_snapshots("seq = ?", seq)
        return None

    def discard(self) -> None:
        """Forget journal and snapshots: a clean start, with records, labels and outbox kept."""
        with self._transaction():
            self._connection.execute("DELETE FROM journal")
            self._forget_snapshots("1")
        self._seq += 1  # what comes now is later than every copy of what was

    def _forget_snapshots(self, condition: str, *values: int) -> None:
        self._connection.execute(f"DELETE FROM snapshot WHERE {condition}", values)
        self._connection.execute(f"DELETE FROM snapshot_piece WHERE {condition}", values)

    def journal(self, after: int) -> Iterator[Entry]:
        """The entries after a snapshot's seq, in order, as far as they are sound and without gap.

        What comes after a damaged entry is cut off for good: its source is read again from before.
        """
        self.journal_size = 0
        reached, since = after, None
        with translated(self.path):
            for seq, entry, moment in read_entries(self._connection, after):
                if entry is None:
                    break
                yield entry
                self.journal_size += len(entry.body)
                reached, since = seq, moment
            else:
                return
        with self._transaction():
            lost, until = self._connection.execute(
                "SELECT count(*), max(time) FROM journal WHERE seq > ?", (reached,)
            ).fetchone()
            self._connection.execute("DELETE FROM journal WHERE seq > ?", (reached,))
        self._tell(Damage(
            f"journal: entry {reached + 1} is missing or damaged; cut off there, {lost} entries are lost",
            lost, 0, since, until,
        ))  # fmt: skip
        self._seq = reached

    # ---------------------------------------------------------------------------------- writing

    def commit(self, bundle: Bundle) -> None:
        """All of it or nothing, on disk when this returns."""
        seq, now = self._seq + bundle.gap, time.time()
        with self._transaction():
            append_entries(self._connection, seq, bundle.entries, now)
            seq += len(bundle.entries)
            newest = records.insert(self._connection, bundle.records, bundle.sinks)
            records.delivered(self._connection, bundle.delivered)
            records.set_aside(self._connection, bundle.set_aside)
            tables.insert_cases(self._connection, bundle.cases)
            tables.mark_analyzed(self._connection, bundle.analyzed)
            signals.insert_blocks(self._connection, bundle.blocks)
            if bundle.snapshot is not None:
                self.snapshot_size = write_snapshot(self._connection, seq, bundle.snapshot)
                self._prune()
            if bundle.set_aside:
                self._bound_set_aside()
        self._seq, self._record = seq, max(self._record, newest)
        self.journal_size += bundle.size
        if bundle.snapshot is not None:
            self.journal_size, self.snapshot_time = 0, bundle.snapshot.created
            # The commit stands, whatever comes of this: an error that stays will be met by the next one.
            with contextlib.suppress(sqlite3.Error, OSError):
                upkeep.shrink(self._connection)
                self.sizes = upkeep.sizes(self.folder, self._connection)
        self._mark.write(Mark(self._identity, self._seq, self._record, now))

    def _prune(self) -> None:
        """Keep the newest snapshots and the journal that leads from the oldest kept one to now."""
        rows = self._connection.execute("SELECT seq FROM snapshot ORDER BY seq DESC").fetchall()
        oldest = rows[min(len(rows), GENERATIONS) - 1][0]
        self._forget_snapshots("seq < ?", oldest)
        # With a single snapshot there is nothing older to fall back to, and the journal before it is useless.
        self._connection.execute("DELETE FROM journal WHERE seq <= ?", (oldest,))
        self.lost_cases += upkeep.prune(self._connection, self.bounds)

    def delivered(self, done: Sequence[tuple[str, str]]) -> None:
        with self._transaction():
            records.delivered(self._connection, done)

    def _bound_set_aside(self) -> None:
        for sink in records.prune_set_aside(self._connection, self.bounds.set_aside_bytes):
            self.lost_set_aside[sink] = self.lost_set_aside.get(sink, 0) + 1
        self.set_aside = records.count_set_aside(self._connection)

    def send_again(self, chosen: Sequence[tuple[str, str]]) -> list[Record]:
        """What was set aside, by (sink, id), waits again; the records, in their order."""
        with self._transaction():
            found = records.send_again(self._connection, chosen)
            self.set_aside = records.count_set_aside(self._connection)
        return found

    def drop(self, chosen: Sequence[tuple[str, str]]) -> int:
        """Forget what was set aside, by (sink, id); how many."""
        with self._transaction():
            count = records.drop_set_aside(self._connection, chosen)
            self.set_aside = records.count_set_aside(self._connection)
        return count

    def probe(self) -> None:
        """Raises if the disk takes nothing: a transaction without change would not touch it."""
        with self._transaction():
            self._connection.execute("INSERT OR IGNORE INTO outbox (sink, id) VALUES ('', '')")
            self._connection.execute("DELETE FROM outbox WHERE sink = '' AND id = ''")

    def drop_sinks(self, keep: Sequence[str]) -> int:
        """Forget what was addressed to sinks that no longer exist; how many records that were."""
        with self._transaction():
            marks = ",".join("?" * len(keep))
            dropped = self._connection.execute(
                f"DELETE FROM outbox WHERE sink NOT IN ({marks})", list(keep)
            ).rowcount
            self.set_aside = records.count_set_aside(self._connection)
        return dropped

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with translated(self.path):
            if not self.in_place:  # SQLite would go on writing to a file that nobody will find again
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

    def list_set_aside(self) -> list[tuple[SetAside, Record]]:
        with translated(self.path):
            return records.list_set_aside(self._connection)

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
        self._mark.close()
        self._lock.close()
