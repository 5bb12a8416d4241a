"""Damage of the stored state: everything is as it was, or it is told; what was learnt is never lost (T2)."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis

from connectors.base import Sample
from detector.events.model import detector_event
from detector.storage import backup, mark
from detector.storage.database import FILE, StateDamaged, StateRefused
from detector.storage.journal import Entry, samples_entry
from detector.storage.lock import Lock
from detector.storage.records import Record
from detector.storage.recovery import Damage
from detector.storage.snapshot import Snapshot
from detector.storage.store import Bundle, Store
from tests import servers
from tests.detector import rig

TRIALS = int(os.environ.get("DETECTOR_DAMAGES", "160"))
WAL = f"{FILE}-wal"


def entry(number: int) -> Entry:
    samples = [Sample(number + k, f"node-{k % 3}", (0.1 * k, -float(k))) for k in range(40)]
    return samples_entry("a", samples, {"offset": number})


def snapshot(number: int) -> Snapshot:
    arrays = {"big": np.arange(20_000.0) + number, "flags": np.array([True, False])}
    return Snapshot(arrays, {"phase": "watching"}, {"a": {"offset": number}}, created=1e9 + number)


def record(number: int) -> Record:
    return Record.of(detector_event("detector.warning", 1e9 + number, f"number {number}"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `kill -9` leaves it: two snapshots in the file, forty commits after them in the log."""
    folder = tmp_path_factory.mktemp("killed")
    store = Store(folder / "live")
    for number in (1, 2):
        entries = [entry(number), Entry("rebuild")]
        store.commit(Bundle(entries, [record(number)], ("s",), snapshot=snapshot(number)))
        backup.copy_learnt(folder / "live", 3)
    for number in range(3, 43):
        store.commit(Bundle([entry(number)], [record(number)], ("s",)))
    shutil.copytree(folder / "live", folder / "state")
    store.close()
    assert (folder / "state" / WAL).stat().st_size > 200_000
    return folder / "state"


def content(folder: Path) -> tuple[Any, list[Damage]]:
    """All that a daemon finds in a folder, and what it is told of."""
    store = Store(folder)
    try:
        found = store.load()
        state = None if found is None else (found.seq, {k: v.tobytes() for k, v in found.arrays.items()})
        entries = list(store.journal(found.seq if found else 0))
        return (state, entries, store.pending("s")), store.damages
    finally:
        store.close()


