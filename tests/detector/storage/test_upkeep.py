"""The size of the database: every part within its bound, free pages given back, the log cut off."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np

from detector.events.model import Event, Labels, detector_event
from detector.storage.bundle import Bundle
from detector.storage.database import FILE
from detector.storage.journal import Entry
from detector.storage.records import Record
from detector.storage.snapshot import Snapshot
from detector.storage.store import Store
from detector.storage.upkeep import SLACK, STEP, Bounds

MB = 2**20


def snapshot(size: int, seed: int = 0) -> Snapshot:
    values = np.random.default_rng(seed).integers(0, 256, size, np.uint8)
    return Snapshot({"x": values}, {}, {}, created=1e9)


def records(begin: int, count: int, size: int) -> list[Record]:
    numbers = range(begin, begin + count)
    return [Record.of(detector_event("detector.warning", 1e9 + k, "x" * size)) for k in numbers]


def labelled(number: int, size: int) -> Record:
    return Record.of(
        Event(id=f"l{number}", event="incident.labelled", time=1e9 + number, summary="y" * size,
              incident=f"i{number}", labels=Labels(time=1e9, alarm="true"))
    )  # fmt: skip


def settle(store: Store, times: int = 1) -> None:
    for number in range(times):
        store.commit(Bundle([Entry("rebuild")], snapshot=snapshot(1000, number)))


def test_every_kind_has_a_bound_of_its_own(tmp_path: Path) -> None:
    """Records, labelled records and labels: the newest of each, and none crowds out another."""
    store = Store(tmp_path, Bounds(records=10_000, record_bytes=MB, labelled_bytes=MB // 2))
    store.commit(Bundle(records=[labelled(k, 5000) for k in range(300)]))
    store.commit(Bundle(records=records(0, 1000, 5000)))
    settle(store)
    assert MB * 0.98 < store.sizes["records"] - store.sizes["labels"] <= MB * 1.01
    assert MB * 0.49 < store.sizes["labels"] <= MB / 2
    kept = store.read(lambda c: c.execute("SELECT id FROM record ORDER BY number").fetchall())
    assert kept[0][0] == "l" + str(300 - len(kept) + sum(not one[0].startswith("l") for one in kept))
    assert kept[-1][0] == records(999, 1, 5000)[0].id
    store.close()


def test_what_is_still_to_be_sent_stays(tmp_path: Path) -> None:
    """A sink that is away gets everything that its outbox holds, whatever the history may be."""
    store = Store(tmp_path, Bounds(records=100, record_bytes=MB))
    store.commit(Bundle(records=records(0, 500, 5000), sinks=("s",)))
    settle(store)
    assert len(store.pending("s")) == 500
    store.close()


def test_free_pages_are_given_back(tmp_path: Path) -> None:
    """After a burst the file shrinks, in steps, to what it holds and some slack; the log is empty."""
    store = Store(tmp_path, Bounds(record_bytes=MB))
    for begin in range(0, 2000, 500):
        store.commit(Bundle(records=records(begin, 500, 10_000)))
    grown = (tmp_path / FILE).stat().st_size + (tmp_path / f"{FILE}-wal").stat().st_size
    assert grown > 20 * MB
    settle(store, 2 + grown // STEP)
    assert store.sizes["records"] <= 1.01 * MB
    assert (tmp_path / FILE).stat().st_size <= 2 * MB + SLACK
    assert store.sizes["database"] == (tmp_path / FILE).stat().st_size
    assert (tmp_path / f"{FILE}-wal").stat().st_size == 0
    store.close()


def test_somebody_who_reads_is_not_waited_for(tmp_path: Path) -> None:
    """A reader holds the log: the commit is done at once, and the log is cut off later."""
    store = Store(tmp_path)
    settle(store)
    reader = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM record").fetchone()
    store.commit(Bundle([Entry("rebuild")], snapshot=snapshot(MB)))
    assert (tmp_path / f"{FILE}-wal").stat().st_size > MB
    reader.close()
    settle(store)
    assert (tmp_path / f"{FILE}-wal").stat().st_size == 0
    store.close()


def test_a_long_life_stays_within_the_sum_of_the_bounds(tmp_path: Path) -> None:
    """Journal, snapshots, records and labels at full rate: the file is bounded, and grows no more."""
    store = Store(tmp_path, Bounds(record_bytes=MB, labelled_bytes=MB // 4))
    sizes, rounds = [], 16
    for number in range(rounds):
        entries = [Entry("samples", bytes(20_000), "a", {}, 1) for _ in range(50)]
        store.commit(Bundle(entries, records(100 * number, 100, 3000)))
        store.commit(Bundle(records=[labelled(20 * number + k, 3000) for k in range(20)]))
        store.commit(Bundle([Entry("rebuild")], snapshot=snapshot(MB, number)))
        sizes.append(sum(path.stat().st_size for path in tmp_path.glob(f"{FILE}*")))
    assert max(sizes) <= 2 * MB + 2 * MB + 3 * MB + 2 * SLACK
    assert max(sizes[rounds // 2 :]) <= 1.1 * max(sizes[: rounds // 2])
    store.close()
