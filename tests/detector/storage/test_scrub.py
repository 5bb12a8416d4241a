"""Rows that are not as they were written: every table is looked at, and what is removed is told."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from detector.notify import silences
from detector.notify.silences import Silence
from detector.pipeline.signal_capture import ROWS, Block, Columns
from detector.storage import cases
from detector.storage.console import overrides, remarks
from detector.storage.console.overrides import BudgetOverride
from detector.storage.console.signals import Signal
from detector.storage.database import FILE
from detector.storage.schema import TABLES
from detector.storage.store import Bundle, Store
from tests.detector.storage.test_cases import case, label

ELSEWHERE = {"journal", "snapshot", "snapshot_piece", "outbox", "told"}  # when read; or ids only
CHECKED = {
    "record": "body", "label": "body", "case_file": "body", "model": "body", "comment": "body",
    "audit": "who", "silence": "body", "override": "body", "node_layout": "names", "node_history": "body",
    "incident_signal": "body",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state with two rows in every table."""
    store = Store(tmp_path)
    values = np.ones((ROWS, 2, Columns(1).width), np.float32)
    signal = Signal(np.arange(3.0), np.ones((3, 5), np.float32)).pack()
    blocks = [Block(0, 0.0, 1.0, ("a", "b"), values), Block(0, 100.0, 1.0, ("a", "c"), values)]
    store.commit(Bundle(records=[label("i1", alarm="true"), label("i2", alarm="true")], blocks=blocks,
                        cases=[case("i1"), case("i2")]))  # fmt: skip
    for number in range(2):
        store.write(cases.write_model, "regime", f"m{number}", 1.0, {}, {"x": np.ones(3)})
        store.write(remarks.add_comment, "i1", 5.0, "Ada", "seen")
        store.write(remarks.add_deed, 8.0, "Ada", "accept", "i1", {})
        store.write(silences.put, Silence(id=f"s{number}", nodes=["a"], begin=0.0, lasts=60.0))
    kept = [(str(number), signal) for number in range(2)]
    store.write(lambda c: c.executemany("INSERT INTO incident_signal VALUES (?,'a',0,1.0,?)", kept))
    store.write(overrides.put_budget, BudgetOverride("1 per 7d", "1 per 30d", "Ada", 1.0))
    store.close()
    return tmp_path


def test_every_table_is_checked(folder: Path) -> None:
    assert set(CHECKED) | ELSEWHERE == set(TABLES)
    store = Store(folder)
    store.load()
    assert store.damages == []
    store.close()


@pytest.mark.parametrize("table", CHECKED)
def test_a_damaged_row_is_removed_and_told(folder: Path, table: str) -> None:
    """One of two goes (of overrides the only one), and it is said of which table."""
    column = CHECKED[table]
    with sqlite3.connect(folder / FILE) as connection:
        row, value = connection.execute(f"SELECT rowid, {column} FROM {table}").fetchone()
        spoilt = value[:-2] + ("?" if isinstance(value, str) else bytes([value[-2] ^ 1])) + value[-1:]
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (spoilt, row))
        before = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    store = Store(folder)
    store.load()
    assert [f"1 of {table}" in one.text for one in store.damages] == [True]
    assert store.read(lambda c: c.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) == before - 1
    store.close()
    store = Store(folder)
    store.load()
    assert store.damages == []
    store.close()
