"""The sensor graph as the solvers see it: checked weights in CSR form, degrees, Laplacian."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import csgraph

from estimators.core.types import Floats, Nodes


@dataclass(frozen=True)
class Graph:
    """The sensor graph: symmetric, non-negative weights without diagonal, in CSR form.

    Isolated nodes have empty rows, wherever they stand; the graph may fall into several parts. Made by
    ``Graph.of``, which checks.

    Parameters
    ----------
    indptr : ndarray of shape (N + 1,), int32
        Where each node's neighbours begin.
    indices : ndarray of shape (2 E,), int32
        Neighbours; each edge stands in both rows.
    weights : ndarray of shape (2 E,), float64
        Their weights.
    degree : ndarray of shape (N,), float64
        d_v = sum_u W_uv.
    ghosts : int
        So many rows follow those of the N nodes, of copies of nodes elsewhere (`estimators.core.partition`).
    means : tuple of 2 float, optional
        Mean degree and mean weight of the whole network that this is cut from, so that a coupling means the
        same in all parts; None: this is the whole.

    Examples
    --------
    >>> import networkx as nx
    >>> from estimators import Graph
    >>> graph = Graph.of(nx.path_graph(4))
    >>> graph.n_nodes, graph.mean_degree
    (4, 1.5)
    >>> graph.neighbours(1)
    array([0, 2], dtype=int32)
    >>> graph.edges()
    array([[0, 1],
           [1, 2],
           [2, 3]])
    """

    indptr: Nodes
    indices: Nodes
    weights: Floats
    degree: Floats
    ghosts: int = 0
    means: tuple[float, float] | None = None

    @property
    def n_nodes(self) -> int:
        """Number of nodes N."""
        return len(self.degree) - self.ghosts

    @property
    def mean_degree(self) -> float:
        """Mean weighted degree; 1.0 for a graph without edges, so that it can divide."""
        if self.means is not None:
            return self.means[0]
        n = self.n_nodes
        mean = float(self.degree[:n].mean()) if n else 0.0
        return mean if mean > 0.0 else 1.0

    @property
    def mean_weight(self) -> float:
        """Mean weight of the nodes' links; 1.0 for a graph without edges."""
        if self.means is not None:
            return self.means[1]
        weights = self.weights[: self.indptr[self.n_nodes]]
        return float(weights.mean()) if len(weights) else 1.0

    def matrix(self) -> sp.csr_array:
        """The weights W.

        Returns
        -------
        scipy.sparse.csr_array of shape (N, N)
        """
        n = self.n_nodes
        return sp.csr_array((self.weights, self.indices, self.indptr), shape=(n, n))

    def laplacian(self) -> sp.csr_array:
        """Combinatorial Laplacian diag(d) - W.

        Returns
        -------
        scipy.sparse.csr_array of shape (N, N)
        """
        return sp.csr_array(sp.diags_array(self.degree) - self.matrix())

    @cached_property
    def spectrum(self) -> tuple[Floats, Floats]:
        """Eigenvalues (N,) and eigenvectors (N, N) of the Laplacian: the graph's Fourier basis. Dense."""
        e, U = np.linalg.eigh(self.laplacian().toarray())
        return np.maximum(e, 0.0), U

    @cached_property
    def parts(self) -> NDArray[np.int32]:
        """Number of the connected part of every node (N,)."""
        labels: NDArray[np.int32] = csgraph.connected_components(self.matrix(), directed=False)[1]
        return labels

    def neighbours(self, v: int) -> NDArray[np.int32]:
        """The nodes linked to one.

        Parameters
        ----------
        v : int
            Number of the node.

        Returns
        -------
        ndarray of int32
        """
        return self.indices[self.indptr[v] : self.indptr[v + 1]]

    def edges(self) -> NDArray[np.int64]:
        """Every edge once, the lower number first.

        Returns
        -------
        ndarray of shape (E, 2), int64
        """
        u = np.repeat(np.arange(self.n_nodes), np.diff(self.indptr))
        once = u < self.indices
        return np.column_stack([u[once], self.indices[once]]).astype(np.int64)

    @classmethod
    def empty(cls, n_nodes: int) -> Graph:
        """Nodes without links: the graph of Pool.

        Parameters
        ----------
        n_nodes : int

        Returns
        -------
        Graph
        """
        return cls.of(sp.csr_array((n_nodes, n_nodes)))

    @classmethod
    def of(cls, W: Any, n_nodes: int | None = None) -> Graph:
        """Check and convert.

        Parameters
        ----------
        W : Graph, networkx graph, scipy sparse matrix or array_like of shape (N, N)
            A networkx graph gives its nodes in its own order, and edge weights from ``weight`` (1 if absent).
        n_nodes : int, optional
            The number of nodes that the data have.

        Returns
        -------
        Graph

        Raises
        ------
        ValueError
            If weights are negative, not finite, not symmetric or on the diagonal, or the graph is directed,
            has parallel edges, no node, or another number of nodes than ``n_nodes``. Names the entry.
        """
        if isinstance(W, Graph):
            graph = W
        else:
            graph = cls._from_csr(_to_csr(W))
        if n_nodes is not None and graph.n_nodes != n_nodes:
            raise ValueError(f"W: {graph.n_nodes} nodes, but the data have {n_nodes}")
        return graph

    @classmethod
    def _from_csr(cls, W: sp.csr_array) -> Graph:
        entries = W.tocoo()

        def refuse(bad: NDArray[np.bool_], why: str) -> None:
            if bad.any():
                k = int(bad.argmax())
                u, v = int(entries.coords[0][k]), int(entries.coords[1][k])
                raise ValueError(f"W[{u}, {v}] is {entries.data[k]}: {why}")

        refuse(~np.isfinite(entries.data), "weights must be finite")
        refuse(entries.data < 0.0, "weights must not be negative")
        refuse(
            (entries.coords[0] == entries.coords[1]) & (entries.data != 0.0), "no node is its own neighbour"
        )
        skew = (W - W.T).tocoo()
        if skew.nnz and np.abs(skew.data).max() > 1e-12 * max(1.0, float(entries.data.max())):
            k = int(np.abs(skew.data).argmax())
            u, v = int(skew.coords[0][k]), int(skew.coords[1][k])
            raise ValueError(
                f"W[{u}, {v}] is {W[u, v]} but W[{v}, {u}] is {W[v, u]}: weights must be symmetric"
            )
        W = sp.csr_array((W + W.T) / 2.0)  # exact symmetry: what is left of rounding goes
        W.eliminate_zeros()
        W.sort_indices()
        return cls(W.indptr.astype(np.int32), W.indices.astype(np.int32),
                   np.ascontiguousarray(W.data, dtype=np.float64),
                   np.asarray(W.sum(axis=1), dtype=np.float64).ravel())  # fmt: skip


def _to_csr(W: Any) -> sp.csr_array:
    if hasattr(W, "is_directed"):
        import networkx as nx  # 10 MB, loaded only for those who give such a graph

        if W.is_directed():
            raise ValueError("W: the graph is directed; links between sensors have no direction")
        if W.is_multigraph():
            raise ValueError("W: the graph has parallel edges; give one weight per pair of nodes")
        if len(W) == 0:
            raise ValueError("W: the graph has no node")
        return sp.csr_array(nx.to_scipy_sparse_array(W, weight="weight", dtype=np.dtype(np.float64)))
    if sp.issparse(W):
        matrix = sp.csr_array(W, dtype=np.float64)
        matrix.sum_duplicates()
    else:
        dense = np.asarray(W, dtype=np.float64)
        if dense.ndim != 2:
            raise ValueError(f"W: expected a square matrix, got shape {dense.shape}")
        matrix = sp.csr_array(dense)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"W: expected a square matrix, got shape {matrix.shape}")
    if matrix.shape[0] == 0:
        raise ValueError("W: the graph has no node")
    return matrix
