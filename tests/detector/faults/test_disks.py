"""Disks that are slow or read-only: nothing is lost, and what is wrong is said (T4)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from detector.storage.inspect import inspect
from tests.detector import rig

# A disk that takes its time: every sync of the process, SQLite's among them, waits before it is done.
SLOW = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
static void wait_for_disk(void) {
    struct timespec pause = {0, 300000000};
    nanosleep(&pause, 0);
}
int fsync(int fd) { wait_for_disk(); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); }
int fdatasync(int fd) { wait_for_disk(); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd); }
"""


@pytest.fixture(scope="module")
def slow_disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slow")
    (folder / "slow.c").write_text(SLOW)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", folder / "slow.so", folder / "slow.c", "-ldl"], check=True
    )
    return folder / "slow.so"


def expected(folder: Path, learnt_state: Path, lines: list[str]) -> set[str]:
    """What an undisturbed run says."""
    folder.mkdir()
    rig.copy_state(learnt_state, folder)
    (folder / "in.jsonl").write_text("\n".join(lines) + "\n")
    with rig.Service(rig.write_config(folder, diagnosis=rig.only()), "--once") as service:
        assert service.process.wait(120) == 0, service.said()
    return set(rig.ids(folder / "out.jsonl"))


def test_a_slow_disk_delays_and_loses_nothing(tmp_path: Path, learnt_state: Path, slow_disk: Path) -> None:
    """300 ms for every sync: all incidents, the same ids, a stop in time with everything saved."""
    lines = list(rig.lines(rig.LEARN + 60, 800, every=40))
    rig.copy_state(learnt_state, tmp_path)
    data = tmp_path / "in.jsonl"
    data.touch()
    sources = {"in": {"type": "file", "path": str(data), "mode": "tail", "poll": "20ms"}}
    state = {"directory": str(tmp_path / "state"), "commit_every": "50ms", "snapshot_every": "2s"}
    config = rig.write_config(tmp_path, sources=sources, state=state, diagnosis=rig.only())
    with rig.Service(config, fork=False, environment={"LD_PRELOAD": str(slow_disk)}) as service:
        service.wait_ready()
        for begin in range(0, len(lines), 400):
            with data.open("a") as file:
                file.write("\n".join(lines[begin : begin + 400]) + "\n")
            rig.wait_for(lambda: service.ask("/readyz")[0] == 200)
        rig.wait_for(lambda: service.metric("ticks_total") > 330)
        rig.wait_for(lambda: service.metric("commit_duration_seconds_count") > 3)
        page = service.ask("/metrics")[1]
        commits = rig.total(page, "commit_duration_seconds_count")
        assert rig.total(page, "commit_duration_seconds_sum") >= 0.3 * commits > 0, "the disk was slow"
        assert service.metric("state_failures_total") == 0
        assert service.stop() == 0
    found = inspect(tmp_path / "state")
    assert found["positions"]["in"]["position"]["offset"] == data.stat().st_size
    told = expected(tmp_path / "plain", learnt_state, lines)
    # The run that goes on has not closed its last tick.
    assert len(told) > 15
    assert set(rig.ids(tmp_path / "out.jsonl")) <= told
    assert len(told - set(rig.ids(tmp_path / "out.jsonl"))) <= 2


@pytest.fixture
def own_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of its own, which can be made read-only."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=0700", "none", folder]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no rights to mount")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def turn(folder: Path, mode: str) -> bool:
    """Whether the file system is read-only or writable now; it is busy while a commit is under way."""
    remount = ["mount", "-o", f"remount,{mode}", folder]
    return subprocess.run(remount, capture_output=True, check=False).returncode == 0


def test_a_read_only_disk(tmp_path: Path, learnt_state: Path, own_disk: Path) -> None:
    """As after an error of the file system: a start ends with the reason; writable again, nothing is lost."""
    rig.copy_state(learnt_state, own_disk)
    data = tmp_path / "in.jsonl"
    lines = list(rig.lines(rig.LEARN + 60, 900, every=40))
    data.write_text("\n".join(lines[:800]) + "\n")
    hook = rig.Receiver()
    config = rig.write_config(
        tmp_path,
        sources={"in": {"type": "file", "path": str(data), "mode": "tail", "poll": "20ms"}},
        sinks={"hook": {"type": "webhook", "url": hook.url}},
        state={"directory": str(own_disk / "state"), "commit_every": "100ms"},
        diagnosis=rig.only(),
    )
    try:
        with rig.Service(config) as service:
            service.wait_ready()
            rig.wait_for(lambda: service.metric("ticks_total") > 80)
            service.kill()
        # No file system becomes read-only while files are open for writing: it is the start that meets it.
        rig.wait_for(lambda: turn(own_disk, "ro"))
        with rig.Service(config) as service:
            assert service.process.wait(rig.PATIENCE_S) == 74
            assert "Read-only file system" in service.said()
            assert "Traceback" not in service.said()
        assert turn(own_disk, "rw")
        with rig.Service(config) as service:
            service.wait_ready()
            with data.open("a") as file:
                file.write("\n".join(lines[800:]) + "\n")
            rig.wait_for(lambda: service.metric("ticks_total") > 230)
            rig.wait_for(lambda: service.metric("outbox_records", sink="hook") == 0)
            assert service.metric("state_damages_total") == 0
            assert service.stop() == 0
        told = expected(tmp_path / "plain", learnt_state, lines)
        assert set(hook.ids) <= told
        assert len(told - set(hook.ids)) <= 2
    finally:
        hook.close()
