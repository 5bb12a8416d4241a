"""Learning by several processes gives what one gives, whatever becomes of the others."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detector.engines.density_ratio import DensityRatioEngine
from detector.engines.runners import base
from detector.engines.runners import processes as module
from detector.engines.runners.base import ALONE, Alone, learners
from detector.engines.runners.free_memory import UNKNOWN, free_memory
from detector.engines.runners.mapped import Mapped
from detector.engines.runners.processes import EACH, Processes
from detector.settings.core import Settings
from estimators.core.graph import Graph

Pulse = Callable[[float], None]


def helped() -> bool:
    return multiprocessing.parent_process() is not None


@dataclass
class Scale:
    """Waits in the first process, so that another one gets something to do."""

    x: Any
    began: Path

    def __call__(self, job: int, pulse: Pulse) -> Any:
        pulse(0.5)
        if helped():
            self.began.touch()
        else:
            deadline = time.monotonic() + 120
            while not self.began.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
        return job * self.x, helped()


@dataclass
class Dies(Scale):
    def __call__(self, job: int, pulse: Pulse) -> Any:
        if helped():
            self.began.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(job, pulse)


@dataclass
class Refuses(Scale):
    def __call__(self, job: int, pulse: Pulse) -> Any:
        if helped():
            self.began.touch()
            raise ValueError("history: of another job")
        return super().__call__(job, pulse)


def test_results_are_in_the_order_of_jobs_and_the_same(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(3, 1000))
    heard: list[tuple[int, float]] = []
    with Processes(2) as two:
        found = two.map(Scale(x, tmp_path / "began"), range(5), lambda k, share: heard.append((k, share)))
        again = two.map(Scale(x + 1.0, tmp_path / "again"), range(2), lambda k, share: None)
    assert {other for _, other in found} == {True, False}
    for job, (y, _) in enumerate(found):
        assert y.tobytes() == (job * x).tobytes()
    assert again[1][0].tobytes() == (x + 1.0).tobytes()
    assert sorted(heard) == [(k, 0.5) for k in range(5)]


@pytest.mark.parametrize("what", ["killed", "unfit"])
def test_without_helpers_it_goes_on_alone(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    work: Any = Dies(2.0, tmp_path / "began") if what == "killed" else lambda job, pulse: (2.0 * job, False)
    with caplog.at_level(logging.WARNING), Processes(2) as two:
        assert two.map(work, range(4), lambda k, share: None) == [(2.0 * k, False) for k in range(4)]
        assert two.workers == 1
    assert "goes on in one process" in caplog.text


def test_errors_of_helpers_are_raised(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="of another job"), Processes(2) as two:
        two.map(Refuses(1.0, tmp_path / "began"), range(4), lambda k, share: None)


SCRIPT = """
import os, sys, time
from tests_of_a_script import Wait
from detector.engines.runners.processes import Processes
print("begun", flush=True)
with Processes(2) as two:
    print(two.map(Wait(), range(2), lambda k, share: None), flush=True)
"""
WORK = """
import multiprocessing, os, pathlib, time
class Wait:
    def __call__(self, job, pulse):
        own = pathlib.Path(__file__).with_name("helper")
        if multiprocessing.parent_process() is not None:
            own.with_suffix(".new").write_text(str(os.getpid()))
            own.with_suffix(".new").rename(own)
        while not own.exists() or own.with_name("wait").exists():
            time.sleep(0.01)
        return job
