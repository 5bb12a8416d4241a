"""Learning by one process and by several: the same bits, and how long it takes.

    OPENBLAS_NUM_THREADS=1 python benchmarks/learning.py [--nodes N] [--ticks T] [--workers 1 2]

Runs take turns, so that a busy machine is as busy for all of them; medians and ratios count. Quiet normal
data of one component on a planar network, default settings: everything is chosen.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import time

import numpy as np
from scale import planar

from detector.engines.density_ratio import DensityRatioEngine
from detector.settings.core import Settings


def learn(nodes: int, ticks: int, workers: int) -> tuple[tuple[float, float, float], str]:
    """Seconds, those of CPU here and in other processes, and a digest of everything that was learnt."""
    graph = planar(nodes)
    Z = np.random.default_rng(0).normal(size=(ticks, nodes, 1))
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    began, cpu = time.perf_counter(), time.process_time()
    engine, report = DensityRatioEngine.calibrate(Z, graph, Settings.of(engine={"workers": workers}), 1.0)
    spent = time.perf_counter() - began, time.process_time() - cpu
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    far = ended.ru_utime + ended.ru_stime - others.ru_utime - others.ru_stime
    arrays, meta = engine.state()
    found = hashlib.sha256(repr((report.record(), meta)).encode())
    for name in sorted(arrays):
        found.update(arrays[name].tobytes())
    return (*spent, far), found.hexdigest()[:8]


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
    spent: dict[int, list[tuple[float, float, float]]] = {workers: [] for workers in given.workers}
    bits = set()
    for _ in range(given.repeats):
        for workers in given.workers:
            seconds, digest = learn(given.nodes, given.ticks, workers)
            spent[workers].append(seconds)
            bits.add(digest)
    assert len(bits) == 1, "the number of processes changed the bits"
    print(f"\n{given.nodes} nodes, {given.ticks} samples each; everything that was learnt: {bits.pop()}\n")
    print("| processes | seconds | times as fast: median, all | CPU s here | CPU s elsewhere |")
    print("|---|---|---|---|---|")
    first = spent[given.workers[0]]
    for workers, runs in spent.items():
        wall, here, far = np.median(runs, axis=0)
        ratios = [a[0] / b[0] for a, b in zip(first, runs, strict=True)]
        every = ", ".join(f"{x:.2f}" for x in ratios)
        print(f"| {workers} | {wall:.1f} | {np.median(ratios):.2f}, {every} | {here:.1f} | {far:.1f} |")
