"""A graph cut into parts, so that each can be swept by itself: who is where, and what crosses the cuts.

The order of Algorithm 2 over the nodes is arbitrary but fixed, and a node's update needs its own samples and
the parameters of its neighbours only (Sec. 5.1-5.2). So parts are swept independently; over a cut a node
reads a *ghost*: a copy of its neighbour's parameters, as old as the exchange between parts makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from estimators.core.graph import Graph
from estimators.core.types import Nodes

SLACK = 1.03  # how much larger than the average a part may be; that of METIS by default
PASSES = 20  # over the nodes at cuts, each moved to where most of its links are


@dataclass(frozen=True)
class Cut:
    """A graph in parts, as those see it who hold some or all of its nodes.

    Parameters
    ----------
    graph : Graph
        Rows of the nodes held, then those of ghosts. Links across a cut lead to ghosts; those within parts,
        and the order of all, are as they were.
    labels : ndarray of shape (n,), int32
        The part of each node held.
    nodes : ndarray of shape (G,), int32
        Number in the whole network of the node that each ghost is a copy of, increasing.
    source : ndarray of shape (G,), int32
        Its number among the nodes held; -1: it is held elsewhere.
    boundary : ndarray of shape (B,), int32
        Nodes held that are ghosts to some part, increasing.
    held : ndarray of shape (n,), int32
        Number in the whole network of each node held, increasing.
    total : int
        Nodes of the whole network.

    Examples
    --------
    >>> import networkx as nx
    >>> from estimators.core.graph import Graph
    >>> cut = Cut.of(Graph.of(nx.path_graph(4)), np.array([0, 0, 1, 1]))
    >>> cut.nodes, cut.graph.neighbours(1)  # node 1 is linked to node 0 and to the ghost of node 2
    (array([1, 2], dtype=int32), array([0, 5], dtype=int32))
    >>> right = Cut.of(Graph.of(nx.path_graph(4)), np.array([0, 0, 1, 1]), np.array([2, 3]))
    >>> right.held, right.nodes, right.source, right.boundary
    (array([2, 3], dtype=int32), array([1], dtype=int32), array([-1], dtype=int32), array([0], dtype=int32))
    """

    graph: Graph
    labels: NDArray[np.int32]
    nodes: Nodes
    source: Nodes
    boundary: Nodes
    held: Nodes
    total: int

    @classmethod
    def of(cls, graph: Graph, labels: NDArray[np.integer], held: NDArray[np.integer] | None = None) -> Cut:
        """Cut ``graph`` by the ``labels`` (N,) of all its nodes; ``held``: whole parts only, None for all."""
        labels = np.asarray(labels, np.int32)
        held = np.arange(graph.n_nodes, dtype=np.int32) if held is None else np.asarray(held, np.int32)
        if len(missing := np.setdiff1d(np.flatnonzero(np.isin(labels, labels[held])), held)):
            raise ValueError(f"held: node {missing[0]} belongs to a part that is held otherwise")
        degrees = np.diff(graph.indptr)[held]
        first = np.concatenate([[0], np.cumsum(degrees)])
        entries = np.repeat(graph.indptr[held] - first[:-1], degrees) + np.arange(first[-1])
        row, far = np.repeat(np.arange(len(held)), degrees), graph.indices[entries]
        weights = graph.weights[entries]
        across = labels[far] != labels[held][row]
        nodes = np.unique(far[across]).astype(np.int32)
        place = np.full(graph.n_nodes, -1, np.int32)
        place[held] = np.arange(len(held))
        slot = np.searchsorted(nodes, far[across])
        near = np.where(across, 0, place[far])
        near[across] = len(held) + slot
        back = np.lexsort((row[across], slot))  # rows of ghosts: who reads them
        counts = np.bincount(slot, minlength=len(nodes)).astype(np.int64)
        local = Graph(
            np.concatenate([first, first[-1] + np.cumsum(counts)]).astype(np.int32),
            np.concatenate([near, row[across][back]]).astype(np.int32),
            np.concatenate([weights, weights[across][back]]),
            np.concatenate([graph.degree[held], graph.degree[nodes]]),
            len(nodes),
            (graph.mean_degree, graph.mean_weight),
        )
        boundary = np.unique(row[across]).astype(np.int32)
        mine = held.astype(np.int32)
        return cls(local, labels[held], nodes, place[nodes], boundary, mine, graph.n_nodes)

    @classmethod
    def whole(cls, graph: Graph) -> Cut:
        """One part, and no ghosts."""
        none, everyone = np.zeros(0, np.int32), np.arange(graph.n_nodes, dtype=np.int32)
        return cls(graph, np.zeros(graph.n_nodes, np.int32), none, none, none, everyone, graph.n_nodes)

    @property
    def holds_all(self) -> bool:
        """Whether these are all parts of the network."""
        return len(self.held) == self.total

    @property
    def parts(self) -> list[Nodes]:
        """The nodes of each part that is held, in the order of the parts' numbers."""
        return [np.flatnonzero(self.labels == p).astype(np.int32) for p in np.unique(self.labels)]

    def read_by(self, part: Nodes) -> Nodes:
        """Numbers of the ghosts that the nodes ``part`` read."""
        g = self.graph
        far = [g.indices[g.indptr[v] : g.indptr[v + 1]] for v in part[np.isin(part, self.boundary)].tolist()]
        found = np.unique(np.concatenate([*far, np.zeros(0, np.int32)]))
        return (found[found >= g.n_nodes] - g.n_nodes).astype(np.int32)


