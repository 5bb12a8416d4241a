"""Edges as parts: is the label at both ends the same? Learnt like the labels of nodes, from descriptors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimators.core.graph import Graph
from estimators.core.types import Floats
from estimators.structured.egonet import edge_features
from estimators.structured.labelling import Coupling
from estimators.structured.parts import LabelledEvent, Parts
from estimators.structured.ridge import PartRidge


def fit_edges(events: Sequence[LabelledEvent], n_classes: int, radius: int,
              standard: Callable[[Floats], Floats], m_max: int, seed: int,
              **choice: Any) -> PartRidge:  # fmt: skip
    """Regress (same, different) on descriptors of edges between labelled nodes; ``choice`` goes to select."""
    F, H, groups = [], [], []
    for event in events:
        own = Parts.of([event], n_classes, radius)
        edges = inner_edges(Graph.of(event.graph), own.node)
        same = (own.H[edges[:, 0]] * own.H[edges[:, 1]]).sum(axis=1)
        F.append(edge_features(standard(own.F), edges))
        H.append(np.column_stack([same, 1.0 - same]))
        groups.append(np.full(len(edges), event.event_id))
    x, y, names = np.concatenate(F), np.concatenate(H), np.concatenate(groups)
    if len(x) > m_max:
        keep = np.sort(np.random.default_rng(seed).choice(len(x), m_max, replace=False))
        x, y, names = x[keep], y[keep], names[keep]
    return PartRidge.select(x, y, names, seed=seed, **choice)


def learnt_coupling(
    ridge: PartRidge, x: Floats, graph: Graph, rows: NDArray[np.intp], omega: float
) -> Coupling:
    """beta_e = omega / E (g_same - g_different) of the edges among ``rows``, with descriptors x of those."""
    edges = inner_edges(graph, rows)
    if not len(edges):
        return Coupling.none()
    g, _ = ridge.embed(edge_features(x, edges))
    return Coupling(edges, omega / len(edges) * (g[:, 0] - g[:, 1]))


def inner_edges(graph: Graph, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Edges (E, 2) with both ends among ``rows``, numbered as there."""
    position = np.full(graph.n_nodes, -1)
    position[rows] = np.arange(len(rows))
    edges = position[graph.edges()]
    inside: NDArray[np.int64] = edges[(edges >= 0).all(axis=1)]
    return inside
