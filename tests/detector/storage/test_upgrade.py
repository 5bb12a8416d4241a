"""A state that an earlier release left behind: brought up to date, and gone on with as before (T22)."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from detector.storage import cases as tables
from detector.storage import database, recovery
from detector.storage.inspect import export, export_files, inspect
from detector.storage.schema import VERSION
from detector.storage.store import Store
from tests.detector import rig

DATA = Path(__file__).parents[2] / "data"


def goes_on(expected: list[str], told: list[str]) -> bool:
    """Whether the incident that was open goes on under its id, and incidents are told as often at least.

    Who belongs to an incident and when it ends is decided otherwise than in version 0.1, so records differ.
    """
    incidents = [{id.rpartition("-")[0] for id in ids} for ids in (expected, told)]
    return bool(incidents[0] & incidents[1]) and 2 * len(incidents[1]) >= len(incidents[0])


def test_a_state_of_version_1_goes_on(tmp_path: Path) -> None:
    """What waited is sent, what was labelled is known, what was open goes on."""
    (tmp_path / "state").mkdir(mode=0o700)
    path = tmp_path / "state" / database.FILE
    path.write_bytes(gzip.decompress((DATA / "state_version_1.db.gz").read_bytes()))
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        waiting = [row[0] for row in connection.execute("SELECT id FROM outbox WHERE sink = 'hook'")]
    assert len(waiting) > 5
    # The file is another one than the old daemon read: from its beginning, and what is known counts as late.
    lines = [
        *rig.lines(rig.LEARN + 60, 640, every=120, lasts=200, size=3.0),
        *rig.lines(640, 1100, every=90, size=3.0),
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    hook = rig.Receiver()
    sinks = {
        "out": {"type": "file", "path": str(tmp_path / "out.jsonl")},
        "hook": {"type": "webhook", "url": hook.url},
    }
    with rig.Service(rig.write_config(tmp_path, sinks=sinks), "--once") as service:
        assert service.process.wait(rig.PATIENCE_S) == 0, service.said()
        assert "1440 samples repeated, phase watching" in service.said()
        assert "damaged" not in service.said()
    hook.close()
    expected = (DATA / "state_version_1.ids").read_text().split()
    told = rig.without_findings(rig.ids(tmp_path / "out.jsonl"))
    assert goes_on(expected, told)
    assert set(waiting) | set(told) == set(rig.without_findings(hook.ids))
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        # The journal is decided anew: the label may be stored once more, under the id it has now.
        assert connection.execute("SELECT count(*) FROM label").fetchone()[0] >= 1
        assert connection.execute("SELECT count(*) FROM case_file").fetchone()[0] > 0


def spoilt(first: int, last: int) -> Iterator[str]:
    """Each node at its own level with a season of 40 ticks, spikes now and then; two changes of spread."""
    for t in range(first, last):
        draw = random.Random(t)
        for i, node in enumerate(rig.NODES):
            changed = (node in ("n2", "n3") and 480 <= t < 600) or (node == "n6" and 700 <= t < 740)
            noise = draw.gauss(0.0, 1.0) * (5.0 if changed else 1.0)
            spike = 60.0 if t % 37 == i else 0.0
            value = round(10.0 * i + 3.0 * math.sin(2 * math.pi * t / 40) + noise + spike, 5)
            yield json.dumps({"time": rig.START + t, "node": node, "value": value})


def test_a_state_of_version_0_1_goes_on(tmp_path: Path) -> None:
    """All steps of preprocessing, windows, the open incident are taken over."""
    (tmp_path / "state").mkdir(mode=0o700)
    path = tmp_path / "state" / database.FILE
    path.write_bytes(gzip.decompress((DATA / "state_0_1.db.gz").read_bytes()))
    (tmp_path / "in.jsonl").write_text("\n".join(spoilt(520, 900)) + "\n")
    steps = {"seasonal": "40s", "seasonal_bins": 8, "difference": 1, "whiten": "aic", "max_order": 3,
             "embed": 2, "clip": 8.0, "screen": "on"}  # fmt: skip
    config = rig.write_config(tmp_path, preprocess=steps, windows={"reference": 40, "tests": [5, 20]})
    with rig.Service(config, "--once") as service:
        assert service.process.wait(rig.PATIENCE_S) == 0, service.said()
        assert "watching, 1 incidents open" in service.said()
    expected = (DATA / "state_0_1.ids").read_text().split()
    assert goes_on(expected, rig.without_findings(rig.ids(tmp_path / "out.jsonl")))
    assert len(expected) > 5


# ------------------------------------------------------------------------------------------- version 0.1


@pytest.fixture
def version_2(tmp_path: Path) -> Path:
    """The folder of a state that version 0.1 has left behind."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    path = folder / database.FILE
    path.write_bytes(gzip.decompress((DATA / "state_version_2.db.gz").read_bytes()))
    path.chmod(0o600)
    return folder


def findings_of(connection: sqlite3.Connection) -> list[tuple[str, str, dict]]:
    rows = connection.execute(
        "SELECT id, event, body FROM record WHERE event IN ('incident.examined', 'incident.analyzed') "
        "ORDER BY number"
    )
    return [(id, event, json.loads(body)) for id, event, body in rows]


