from __future__ import annotations

import sys

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimators.core.graph import Graph
from estimators.core.partition import Cut, cut_share, extended, ghosts_per_node, partition


def planar(n: int = 400, seed: int = 0) -> Graph:
    places = np.random.default_rng(seed).random((n, 2))
    near = np.argsort(((places[:, None] - places[None]) ** 2).sum(axis=2), axis=1)[:, 1:5]
    W = np.zeros((n, n))
    W[np.repeat(np.arange(n), 4), near.ravel()] = 1.0
    return Graph.of(np.maximum(W, W.T))


@pytest.fixture(params=["metis", "kept fallback"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "metis":
        pytest.importorskip("pymetis")
    else:
        monkeypatch.setitem(sys.modules, "pymetis", None)
    return str(request.param)


@pytest.mark.parametrize("n_parts", [2, 3, 8])
def test_parts_are_of_equal_size_and_few_links_are_cut(way: str, n_parts: int) -> None:
    graph = planar()
    labels = partition(graph, n_parts)
    sizes = np.bincount(labels)
    assert len(sizes) == n_parts
    assert sizes.max() <= 1.1 * sizes.mean()
    by_chance = np.random.default_rng(0).permutation(labels)
    assert cut_share(graph, labels) < 0.25 * cut_share(graph, by_chance)
    assert ghosts_per_node(graph, labels) < 0.3 * ghosts_per_node(graph, by_chance)
    np.testing.assert_array_equal(labels, partition(graph, n_parts))


def test_odd_networks_are_cut_too(way: str) -> None:
    assert np.bincount(partition(Graph.empty(10), 3)).tolist() == [4, 3, 3]
    assert np.unique(partition(Graph.empty(2), 5)).tolist() == [0, 1]
    assert (partition(planar(30), 1) == 0).all()
    star = Graph.of(nx.star_graph(40))
    labels = partition(star, 4)
    assert len(np.unique(labels)) == 4
    assert 0.0 < ghosts_per_node(star, labels) < 1.0


def test_ghosts_per_node_of_hubs_is_large() -> None:
    complete = Graph.of(nx.complete_graph(40))
    assert ghosts_per_node(complete, partition(complete, 4)) == pytest.approx(3.0)
    assert ghosts_per_node(complete, np.zeros(40, np.int32)) == 0.0


@given(seed=st.integers(0, 10**6), n_parts=st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_every_link_is_there_once_and_in_order(seed: int, n_parts: int) -> None:
    rng = np.random.default_rng(seed)
    W = np.triu(rng.random((14, 14)) * (rng.random((14, 14)) < 0.3), 1)
    graph = Graph.of(W + W.T)
    labels = rng.integers(n_parts, size=14).astype(np.int32)
    some = np.flatnonzero(np.isin(labels, labels[: rng.integers(1, 15)])).astype(np.int32)
    cut = Cut.of(graph, labels, some)
    n = len(some)
    assert cut.graph.n_nodes == n
    assert cut.graph.ghosts == len(cut.nodes)
    np.testing.assert_array_equal(cut.labels, labels[some])
    for k, v in enumerate(some.tolist()):
        local = cut.graph.neighbours(k)
        entries = slice(cut.graph.indptr[k], cut.graph.indptr[k + 1])
        whole = np.where(local < n, some[np.minimum(local, n - 1)], 0)
        whole[local >= n] = cut.nodes[local[local >= n] - n]
        np.testing.assert_array_equal(whole, graph.neighbours(v))
        np.testing.assert_array_equal(
            cut.graph.weights[entries], graph.weights[graph.indptr[v] : graph.indptr[v + 1]]
        )
        np.testing.assert_array_equal(local >= n, labels[graph.neighbours(v)] != labels[v])
    for g, u in enumerate(cut.nodes.tolist()):  # rows of ghosts: who reads them
        readers = some[cut.graph.neighbours(n + g)]
        np.testing.assert_array_equal(
            readers, [v for v in some if u in graph.neighbours(v) and labels[u] != labels[v]]
        )
        at = np.flatnonzero(some == u)
        assert cut.source[g] == (at[0] if len(at) else -1)
    touched = [any(labels[u] != labels[v] for u in graph.neighbours(v)) for v in some.tolist()]
    np.testing.assert_array_equal(cut.boundary, np.flatnonzero(touched))
    for part in cut.parts:
        wanted = {u for v in some[part] for u in graph.neighbours(v) if labels[u] != labels[v]}
        assert set(cut.nodes[cut.read_by(part)].tolist()) == {int(u) for u in wanted}
    # Of the whole, so that a coupling and a node's own weight mean the same in all parts.
    assert (cut.graph.mean_degree, cut.graph.mean_weight) == (graph.mean_degree, graph.mean_weight)


def test_a_part_is_held_whole() -> None:
    graph = Graph.of(nx.path_graph(4))
    with pytest.raises(ValueError, match="held: node 1 belongs to a part that is held otherwise"):
        Cut.of(graph, np.array([0, 0, 1, 1]), np.array([0, 2, 3]))


def test_new_nodes_join_their_neighbours_or_the_smallest_part() -> None:
    graph = Graph.of(nx.Graph([(0, 1), (1, 4), (2, 3)]))
    rows = np.array([0, 1, 5, -1, -1], np.intp)  # nodes of the new network in the order 0, 1, 4, 2, 3
    labels = extended(np.array([0, 0, 7, 7, 7, 3], np.int32), rows, graph)
    assert labels.tolist() == [0, 0, 1, 1, 1]
    alone = extended(np.array([0, 0, 1], np.int32), np.array([0, 1, 2, -1], np.intp), Graph.empty(4))
    assert alone.tolist() == [0, 0, 1, 1]
