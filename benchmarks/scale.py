"""Parts of a network: the same bits whoever computes them, what they cost, and what they change.

    OPENBLAS_NUM_THREADS=1 python benchmarks/scale.py [--nodes N] [--ticks T] [--shapes planar ...] [--ray]
    OPENBLAS_NUM_THREADS=1 python benchmarks/scale.py --accuracy [--seeds K] [--nodes N] [--ticks T] [--quick]
    OPENBLAS_NUM_THREADS=1 python benchmarks/scale.py --sweeps [--seeds K] [--nodes N] [--ticks T] [--quick]

With `--ray` the same parts inline and by actors of a Ray cluster of this machine, instead of threads. With
`--accuracy` delays and false incidents of 1, 2, 4 and 8 parts, and with `--sweeps` of 1, 2 and 4 sweeps per
tick on dense graphs: correlated data of two components, each variant learnt anew, several seeds.

Engines take turns of a few ticks each, so that a busy machine is as busy for all of them; medians and ratios
count, not times. Quiet normal data of one component, four test windows, all nodes in every tick.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.spatial import cKDTree

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import scale_accuracy
from detector.engines.base import Engine
from detector.engines.density_ratio import Choice, DensityRatioEngine
from detector.engines.runners.base import started
from detector.settings.core import Settings
from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.core.partition import Cut, cut_share, ghosts_per_node, partition
from estimators.streaming.graph_statistics import N_LEVELS, NullMoments
from estimators.streaming.level_charts import NullLevels

REFERENCE, TESTS, TURN = 100, (5, 10, 25, 50), 5


def planar(n: int) -> Graph:
    """Sensors at random places, each linked with its 4 nearest."""
    places = np.random.default_rng(0).random((n, 2))
    _, near = cKDTree(places).query(places, 5)
    W = sp.csr_array((np.ones(4 * n), (np.repeat(np.arange(n), 4), near[:, 1:].ravel())), shape=(n, n))
    return Graph.of(W.maximum(W.T))


SHAPES = {
    "planar": planar,
    "small world": lambda n: Graph.of(nx.watts_strogatz_graph(n, 6, 0.1, seed=0)),
    "scale free": lambda n: Graph.of(nx.barabasi_albert_graph(n, 3, seed=0)),
}


def made(graph: Graph, n_parts: int) -> DensityRatioEngine:
    n, S = graph.n_nodes, len(TESTS)
    rng = np.random.default_rng(1)
    features = Nystroem(Dictionary(rng.normal(size=(64, 1)), 1.0), tol=1e-3, rank=15, outside=True)
    settings = Settings.of(windows={"reference": REFERENCE, "tests": list(TESTS)}, engine={"parts": n_parts})
    cut = Cut.of(graph, partition(graph, n_parts))
    engine = DensityRatioEngine(graph, features, settings, Choice(1.0, 0.3, 0.01, 2.0), 0, cut)
    wide = np.ones((N_LEVELS, n, S))
    engine.null = NullMoments(
        np.full((n, S), 0.02), np.full((n, S), 0.02), 0 * wide, wide, np.ones((N_LEVELS, S))
    )
    no, one, two = np.zeros((n, 1)), np.full((n, 1), 0.25), np.ones((2, n, 1))
    engine.joint.null = [NullLevels(no, one, no, one, two, two)]
    return engine


def with_threads(graph: Graph, n_parts: int, threads: int) -> Engine:
    """As `engine.type: threads` runs it."""
    ways = {"type": "threads", "workers": threads}
    settings = Settings.of(windows={"reference": REFERENCE, "tests": list(TESTS)}, engine=ways)
    return started(made(graph, n_parts), graph, settings)


def values(n: int, first: int, last: int) -> Iterator[NDArray[np.float64]]:
    """Ticks of quiet data (n, 1)."""
    for t in range(first, last):
        yield np.random.default_rng(t).normal(size=(n, 1))


def play(engine: Engine, ticks: Iterable[NDArray[np.float64]]) -> None:
    everyone = np.arange(len(engine.event), dtype=np.int32)
    for x in ticks:
        engine.slide(everyone, x)
        engine.finish()


def tree(pid: int) -> list[int]:
    """A process and all that it has started."""
    found = [pid]
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found += tree(int(path.parent.name))
        except OSError:
            continue
    return found


def cpu_of(processes: list[int]) -> float:
    """Seconds that they have spent; those that are gone count for nothing."""
    ticks = 0
    for pid in processes:
        try:
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_of(processes: list[int]) -> float:
    """Proportional set size in MB."""
    kilobytes = 0
    for pid in processes:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes / 1024.0


def run_ray(shape: str, n: int, ticks: int) -> None:
    """Two parts inline, and the same parts by two actors."""
    graph = SHAPES[shape](n)
    settings = Settings.of(
        windows={"reference": REFERENCE, "tests": list(TESTS)}, engine={"type": "ray", "workers": 2}
    )
    engines: dict[str, Engine] = {"inline": made(graph, 2)}
    before = tree(os.getpid())
    engines["ray"] = started(made(graph, 2), graph, settings)
    for engine in engines.values():
        play(engine, values(n, 0, REFERENCE + TESTS[-1]))
    others = [pid for pid in tree(os.getpid()) if pid not in before]
    spent: dict[str, list[tuple[float, float]]] = {way: [] for way in engines}
    for first in range(REFERENCE + TESTS[-1], REFERENCE + TESTS[-1] + ticks, TURN):
        data = list(values(n, first, first + TURN))
        for way, engine in engines.items():
            wall, cpu, far = time.perf_counter(), time.process_time(), cpu_of(others)
            play(engine, data)
            spent[way].append((time.perf_counter() - wall, time.process_time() - cpu + cpu_of(others) - far))
    inline, ray = (np.array(spent[way]) for way in engines)
    fast = np.median(inline[:, 0] / ray[:, 0])
    idle = cpu_of(others)
    time.sleep(10.0)
    print(f"\n{shape}, {n} nodes, {ticks} ticks, two parts: Ray with two actors against inline\n")
    print(f"times as fast {fast:.2f}, CPU {ray[:, 1].sum() / inline[:, 1].sum():.2f}")
    print(f"inline {1e6 * inline[:, 1].sum() / ticks / n:.2f} us of CPU per node and tick")
    rest = 10.0 * (cpu_of(others) - idle)
    print(f"Ray's {len(others)} processes: {memory_of(others):.0f} MB, at rest {rest:.1f} % of a core")
    assert digest(engines["inline"]) == digest(engines["ray"]), "Ray changed the bits"


def digest(engine: Engine) -> str:
    return hashlib.sha256(engine.event.tobytes() + engine.node.tobytes()).hexdigest()[:8]


def run(shape: str, n: int, ticks: int) -> None:
    graph = SHAPES[shape](n)
    ways = [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2)]  # parts, threads
    engines = {way: with_threads(graph, *way) for way in ways}
    filled = REFERENCE + TESTS[-1]
    for engine in engines.values():
        play(engine, values(graph.n_nodes, 0, filled))
    spent: dict[Any, list[tuple[float, float]]] = {way: [] for way in ways}
    for first in range(filled, filled + ticks, TURN):
        data = list(values(graph.n_nodes, first, first + TURN))
        for way, engine in engines.items():
            wall, cpu = time.perf_counter(), time.process_time()
            play(engine, data)
            spent[way].append((time.perf_counter() - wall, time.process_time() - cpu))
    whole = engines[1, 1]
    wall_one, cpu_one = np.median(spent[1, 1], axis=0)
    print(f"\n{shape}, {graph.n_nodes} nodes, {ticks} ticks\n")
    columns = "parts | threads | links cut | ghosts per node | bits | times as fast | CPU"
    print(f"| {columns} | difference: median, largest |")
    print("|---|---|---|---|---|---|---|---|")
    for (parts, threads), engine in engines.items():
        labels = partition(graph, parts)
        wall, cpu = np.median(spent[parts, threads], axis=0)
        cut, ghosts = 100 * cut_share(graph, labels), ghosts_per_node(graph, labels)
        apart = np.abs(engine.event - whole.event)
        print(
            f"| {parts} | {threads} | {cut:.1f} % | {ghosts:.3f} | {digest(engine)} "
            f"| {wall_one / wall:.2f} | {cpu / cpu_one:.2f} "
            f"| {np.nanmedian(apart):.3f}, {np.nanmax(apart):.2f} |"
        )
    print(f"\nOne part: {1e6 * cpu_one / TURN / graph.n_nodes:.2f} CPU us per node and tick.")
    assert digest(engines[2, 1]) == digest(engines[2, 2]), "threads changed the bits"
    assert digest(engines[4, 1]) == digest(engines[4, 2]), "threads changed the bits"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--nodes", type=int, help="10,000; with --accuracy 96, with --sweeps 40")
    parser.add_argument("--ticks", type=int, help="100; with --accuracy and --sweeps 3000")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--ray", action="store_true", help="by actors of a Ray cluster, instead of threads")
    parser.add_argument("--accuracy", action="store_true", help="delays and false incidents by parts")
    parser.add_argument("--sweeps", action="store_true", help="delays and false incidents by sweeps per tick")
    parser.add_argument("--quick", action="store_true", help="smaller: at most ten minutes of one core")
    given = parser.parse_args()
    if given.accuracy or given.sweeps:
        ticks, seeds = given.ticks or (1500 if given.quick else 3000), 2 if given.quick else given.seeds
        if given.accuracy:
            shapes = {name: SHAPES[name] for name in given.shapes}
            scale_accuracy.by_parts(shapes, given.nodes or (64 if given.quick else 96), ticks, seeds)
        else:
            scale_accuracy.by_sweeps(given.nodes or 40, ticks, seeds)
        raise SystemExit
    if given.quick:
        given.nodes, given.ticks, given.shapes = 1000, 20, ["planar"]
    for name in given.shapes:
        (run_ray if given.ray else run)(name, given.nodes or 10_000, given.ticks or 100)
