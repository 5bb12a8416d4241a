"""Communities of a large network, for drawing it folded: linked nodes together, all about equally many.

Pairs of neighbours are joined, those with the strongest link between the smallest parts first, then pairs of
pairs, until few enough are left. Nodes without a link left to join are put together in their order.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from estimators.core.graph import Graph

FOLDED = 300  # nodes from which on a network is drawn folded
LARGEST = 3.0  # times the mean size: no community grows beyond this


def communities(graph: Graph) -> NDArray[np.intp]:
    """The community of each node, numbered by their first nodes; each its own in a small network."""
    n = graph.n_nodes
    group = np.arange(n)
    if n < FOLDED:
        return group
    target = round(2.0 * math.sqrt(n))
    largest = LARGEST * n / target
    W: sp.csr_array = sp.csr_array(graph.matrix(), dtype=float)
    size = np.ones(n)
    while len(size) > target:
        joined = _joined(W, size, largest, len(size) - target)
        count = int(joined.max()) + 1
        if count == len(size):
            break
        into = sp.csr_array(
            (np.ones(len(joined)), (np.arange(len(joined)), joined)), shape=(len(joined), count)
        )
        W = sp.csr_array(into.T @ W @ into)
        W.setdiag(0.0)
        W.eliminate_zeros()
        size = into.T @ size
        group = joined[group]
    _, first, numbers = np.unique(group, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers]


def _joined(W: sp.csr_array, size: NDArray[np.float64], largest: float, most: int) -> NDArray[np.intp]:
    """The part that each part becomes, in pairs; at most so many pairs."""
    n = len(size)
    partner = np.full(n, -1)
    pairs = 0
    for v in np.argsort(size, kind="stable").tolist():
        if partner[v] >= 0 or pairs == most:
            continue
        near = W.indices[W.indptr[v] : W.indptr[v + 1]]
        fits = (partner[near] < 0) & (near != v) & (size[near] + size[v] <= largest)
        if fits.any():
            weights = W.data[W.indptr[v] : W.indptr[v + 1]][fits] / size[near[fits]]
            u = int(near[fits][np.argmax(weights)])
            partner[v], partner[u] = u, v
            pairs += 1
    if pairs < max(1, most // 8):  # few links are left: what is alone goes together
        alone = [v for v in range(n) if partner[v] < 0 and size[v] < largest / 2]
        for v, u in zip(alone[::2], alone[1::2], strict=False):
            if pairs == most:
                break
            partner[v], partner[u] = u, v
            pairs += 1
    lead = np.where(partner < 0, np.arange(n), np.minimum(np.arange(n), partner))
    return np.unique(lead, return_inverse=True)[1]


def folded(graph: Graph, group: NDArray[np.intp]) -> Graph:
    """The network of the communities: linked as strongly as their nodes are."""
    count = int(group.max(initial=-1)) + 1
    into = sp.csr_array((np.ones(len(group)), (np.arange(len(group)), group)), shape=(len(group), count))
    W = sp.csr_array(into.T @ graph.matrix() @ into)
    W.setdiag(0.0)
    W.eliminate_zeros()
    return Graph.of(W)
