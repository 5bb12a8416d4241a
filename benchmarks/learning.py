"""Learning by one process and by several: the same bits, and how long it takes.

    OPENBLAS_NUM_THREADS=1 python benchmarks/learning.py [--nodes N] [--ticks T] [--workers 1 2] [--repeats R]

Runs take turns, so that a busy machine is as busy for all of them; medians and ratios count. Quiet normal data
of one component on a planar network, default settings: everything is chosen.
"""

from __future__ import annotations

import argparse
import hashlib
import time

import numpy as np
from scale import planar

from detector.engines.density_ratio import DensityRatioEngine
from detector.settings.core import Settings


def learn(nodes: int, ticks: int, workers: int) -> tuple[float, str]:
    """Seconds, and a digest of everything that was learnt."""
    graph = planar(nodes)
    Z = np.random.default_rng(0).normal(size=(ticks, nodes, 1))
    began = time.perf_counter()
    engine, report = DensityRatioEngine.calibrate(Z, graph, Settings.of(engine={"workers": workers}), 1.0)
    seconds = time.perf_counter() - began
    arrays, meta = engine.state()
    found = hashlib.sha256(repr((report.record(), meta)).encode())
    for name in sorted(arrays):
        found.update(arrays[name].tobytes())
    return seconds, found.hexdigest()[:8]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--ticks", type=int, default=5000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a small network, once")
    given = parser.parse_args()
    if given.quick:
        given.nodes, given.ticks, given.repeats = 100, 2500, 1
    spent: dict[int, list[float]] = {workers: [] for workers in given.workers}
    bits = set()
    for _ in range(given.repeats):
        for workers in given.workers:
            seconds, digest = learn(given.nodes, given.ticks, workers)
            spent[workers].append(seconds)
            bits.add(digest)
    assert len(bits) == 1, "the number of processes changed the bits"
    print(f"\n{given.nodes} nodes, {given.ticks} samples each; everything that was learnt: {bits.pop()}\n")
    print("| processes | seconds, median (all) | times as fast, median of pairs (all) |")
    print("|---|---|---|")
    first = spent[given.workers[0]]
    for workers, times in spent.items():
        pairs = [a / b for a, b in zip(first, times, strict=True)]
        every, ratios = (", ".join(f"{x:.2f}" for x in some) for some in (times, pairs))
        print(f"| {workers} | {np.median(times):.1f} ({every}) | {np.median(pairs):.2f} ({ratios}) |")
