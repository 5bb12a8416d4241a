"""The daemon with its engine in threads or a Ray cluster: nothing is lost or told twice, whoever dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.detector import rig
from tests.detector.engines.runners import clusters

TICKS, HALF, THIRD = 1100, 700, 500
SOURCE = {"type": "file", "mode": "tail", "poll": "20ms"}
QUIET = {"diagnosis": rig.only()}


def config(folder: Path, **engine: Any) -> Path:
    folder.mkdir(exist_ok=True)
    source = {**SOURCE, "path": str(folder / "in.jsonl")}
    groups: dict[str, Any] = {"sources": {"in": source}, "engine": {"parts": 2, **engine}, **QUIET}
    return rig.write_config(folder, **groups)


def feed(folder: Path, first: int, last: int) -> None:
    whole = list(rig.lines(0, TICKS, every=60, lasts=15))
    with (folder / "in.jsonl").open("a") as file:
        file.write("".join(line + "\n" for line in whole[first * 8 : last * 8]))


def taken(service: rig.Service, ticks: int) -> None:
    """Until all samples of so many ticks are in the pipeline."""
    rig.wait_for(lambda: service.metric("samples_received_total") >= 8 * ticks, what="samples")
    rig.wait_for(lambda: service.metric("queue_samples") == 0, what="an empty queue")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a daemon of one process says."""
    folder = tmp_path_factory.mktemp("alone")
    path = config(folder)
    feed(folder, 0, TICKS)
    with rig.Service(path) as service:
        taken(service, TICKS)
        assert service.stop() == 0
    found = rig.ids(folder / "out.jsonl")
    assert len(found) > 10
    return found


def test_threads_say_the_same_before_and_after_a_kill(tmp_path: Path, alone: list[str]) -> None:
    path = config(tmp_path, type="threads", workers=2)
    feed(tmp_path, 0, HALF)
    with rig.Service(path, fork=False) as service:
        taken(service, HALF)
        service.kill()
    feed(tmp_path, HALF, TICKS)
    with rig.Service(path, fork=False) as service:
        rig.wait_for(lambda: len(rig.ids(tmp_path / "out.jsonl")) >= len(alone), what="the other half")
        assert service.stop() == 0
    assert rig.ids(tmp_path / "out.jsonl") == alone


def test_a_worker_and_a_machine_that_die_cost_nothing(tmp_path: Path, alone: list[str]) -> None:
    made = clusters.started(0)
    try:
        machines = [clusters.node(made, 2), clusters.node(made, 2)]
        path = config(tmp_path, type="ray", workers=2, deadline="30s", address=made.address,
                      storage=str(tmp_path / "shared"))  # fmt: skip
        feed(tmp_path, 0, THIRD)
        with rig.Service(path, fork=False) as service:
            taken(service, THIRD)
            os.kill(next(pid for machine in machines for pid in clusters.actors(machine)), signal.SIGKILL)
            feed(tmp_path, THIRD, HALF)
            taken(service, HALF)
            assert service.said().count(" back after ") == 1
            lost = next(machine for machine in machines if clusters.actors(machine))
            clusters.power_off(lost)
            feed(tmp_path, HALF, TICKS)
            taken(service, TICKS)
            assert service.said().count(" back after ") > 1
            assert service.stop() == 0
    finally:
        clusters.end(made)
    assert rig.ids(tmp_path / "out.jsonl") == alone


def test_a_head_that_dies_costs_nothing(tmp_path: Path, alone: list[str]) -> None:
    """Its daemon ends or says so, is started again by systemd, and finds a new cluster at the old address."""
    made = clusters.started(4)
    port = int(made.address.rpartition(":")[2])
    try:
        path = config(tmp_path, type="ray", workers=2, deadline="2s", address=made.address,
                      storage=str(tmp_path / "shared"))  # fmt: skip
        feed(tmp_path, 0, HALF)
        with rig.Service(path, fork=False) as service:
            taken(service, HALF)
            clusters.power_off(made.head_node)
            feed(tmp_path, HALF, TICKS)
            assert service.process.wait(240) == 74
            assert "a shard did not come back" in service.said()
    finally:
        clusters.end(made)
    made = clusters.started(4, gcs_server_port=port)
    try:
        with rig.Service(path, fork=False) as service:
            rig.wait_for(lambda: len(rig.ids(tmp_path / "out.jsonl")) >= len(alone), 240.0, "the other half")
            assert service.stop() == 0
    finally:
        clusters.end(made)
    assert rig.ids(tmp_path / "out.jsonl") == alone