def flip(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice([1, 1, 8, 200])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def blank(data: bytearray, rng: random.Random) -> None:
    """A block of the disk that comes back as zeros."""
    begin = rng.randrange(len(data)) // 4096 * 4096
    data[begin : begin + 4096] = bytes(len(data[begin : begin + 4096]))


def stale(data: bytearray, rng: random.Random) -> None:
    """A block that was never written, and has what was there before."""
    begin, other = (rng.randrange(len(data)) // 4096 * 4096 for _ in range(2))
    data[begin : begin + 4096] = data[other : other + 4096].ljust(4096, b"\0")


@pytest.mark.parametrize("name", [FILE, WAL])
@pytest.mark.parametrize("fault", [flip, cut, blank, stale])
def test_damage_is_told_and_nothing_is_learnt_twice(
    tmp_path: Path, killed: Path, name: str, fault: Callable[[bytearray, random.Random], None]
) -> None:
    """Anywhere in the file or its log: what is missing is told with its time, and a snapshot is there."""
    shutil.copytree(killed, tmp_path / "sound")
    expected, told = content(tmp_path / "sound")
    assert expected[0] is not None
    assert len(expected[1]) == 40
    assert told == []
    rng = random.Random(f"{name} {fault.__name__}")
    silent, harmless = [], 0
    for trial in range(TRIALS // 8):
        folder = tmp_path / f"trial-{trial}"
        shutil.copytree(killed, folder)
        data = bytearray((folder / name).read_bytes())
        fault(data, rng)
        (folder / name).write_bytes(data)
        found, damages = content(folder)
        assert found[0] is not None, "back to learning"
        if found == expected:
            harmless += 1
        elif not damages:
            silent.append(trial)
        else:
            assert len(damages) == 1
            if found[0] == expected[0]:
                assert found[1] == expected[1][: len(found[1])], "something else than was written"
            if len(found[1]) < len(expected[1]) and "going on from" not in damages[0].text:
                assert damages[0].entries > 0
        again, told = content(folder)
        assert told == [] or again == found, "told twice"
        shutil.rmtree(folder)
    assert silent == []
    assert harmless < TRIALS // 8


@pytest.mark.parametrize("gone", [(WAL,), (FILE,), (FILE, WAL), (FILE, WAL, mark.FILE)])
def test_missing_files(tmp_path: Path, killed: Path, gone: tuple[str, ...]) -> None:
    """The log, the database or both are gone: told, and what was learnt is there."""
    folder = tmp_path / "state"
    shutil.copytree(killed, folder)
    for name in gone:
        (folder / name).unlink()
    (folder / f"{FILE}-shm").unlink(missing_ok=True)
    found, damages = content(folder)
    if mark.FILE in gone:  # nothing is left that says that there ever was a state
        assert (found[0], damages) == (None, [])
        return
    assert found[0] is not None
    assert len(damages) == 1
    assert damages[0].entries >= 40 - len(found[1])
    assert damages[0].records == 40 if FILE not in gone else damages[0].records == 42
    assert damages[0].until is not None


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_wrong_version_is_damage(tmp_path: Path, killed: Path, version: int) -> None:
    """A flipped bit in the header must not send a database through the migrations of an earlier one."""
    folder = tmp_path / "state"
    shutil.copytree(killed, folder)
    with contextlib.closing(sqlite3.connect(folder / FILE)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    (state, entries, _), damages = content(folder)
    assert state is not None
    assert len(entries) == 40
    assert len(damages) == 1


def test_a_torn_mark_costs_one_note(tmp_path: Path) -> None:
    """Of two slots one is always whole; a mark that is gone says nothing."""
    notes = mark.MarkFile(tmp_path)
    for number in range(5):
        notes.write(mark.Mark("x", number, 2 * number, 1e9))
    notes.close()
    assert notes.read() == mark.Mark("x", 4, 8, 1e9, 4)
    data = bytearray(notes.path.read_bytes())
    data[20] ^= 1
    notes.path.write_bytes(data)
    assert notes.read() == mark.Mark("x", 3, 6, 1e9, 3)
    data[mark.SLOT + 20] ^= 1
    notes.path.write_bytes(data)
    assert notes.read() is None
    notes.path.write_bytes(b"\xff garbage")
    assert notes.read() is None


def test_another_database_is_not_taken_for_ours(tmp_path: Path, killed: Path) -> None:
    """Somebody put another state in place: neither its lower numbers nor our copies are held against it."""
    shutil.copytree(killed, tmp_path / "state")
    other = Store(tmp_path / "other")
    other.commit(Bundle([entry(7)], snapshot=snapshot(7)))
    other.close()
    for side in ("-wal", "-shm"):
        (tmp_path / "state" / f"{FILE}{side}").unlink()
    shutil.copy(tmp_path / "other" / FILE, tmp_path / "state" / FILE)
    (state, _, _), damages = content(tmp_path / "state")
    assert state is not None
    assert state[1]["big"] == snapshot(7).arrays["big"].tobytes()
    assert damages == []


# ------------------------------------------------------------------------------------- the daemon


def redis_rig(folder: Path, server: servers.Server) -> Path:
    return rig.write_config(
        folder,
        sources={"in": {"type": "redis", "port": server.port, "streams": ["s"]}},
        state={"directory": str(folder / "state"), "commit_every": "50ms"},
        diagnosis=rig.only(),
    )


def send(server: servers.Server, first: int, last: int) -> None:
    with redis.Redis(port=server.port) as client, client.pipeline() as pipe:
        for line in rig.lines(first, last, every=60):
            pipe.xadd("s", {"data": line})
        pipe.execute()


def acknowledged(server: servers.Server) -> bool:
    with redis.Redis(port=server.port) as client:
        groups: Any = client.xinfo_groups("s")
        return bool(groups and groups[0]["pending"] == 0 and groups[0]["lag"] == 0)


def in_use(log: bytes) -> int:
    """Bytes of a write-ahead log that count: after them are frames of an earlier round, with another salt."""
    salt, end, frame = log[16:24], 32, 24 + 4096
    while log[end + 8 : end + 16] == salt:
        end += frame
    return end


def test_a_damaged_log_behind_a_broker(tmp_path: Path, learnt_state: Path) -> None:
    """Redis has forgotten what was acknowledged: the daemon tells what is lost everywhere, and goes on."""
    rig.copy_state(learnt_state, tmp_path)
    server = servers.redis(tmp_path / "redis")
    try:
        config = redis_rig(tmp_path, server)
        with rig.Service(config) as service:
            service.wait_ready()
            for first in range(rig.LEARN + 60, 700, 20):
                send(server, first, first + 20)
                rig.wait_for(lambda: acknowledged(server))
            service.kill()
        state = tmp_path / "state"
        data = (state / WAL).read_bytes()
        end = in_use(data)
        assert end > 50_000
        shutil.copytree(state, tmp_path / "killed")
        for number, place in enumerate((0.0, 0.3, 0.9)):
            shutil.rmtree(state)
            shutil.copytree(tmp_path / "killed", state)
            at = max(40, int(place * end))
            spoilt = bytes(byte ^ 0xFF for byte in data[at : at + 64])
            (state / WAL).write_bytes(data[:at] + spoilt + data[at + 64 :])
            with rig.Service(config) as service:
                service.wait_ready()
                assert service.metric("watching") == 1
                assert service.metric("state_damages_total") == 1
                assert service.metric("state_lost_entries_total") > 0
                assert service.metric("state_lost_until_timestamp_seconds") > 1e9
                assert "damaged state: the database is older than it was" in service.said()
                damages = service.ask("/api/v1/status")[1]["state"]["damages"]
                assert damages[0]["lost_entries"] > 0
                assert damages[0]["lost_until"] >= damages[0]["lost_since"] > 1e9
                assert "lost" in service.ask("/readyz")[1]["parts"]["state"]["damaged"]
                begin = 700 + 100 * number
                send(server, begin, begin + 100)
                rig.wait_for(lambda: service.metric("ticks_total") > 80)
                assert service.stop() == 0
        told = rig.records(tmp_path / "out.jsonl")
        warnings = [one for one in told if one["event"] == "detector.warning" and "damaged" in one["summary"]]
        assert len(warnings) == 3
        assert warnings[0]["severity"] == "critical"
        assert warnings[0]["details"]["lost_records"] > 0
    finally:
        server.stop()


def test_a_database_that_is_gone_is_not_learnt_again(tmp_path: Path, learnt_state: Path) -> None:
    """Only the copies are left: the daemon watches at once."""
    rig.copy_state(learnt_state, tmp_path)
    for path in (tmp_path / "state").glob(f"{FILE}*"):
        path.unlink()
    (tmp_path / "in.jsonl").write_text("\n".join(rig.lines(rig.LEARN + 60, 700, every=60)) + "\n")
    with rig.Service(rig.write_config(tmp_path)) as service:
        service.wait_ready()
        assert service.metric("watching") == 1
        assert "going on from backups/learnt-" in service.said()
        rig.wait_for(lambda: service.metric("incidents_total") > 1)
        assert service.stop() == 0


# ------------------------------------------------------------------------------- the state folder


@contextlib.contextmanager
def tailing(folder: Path, learnt_state: Path) -> Iterator[tuple[rig.Service, Callable[[int, int], None]]]:
    """A daemon that follows a file, and a way to write to it."""
    rig.copy_state(learnt_state, folder)
    data = folder / "in.jsonl"
    data.touch()
    sources = {"in": {"type": "file", "path": str(data), "mode": "tail", "poll": "20ms"}}
    state = {"directory": str(folder / "state"), "commit_every": "100ms"}

    def write(first: int, last: int) -> None:
        with data.open("a") as file:
            file.write("\n".join(rig.lines(first, last, every=60)) + "\n")

    with rig.Service(rig.write_config(folder, sources=sources, state=state)) as service:
        service.wait_ready()
        write(rig.LEARN + 60, 500)
        rig.wait_for(lambda: service.metric("ticks_total") > 30)
        yield service, write


def test_a_removed_folder_is_made_anew_and_locked(tmp_path: Path, learnt_state: Path) -> None:
    """Without a word from the sources: what was learnt is saved again, and no second daemon gets in."""
    with tailing(tmp_path, learnt_state) as (service, write):
        shutil.rmtree(tmp_path / "state")
        rig.wait_for(lambda: (tmp_path / "state" / FILE).exists())
        rig.wait_for(lambda: service.ask("/readyz")[0] == 200)
        with pytest.raises(StateRefused, match="in use"):
            Lock(tmp_path / "state")
        with rig.Service(tmp_path / "config.yaml") as second:
            assert second.process.wait(rig.PATIENCE_S) == 75
            assert "in use by another process" in second.said()
        write(500, 600)
        rig.wait_for(lambda: service.metric("ticks_total") > 130)
        assert service.metric("state_damages_total") == 1
        assert service.stop() == 0
    with rig.Service(tmp_path / "config.yaml") as service:
        service.wait_ready()
        assert service.metric("watching") == 1
        assert service.stop() == 0


@pytest.mark.parametrize("locked", [True, False])
def test_a_folder_that_is_another_one_stops_the_daemon(
    tmp_path: Path, learnt_state: Path, locked: bool
) -> None:
    """Another daemon has the path now, or another state is there: ours ends with a reason."""
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "state"
    shutil.copytree(learnt_state, other)
    lock = Lock(other) if locked else None
    before = (other / FILE).read_bytes()
    with tailing(tmp_path, learnt_state) as (service, _):
        (tmp_path / "state").rename(tmp_path / "gone")
        other.rename(tmp_path / "state")
        assert service.process.wait(rig.PATIENCE_S) == 78
        said = "in use by another process" if locked else "was replaced by another state"
        assert said in service.said()
        assert "Traceback" not in service.said()
    assert (tmp_path / "state" / FILE).read_bytes() == before
    if lock is not None:
        lock.close()


def test_the_lock_does_not_go_with_its_file(tmp_path: Path) -> None:
    """Removing the file `lock` lets nobody in; moving the folder away does, and is noticed."""
    store = Store(tmp_path / "state")
    (tmp_path / "state" / "lock").unlink()
    with pytest.raises(StateRefused, match="in use"):
        Store(tmp_path / "state")
    (tmp_path / "state").rename(tmp_path / "moved")
    assert not store.in_place
    with pytest.raises(StateDamaged, match="removed or replaced"):
        store.commit(Bundle([entry(1)]))
    second = Store(tmp_path / "state")
    with pytest.raises(StateRefused, match="in use"):
        store.repair(StateDamaged("moved"))
    store.close()
    second.close()


def test_copies_are_checked_and_kept_in_turn(tmp_path: Path) -> None:
    """The newest three; a damaged copy is passed over for the one before it."""
    store = Store(tmp_path)
    assert backup.copy_learnt(tmp_path, 3) is None
    for number in range(1, 6):
        store.commit(Bundle([entry(number)], snapshot=snapshot(number)))
        backup.copy_learnt(tmp_path, 3)
    identity = store.read(lambda c: c.execute("SELECT id FROM identity").fetchone()[0])
    store.close()
    kept = backup.copies(tmp_path)
    assert [path.name for path in kept] == ["learnt-0003.db", "learnt-0004.db", "learnt-0005.db"]
    data = bytearray(kept[-1].read_bytes())
    data[len(data) // 2] ^= 1
    kept[-1].write_bytes(data)
    found = backup.newest_snapshot(tmp_path, identity, 0)
    assert found is not None
    assert found[0].name == "learnt-0004.db"
    assert backup.newest_snapshot(tmp_path, "another", 0) is None
    with sqlite3.connect(found[0]) as connection:
        assert connection.execute("SELECT count(*) FROM journal").fetchone() == (0,)
