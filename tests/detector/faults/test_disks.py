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

# A file system that becomes read-only with files open for writing, as ext4 does after an error: as long as
# the file $FROZEN is there, nothing below its folder can be written, made, renamed or removed.
FROZEN = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <unistd.h>
#define REAL(type, name, ...) ((type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))
static int refused(const char *path) {
    const char *flag = getenv("FROZEN"), *end = strrchr(flag, '/');
    if (access(flag, F_OK) || strncmp(path, flag, end - flag)) return 0;
    errno = EROFS;
    return 1;
}
static int closed(int fd) {
    char link[64], path[PATH_MAX] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, path, sizeof path - 1) > 0 && refused(path);
}
#define WRITE(name, ...) ssize_t name(int fd, const void *b, size_t n, ##__VA_ARGS__)
WRITE(write) { return closed(fd) ? -1 : REAL(ssize_t, "write", int, const void *, size_t)(fd, b, n); }
#define AT(name) WRITE(name, off_t at) { return closed(fd) ? -1 \
    : REAL(ssize_t, #name, int, const void *, size_t, off_t)(fd, b, n, at); }
AT(pwrite) AT(pwrite64)
#define CUT(name) int name(int fd, off_t n) { return closed(fd) ? -1 : REAL(int, #name, int, off_t)(fd, n); }
CUT(ftruncate) CUT(ftruncate64)
#define OPEN(name) int name(const char *path, int flags, ...) { \
    va_list more; va_start(more, flags); int mode = va_arg(more, int); va_end(more); \
    if ((flags & (O_WRONLY | O_RDWR | O_CREAT)) && refused(path)) return -1; \
    return REAL(int, #name, const char *, int, ...)(path, flags, mode); }
OPEN(open) OPEN(open64)
#define STAT(name) int name(const char *path, struct name *found) { \
    int answer = REAL(int, #name, const char *, struct name *)(path, found); \
    if (!access(getenv("FROZEN"), F_OK)) found->f_flag |= ST_RDONLY; \
    return answer; }
STAT(statvfs) STAT(statvfs64)
int unlink(const char *path) { return refused(path) ? -1 : REAL(int, "unlink", const char *)(path); }
int mkdir(const char *path, mode_t mode) {
    return refused(path) ? -1 : REAL(int, "mkdir", const char *, mode_t)(path, mode);
}
int rename(const char *path, const char *to) {
    return refused(path) ? -1 : REAL(int, "rename", const char *, const char *)(path, to);
}
"""


def preloaded(folder: Path, text: str) -> Path:
    """A library that stands between a process and its disk."""
    (folder / "disk.c").write_text(text)
    library = folder / "disk.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, folder / "disk.c", "-ldl"], check=True)
    return library


def expected(folder: Path, learnt_state: Path, lines: list[str]) -> set[str]:
    """What an undisturbed run says."""
    folder.mkdir()
    rig.copy_state(learnt_state, folder)
    (folder / "in.jsonl").write_text("\n".join(lines) + "\n")
    with rig.Service(rig.write_config(folder, diagnosis=rig.only()), "--once") as service:
        assert service.process.wait(120) == 0, service.said()
    return set(rig.ids(folder / "out.jsonl"))


def test_a_slow_disk_delays_and_loses_nothing(tmp_path: Path, learnt_state: Path) -> None:
    """300 ms for every sync: all incidents, the same ids, a stop in time with everything saved."""
    lines = list(rig.lines(rig.LEARN + 60, 800, every=40))
    rig.copy_state(learnt_state, tmp_path)
    data = tmp_path / "in.jsonl"
    data.touch()
    sources = {"in": {"type": "file", "path": str(data), "mode": "tail", "poll": "20ms"}}
    state = {"directory": str(tmp_path / "state"), "commit_every": "50ms", "snapshot_every": "2s"}
    config = rig.write_config(tmp_path, sources=sources, state=state, diagnosis=rig.only())
    slow = {"LD_PRELOAD": str(preloaded(tmp_path, SLOW))}
    with rig.Service(config, fork=False, environment=slow) as service:
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


def test_a_disk_that_becomes_read_only(tmp_path: Path, learnt_state: Path) -> None:
    """Under a running daemon: it goes on, says so, sends, acknowledges nothing; writable again, it saves."""
    rig.copy_state(learnt_state, tmp_path)
    data, flag = tmp_path / "in.jsonl", tmp_path / "state" / "frozen"
    lines = list(rig.lines(rig.LEARN + 60, 2000, every=40))
    data.write_text("\n".join(lines[:1000]) + "\n")
    hook = rig.Receiver()
    config = rig.write_config(
        tmp_path,
        sources={"in": {"type": "file", "path": str(data), "mode": "tail", "poll": "20ms"}},
        sinks={"hook": {"type": "webhook", "url": hook.url}},
        state={"directory": str(tmp_path / "state"), "commit_every": "100ms", "journal_max": "64KiB",
               "snapshot_every": "1s", "backup_every": "1s"},
        diagnosis=rig.only(),
    )  # fmt: skip
    frozen = {"LD_PRELOAD": str(preloaded(tmp_path, FROZEN)), "FROZEN": str(flag)}
    try:
        with rig.Service(config, fork=False, environment=frozen) as service:
            service.wait_ready()
            rig.wait_for(lambda: service.metric("ticks_total") > 100 and hook.ids)
            flag.touch()
            known = len(hook.ids)
            with data.open("a") as file:
                file.write("\n".join(lines[1000:5000]) + "\n")
            _, ready = rig.wait_for(lambda: (a := service.ask("/readyz"))[0] == 503 and a)
            assert ready["parts"]["state"]["status"] == "degraded"
            assert "Read-only file system" in ready["parts"]["state"]["error"]
            assert service.metric("state_up") == 0
            rig.wait_for(lambda: service.metric("ticks_total") > 600)
            rig.wait_for(lambda: len(hook.ids) > known + 10)
            assert service.ask("/healthz")[0] == 200
            position = inspect(tmp_path / "state")["positions"]["in"]["position"]["offset"]
            assert position < data.stat().st_size // 2
            flag.unlink()
            rig.wait_for(lambda: service.ask("/readyz")[0] == 200)
            assert "state is saved again" in service.said()
            with data.open("a") as file:
                file.write("\n".join(lines[5000:]) + "\n")
            rig.wait_for(lambda: service.metric("ticks_total") > 1330)
            assert "Traceback" not in service.said()
            service.kill()
        with rig.Service(config) as service:
            service.wait_ready()
            assert service.metric("state_damages_total") == 0
            rig.wait_for(lambda: service.metric("outbox_records", sink="hook") == 0)
            assert service.stop() == 0
        told = expected(tmp_path / "plain", learnt_state, lines)
        assert set(hook.ids) <= told
        assert len(told - set(hook.ids)) <= 2
    finally:
        hook.close()


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
        # The kernel turns none read-only on demand with files open for writing: here the start meets it.
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
