"""Parts of a network: the same bits whoever computes them, what they cost, and what they change.

    OPENBLAS_NUM_THREADS=1 python benchmarks/scale.py [--nodes N] [--ticks T] [--shapes planar ...]

Engines take turns of a few ticks each, so that a busy machine is as busy for all of them; medians and ratios
count, not times. Quiet normal data of one component, four test windows, all nodes in every tick.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from detector.engines.density_ratio import Choice, DensityRatioEngine
from detector.engines.runners.threads import Threads
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


def made(graph: Graph, n_parts: int, threads: int) -> DensityRatioEngine:
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
    if threads > 1:
        engine.run = Threads(threads)
    return engine


def play(engine: DensityRatioEngine, first: int, last: int) -> None:
    n = engine.graph.n_nodes
    everyone = np.arange(n, dtype=np.int32)
    for t in range(first, last):
        engine.slide(everyone, np.random.default_rng(t).normal(size=(n, 1)))
        engine.finish()


def digest(engine: DensityRatioEngine) -> str:
    return hashlib.sha256(engine.event.tobytes() + engine.node.tobytes()).hexdigest()[:8]


def run(shape: str, n: int, ticks: int) -> None:
    graph = SHAPES[shape](n)
    ways = [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2)]  # parts, threads
    engines = {way: made(graph, *way) for way in ways}
    filled = REFERENCE + TESTS[-1]
    for engine in engines.values():
        play(engine, 0, filled)
    spent: dict[Any, list[tuple[float, float]]] = {way: [] for way in ways}
    for first in range(filled, filled + ticks, TURN):
        for way, engine in engines.items():
            wall, cpu = time.perf_counter(), time.process_time()
            play(engine, first, first + TURN)
            spent[way].append((time.perf_counter() - wall, time.process_time() - cpu))
    whole = engines[1, 1]
    wall_one, cpu_one = np.median(spent[1, 1], axis=0)
    print(f"\n{shape}, {graph.n_nodes} nodes, {ticks} ticks\n")
    print(
        "| parts | threads | links cut | ghosts per node | bits | times as fast | CPU, of one part | median, largest difference |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for (parts, threads), engine in engines.items():
        labels = engine.cut.labels
        wall, cpu = np.median(spent[parts, threads], axis=0)
        cut, ghosts = 100 * cut_share(graph, labels), ghosts_per_node(graph, labels)
        apart = np.abs(engine.event - whole.event)
        print(
            f"| {parts} | {threads} | {cut:.1f} % | {ghosts:.3f} | {digest(engine)} | {wall_one / wall:.2f} | {cpu / cpu_one:.2f} "
            f"| {np.nanmedian(apart):.3f}, {np.nanmax(apart):.2f} |"
        )
    print(f"\nOne part: {1e6 * cpu_one / TURN / graph.n_nodes:.2f} CPU us per node and tick, data included.")
    assert digest(engines[2, 1]) == digest(engines[2, 2]), "threads changed the bits"
    assert digest(engines[4, 1]) == digest(engines[4, 2]), "threads changed the bits"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--ticks", type=int, default=100)
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    given = parser.parse_args()
    for name in given.shapes:
        run(name, given.nodes, given.ticks)
