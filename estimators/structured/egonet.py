"""Descriptors of ego-networks: what a node and its surroundings look like, comparable between all graphs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from estimators.core.graph import Graph
from estimators.core.kernels import as_points
from estimators.core.types import Floats

RADII = (0, 1, 2)
_PATHS = 4_000_000  # entries of A^2 in memory at a time: next to hubs it is dense


def ego_features(signal: ArrayLike, graph: Graph, radius: int = 2,
                 rows: NDArray[np.intp] | None = None) -> Floats:  # fmt: skip
    """Descriptors (n, D) of the nodes ``rows`` (all if absent), from the signal (N, d) of all nodes:

        x_v = [s_v, mean s of ring 1, max s of ring 1, mean s of ring 2, log(1 + deg v)],    D = 4 d + 1

    Ring h holds the nodes at h hops. Radius 1 has no ring 2; radius 0 is the node's own s_v alone. Order and
    number of the neighbours do not matter, so that parts of different degree can be compared. A node without
    neighbours has itself for ring 1; an empty ring 2 is zero.
    """
    s = as_points(signal, "signal")
    if len(s) != graph.n_nodes:
        raise ValueError(f"signal: {len(s)} rows, but the graph has {graph.n_nodes} nodes")
    if radius not in RADII:
        raise ValueError(f"radius: must be 0, 1 or 2, got {radius!r}")
    v = np.arange(len(s)) if rows is None else np.asarray(rows)
    if radius == 0:
        return s[v]
    near, far = _ring_one(s, graph)
    columns = [s[v], near[v], far[v]]
    if radius == 2:
        columns.append(_ring_two(s, graph, v))
    degree = np.diff(graph.indptr)[v]
    return np.column_stack([*columns, np.log1p(degree)])


def _ring_one(s: Floats, graph: Graph) -> tuple[Floats, Floats]:
    """Mean and largest signal of the neighbours of every node, (N, d) each."""
    mean, most = s.copy(), s.copy()
    linked = np.flatnonzero(np.diff(graph.indptr))
    if len(linked):
        around, starts = s[graph.indices], graph.indptr[linked]  # rows without neighbours take no space
        count = np.diff(graph.indptr)[linked][:, None]
        mean[linked] = np.add.reduceat(around, starts, axis=0) / count
        most[linked] = np.maximum.reduceat(around, starts, axis=0)
    return mean, most


def _ring_two(s: Floats, graph: Graph, rows: NDArray[np.intp]) -> Floats:
    """Mean signal (n, d) of the nodes at two hops from each of ``rows``."""
    A = graph.matrix()
    A.data = np.ones_like(A.data)
    paths = (A @ np.diff(graph.indptr))[rows]  # walks of two steps from each row
    out = np.zeros((len(rows), s.shape[1]))
    cuts = np.flatnonzero(np.diff(np.cumsum(paths) // _PATHS)) + 1
    for some in np.split(np.arange(len(rows)), cuts):
        v = rows[some]
        reached = A[v] @ A
        reached.data[:] = 1.0
        direct = A[v].multiply(reached)  # in a triangle: one hop, not two
        count = reached.sum(axis=1) - direct.sum(axis=1) - (np.diff(graph.indptr)[v] > 0)  # and the way back
        total = reached @ s - direct @ s - np.where(np.diff(graph.indptr)[v] > 0, 1.0, 0.0)[:, None] * s[v]
        there = count > 0
        out[some[there]] = total[there] / count[there, None]
    return out


def within(graph: Graph, seeds: NDArray[np.intp], hops: int) -> NDArray[np.bool_]:
    """Nodes (N,) at most so many hops from one of ``seeds``."""
    near = np.zeros(graph.n_nodes, np.bool_)
    near[seeds] = True
    A = graph.matrix()
    for _ in range(hops):
        near |= A @ near.astype(np.float64) > 0.0
    return near


def edge_features(x: Floats, edges: NDArray[np.int64]) -> Floats:
    """Descriptors (E, 2 D) of edges (E, 2) from those of the nodes (N, D), whichever end comes first."""
    u, v = x[edges[:, 0]], x[edges[:, 1]]
    return np.hstack([np.abs(u - v), (u + v) / 2.0])
