"""Where nodes without a position are drawn: springs if there are few of them, distances if many.

Distances over the links become distances on paper: each connected part is placed by its distances to a few
pivots (pivot multidimensional scaling), then crowded nodes are pushed apart; the parts are put side by side.
Nearly linear in nodes and links.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from estimators.core.graph import Graph
from estimators.core.types import Floats

SPRING_NODES = 500  # a spring layout costs the square of it; larger networks are placed by distances
PIVOTS = 24
ROUNDS = 40  # of pushing apart
WORK = 400_000  # nodes times rounds: a very large network is drawn more roughly, but within seconds
SEED = 7  # any number, but always the same: a network must not look different every time


def layout(graph: Graph) -> Floats:
    """Positions (N, 2) from the links: springs if small, distances to pivots if large."""
    n = graph.n_nodes
    if n <= SPRING_NODES:
        import networkx as nx

        view = nx.from_scipy_sparse_array(graph.matrix())
        placed = nx.spring_layout(view, seed=SEED)
        return np.array([placed[v] for v in range(n)], dtype=np.float64)
    return large_layout(graph)


def spaced(places: Floats, graph: Graph) -> Floats:
    """About the same positions, with about one unit between neighbours on paper."""
    return _pushed_apart((places - places.mean(axis=0)) / np.maximum(places.std(), 1e-9), graph.matrix())


def large_layout(graph: Graph) -> Floats:
    """Positions (N, 2), about one unit between neighbours."""
    part_of = graph.parts
    order = np.argsort(part_of, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(part_of[order])) + 1)
    alone = np.concatenate([part for part in parts if len(part) == 1] or [np.zeros(0, order.dtype)])
    linked = sorted((part for part in parts if len(part) > 1), key=len, reverse=True)
    W = graph.matrix()
    placed = [(part, _placed(sp.csr_array(W[part][:, part]))) for part in linked]
    if len(alone):
        placed.append((alone, _grid(len(alone))))
    return _side_by_side(graph.n_nodes, placed)


def _placed(W: sp.csr_array) -> Floats:
    """One connected part."""
    n = W.shape[0]
    D = _distances(W, min(PIVOTS, n, max(8, WORK // n))) ** 2
    C = -0.5 * (D - D.mean(axis=0) - D.mean(axis=1, keepdims=True) + D.mean())
    _, vectors = np.linalg.eigh(C.T @ C)
    main = vectors[:, ::-1][:, :2]
    if main.shape[1] < 2:  # two nodes: a line
        main = np.column_stack([main, np.zeros(len(main))])
    main = main * np.where(main.sum(axis=0) < 0.0, -1.0, 1.0)  # the sign of an eigenvector is a coin toss
    places = np.asarray(C @ main, np.float64)
    return _pushed_apart(places / np.maximum(places.std(axis=0), 1e-9), W)


def _distances(W: sp.csr_array, count: int) -> Floats:
    """Links from every node (rows) to pivots (columns) far from one another."""
    first = int(np.argmax(np.diff(W.indptr)))
    columns: list[Floats] = []
    nearest = np.full(W.shape[0], np.inf)
    pivot = first
    for _ in range(count):
        column = np.asarray(dijkstra(W, directed=False, indices=pivot, unweighted=True), np.float64)
        columns.append(column)
        nearest = np.minimum(nearest, column)
        pivot = int(np.argmax(nearest))
    return np.stack(columns, axis=1)


def _pushed_apart(places: Floats, W: sp.csr_array) -> Floats:
    """Spacing of about one: neighbours pull gently, nodes closer than that push."""
    n = len(places)
    rng = np.random.default_rng(SEED)
    places = places * np.sqrt(n) / 3.5 + 0.05 * rng.standard_normal(places.shape)  # no two at one place
    ones = sp.csr_array((np.ones(len(W.data)), W.indices, W.indptr), shape=W.shape)
    degree = np.maximum(np.diff(W.indptr), 1)[:, None]
    rounds = min(ROUNDS, max(3, WORK // n))
    for k in range(rounds):
        pull = 0.25 * (1.0 - k / rounds)
        places = places + pull * (ones @ places / degree - places)
        pairs: NDArray[np.intp] = cKDTree(places).query_pairs(1.0, output_type="ndarray")
        if not len(pairs):
            continue
        apart = places[pairs[:, 0]] - places[pairs[:, 1]]
        distance = np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-9)
        push = 0.35 * apart / distance * (1.0 - distance)
        np.add.at(places, pairs[:, 0], push)
        np.add.at(places, pairs[:, 1], -push)
    return np.asarray(places, np.float64)


def _grid(n: int) -> Floats:
    wide = int(np.ceil(np.sqrt(2.0 * n)))
    return np.stack([np.arange(n) % wide, np.arange(n) // wide], axis=1).astype(np.float64)


def _side_by_side(n_nodes: int, parts: list[tuple[NDArray[np.intp], Floats]]) -> Floats:
    """Parts in rows from the left, the largest first."""
    boxes = [places - places.min(axis=0) for _, places in parts]
    sizes = [np.ptp(box, axis=0) + 2.0 for box in boxes]
    width = max(max(size[0] for size in sizes), 1.2 * np.sqrt(sum(float(np.prod(size)) for size in sizes)))
    positions = np.zeros((n_nodes, 2))
    x = y = tallest = 0.0
    for (part, _), box, size in zip(parts, boxes, sizes, strict=True):
        if x > 0.0 and x + size[0] > width:
            x, y, tallest = 0.0, y + tallest, 0.0
        positions[part] = box + np.array([x, y])
        x, tallest = x + size[0], max(tallest, size[1])
    return positions
