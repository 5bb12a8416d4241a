"""How much memory this process and others beside it may still take."""

from __future__ import annotations

from pathlib import Path

UNKNOWN = 1 << 62


def free_memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes, by what the machine has and what the limits of a service or container leave of it."""
    return min(_of_machine(proc / "meminfo"), _of_group(proc / "self" / "cgroup", groups))


def _of_machine(path: Path) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return UNKNOWN
    found = [line.split() for line in lines if line.startswith("MemAvailable:")]
    return int(found[0][1]) << 10 if found else UNKNOWN


def _of_group(path: Path, groups: Path) -> int:
    """What `MemoryHigh` and `MemoryMax` leave, of this group and those around it (cgroup version 2)."""
    try:
        own = [line[3:] for line in path.read_text().splitlines() if line.startswith("0::")]
    except OSError:
        return UNKNOWN
    room = UNKNOWN
    for at in own:
        inner = groups / at.strip("/")
        for group in (inner, *inner.parents):
            for limit in ("memory.high", "memory.max"):
                try:
                    most, used = (group / limit).read_text().strip(), (group / "memory.current").read_text()
                except OSError:
                    continue
                if most != "max":
                    room = min(room, int(most) - int(used))
            if group == groups:
                break
    return max(room, 0)
