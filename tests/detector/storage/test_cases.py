"""Case files and models in the database: bounded, checked, there after a restart, added to an old file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import numpy as np
import pytest

from detector.diagnosis.repository import Repository
from detector.events.model import Event, Labels
from detector.incidents.case import Case, Stage
from detector.storage import cases as tables
from detector.storage import database
from detector.storage.arrays import Unreadable
from detector.storage.case_codec import encode
from detector.storage.database import FILE
from detector.storage.records import Record
from detector.storage.store import Bundle, Store
from detector.storage.upkeep import Bounds
from tests.detector.storage.test_store import entry, record, snapshot

# As version 1 made it.
SCHEMA_1 = """
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
PRAGMA application_id = 1685349236; PRAGMA user_version = 1;
"""


def case(incident: str = "i1", stage: Stage = "early", time: float = 1e9) -> Case:
    """A small one: three nodes in a row, the first two changed."""
    rng = np.random.default_rng(int(time) % 1000)
    values = {name: rng.normal(size=(20, 1)).astype(np.float32) for name in ("a", "b", "c")}
    return Case(
        incident=incident, stage=stage, time=time, opened=time - 10, onset=time - 12, step=1.0,
        names=("a", "b", "c"), edges=np.array([[0, 1], [1, 2]], np.int32), weights=np.ones(2),
        members=("a", "b"), suspected=("b",), onsets={"a": time - 12},
        statistic=np.array([9, 5, 1], np.float32), event_statistic=np.array([9, 8, 2], np.float32),
        levels=np.ones((3, 2), np.float32), lengths=(5, 20),
        increments=np.array([8, 4, np.nan], np.float32), threshold=4.0, event_threshold=5.0,
        components=("x",), reference=values, recent=values,
        times={name: time - 19 + np.arange(20.0) for name in values},
        centre={name: np.zeros(1) for name in values}, scale={name: np.ones(1) for name in values},
    )  # fmt: skip


def label(incident: str, **said) -> Record:
    labels = Labels(time=1e9, **said)
    return Record.of(
        Event(
            id=f"{incident}-{said}",
            event="incident.labelled",
            time=1e9,
            summary="",
            incident=incident,
            labels=labels,
        )
    )


@pytest.fixture
def store(tmp_path: Path):
    made = Store(tmp_path, Bounds(cases=3, case_bytes=10**6))
    yield made
    made.close()


def test_a_case_file_comes_with_its_samples(store: Store) -> None:
    """In one transaction with the journal; it waits until it is marked as analyzed."""
    store.commit(Bundle(entries=[entry(1)], cases=[case("i1", "early"), case("i1", "settled")]))
    assert store.read(tables.waiting) == [("i1", "early"), ("i1", "settled")]
    found = store.read(tables.read_case, "i1", "early")
    assert encode(found) == encode(case("i1", "early"))

    store.commit(Bundle(cases=[case("i1", "early", 2e9)], analyzed=[("i1", "early")]))
    assert store.read(tables.waiting) == [("i1", "settled")]
    assert store.read(tables.read_case, "i1", "early").time == 1e9  # the first one stays
    assert store.read(tables.read_case, "i2", "early") is None


def test_the_oldest_go_but_none_with_a_label(store: Store) -> None:
    """Bounded, and what people labelled is kept for ever; what was not analyzed is counted."""
    store.commit(Bundle(cases=[case(f"i{k}") for k in range(8)], records=[label("i1", alarm="true")]))
    store.commit(Bundle(analyzed=[("i0", "early"), ("i1", "early"), ("i2", "early")]))
    store.commit(Bundle(entries=[entry(1)], snapshot=snapshot(1.0, 1)))

    assert [key[0] for key in store.read(tables.case_keys)] == ["i1", "i5", "i6", "i7"]
    assert store.lost_cases == 2  # i3 and i4
    one = store.read(lambda c: c.execute("SELECT length(meta) + length(body) FROM case_file").fetchone()[0])
    store.bounds = Bounds(cases=3, case_bytes=2 * one + 10)
    store.commit(Bundle(entries=[entry(2)], snapshot=snapshot(2.0, 2)))
    assert [key[0] for key in store.read(tables.case_keys)] == ["i1", "i6", "i7"]


def test_labelled_cases(store: Store) -> None:
    """Every stage of every labelled incident, with the last word about it."""
    store.commit(
        Bundle(
            cases=[case("i1"), case("i1", "settled"), case("i2")],
            records=[
                label("i1", alarm="true", type="leak"),
                label("i3", alarm="true"),
                label("i1", type="pump"),
            ],
        )
    )
    repository = Repository(store)

    assert [(c.key, said.type) for c, said in repository.labelled_cases()] == [
        (("i1", "early"), "pump"), (("i1", "settled"), "pump"),
    ]  # fmt: skip
    assert [c.key for c, _ in repository.labelled_cases("settled")] == [("i1", "settled")]
    assert [c.incident for c in repository.cases("early")] == ["i1", "i2"]


def test_a_damaged_case_file_is_found_out(store: Store) -> None:
    """One bit is enough; who asks for labelled cases gets the others."""
    store.commit(
        Bundle(cases=[case("i1"), case("i2")], records=[label("i1", type="x"), label("i2", type="x")])
    )
    with sqlite3.connect(store.path) as other:
        body = bytearray(other.execute("SELECT body FROM case_file WHERE incident = 'i1'").fetchone()[0])
        body[200] ^= 1
        other.execute("UPDATE case_file SET body = ? WHERE incident = 'i1'", (bytes(body),))
    with pytest.raises(Unreadable, match="i1 early"):
        store.read(tables.read_case, "i1", "early")

    assert [c.incident for c, _ in Repository(store).labelled_cases()] == ["i2"]


def test_models(store: Store) -> None:
    """Numbered by name; the newest sound one is given, a few older ones are kept behind it."""
    repository = Repository(store)
    for k in range(5):
        assert repository.save_model("regime", "pump", {"k": k}, {"w": np.arange(k + 1.0)}) == k + 1
    repository.save_model("regime", "leak", {"words": ["ä"]})
    repository.save_model("footprint", "site", {})
    newest = repository.model("regime", "pump")

    assert [model.name for model in repository.models("regime")] == ["leak", "pump"]
    assert newest is not None
    assert (newest.version, newest.meta) == (5, {"k": 4})
    np.testing.assert_array_equal(newest.arrays["w"], np.arange(5.0))
    assert store.read(tables.count_models) == {"footprint": 1, "regime": 2}

    with sqlite3.connect(store.path) as other:
        other.execute("UPDATE model SET meta = x'7b7d' WHERE name = 'pump' AND version = 5")
        assert other.execute("SELECT count(*) FROM model WHERE name = 'pump'").fetchone() == (3,)
    assert repository.model("regime", "pump").version == 4
    assert repository.forget_model("regime", "pump")
    assert not repository.forget_model("regime", "pump")
    assert [model.name for model in repository.models("regime")] == ["leak"]
    with pytest.raises(TypeError, match="array w"):
        repository.save_model("regime", "bad", {}, {"w": np.array(["text"])})
    assert repository.model("regime", "bad") is None


def test_a_database_of_version_1(tmp_path: Path) -> None:
    """It gets the new tables; everything in it stays, and the detector goes on with it."""
    with sqlite3.connect(tmp_path / FILE) as old:
        old.executescript(SCHEMA_1)
        one = record(1)
        old.execute(
            "INSERT INTO record (id, incident, event, time, crc, body) VALUES (?,?,?,?,?,?)",
            (one.id, one.incident, one.event, one.time, one.checksum(), one.body),
        )
        position = msgspec.json.encode(entry(1).position).decode()
        old.execute(
            "INSERT INTO journal (seq, kind, source, position, count, crc, body) VALUES (?,?,?,?,?,?,?)",
            (1, "samples", "a", position, 10, entry(1).checksum(1), entry(1).body),
        )
    old.close()
    store = Store(tmp_path)

    assert store.damages == []
    assert list(store.journal(0)) == [entry(1)]
    assert store.unknown([record(1).id]) == set()
    store.commit(Bundle(entries=[entry(2)], cases=[case()]))
    assert store.read(tables.waiting) == [("i1", "early")]
    store.close()
    with sqlite3.connect(tmp_path / FILE) as new:
        assert new.execute("PRAGMA user_version").fetchone() == (database.VERSION,)
        fresh = sqlite3.connect(":memory:")
        fresh.executescript(database.SCHEMA)
        question = "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name"
        assert new.execute(question).fetchall() == fresh.execute(question).fetchall()
    assert list(Store(tmp_path).journal(0)) == [entry(1), entry(2)]
