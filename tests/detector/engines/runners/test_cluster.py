"""A real Ray cluster: the bits of one process, whoever dies on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from tests.detector.engines.runners import clusters  # isort: skip: it sets what Ray reads on import

from detector.engines.base import EngineUnavailable
from detector.engines.runners import cluster as module
from detector.engines.runners.base import started
from detector.engines.runners.cluster import Cluster
from tests.detector.engines.eventful import GRAPH, bits, made, play, settings_of


class Running:
    """A head without CPUs, and two machines with two each, one of which may be lost."""

    def __init__(self, storage: Path) -> None:
        self.storage = storage
        self.cluster = clusters.started(0)
        self.first, self.second = clusters.node(self.cluster, 2), clusters.node(self.cluster, 2)

    def engine(self, workers: int, deadline: float = 30.0, begun: int = 0) -> Any:
        first = made()
        play(first, 0, begun)
        engine = {"workers": workers, "address": self.cluster.address, "storage": str(self.storage)}
        return started(first, GRAPH, settings_of(type="ray", deadline=deadline, **engine))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("ray")
    made = Running(folder / "storage")
    try:
        yield made
    finally:
        clusters.end(made.cluster)


@pytest.fixture(scope="module")
def whole() -> list[bytes]:
    engine = made()
    play(engine)
    return bits(engine)


def processes(engine: Any) -> list[tuple[str, int]]:
    holders: Cluster = engine.holders
    return holders.processes()


@pytest.mark.parametrize("workers", [1, 4])
def test_the_same_bits_with_any_number_of_actors(running: Running, whole: list[bytes], workers: int) -> None:
    engine = running.engine(workers, begun=40)
    assert len(processes(engine)) == workers
    play(engine, 40)
    assert bits(engine) == whole
    assert engine.holders.recovered == 0
    engine.holders.close()


def test_a_killed_worker_is_back_with_its_bits(
    running: Running, whole: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed twice: before there is a snapshot but the first, and after one."""
    monkeypatch.setattr(module, "EVERY", 20)
    engine = running.engine(2)
    play(engine, 0, 15)
    os.kill(processes(engine)[0][1], signal.SIGKILL)
    play(engine, 15, 85)  # an incident is open then
    assert len(engine.holders.members[0].turns) < 85
    os.kill(processes(engine)[0][1], signal.SIGKILL)
    play(engine, 85)
    assert bits(engine) == whole
    assert engine.holders.recovered == 2
    written = sorted(path.name for path in Path(engine.holders.folder.path).iterdir())
    assert len(written) == 3, "one snapshot of each shard, and the lock"
    engine.holders.close()


def test_a_stalled_worker_is_replaced(
    running: Running, whole: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 120.0)  # deadlines: a slow machine may need many
    engine = running.engine(2, deadline=1.0)
    play(engine, 0, 60)
    os.kill(stalled := processes(engine)[1][1], signal.SIGSTOP)
    try:
        play(engine, 60)
        assert bits(engine) == whole
        assert engine.holders.recovered > 0
    finally:
        if clusters.there(stalled):
            os.kill(stalled, signal.SIGKILL)
    engine.holders.close()