def before(folder: Path) -> list[tuple[str, str, dict]]:
    with contextlib.closing(sqlite3.connect(folder / database.FILE)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        found = findings_of(connection)
    assert {body["details"]["kind"] for _, _, body in found} > {
        "course",
        "explanation",
        "verdict",
        "footprint",
    }
    return found


def expected(old: list[tuple[str, str, dict]]) -> list[tuple[str, str, dict]]:
    names = {"course": "trend", "explanation": "value_ranges", "verdict": "triage"}
    return [
        (id, "incident.analyzed", body | {
            "event": "incident.analyzed",
            "details": body["details"] | {"kind": names.get(kind, kind)},
        })
        for id, _, body in old
        for kind in [body["details"]["kind"]]
    ]  # fmt: skip


def test_names_of_version_0_1_are_renamed(version_2: Path) -> None:
    """Findings and models have today's names, sound checksums and all else as it was; ids stay."""
    old = before(version_2)
    store = Store(version_2)
    assert store.damages == []
    assert store.read(findings_of) == expected(old)
    incidents = {body["incident"] for _, _, body in old}
    assert len(store.findings(sorted(incidents))) == len(old)
    assert sorted(model.name for model in store.read(tables.read_models, "triage")) == ["alarm", "type"]
    assert store.read(tables.read_models, "verdict") == []
    assert len(store.read(tables.labels)) == 8
    for key in store.read(tables.case_keys):
        assert store.read(tables.read_case, *key).key == key
    assert store.load() is not None
    store.close()


def test_the_way_back_to_the_earlier_release(version_2: Path) -> None:
    """The state as it was is kept once, with all that it held; the upgraded one is another file."""
    old = before(version_2)
    Store(version_2).close()
    Store(version_2).close()
    kept = version_2 / f"{database.FILE}.version-2"
    with contextlib.closing(sqlite3.connect(kept)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert findings_of(connection) == old
    assert kept.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in version_2.glob(f"{database.FILE}.version-*")] == [kept.name]


def test_reading_does_not_touch_an_older_state(version_2: Path) -> None:
    """Commands that only look see today's names; the file stays as it is, for the daemon to upgrade."""
    old, bytes_before = before(version_2), (version_2 / database.FILE).read_bytes()
    seen = inspect(version_2)
    assert seen["version"] == 2
    assert {model["kind"] for model in seen["models"]} >= {"triage"}
    exported = [one for one in export(version_2) if one.get("event") == "incident.analyzed"]
    assert [one["details"]["kind"] for one in exported] == [
        body["details"]["kind"] for _, _, body in expected(old)
    ]
    counts = export_files(version_2, version_2.parent / "files")
    assert counts["case_files"] == seen["case_files"]["count"]
    for file in (version_2.parent / "files").rglob("*.npz"):
        with np.load(file, allow_pickle=False) as arrays:
            assert arrays.files is not None
    assert (version_2 / database.FILE).read_bytes() == bytes_before


def test_damaged_rows_stay_as_they_are(version_2: Path) -> None:
    """A finding and a model that do not match their checksums are neither renamed nor believed."""
    with contextlib.closing(sqlite3.connect(version_2 / database.FILE)) as connection, connection:
        connection.execute(
            "UPDATE record SET crc = crc + 1 WHERE number = "
            "(SELECT min(number) FROM record WHERE event = 'incident.examined')"
        )
        connection.execute("UPDATE model SET crc = crc + 1 WHERE kind = 'verdict' AND name = 'type'")
    store = Store(version_2)
    assert [event for _, event, _ in store.read(findings_of)].count("incident.examined") == 1
    assert [model.name for model in store.read(tables.read_models, "triage")] == ["alarm"]
    store.close()


def test_what_is_saved_of_a_damaged_file_is_renamed(version_2: Path) -> None:
    """A file of version 0.1 that has gone bad gives what can still be read, under today's names."""
    old = before(version_2)
    store = Store(version_2.parent / "fresh")
    copied = store.read(lambda connection: recovery.salvage(version_2 / database.FILE, connection))
    assert copied["record"] > 0
    assert copied["model"] > 0
    assert store.read(findings_of) == expected(old)
    assert len(store.read(tables.read_models, "triage")) == 2
    store.close()


def test_a_daemon_goes_on_with_a_state_of_version_0_1(version_2: Path, tmp_path: Path) -> None:
    """With the old names in its configuration: it warns, its models judge, and what waited is sent."""
    with contextlib.closing(sqlite3.connect(version_2 / database.FILE)) as connection:
        waiting = [row[0] for row in connection.execute("SELECT id FROM outbox WHERE sink = 'hook'")]
    assert len(waiting) > 20
    hook = rig.Receiver()
    (tmp_path / "in.jsonl").write_text("\n".join(rig.lines(1240, 1500, every=80, lasts=40, size=4.0)) + "\n")
    config = rig.write_config(
        tmp_path,
        windows={"reference": 40, "tests": [5, 10, 20]},
        estimator={"sigma": 1.0, "coupling": 0.1, "ridge": 0.1, "rank": 6, "atoms": 12},
        aftermath={"settle": 16, "early": 4, "verdict": {"enabled": True}, "course": {"enabled": False}},
        sinks={"hook": {"type": "webhook", "url": hook.url}},
    )
    with rig.Service(config, "--once") as service:
        assert service.process.wait(rig.PATIENCE_S) == 0, service.said()
        said = service.said()
    hook.close()
    assert said.count("aftermath is called diagnosis now") == 1
    assert said.count("verdict is called triage now") == 1
    assert "damaged" not in said
    assert set(waiting) <= set(hook.ids)
    with contextlib.closing(sqlite3.connect(version_2 / database.FILE)) as connection:
        kinds = {(event, body["details"]["kind"]) for _, event, body in findings_of(connection)}
        new = [id for id, _, _ in findings_of(connection)]
    assert {event for event, _ in kinds} == {"incident.analyzed"}
    assert not {"course", "explanation", "verdict"} & {kind for _, kind in kinds}
    assert any(id.endswith("-triage-settled") for id in new), "the model of version 0.1 is used"
    assert not any(id.endswith("-trend-settled") for id in new), "switched off by its old name"
