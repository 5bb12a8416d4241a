"""Labels of all nodes at the least expected cost: node by node, one type for all, and coupled over edges.

    F(z) = sum_v pi_v U_v(z_v) + sum_e beta_e [z_u != z_v],      U_v(c) = sum_c' L[c, c'] g_c'(v)

g (N, T) are estimated class probabilities, L[c, c'] is the cost of saying c where c' is true, class 0 is
"not affected". Ties go to 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import csgraph

from estimators.core.types import Floats

Labels = NDArray[np.int64]
UNKNOWN = -1
# Capacities of scipy's maximum flow are int32, larger ones wrap without a word, and residuals reach twice
# the capacity.
_LARGEST_CAPACITY = 2**29


def miss_cost(n_classes: int, miss: float = 2.0) -> Floats:
    """L (T, T): 1 for an error, ``miss`` for an affected node of which it is not said."""
    L: Floats = 1.0 - np.eye(n_classes)
    L[0, 1:] = miss
    return L


def expected_cost(g: Floats, cost: Floats) -> Floats:
    """U_v(c) (N, T), with the constant of the loss at its known value: 1, not the sum of g.

    For all costs alike this is 1 - g_c. Where nothing is known, g = 0, every class costs ``cost.max()``.
    """
    worst = float(cost.max())
    U: Floats = worst - g @ (worst - cost).T
    return U


@dataclass(frozen=True)
class Coupling:
    """Price beta_e of different labels at the two ends of every edge (E, 2)."""

    edges: NDArray[np.int64]
    beta: Floats

    @classmethod
    def none(cls) -> Coupling:
        return cls(np.empty((0, 2), dtype=np.int64), np.empty(0))

    def price(self, z: Labels) -> float:
        return float(self.beta[z[self.edges[:, 0]] != z[self.edges[:, 1]]].sum())


def objective(z: Labels, U: Floats, coupling: Coupling) -> float:
    """F(z) of labels z (N,); U (N, T) holds the parts' weights."""
    return float(U[np.arange(len(z)), z].sum()) + coupling.price(z)


def node_wise(U: Floats) -> Labels:
    """The cheapest class of every node: exact without coupling."""
    z: Labels = U.argmin(axis=1)
    return z


def one_type(U: Floats, coupling: Coupling) -> Labels:
    """The cheapest labels among those with one type, z_v in {0, c} for some c >= 1: exact if no beta < 0."""
    best, least = np.zeros(len(U), dtype=np.int64), objective(np.zeros(len(U), np.int64), U, coupling)
    for c in range(1, U.shape[1]):
        z = c * binary(U[:, 0], U[:, c], coupling)
        if (price := objective(z, U, coupling)) < least:
            best, least = z, price
    return best


def many_types(U: Floats, coupling: Coupling) -> Labels:
    """Any type at any node: exact without coupling or with two classes, else a local minimum."""
    if not len(coupling.beta):
        return node_wise(U)
    return binary(U[:, 0], U[:, 1], coupling) if U.shape[1] == 2 else descend(node_wise(U), U, coupling)


def binary(U0: Floats, U1: Floats, coupling: Coupling) -> Labels:
    """0 or 1 for every node: the minimum cut, exact if no beta < 0.

    Edges with beta < 0 are left out of the cut, as the problem with them is hard; what they would say is
    then heeded one node at a time.
    """
    if not len(coupling.beta):
        return (U1 < U0).astype(np.int64)
    z = minimum_cut(U1 - U0, coupling.edges, np.maximum(coupling.beta, 0.0))
    if (coupling.beta < 0.0).any():
        z = descend(z, np.column_stack([U0, U1]), coupling)
    return z


def minimum_cut(d: Floats, edges: NDArray[np.int64], beta: Floats) -> Labels:
    """z in {0, 1}^N at the least sum_v d_v z_v + sum_e beta_e [z_u != z_v], beta >= 0.

    Nodes with d < 0 hang on the source, with d > 0 on the sink; z = 1 is what the source still reaches when
    no more can flow. Capacities are rounded to 2e-9 of the largest.
    """
    n = len(d)
    source, sink = n, n + 1
    largest = max(float(np.abs(d).max(initial=0.0)), float(beta.max(initial=0.0)))
    if largest == 0.0:
        return np.zeros(n, dtype=np.int64)
    v, (a, b) = np.arange(n), edges.T
    rows = np.concatenate([v[d > 0], np.full((d < 0).sum(), source), a, b])
    columns = np.concatenate([np.full((d > 0).sum(), sink), v[d < 0], b, a])
    capacity = np.concatenate([d[d > 0], -d[d < 0], beta, beta]) / largest * _LARGEST_CAPACITY
    C = sp.csr_array((np.rint(capacity).astype(np.int32), (rows, columns)), shape=(n + 2, n + 2))
    residual = sp.csr_array(C - csgraph.maximum_flow(C, source, sink).flow)
    residual.eliminate_zeros()
    z = np.zeros(n + 2, dtype=np.int64)
    z[csgraph.breadth_first_order(residual, source, return_predecessors=False)] = 1
    return z[:n]


def descend(z: Labels, U: Floats, coupling: Coupling) -> Labels:
    """Change one node's label at a time while F falls (iterated conditional modes): a local minimum."""
    z, (n, T) = z.copy(), U.shape
    A = sp.coo_array((np.tile(coupling.beta, 2), np.vstack([coupling.edges, coupling.edges[:, ::-1]]).T),
                     shape=(n, n)).tocsr()  # fmt: skip
    falling = True
    while falling:
        falling = False
        for v in range(n):
            near, beta = A.indices[A.indptr[v] : A.indptr[v + 1]], A.data[A.indptr[v] : A.indptr[v + 1]]
            agree = np.bincount(z[near], weights=beta, minlength=T)  # a label pays for all that differ
            price = U[v] - agree
            c = int(price.argmin())
            if price[c] < price[z[v]] - 1e-12 * (1.0 + abs(price[z[v]])):
                z[v], falling = c, True
    return z
