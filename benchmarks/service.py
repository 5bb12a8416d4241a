"""A network that has learnt, and the real daemon on one core: what the measurements of the service share."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

DETECTOR = str(Path(sys.executable).parent / "detector")
LEARN = 1000
START = 1_700_000_000
ENVIRONMENT = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
TICK = os.sysconf("SC_CLK_TCK")


def cores() -> tuple[int, int]:
    """The one that the daemon gets, and one for everybody else (the same, if there is no other)."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[-1], allowed[0]


def values(nodes: int, dim: int, ticks: int, seed: int = 0) -> np.ndarray:
    """Quiet values (T, N, d)."""
    return np.random.default_rng(seed).standard_normal((ticks, nodes, dim)).round(4)


def samples(X: np.ndarray, first: int) -> Iterator[bytes]:
    """One JSON object per sample, tick after tick."""
    for t, row in enumerate(X.tolist(), first):
        for v, x in enumerate(row):
            yield b'{"time":%d,"node":"n%d","values":%s}' % (START + t, v, str(x).encode())


class Network:
    """A ring of nodes whose quiet is learnt by `detector learn`, once; in `folder` if that is kept."""

    def __init__(self, folder: Path, nodes: int, dim: int) -> None:
        self.nodes, self.dim = nodes, dim
        self.folder = folder / f"{nodes}x{dim}"
        self.learning_s = 0.0  # CPU time, if it was learnt now
        if not (self.folder / "learnt").exists():
            self._learn()

    def _learn(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        ring = [f"n{v},n{(v + 1) % self.nodes}" for v in range(self.nodes)]
        (self.folder / "edges.csv").write_text("\n".join(["u,v", *ring]) + "\n")
        config = self.config(self.folder, {"pipe": {"type": "stdin"}})
        history = self.folder / "history.jsonl"
        history.write_bytes(b"\n".join(samples(values(self.nodes, self.dim, LEARN, seed=1), -LEARN)) + b"\n")
        process = subprocess.Popen([DETECTOR, "learn", history, "--config", config], env=ENVIRONMENT,
                                   stdout=subprocess.DEVNULL)  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise RuntimeError(f"detector learn ended with status {status}")
        self.learning_s = usage.ru_utime + usage.ru_stime
        history.unlink()
        (self.folder / "state").rename(self.folder / "learnt")

    def config(self, folder: Path, sources: dict[str, Any], **groups: Any) -> Path:
        """A configuration with a state of its own in `folder`."""
        content = {
            "graph": {"edges": str(self.folder / "edges.csv"), "dim": self.dim},
            "sources": sources,
            "sinks": {"events": {"type": "file", "path": str(folder / "events.jsonl")}},
            "align": {"step": "1s", "lateness": "0s"},
            "estimator": {"sigma": 0.8, "coupling": 0.3, "rank": 16},
            "alarm": {"budget": "1 per 30d", "learn": LEARN},
            "state": {"directory": str(folder / "state")},
            "http": {"port": 0},
        }
        path = folder / "config.yaml"
        path.write_text(yaml.safe_dump(content | groups))
        return path

    def begin(self, folder: Path, sources: dict[str, Any], **groups: Any) -> Path:
        """The same, with a copy of what was learnt."""
        shutil.copytree(self.folder / "learnt", folder / "state")
        return self.config(folder, sources, **groups)


class Daemon:
    """`detector run` on one core."""

    def __init__(self, config: Path, stdin: Any = subprocess.DEVNULL, core: int | None = None) -> None:
        self.log = config.with_name("log")
        command = ["taskset", "-c", str(cores()[0] if core is None else core), DETECTOR, "run", "--config"]
        began = time.monotonic()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*command, config], stdin=stdin, stderr=log, env=ENVIRONMENT)
        self._proc = Path(f"/proc/{self.process.pid}")
        self.wait(lambda: " ready: " in self.log.read_text(), "ready")
        self.start_s = time.monotonic() - began
        found = re.search(r"listening on \S+:(\d+)", self.log.read_text())
        assert found is not None
        self.url = f"http://127.0.0.1:{found[1]}"

    def wait(self, condition: Callable[[], Any], what: str, timeout: float = 600.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"waited in vain for {what}:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.1)

    def metrics(self) -> dict[str, float]:
        """Every series by its name with labels; `detector_` left out."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name.removeprefix("detector_"): float(value) for name, value in pairs}

    def total(self, name: str) -> float:
        """The sum of a metric over its labels."""
        return sum(value for series, value in self.metrics().items() if series.partition("{")[0] == name)

    def quantile(self, name: str, share: float) -> float:
        """Of a histogram without labels, interpolated within its bucket as Prometheus does."""
        found = [(float(series.split('"')[1]), count) for series, count in self.metrics().items()
                 if series.startswith(name + "_bucket")]  # fmt: skip
        below, edge = 0.0, 0.0
        for upper, count in found:
            if count >= share * found[-1][1] > below:
                return edge + (upper - edge) * (share * found[-1][1] - below) / (count - below)
            below, edge = count, upper
        return float("nan")

    def cpu(self) -> float:
        """Seconds of all threads so far."""
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def memory(self, field: str = "VmRSS") -> float:
        """MB (2**20 bytes); VmHWM is the largest so far."""
        found = re.search(rf"{field}:\s+(\d+) kB", (self._proc / "status").read_text())
        assert found is not None
        return int(found[1]) / 1024

    def threads(self) -> int:
        return len(list((self._proc / "task").iterdir()))

    def descriptors(self) -> int:
        return len(list((self._proc / "fd").iterdir()))

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        if self.process.wait(60):
            raise RuntimeError(f"exit {self.process.returncode}:\n{self.log.read_text()[-2000:]}")
