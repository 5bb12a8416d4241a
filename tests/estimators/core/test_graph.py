"""Graphs: every accepted form gives the same weights, every bad entry is named."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from estimators.core.graph import Graph

W = np.array([[0, 0, 0, 0, 0], [0, 0, 2, 0, 0], [0, 2, 0, 0.5, 0], [0, 0, 0.5, 0, 0], [0, 0, 0, 0, 0]], float)


@pytest.mark.parametrize(
    "form", [W, W.tolist(), sp.csr_array(W), sp.coo_matrix(W), nx.from_numpy_array(W), Graph.of(W)]
)
def test_forms(form):
    """Dense, sparse, networkx and Graph give the same weights, first and last isolated nodes included."""
    graph = Graph.of(form, 5)

    np.testing.assert_array_equal(graph.matrix().toarray(), W)
    np.testing.assert_array_equal(graph.degree, W.sum(1))
    np.testing.assert_array_equal(graph.laplacian().toarray(), np.diag(W.sum(1)) - W)
    np.testing.assert_array_equal(graph.indptr, [0, 0, 1, 3, 4, 4])
    np.testing.assert_array_equal(graph.neighbours(2), [1, 3])
    assert len(graph.neighbours(0)) == len(graph.neighbours(4)) == 0
    assert graph.mean_degree == 1.0


def test_spectrum():
    """The Fourier basis diagonalises the Laplacian, with one zero per connected part."""
    graph = Graph.of(W)
    e, U = graph.spectrum

    np.testing.assert_allclose(U @ np.diag(e) @ U.T, graph.laplacian().toarray(), atol=1e-12)
    assert (e < 1e-12).sum() == 3 == len(set(graph.parts))


def entry(i, j, value, mirror=None):
    M = W.copy()
    M[i, j] = value
    if mirror is not None:
        M[j, i] = mirror
    return M


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (entry(0, 3, np.nan, np.nan), r"W\[0, 3\] is nan: weights must be finite"),
        (entry(1, 4, np.inf, np.inf), r"W\[1, 4\] is inf: weights must be finite"),
        (entry(0, 1, -1.0, -1.0), r"W\[0, 1\] is -1.0: weights must not be negative"),
        (entry(3, 3, 1.0), r"W\[3, 3\] is 1.0: no node is its own neighbour"),
        (entry(0, 4, 3.0), r"W\[0, 4\] is 3.0 but W\[4, 0\] is 0.0: weights must be symmetric"),
        (W[:4], r"W: expected a square matrix, got shape \(4, 5\)"),
        (np.zeros((0, 0)), "W: the graph has no node"),
    ],
)
def test_refused(matrix, message, convert):
    """A bad weight is refused by an error that names its place and value."""
    with pytest.raises(ValueError, match=message):
        Graph.of(convert(matrix))


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.DiGraph([(0, 1)]), "directed"),
        (nx.MultiGraph([(0, 1), (0, 1)]), "parallel edges"),
        (nx.Graph(), "no node"),
        (np.zeros(3), r"expected a square matrix, got shape \(3,\)"),
    ],
)
def test_refused_graphs(graph, message):
    """Directed, parallel and empty networkx graphs and vectors are refused."""
    with pytest.raises(ValueError, match=message):
        Graph.of(graph)


def test_size():
    """A graph of another size than the data is refused with both sizes."""
    with pytest.raises(ValueError, match="W: 5 nodes, but the data have 4"):
        Graph.of(W, 4)


def test_edges():
    """Every edge stands once, the lower number first; isolated nodes have none."""
    graph = nx.gnp_random_graph(20, 0.1, seed=3)
    found = Graph.of(graph).edges()

    assert sorted(map(tuple, found.tolist())) == sorted(tuple(sorted(edge)) for edge in graph.edges)
    assert Graph.empty(4).edges().shape == (0, 2)
