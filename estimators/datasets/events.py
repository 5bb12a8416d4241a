"""Synthetic data that localized prediction is tried on: events of known footprint, and correlated parts."""

from __future__ import annotations

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csgraph

from estimators.core.graph import Graph
from estimators.core.types import Floats
from estimators.structured.parts import LabelledEvent

# Mean signal of nodes not affected, and of both types of event: the types differ in which feature moves more.
MEANS = 1.2 * np.array([[0.0, 0.0], [1.0, 0.3], [0.3, 1.0]])


def geometric_graph(n_nodes: int, radius: float, seed: int) -> Graph:
    """Points in the unit square, linked when closer than ``radius``; drawn again until it is connected."""
    for k in range(1000):
        drawn = nx.random_geometric_graph(n_nodes, radius, seed=1000 * seed + k)
        if nx.is_connected(drawn):
            return Graph.of(drawn)
    raise ValueError(f"radius: {radius} connects no graph of {n_nodes} nodes in 1000 draws")


def draw_events(graph: Graph, n: int, seed: int, sizes: tuple[int, int] = (5, 15)) -> list[LabelledEvent]:
    """n events: the first nodes that a breadth-first search from a random node meets, of one of two types.

    The signal of each node is normal with unit spread about the mean of its class.
    """
    rng = np.random.default_rng(seed)
    events = []
    for k in range(n):
        reached = _breadth_first(graph, int(rng.integers(graph.n_nodes)))
        labels = np.zeros(graph.n_nodes, dtype=np.int64)
        labels[reached[: int(rng.integers(sizes[0], sizes[1] + 1))]] = rng.integers(1, len(MEANS))
        signal: Floats = rng.normal(MEANS[labels])
        events.append(LabelledEvent(f"event-{k}", signal, graph, labels))
    return events


def correlated_parts(n: int, P: int, k: int, gamma: float, seed: int) -> Floats:
    """n inputs of P parts of k normal numbers (n, P, k), correlated as exp(-gamma |p - q| / P) (Eq. 23)."""
    d = np.abs(np.subtract.outer(np.arange(P), np.arange(P))) / P
    e, U = np.linalg.eigh(np.exp(-gamma * d))  # of rank one for gamma = 0: no Cholesky
    root = U * np.sqrt(np.maximum(e, 0.0)) @ U.T
    x: Floats = np.tensordot(np.random.default_rng(seed).normal(size=(n, k, P)), root, axes=1)
    return x.swapaxes(1, 2)


def _breadth_first(graph: Graph, start: int) -> NDArray[np.int32]:
    order: NDArray[np.int32] = csgraph.breadth_first_order(graph.matrix(), start, return_predecessors=False)
    return order
