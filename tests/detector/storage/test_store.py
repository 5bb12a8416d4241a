"""The database: what is committed comes back, bit for bit; what is damaged is found out and survived."""

from __future__ import annotations

import math
import os
import random
import shutil
import sqlite3
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.base import Sample
from detector.events.model import detector_event
from detector.storage import database, recovery, schema
from detector.storage.database import FILE
from detector.storage.journal import Damaged, Entry, decode_samples, encode_samples, samples_entry
from detector.storage.lock import Lock
from detector.storage.records import Record
from detector.storage.snapshot import Snapshot
from detector.storage.store import (
    Bundle,
    StateDamaged,
    StateRefused,
    StateUnavailable,
    Store,
    export,
    inspect,
)
from detector.storage.upkeep import Bounds


def samples(count: int, start: float = 0.0) -> list[Sample]:
    return [Sample(start + i, f"node-{i % 3}", (0.1 * i, -float(i))) for i in range(count)]


def entry(number: int) -> Entry:
    return samples_entry("a", samples(10, number), {"offset": number})


def snapshot(value: float, position: int) -> Snapshot:
    arrays: dict[str, Any] = {
        "theta": np.full((3, 2), value), "flags": np.array([True, False]), "none": np.zeros((0, 4)),
    }  # fmt: skip
    return Snapshot(
        arrays, {"value": value, "names": ["ä\n"]}, {"a": {"offset": position}}, created=1e9 + value
    )


def record(number: int) -> Record:
    return Record.of(detector_event("detector.warning", 1e9 + number, f"number {number}"))


def entries(store: Store, after: int) -> list[Entry]:
    return list(store.journal(after))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.builds(
            Sample,
            st.floats(allow_nan=False),
            st.text(min_size=1, max_size=8),
            st.lists(st.floats(), max_size=3).map(tuple),
        ),
        max_size=30,
    )
)
def test_samples_come_back_bit_for_bit(given_samples: list[Sample]) -> None:
    """Any samples, ragged or with NaN, survive the journal's form."""
    back = decode_samples(encode_samples(given_samples))
    assert [(s.time, s.node) for s in back] == [(s.time, s.node) for s in given_samples]
    for one, two in zip(back, given_samples, strict=True):
        assert np.array(one.values).tobytes() == np.array(two.values).tobytes()


def test_cut_samples_are_damage() -> None:
    """Bytes that end early raise, and never give fewer samples quietly."""
    body = encode_samples(samples(5))
    for length in range(len(body)):
        with pytest.raises(Damaged):
            decode_samples(body[:length])


def test_commit_and_restore(tmp_path: Path) -> None:
    """Journal, snapshot, records and outbox of committed bundles are there after a restart."""
    store = Store(tmp_path)
    assert store.load() is None
    store.commit(Bundle(entries=[entry(1), entry(2)], records=[record(1)], sinks=("s", "t")))
    store.commit(Bundle(entries=[entry(3), Entry("rebuild")], snapshot=snapshot(1.5, 3)))
    store.commit(
        Bundle(entries=[entry(4)], records=[record(2)], sinks=("s",), delivered=[("t", record(1).id)])
    )
    assert store.unknown([record(1).id, "new"]) == {"new"}
    store.close()

    store = Store(tmp_path)
    found = store.load()
    assert found is not None
    assert found.seq == 4
    for name, array in snapshot(1.5, 3).arrays.items():
        assert array.dtype == found.arrays[name].dtype
        np.testing.assert_array_equal(array, found.arrays[name])
    assert found.meta == {"value": 1.5, "names": ["ä\n"]}
    assert found.positions == {"a": {"offset": 3}}
    assert entries(store, found.seq) == [entry(4)]
    assert [r.id for r in store.pending("s")] == [record(1).id, record(2).id]
    assert store.pending("t") == []
    assert store.damages == []
    store.close()


def test_a_failed_bundle_leaves_nothing(tmp_path: Path) -> None:
    """Either everything of a bundle is stored, or nothing."""
    store = Store(tmp_path)
    bad = Snapshot({"text": np.array(["a"])}, {})
    with pytest.raises(TypeError):
        store.commit(Bundle(entries=[entry(1)], records=[record(1)], sinks=("s",), snapshot=bad))
    assert entries(store, 0) == []
    assert store.pending("s") == []
    store.commit(Bundle(entries=[entry(1)]))
    assert entries(store, 0) == [entry(1)]
    store.close()


