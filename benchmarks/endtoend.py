"""Samples a second from JSON lines on stdin to verdicts, in the real daemon with state and outbox.

A network of nodes on a ring is learnt once (`detector learn`), then `detector run --once` takes recorded
samples from a pipe. Rates are per second of CPU time of the daemon, start-up taken off, so that a busy
machine changes little; beside them what decoding alone costs (the limit for this door).

    python benchmarks/endtoend.py [--quick]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.tables import machine, table
from connectors import Batch
from connectors.decode import Decode, Decoder

CONFIG = """
graph: {{edges: edges.csv, dim: {dim}}}
sources: {{pipe: {{type: stdin}}}}
sinks: {{events: {{type: file, path: events.jsonl}}}}
align: {{step: 1s, lateness: 0s}}
estimator: {{sigma: 0.8, coupling: 0.3, rank: 16}}
alarm: {{budget: 1 per 30d, learn: 1000}}
state: {{directory: state}}
http: {{port: {port}}}
"""


def lines(values: np.ndarray, first: int) -> bytes:
    """One JSON line per sample of values (T, N, d)."""
    parts = []
    for t, row in enumerate(values):
        for v, x in enumerate(row):
            parts.append(f'{{"time":{first + t},"node":"n{v}","values":{[round(float(c), 4) for c in x]}}}\n')
    return "".join(parts).encode()


def daemon(folder: Path, data: Path) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and peak memory in MB of `detector run --once` on ``data``."""
    detector = str(Path(sys.executable).parent / "detector")
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    began = time.monotonic()
    with data.open("rb") as pipe:
        process = subprocess.Popen(
            [detector, "run", "--once", "--config", "config.yaml"],
            cwd=folder, stdin=pipe, stderr=subprocess.DEVNULL, env=environment,
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"detector run ended with status {status}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - began, usage.ru_maxrss / 1024


def measure(nodes: int, dim: int, ticks: int) -> list[object]:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ring = "\n".join(f"n{v},n{(v + 1) % nodes}" for v in range(nodes))
        (folder / "edges.csv").write_text("u,v\n" + ring + "\n")
        (folder / "config.yaml").write_text(CONFIG.format(dim=dim, port=19178))
        (folder / "learn.jsonl").write_bytes(lines(rng.standard_normal((1000, nodes, dim)), 1_700_000_000))
        stream = lines(rng.standard_normal((ticks, nodes, dim)), 1_700_001_000)
        (folder / "stream.jsonl").write_bytes(stream)
        (folder / "empty.jsonl").write_bytes(b"")
        detector = str(Path(sys.executable).parent / "detector")
        began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run([detector, "learn", "learn.jsonl", "--config", "config.yaml"], cwd=folder, check=True,
                       capture_output=True)  # fmt: skip
        learnt = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began
        idle, _, base = daemon(folder, folder / "empty.jsonl")
        cpu, wall, peak = daemon(folder, folder / "stream.jsonl")
    count = nodes * ticks
    decoder, batch = Decoder(Decode()), Batch([], None, 0, {})
    began = time.process_time()
    decoder.lines(stream, batch)
    decode = time.process_time() - began
    if batch.received != count:
        raise RuntimeError(f"{batch.received} of {count} samples decoded")
    rates = [count / (cpu - idle), count / wall, count / max(decode, 1e-9)]
    return [f"{nodes} × {dim}", count, *rates, base, peak, (peak - base) * 1024 / nodes, learnt]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples")
    quick = parser.parse_args().quick
    share = 10 if quick else 1
    rows = [measure(1000, 1, 1000 // share), measure(100, 3, 5000 // share)]
    print(machine())
    print(table(("nodes × components", "samples", "samples per CPU second", "per wall second", "decode only",
                 "MB at rest", "MB peak", "KB more per node", "CPU s to learn"), rows))  # fmt: skip


if __name__ == "__main__":
    main()