def test_all_that_fail_come_back_side_by_side(
    running: Running, whole: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """None goes on until all of them have begun, which takes for ever if it is one after the other."""
    together, repeated, begun = Barrier(4, timeout=60.0), Cluster._repeated, set()

    def all_begun(cluster: Cluster, member: module.Member, wait: module.Wait) -> Any:
        if member not in begun:
            begun.add(member)
            together.wait()
        return repeated(cluster, member, wait)

    engine = running.engine(4)
    play(engine, 0, 60)
    for _, process in processes(engine):
        os.kill(process, signal.SIGKILL)
    monkeypatch.setattr(Cluster, "_repeated", all_begun)
    play(engine, 60)
    assert bits(engine) == whole
    assert engine.holders.recovered == 4
    engine.holders.close()


def test_what_never_answers_is_left_behind(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the head is gone: Ray waits for a minute to make an actor, and then ends the process."""
    engine = running.engine(2)
    play(engine, 0, 20)
    engine.holders.deadline = 0.5
    stalled = [process for _, process in processes(engine)]
    monkeypatch.setattr(Cluster, "_actor", lambda self: Event().wait())
    for process in stalled:
        os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(EngineUnavailable, match="a shard did not come back"):
            play(engine, 20, 30)
    finally:
        for process in stalled:
            if clusters.there(process):
                os.kill(process, signal.SIGKILL)
        engine.holders.close()


def test_an_answer_comes_from_whom_is_back(running: Running) -> None:
    """Somebody who dies between a tick and a question."""
    one, engine = made(), running.engine(2)
    for each in (one, engine):
        play(each, 0, 60)
    for _, process in processes(engine):
        os.kill(process, signal.SIGKILL)
    assert engine.recent(3).tobytes() == one.recent(3).tobytes()
    (arrays, _), (others, _) = one.state(), engine.state()
    assert {k: a.tobytes() for k, a in arrays.items()} == {k: a.tobytes() for k, a in others.items()}
    engine.holders.close()


def test_a_snapshot_that_was_tampered_with_is_refused(running: Running) -> None:
    engine = running.engine(2)
    play(engine, 0, 5)
    path = Path(engine.holders.members[0].snapshot.path)
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    os.kill(processes(engine)[0][1], signal.SIGKILL)
    with pytest.raises(EngineUnavailable, match="is not what was written"):
        play(engine, 5, 10)
    engine.holders.close()


def test_what_is_wrong_is_said(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VERSIONS", ("detectord 0.0.1",))
    with pytest.raises(EngineUnavailable, match=r"a machine of the cluster has .*, this one detectord 0.0.1"):
        running.engine(1)
    monkeypatch.undo()
    blocker = running.engine(1)
    with pytest.raises(EngineUnavailable, match="4 actors want a CPU each, the cluster has 4"):
        running.engine(4, deadline=0.5)
    blocker.holders.close()
    running.storage.chmod(0o777)
    with pytest.raises(EngineUnavailable, match="others may write to"):
        running.engine(1)
    running.storage.chmod(0o700)


LOCAL = """

from tests.detector.engines.eventful import GRAPH, bits, made, play, settings_of
from detector.engines.runners.base import started
one, engine = made(), started(made(), GRAPH, settings_of(type="ray", workers=2))
for each in (one, engine):
    play(each, 0, 80)
assert bits(one) == bits(engine)
import ray
print(engine.holders.folder.path, ray._private.worker.global_worker.node.get_temp_dir_path())
"""


def test_without_an_address_it_is_a_cluster_of_this_machine() -> None:
    root = Path(__file__).parents[4]
    done = subprocess.run([sys.executable, "-c", LOCAL], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for left in done.stdout.splitlines()[-1].split():
        assert not Path(left).exists()


def test_folders_of_runs_that_are_gone_are_removed(tmp_path: Path) -> None:
    old = tmp_path / "run-old"
    old.mkdir()
    (old / "shard-0-0").touch()
    one, two = module.RunFolder(tmp_path), module.RunFolder(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([one.path, two.path])
    one.close()
    assert list(tmp_path.iterdir()) == [two.path]
    two.close()


def test_a_lost_machine_leaves_its_shards_to_others(running: Running, whole: list[bytes]) -> None:
    """It leaves one machine only."""
    engine = running.engine(2)
    play(engine, 0, 60)
    lost = processes(engine)[0][0]
    victim = next(n for n in (running.first, running.second) if n.node_id == lost)
    clusters.power_off(victim)
    play(engine, 60)
    assert bits(engine) == whole
    assert lost not in {where for where, _ in processes(engine)}
    engine.holders.close()


def test_nothing_is_waited_for_beyond_six_deadlines(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test: no machine is left, so that no shard can come back, however often it is tried."""
    engine = running.engine(2)
    play(engine, 0, 20)
    engine.holders.deadline = 1.0
    here = {where for where, _ in processes(engine)}
    ends, get = [], module.ray.get

    def noted(ref: Any, *, timeout: float) -> Any:
        ends.append(time.monotonic() + timeout)
        return get(ref, timeout=timeout)

    clusters.power_off(next(n for n in (running.first, running.second) if n.node_id in here))
    monkeypatch.setattr(module.ray, "get", noted)
    began = time.monotonic()
    with pytest.raises(EngineUnavailable, match="a shard did not come back"):
        play(engine, 20, 30)
    assert len(ends) > 4
    assert max(ends) <= began + 6.0 + 1.0  # and a second for a tick that does not fail at once