def test_previous_generation_leads_to_the_same_point(tmp_path: Path) -> None:
    """With the newest snapshot damaged, the one before and its journal lead to where we were."""
    store = Store(tmp_path)
    for number in (1, 2, 3):
        store.commit(Bundle(entries=[entry(number), Entry("rebuild")], snapshot=snapshot(number, number)))
    store.commit(Bundle(entries=[entry(4)]))
    store.close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute(
            "UPDATE snapshot_piece SET body = zeroblob(length(body)) WHERE seq = 6 AND name = 'theta'"
        )
        assert connection.execute("SELECT count(*) FROM snapshot").fetchone()[0] == 2
    store = Store(tmp_path)
    found = store.load()
    assert found is not None
    assert (found.seq, found.meta["value"]) == (4, 2)
    assert entries(store, 4) == [entry(3), Entry("rebuild"), entry(4)]
    assert len(store.damages) == 1
    store.close()


def test_a_damaged_entry_cuts_the_journal(tmp_path: Path) -> None:
    """Nothing after a damaged entry is used; new entries follow the sound ones."""
    store = Store(tmp_path)
    store.commit(Bundle(entries=[entry(n) for n in range(1, 6)]))
    store.close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE journal SET position = '{\"offset\":9}' WHERE seq = 3")
    store = Store(tmp_path)
    assert entries(store, 0) == [entry(1), entry(2)]
    assert len(store.damages) == 1
    store.commit(Bundle(entries=[entry(7)]))
    assert entries(store, 0) == [entry(1), entry(2), entry(7)]
    store.close()


@pytest.mark.parametrize("fault", ["flip", "truncate", "empty", "text", "foreign"])
def test_damaged_files_never_stop_a_start(tmp_path: Path, fault: str) -> None:
    """Bit flips and cuts anywhere: the store opens, and gives only what was written (T2)."""
    rng = random.Random(fault)
    store = Store(tmp_path)
    big = Snapshot({"big": np.arange(40_000.0)}, {"value": 1.0}, {"a": {"offset": 1}}, created=1.0)
    store.commit(Bundle(entries=[entry(1), Entry("rebuild")], snapshot=big))
    store.commit(Bundle(entries=[entry(2), Entry("rebuild")], snapshot=big))
    store.commit(Bundle(entries=[entry(3)], records=[record(1)], sinks=("s",)))
    store.close()
    sound = (tmp_path / FILE).read_bytes()
    told = 0
    for trial in range(200 if fault in ("flip", "truncate") else 1):
        folder = tmp_path / f"trial-{trial}"
        folder.mkdir()
        data = bytearray(sound)
        if fault == "flip":
            for _ in range(rng.choice([1, 8, 200])):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif fault == "truncate":
            del data[rng.randrange(len(data)) :]
        else:
            data = bytearray({"empty": b"", "text": b"hello " * 1000, "foreign": _foreign(tmp_path)}[fault])
        (folder / FILE).write_bytes(data)
        store = Store(folder)
        found = store.load()
        if found is not None:
            np.testing.assert_array_equal(found.arrays["big"], big.arrays["big"])
            assert all(
                e in ([entry(n) for n in (1, 2, 3)] + [Entry("rebuild")]) for e in entries(store, found.seq)
            )
        assert all(r == record(1) for r in store.pending("s"))
        told += bool(store.damages)
        store.commit(Bundle(entries=[entry(9)], records=[record(9)], sinks=("s",)))
        store.close()
        again = Store(folder)
        assert again.pending("s")[-1] == record(9)
        again.close()
        shutil.rmtree(folder)
    assert told or fault == "empty"


def _foreign(folder: Path) -> bytes:
    with sqlite3.connect(folder / "other.db") as connection:
        connection.execute("CREATE TABLE journal (x)")
    return (folder / "other.db").read_bytes()


def test_few_damaged_files_are_kept(tmp_path: Path) -> None:
    """Damaged databases are set aside, the newest two of them."""
    for _ in range(4):
        (tmp_path / FILE).write_bytes(b"not a database, " * 300)
        store = Store(tmp_path)
        assert len(store.damages) == 1
        store.close()
    assert len(inspect(tmp_path)["damaged_files"]) == 2