def ghosts_per_node(graph: Graph, labels: NDArray[np.integer]) -> float:
    """Copies that all parts keep of nodes of others, over the number of nodes: what an exchange costs."""
    row, far = _across(graph, labels)
    return len(np.unique(labels[row].astype(np.int64) * graph.n_nodes + far)) / max(graph.n_nodes, 1)


def cut_share(graph: Graph, labels: NDArray[np.integer]) -> float:
    """Share of the links that are cut."""
    return len(_across(graph, labels)[0]) / max(len(graph.indices), 1)


def _across(graph: Graph, labels: NDArray[np.integer]) -> tuple[NDArray[np.intp], Nodes]:
    row = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    across = labels[row] != labels[graph.indices]
    return row[across], graph.indices[across]


def partition(graph: Graph, n_parts: int, seed: int = 0) -> NDArray[np.int32]:
    """Labels (N,) of ``n_parts`` parts of nearly equal size with few ghosts; the same for the same arguments.

    By METIS where the package `pymetis` is installed; else the Cuthill-McKee order is cut into pieces, and
    nodes at the cuts are moved to where most of their links are.
    """
    n_parts = max(min(n_parts, graph.n_nodes), 1)
    if n_parts == 1 or not len(graph.indices):
        return _pieces(np.arange(graph.n_nodes), n_parts)
    ways: list[Callable[[Graph, int, int], NDArray[np.int32] | None]] = [_metis, _by_order]
    for way in ways:
        found = way(graph, n_parts, seed)
        if found is not None and len(np.unique(found)) == n_parts:
            return found
    return _pieces(np.arange(graph.n_nodes), n_parts)


def _metis(graph: Graph, n_parts: int, seed: int) -> NDArray[np.int32] | None:
    try:
        import pymetis
    except ImportError:
        return None
    links, options = pymetis.CSRAdjacency(graph.indptr, graph.indices), pymetis.Options(seed=seed)
    _, labels = pymetis.part_graph(n_parts, adjacency=links, options=options)
    return np.asarray(labels, np.int32)


def _by_order(graph: Graph, n_parts: int, seed: int) -> NDArray[np.int32]:
    labels = _pieces(reverse_cuthill_mckee(graph.matrix(), symmetric_mode=True), n_parts)
    sizes = np.bincount(labels, minlength=n_parts)
    most, least = np.ceil(SLACK * graph.n_nodes / n_parts), np.floor(graph.n_nodes / n_parts / SLACK)
    for _ in range(PASSES):
        moved = 0
        for v in np.unique(_across(graph, labels)[0]).tolist():
            entries = slice(graph.indptr[v], graph.indptr[v + 1])
            links = np.bincount(labels[graph.indices[entries]], graph.weights[entries], minlength=n_parts)
            now, best = labels[v], int(np.argmax(np.where(sizes < most, links, -1.0)))
            if links[best] > links[now] and sizes[now] > least:
                labels[v] = best
                sizes[now] -= 1
                sizes[best] += 1
                moved += 1
        if not moved:
            break
    return labels


def _pieces(order: NDArray[np.integer], n_parts: int) -> NDArray[np.int32]:
    labels = np.empty(len(order), np.int32)
    labels[order] = np.arange(len(order)) * n_parts // len(order)
    return labels


def extended(labels: NDArray[np.int32], rows: NDArray[np.intp], graph: Graph) -> NDArray[np.int32]:
    """Labels of a network that gained or lost nodes: ``rows`` says which old node each was, -1 for a new one.

    A new node joins the part of most of its neighbours, or the smallest. Labels are numbered anew.
    """
    found = np.full(len(rows), -1, np.int32)
    found[rows >= 0] = np.unique(labels[rows[rows >= 0]], return_inverse=True)[1]
    for v in np.flatnonzero(rows < 0).tolist():
        near = found[graph.neighbours(v)]
        sizes = np.bincount(found[found >= 0], minlength=1)
        found[v] = np.bincount(near[near >= 0]).argmax() if (near >= 0).any() else sizes.argmin()
    return found
