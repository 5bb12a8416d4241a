"""Comments and the audit trail: kept in order, with names, bounded; damaged rows count as not there."""

from __future__ import annotations

from pathlib import Path

from detector.storage.console import remarks
from detector.storage.store import Store


def test_comments_and_deeds_survive_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(remarks.add_comment, "i1", 5.0, "Ada", "<b>ünï</b>\nsecond line")
    store.write(remarks.add_comment, "i2", 6.0, "Bob", "other")
    store.write(remarks.add_comment, "i1", 7.0, "Bob", "third")
    store.write(remarks.add_deed, 8.0, "Ada", "accept", "i1", {"why": "works"})
    store.write(remarks.add_deed, 9.0, "Bob", "silence", "s1", {})
    store.close()
    store = Store(tmp_path)
    assert [(one.who, one.text) for one in store.read(remarks.comments, "i1")] == [
        ("Ada", "<b>ünï</b>\nsecond line"), ("Bob", "third"),
    ]  # fmt: skip
    assert [one.action for one in store.read(remarks.deeds, 10)] == ["silence", "accept"]
    assert store.read(remarks.deeds, 10, "i1")[0].details == {"why": "works"}
    store._connection.execute("UPDATE comment SET who = 'Eve' WHERE time = 5.0")
    assert [one.who for one in store.read(remarks.comments, "i1")] == ["Bob"]
    store.close()


def test_both_are_bounded(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(remarks, "AUDIT", 5)
    store = Store(tmp_path)
    for number in range(12):
        store.write(remarks.add_deed, float(number), "Ada", "accept", f"i{number}", {})
    store.write(remarks.prune)
    assert [one.subject for one in store.read(remarks.deeds, 100)] == ["i11", "i10", "i9", "i8", "i7"]
    monkeypatch.setattr(remarks, "SIZE", 1000)
    for number in range(5):
        store.write(remarks.add_comment, "i1", float(number), "Ada", "x" * 300)
    store.write(remarks.prune)
    assert [one.time for one in store.read(remarks.comments, "i1")] == [2.0, 3.0, 4.0]
    store.close()