def test_newer_version_is_refused_untouched(tmp_path: Path) -> None:
    """A state of a later release is neither used nor changed."""
    Store(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute(f"PRAGMA user_version = {database.VERSION + 1}")
    with pytest.raises(StateRefused, match="newer detector"):
        Store(tmp_path)
    with pytest.raises(StateRefused):
        inspect(tmp_path)
    assert recovery.files_aside(tmp_path) == []


def test_older_versions_are_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Migrations run one after the other, and keep what is stored."""
    store = Store(tmp_path)
    store.commit(Bundle(entries=[entry(1)]))
    store.close()
    now = database.VERSION
    steps = {
        now: lambda connection: connection.execute("CREATE TABLE one (x)"),
        now + 1: lambda connection: connection.execute("ALTER TABLE one RENAME TO two"),
    }
    for module in (schema, database):
        monkeypatch.setattr(module, "VERSION", now + 2)
    monkeypatch.setattr(schema, "MIGRATIONS", steps)
    store = Store(tmp_path)
    assert entries(store, 0) == [entry(1)]
    store.close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == now + 2
        assert connection.execute("SELECT count(*) FROM two").fetchone()[0] == 0


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk may be full half way: the state stays as the earlier version left it."""
    Store(tmp_path).close()

    def half(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE one (x)")
        connection.execute("INSERT INTO nowhere VALUES (1)")

    for module in (schema, database):
        monkeypatch.setattr(module, "VERSION", schema.VERSION + 1)
    monkeypatch.setattr(schema, "MIGRATIONS", {schema.VERSION - 1: half})
    connection = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        schema.migrate(connection, schema.VERSION - 1)
    assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION - 1,)
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'one'").fetchone() == (0,)
    connection.close()


def test_two_daemons_do_not_share_a_folder(tmp_path: Path) -> None:
    """The second one is told so; the lock ends with its owner."""
    store = Store(tmp_path)
    with pytest.raises(StateRefused, match="in use"):
        Lock(tmp_path)
    store.close()
    Lock(tmp_path).close()


def test_folder_is_private(tmp_path: Path) -> None:
    """Folder 0700, file 0600: readings are nobody else's business."""
    Store(tmp_path / "state").close()
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "state" / FILE).stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_owner_is_refused(tmp_path: Path) -> None:
    """A file of another user is a mistake of installation, said as such."""
    Store(tmp_path).close()
    os.chown(tmp_path / FILE, 12345, 12345)
    with pytest.raises(StateRefused, match="belongs to user 12345"):
        Store(tmp_path)


def test_history_is_bounded_but_labels_stay(tmp_path: Path) -> None:
    """Old records go at a snapshot, except those still to be sent and those of labelled incidents."""
    store = Store(tmp_path, Bounds(records=100))
    labelled = Record("x-2", "x", "incident.labelled", 1e9, b'{"id":"x-2"}')
    unsent = record(0)
    store.commit(Bundle(records=[Record("x-1", "x", "incident.opened", 1e9, b'{"id":"x-1"}'), labelled]))
    store.commit(Bundle(records=[unsent], sinks=("s",)))
    store.commit(Bundle(records=[record(n) for n in range(1, 500)]))
    store.commit(Bundle(entries=[Entry("rebuild")], snapshot=snapshot(1.0, 1)))
    kept = [row["id"] for row in export(tmp_path) if row["kind"] == "record"]
    assert kept[:3] == ["x-1", "x-2", unsent.id]
    assert len(kept) == 103
    assert next(row for row in export(tmp_path) if row["kind"] == "label")["incident"] == "x"
    assert [r.id for r in store.incident("x")] == ["x-1", "x-2"]
    assert [r.id for r in store.incidents(10)] == ["x-2"]
    assert [r.id for r in store.records_after(record(497).id, 10)] == [record(498).id, record(499).id]
    store.close()


def test_a_gap_is_never_replayed_over(tmp_path: Path) -> None:
    """Where entries were given up the snapshot stands for them; without it the journal ends at the gap."""
    store = Store(tmp_path)
    store.commit(Bundle(entries=[entry(1)]))
    store.commit(Bundle(entries=[entry(3), Entry("rebuild")], snapshot=snapshot(3.0, 3), gap=True))
    store.commit(Bundle(entries=[entry(4)]))
    found = store.load()
    assert found is not None
    assert entries(store, found.seq) == [entry(4)]
    assert entries(store, 0) == []
    store.close()


def test_a_removed_file_is_noticed(tmp_path: Path) -> None:
    """SQLite would write on into a file without name; we start a fresh one and say so."""
    store = Store(tmp_path / "state")
    (tmp_path / "state" / FILE).unlink()
    with pytest.raises(StateDamaged) as raised:
        store.commit(Bundle(entries=[entry(1)]))
    store.repair(raised.value)
    store.commit(Bundle(entries=[entry(1), Entry("rebuild")], snapshot=snapshot(1.0, 1), gap=True))
    store.close()
    store = Store(tmp_path / "state")
    assert store.load() is not None
    store.close()


def test_inspect_reads_beside_the_owner(tmp_path: Path) -> None:
    """What is inside, without lock and without change."""
    with pytest.raises(StateUnavailable):
        inspect(tmp_path)
    store = Store(tmp_path)
    store.commit(Bundle(entries=[entry(1), Entry("rebuild")], snapshot=snapshot(1.0, 1)))
    store.commit(Bundle(entries=[entry(2)], records=[record(1)], sinks=("s",)))
    seen = inspect(tmp_path)
    assert seen["sound"] is True
    assert seen["journal"]["samples"] == 10
    assert seen["positions"] == {"a": {"offset": 2}}
    store.commit(Bundle(entries=[Entry("rebuild")], snapshot=snapshot(2.0, 5)))
    assert inspect(tmp_path)["positions"] == {"a": {"offset": 5}}
    assert seen["outbox"] == {"s": 1}
    assert math.isclose(seen["snapshots"][0]["created"], 1e9 + 1)
    store.close()
