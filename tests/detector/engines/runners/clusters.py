"""Real Ray clusters of several nodes on this machine, and how their processes are killed."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

# Read when Ray is imported: a token as on a real cluster, and nothing that leaves this machine.
os.environ |= {
    "RAY_TMPDIR": tempfile.mkdtemp(prefix="ray-", dir="/tmp"),  # names of sockets must be short
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # loopback, as it is on these systems
}

import ray
from ray.cluster_utils import Cluster

# Ray writes the address of the latest cluster into a folder that it does not make.
TEMPORARY = os.environ["RAY_TMPDIR"]
(Path(TEMPORARY) / "ray").mkdir()
atexit.register(shutil.rmtree, TEMPORARY, ignore_errors=True)
# A node is called dead after about a second and a half without a sign of life.
HEALTH = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_timeout_ms": 500,
          "health_check_failure_threshold": 3}  # fmt: skip
STORE = 80 << 20


def started(head_cpus: int, **head: Any) -> Cluster:
    folder = tempfile.mkdtemp(prefix="r-", dir=TEMPORARY)
    given = {"temp_dir": folder, "num_cpus": head_cpus, "include_dashboard": False} | head
    given |= {"object_store_memory": STORE, "_system_config": HEALTH}
    made = Cluster(initialize_head=True, head_node_args=given, shutdown_at_exit=False)
    made.folder = folder
    return made


def node(cluster: Cluster, cpus: int) -> Any:
    return cluster.add_node(num_cpus=cpus, object_store_memory=STORE)


def power_off(node: Any) -> None:
    """As if the power of that machine went: all its processes at once."""
    own = [info.process for kind in node.all_processes.values() for info in kind]
    for pid in [pid for process in own for pid in (process.pid, *children(process.pid))]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    for process in own:
        process.wait(60)


def actors(node: Any) -> list[int]:
    """The processes of a machine that hold shards."""
    own = [info.process.pid for kind in node.all_processes.values() for info in kind]
    return [pid for process in own for pid in children(process) if b"ray::Actor" in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def children(pid: int) -> list[int]:
    """Of a process, theirs included."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found += [int(path.parent.name), *children(int(path.parent.name))]
    return found


def there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def end(cluster: Cluster) -> None:
    ray.shutdown()
    cluster.shutdown()
    shutil.rmtree(cluster.folder, ignore_errors=True)
