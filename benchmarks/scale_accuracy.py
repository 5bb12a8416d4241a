"""Delays and false incidents by parts or by sweeps: each variant learns anew, on the same data."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from scipy.signal import lfilter

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.edge_network import EVERY, LASTS, START, Score, Truth, score
from detector.alignment.samples import Columns
from detector.events.model import Event
from detector.network.network import Network
from detector.pipeline.pipeline import Pipeline
from detector.settings.core import Settings
from estimators.core.graph import Graph
from estimators.core.partition import ghosts_per_node, partition

DIM, PHI, SHARED, SIZE, CHANGED = 2, 0.5, 0.6, 0.9, 6
LEARN, BUDGET = 2000, 100  # ticks; and ticks per false incident that are promised
PARTS = (1, 2, 4, 8)
SWEEPS = (1, 2, 4)
GROUPS: dict[str, Any] = {
    "align": {"step": 1.0, "lateness": 0.0},
    "windows": {"reference": 100, "tests": [5, 10, 25, 50]},
    "estimator": {"sigma": 1.0, "coupling": 0.3, "ridge": 0.02, "rank": 16, "atoms": 128},
    "alarm": {"learn": LEARN, "budget": f"1 per {BUDGET} ticks"},
    "incidents": {"clear_after": 10, "cool_down": 5.0},
}
Variants = Mapping[str, Mapping[str, Mapping[str, Any]]]  # groups of settings by name


def quiet(graph: Graph, ticks: int, seed: int) -> np.ndarray:
    """(ticks, N, DIM): AR(1) in time, and what a node shares with its neighbours; each of variance one."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(ticks + 50, graph.n_nodes, DIM))
    own = lfilter([np.sqrt(1 - PHI**2)], [1.0, -PHI], noise, axis=0)[50:]
    W = graph.matrix()
    near = np.stack([own[:, :, d] @ (W / W.sum(axis=1)[:, None]).T for d in range(DIM)], axis=2)
    mixed = own + SHARED * near
    found: np.ndarray = mixed / mixed.std(axis=0)
    return found


def changes(network: Network, last: int, seed: int) -> list[Truth]:
    """One every so often, around a link that is cut where there are most parts; the same for all variants."""
    graph, rng = network.graph, np.random.default_rng(seed)
    labels = partition(graph, max(PARTS))
    row = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    links = np.flatnonzero(labels[row] != labels[graph.indices])
    made = []
    for begin in range(200, last - EVERY + 1, EVERY):
        edge = rng.choice(links)
        nodes = [int(row[edge]), int(graph.indices[edge])]
        for v in nodes:
            nodes += [int(u) for u in graph.neighbours(v) if u not in nodes]
            if len(nodes) >= CHANGED:
                break
        near = {network.names[u] for v in nodes[:CHANGED] for u in (v, *graph.neighbours(v).tolist())}
        made.append(Truth(begin, tuple(nodes[:CHANGED]), frozenset(near)))
    return made


def with_changes(X: np.ndarray, truths: list[Truth], seed: int) -> np.ndarray:
    """A shift of all components, or twice the spread."""
    X, rng = X.copy(), np.random.default_rng(seed)
    for truth in truths:
        at = np.ix_(range(truth.begin, truth.begin + LASTS), truth.nodes)
        X[at] = X[at] + SIZE if rng.random() < 0.5 else 2.0 * X[at]
    return X


def played(state: tuple[Any, Any], network: Network, settings: Settings, X: np.ndarray) -> list[Event]:
    """What a pipeline with this state says about ``X``."""
    arrays = {name: array.copy() for name, array in state[0].items()}
    pipeline = Pipeline.from_state(network, DIM, settings, arrays, state[1])
    everyone = np.arange(len(network.names), dtype=np.int32)
    events: list[Event] = []
    for first in range(0, len(X), 100):
        rows = X[first : first + 100]
        times = np.repeat(START + first + np.arange(len(rows)), len(everyone))
        nodes = np.tile(everyone, len(rows))
        events += pipeline.push_columns(Columns(nodes, times, rows.reshape(-1, DIM)))
    return events


def compare(name: str, graph: Graph, variants: Variants, ticks: int, seeds: int) -> None:
    """A table with a row per variant."""
    network = Network.of([f"s{v:04d}" for v in range(graph.n_nodes)], graph.matrix())
    labels = partition(graph, max(PARTS))
    print(f"\n{name}, {graph.n_nodes} nodes, {graph.mean_degree:.1f} links per node; learnt from {LEARN} "
          f"ticks, {ticks} quiet and {ticks} changed ones, {seeds} seeds; "
          f"{ghosts_per_node(graph, labels):.2f} ghosts per node with {max(PARTS)} parts\n")  # fmt: skip
    print(f"| | false incidents, of {seeds * ticks // BUDGET} | found | median delay | mean | residual |")
    print("|---|---|---|---|---|---|", flush=True)
    for label, groups in variants.items():
        merged = {group: {**GROUPS.get(group, {}), **groups.get(group, {})} for group in {**GROUPS, **groups}}
        settings, residuals = Settings.of(**merged), []
        scores: list[tuple[Score, int]] = []
        for seed in range(seeds):
            made = Pipeline(network, DIM, settings)
            times = START - LEARN + np.arange(LEARN, dtype=float)
            made.learn(quiet(graph, LEARN, 10 * seed), times)
            residuals.append(made.engine.residual)
            state, truths = made.state(), changes(network, ticks, seed)
            still, X = quiet(graph, ticks, 10 * seed + 1), quiet(graph, ticks, 10 * seed + 2)
            false = score(played(state, network, settings, still), []).false
            scores.append(
                (score(played(state, network, settings, with_changes(X, truths, seed)), truths), false)
            )
        delays = np.array([delay for found, _ in scores for delay in found.found])
        asked = len(delays) + sum(found.missed for found, _ in scores)
        print(f"| {label} | {sum(false for _, false in scores)} | {len(delays)} of {asked} | "
              f"{np.median(delays):.0f} | {delays.mean():.1f} ± {delays.std() / np.sqrt(len(delays)):.1f} | "
              f"{np.mean(residuals):.3f} |", flush=True)  # fmt: skip


def by_parts(shapes: Mapping[str, Any], nodes: int, ticks: int, seeds: int) -> None:
    variants = {f"{k} parts" if k > 1 else "1 part": {"engine": {"parts": k}} for k in PARTS}
    for name, shape in shapes.items():
        compare(name, shape(nodes), variants, ticks, seeds)


def by_sweeps(nodes: int, ticks: int, seeds: int) -> None:
    """A complete graph, with an ordinary and a strong coupling; and one with few links, for comparison."""
    graphs = {
        "complete": Graph.of(nx.complete_graph(nodes)),
        "ring of neighbours": Graph.of(nx.watts_strogatz_graph(nodes, 4, 0.1, seed=0)),
    }
    for name, coupling in (("complete", 0.3), ("complete", 3.0), ("ring of neighbours", 0.3)):
        variants = {
            f"{k} sweeps" if k > 1 else "1 sweep": {"estimator": {"sweeps": k, "coupling": coupling}}
            for k in SWEEPS
        }
        compare(f"{name}, coupling {coupling:g}", graphs[name], variants, ticks, seeds)
