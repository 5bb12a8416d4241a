"""A real systemd in namespaces of its own: a copy of this system in memory, gone when the test ends.

Root is needed, and the right to make namespaces. The cgroup has no controllers where the host gives none, so
limits of memory cannot be tried this way.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

SYSTEMD = "/lib/systemd/systemd"
BOOT = """
set -eu
scratch=$1 files=$2
mount -t tmpfs -o mode=0755 none "$scratch"
mkdir "$scratch/upper" "$scratch/work" "$scratch/root"
root=$scratch/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=0755 none "$root/run"
mount -t tmpfs -o mode=0755 none "$root/dev"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm" "$root/.host"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
mount -t tmpfs none "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
cp -r "$files/." "$root/"
cd "$root"
pivot_root . .host
umount -l /.host
mount --make-rshared /  # as systemd finds it, or makes it, on a machine of its own
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  @SYSTEMD --system --unit=basic.target --log-target=journal --show-status=no
""".replace("@SYSTEMD", SYSTEMD)


def impossible(*, needs_checkout: bool = True) -> str | None:
    """Why no systemd can be booted by this user on this machine; None if it must work."""
    if os.geteuid() != 0:
        return "only root can boot a systemd"
    if not Path(SYSTEMD).exists():
        return f"{SYSTEMD} is not installed"
    tried = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--cgroup", "true"], capture_output=True)
    if tried.returncode:
        return f"no right to make namespaces: {tried.stderr.decode().strip()}"
    if _hierarchy() is None:
        return "no cgroup2 hierarchy to write to"
    # A booted systemd has a /tmp of its own, and hides what lies in this one.
    hidden = [place for place in (str(Path(__file__)), sys.prefix) if place.startswith("/tmp/")]
    return f"{hidden[0]} is hidden from it" if hidden and needs_checkout else None


def _hierarchy() -> Path | None:
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, options = line.split()[:4]
        if kind == "cgroup2" and "rw" in options.split(","):
            return Path(place)
    return None


class Booted:
    """Runs from construction to `close`; `files` is copied over its root first."""

    def __init__(self, folder: Path, files: Path) -> None:
        self._log = folder / "boot.log"
        scratch = folder / "scratch"
        scratch.mkdir()
        hierarchy = _hierarchy()
        assert hierarchy is not None
        self._cgroup = hierarchy / f"detector-test-{os.getpid()}"
        self._cgroup.mkdir(exist_ok=True)
        enter = f'echo $$ >{self._cgroup}/cgroup.procs; exec unshare "$@"'
        namespaces = ["--mount", "--pid", "--cgroup", "--net", "--ipc", "--uts"]
        command = ["sh", "-c", enter, "sh", *namespaces, "--fork", "--kill-child", "--propagation", "private",
                   "bash", "-c", BOOT, "bash", str(scratch), str(files)]  # fmt: skip
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._init = 0
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def _wait(self) -> None:
        deadline = time.monotonic() + 120
        while True:
            children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
            found = children.read_text().split() if children.exists() else []
            self._init = int(found[0]) if found else 0
            if self._init and self.run("systemctl", "is-system-running").stdout.strip() == "running":
                break
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"systemd did not boot:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.1)
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A command inside, as root."""
        inside = ["--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "--root", "--wd"]
        return subprocess.run(
            ["nsenter", "--target", str(self._init), *inside, *command],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    def close(self) -> None:
        self._process.kill()  # the first process inside dies with it, and all others with that
        self._process.wait()
        folders = [path for path in self._cgroup.rglob("*") if path.is_dir()]
        for path in [*sorted(folders, key=lambda path: -len(path.parts)), self._cgroup]:
            for _ in range(50):
                try:
                    path.rmdir()
                    break
                except OSError:
                    time.sleep(0.05)
        shutil.rmtree(self._log.parent / "scratch", ignore_errors=True)