"""


def script(folder: Path) -> subprocess.Popen[str]:
    (folder / "tests_of_a_script.py").write_text(WORK)
    (folder / "script.py").write_text(SCRIPT)
    paths = f"{folder}{os.pathsep}{Path(__file__).parents[4]}"
    return subprocess.Popen(
        [sys.executable, folder / "script.py"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"TMPDIR": str(folder), "PYTHONPATH": paths},
    )  # fmt: skip


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    told, _ = script(tmp_path).communicate(timeout=120)
    assert told.splitlines() == ["begun", "[0, 1]"]


def test_helpers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    (tmp_path / "wait").touch()
    process = script(tmp_path)
    deadline = time.monotonic() + 120
    while not (tmp_path / "helper").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    helper = int((tmp_path / "helper").read_text())
    process.kill()
    process.communicate(timeout=60)  # its output is closed: by the helper too
    while running(helper):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cores", lambda: 8)
    monkeypatch.setattr(module, "free_memory", lambda: UNKNOWN)
    auto, two, one = (Settings.of(engine={"workers": w}) for w in ("auto", 2, 1))
    for settings, values, workers in (
        (auto, ALONE, 1),
        (two, ALONE - 1, 1),
        (two, ALONE, 2),
        (one, ALONE, 1),
    ):
        with learners(settings, values, 0) as made:
            assert made.workers == workers
            assert isinstance(made, Alone if workers == 1 else Processes)
    monkeypatch.setattr(module, "free_memory", lambda: 4 * EACH)
    eight = Settings.of(engine={"workers": 8})
    assert Processes.of(eight, EACH // 2).workers == 1 + int((3.2 - 0.5) / 1.5)
    monkeypatch.setattr(module, "free_memory", lambda: 0)
    assert Processes.of(eight, 0).workers == 1


def test_memory_is_what_machine_and_groups_leave(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    assert free_memory(proc, groups) == UNKNOWN
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:    5000 kB\n")
    assert free_memory(proc, groups) == 5000 << 10
    (proc / "self" / "cgroup").write_text("0::/slice/service\n")
    inner = groups / "slice" / "service"
    inner.mkdir(parents=True)
    (inner / "memory.current").write_text("1000\n")
    (inner / "memory.max").write_text("max\n")
    assert free_memory(proc, groups) == 5000 << 10
    (inner / "memory.high").write_text("4000\n")
    assert free_memory(proc, groups) == 3000
    (inner.parent / "memory.current").write_text("2000\n")
    (inner.parent / "memory.max").write_text("2500\n")
    assert free_memory(proc, groups) == 500


def test_what_is_mapped_may_be_written_to_and_is_removed() -> None:
    value = {"x": np.arange(5.0), "none": np.zeros((0, 3)), "name": "a"}
    with Mapped(value) as mapped:
        one, two = Mapped.read(mapped.path), Mapped.read(mapped.path)
    assert not Path(mapped.path).exists()
    one["x"][0] = 7.0
    assert (one["x"][0], two["x"][0], value["x"][0]) == (7.0, 0.0, 0.0)  # type: ignore[index]
    assert one["none"].shape == (0, 3)


def test_learning_by_two_processes_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = np.eye(12, k=1)
    graph = Graph.of(chain + chain.T)
    groups: dict[str, Any] = {
        "windows": {"reference": 40, "tests": [5, 20]},
        "estimator": {"sigma": 1.0, "rank": 4, "atoms": 8},
        "alarm": {"learn": 200, "budget": "1 per 1000 ticks"},
    }
    Z = np.random.default_rng(0).normal(size=(160, 12, 1))
    monkeypatch.setattr(base, "ALONE", 0)
    engine, report = DensityRatioEngine.calibrate(
        Z, graph, Settings.of(**groups, engine={"workers": 1}), 1.0, levels=Z + 1.0
    )
    started = []
    monkeypatch.setattr(Processes, "_started", spied(Processes._started, started))
    other, the_same = DensityRatioEngine.calibrate(
        Z, graph, Settings.of(**groups, engine={"workers": 2}), 1.0, levels=Z + 1.0
    )
    assert started
    assert repr(report.record()) == repr(the_same.record())
    (arrays, meta), (others, other_meta) = engine.state(), other.state()
    assert {key: a.tobytes() for key, a in arrays.items()} == {key: a.tobytes() for key, a in others.items()}
    assert meta == other_meta


def spied(method: Any, calls: list[Any]) -> Any:
    def called(self: Any) -> Any:
        calls.append(self)
        return method(self)

    return called
