"""What bursts and floods have in common: two hundred nodes, their samples, a state that has learnt them."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from detector.storage.store import Store
from tests.detector import rig

SAMPLES = int(float(os.environ.get("DETECTOR_BURST_S", "6")) * 100_000)  # at night: 60
PER_MESSAGE = 100
MEMORY = 512 * 2**20
NODES = [f"n{k:03d}" for k in range(200)]
EDGES = [[one, two] for one, two in zip(NODES, [*NODES[1:], NODES[0]], strict=True)]
TICKS = SAMPLES // len(NODES)


@cache
def noise() -> list[float]:
    rng = random.Random(11)
    return [round(rng.gauss(0.0, 1.0), 3) for _ in range(100_003)]


def lines(first: int, ticks: int) -> Iterator[list[bytes]]:
    """JSON lines, one tick at a time."""
    values = noise()
    for tick in range(first, first + ticks):
        at = tick * len(NODES) % (len(values) - len(NODES))
        yield [
            f'{{"time":{rig.START + tick},"node":"{name}","value":{value}}}\n'.encode()
            for name, value in zip(NODES, values[at : at + len(NODES)], strict=True)
        ]


def configured(folder: Path, **groups: Any) -> Path:
    return rig.write_config(folder, graph={"edges": EDGES}, diagnosis=rig.only(), **groups)


def largest(pid: int) -> int:
    """The most bytes that a process had in memory so far; 0 if it has just ended."""
    found = re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[0]) * 1024 if found else 0


def counts(state: Path) -> dict[str, int]:
    """What the stream did with the samples of all its lives, by the stored state."""
    store = Store(state)
    snapshot = store.load()
    store.close()
    assert snapshot is not None
    found: dict[str, int] = snapshot.meta["align"]["counts"]
    return found


@pytest.fixture(scope="session")
def through_stdin(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The state after a burst through standard input, which begins with learning, and the memory it took."""
    folder = tmp_path_factory.mktemp("stdin")
    config = configured(folder, sources={"in": {"type": "stdin"}})
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "detector", "run", "--once", "--config", str(config)],
            stdin=subprocess.PIPE, stderr=log,
        )  # fmt: skip
    assert process.stdin is not None
    with process.stdin as pipe:
        for tick in lines(0, TICKS):
            pipe.write(b"".join(tick))
    memory = 0
    while process.poll() is None:  # not by wait4: what it tells counts the test's own memory before the exec
        memory = max(memory, largest(process.pid))
        time.sleep(0.02)
    assert process.returncode == 0, (folder / "log").read_text()
    return folder / "state", memory
