"""Signals in the database: what comes back, what survives a restart, what an incident keeps, and bounds."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detector.events.model import Event, NodeRecord
from detector.pipeline.signal_capture import FINE, ROWS, Block, Columns
from detector.storage import incident_signals, signals
from detector.storage.records import Record
from detector.storage.signals import Signal
from detector.storage.store import Bundle, Store
from detector.storage.upkeep import Bounds
from tests.detector.storage.test_store import entry, snapshot

NAMES = tuple(f"n{v}" for v in range(100))
WIDTH = 10.0
START = 1_700_000_000 // 300 * 300.0


def block(number: int, names: tuple[str, ...] = NAMES, tier: int = FINE) -> Block:
    """Values that say of which block, row and node they are."""
    rows = np.arange(ROWS, dtype=np.float32)[:, None, None] + ROWS * number
    nodes = np.arange(len(names), dtype=np.float32)[None, :, None] / 1000
    values = np.broadcast_to(rows + nodes, (ROWS, len(names), Columns(1).width)).copy()
    return Block(tier, START + number * ROWS * WIDTH, WIDTH, names, values)


def incident(sequence: int, kind: str, time: float, **more: object) -> Record:
    nodes = [NodeRecord(name="n7", state="alarmed", peak=9.0), NodeRecord(name="n70", state="suspected")]
    given: dict[str, object] = {"opened": START + 5000.0, "onset": START + 4900.0, "nodes": nodes, **more}
    return Record.of(Event(id=f"i1-{sequence}", event=kind, time=time, summary="s", incident="i1", **given))  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path):
    made = Store(tmp_path / "state")
    yield made
    made.close()


def test_one_node_comes_back(store: Store) -> None:
    store.commit(Bundle(blocks=[block(0), block(1)]))
    found = store.read(signals.read_signals, ["n7", "n70", "nobody"], FINE, START, math.inf)
    assert len(found["nobody"].times) == 0
    for name in ("n7", "n70"):
        signal = found[name]
        np.testing.assert_array_equal(signal.times, START + WIDTH * (np.arange(2 * ROWS) + 0.5))
        np.testing.assert_allclose(signal.values[:, 0], np.arange(2 * ROWS) + int(name[1:]) / 1000, rtol=1e-5)
    part = store.read(signals.read_signals, ["n7"], FINE, START + 95.0, START + 125.0)["n7"]
    np.testing.assert_array_equal(part.times, START + np.array([95.0, 105.0, 115.0, 125.0]))


def test_a_block_made_again_takes_the_place_of_the_first(store: Store) -> None:
    store.commit(Bundle(blocks=[block(0)]))
    again = block(0)
    again.values[:] = 5.0
    store.commit(Bundle(blocks=[again]))
    found = store.read(signals.read_signals, ["n7"], FINE, START, math.inf)["n7"]
    assert (found.values == 5.0).all()
    assert len(found.times) == ROWS


def test_nodes_that_came_and_went(store: Store) -> None:
    """Blocks of another network are read by name, too."""
    store.commit(Bundle(blocks=[block(0), block(1, ("n70", "new", "n7"))]))
    found = store.read(signals.read_signals, ["n7", "new"], FINE, START, math.inf)
    np.testing.assert_allclose(found["n7"].values[[0, ROWS], 0], [0.007, ROWS + 0.002], rtol=1e-4)
    assert len(found["new"].times) == ROWS


def test_damaged_rows_are_left_out(store: Store) -> None:
    store.commit(Bundle(blocks=[block(0), block(1)]))
    store._connection.execute("UPDATE node_history SET body = x'00' WHERE begin = ?", (START,))
    found = store.read(signals.read_signals, ["n7"], FINE, START, math.inf)["n7"]
    assert len(found.times) == ROWS


def test_an_incident_keeps_its_signals_when_those_of_all_nodes_are_forgotten(tmp_path: Path) -> None:
    bounds = Bounds(signal_bytes=60_000)
    store = Store(tmp_path / "state", bounds)
    store.commit(Bundle(records=[incident(1, "incident.opened", START + 5000.0)]))
    for number in range(60):
        if number == 22:
            ended = incident(2, "incident.resolved", START + 6600.0, resolution="cleared")
            store.commit(Bundle(records=[ended]))
        store.commit(Bundle([entry(number)], blocks=[block(number)], snapshot=snapshot(1.0, 1)))
    assert store.read(signals.begins)[FINE] > START + 9000.0, "the test must have made it forget"
    assert (
        store.read(lambda c: c.execute("SELECT sum(length(body)) FROM node_history").fetchone()[0]) <= 60_000
    )
    found = store.read(incident_signals.read, "i1", [])
    assert found is not None
    told, drawn = found
    since, until = incident_signals.span(told)
    assert list(drawn) == ["n7", "n70"], "the certain one first"
    assert (since, until) == (START + 1300.0, START + 6600.0 + 1800.0)
    for name, signal in drawn.items():
        inside = np.arange(ROWS * 60)
        times = START + WIDTH * (inside + 0.5)
        wanted = (times >= since) & (times <= until)
        np.testing.assert_array_equal(signal.times, times[wanted])
        np.testing.assert_allclose(signal.values[:, 0], inside[wanted] + int(name[1:]) / 1000, rtol=1e-5)
    assert store.read(incident_signals.read, "unknown", []) is None
    store.close()


def test_signals_of_incidents_are_bounded(store: Store) -> None:
    signal = Signal(np.arange(500.0), np.random.default_rng(1).normal(size=(500, 5)).astype(np.float32))
    for number in range(40):
        store.write(
            lambda connection, n: connection.execute(
                "INSERT INTO incident_signal VALUES (?, 'n1', 0, ?, ?)", (f"i{n}", float(n), signal.pack())
            ), number,
        )  # fmt: skip
    store.write(incident_signals.prune, 5 * len(signal.pack()))
    assert [
        row[0] for row in store._connection.execute("SELECT incident FROM incident_signal ORDER BY until")
    ] == [f"i{n}" for n in range(35, 40)]


@settings(deadline=None)
@given(st.integers(0, 700), st.integers(2, 50))
def test_thinning_loses_no_extreme(count: int, most: int) -> None:
    values = np.random.default_rng(count).normal(size=(count, 5)).astype(np.float32)
    values[:, 1], values[:, 2] = (
        np.minimum(values[:, 0], values[:, 1]),
        np.maximum(values[:, 0], values[:, 2]),
    )
    thin = Signal(np.arange(float(count)), values).thinned(most)
    assert len(thin.times) <= most
    assert (np.diff(thin.times) > 0).all()
    if count:
        assert thin.values[:, 1].min() == values[:, 1].min()
        assert thin.values[:, 2].max() == values[:, 2].max()
        assert thin.values[:, 3].max() == values[:, 3].max()
        assert thin.values[:, 0].min() >= values[:, 0].min()
