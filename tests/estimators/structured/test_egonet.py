"""Descriptors of ego-networks, against sets of nodes written out."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimators import Graph
from estimators.structured import egonet
from estimators.structured.egonet import edge_features, ego_features, within


def twin(signal, graph, v):
    """The descriptor of one node from the distances of all others."""
    hops = nx.single_source_shortest_path_length(graph, v)
    rings = [[signal[u] for u in graph if hops.get(u) == h] for h in (1, 2)]
    near = rings[0] or [signal[v]]
    far = np.mean(rings[1], axis=0) if rings[1] else np.zeros_like(signal[v])
    return [*signal[v], *np.mean(near, axis=0), *np.max(near, axis=0), *far, np.log1p(graph.degree(v))]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.0, 0.6))
def test_rings_are_sets_of_nodes(seed, p):
    """Any graph, with isolated nodes and triangles: the rings are the nodes at one and two hops."""
    graph = nx.gnp_random_graph(12, p, seed=seed)
    signal = np.random.default_rng(seed).normal(size=(12, 2))
    found = ego_features(signal, Graph.of(graph))

    assert found.shape == (12, 9)
    np.testing.assert_allclose(found, [twin(signal, graph, v) for v in range(12)], atol=1e-12)


def test_rows_radius_and_little_memory(monkeypatch):
    """Some rows are rows of all; less radius is fewer columns; next to a hub ring two comes in pieces."""
    hub = Graph.of(nx.star_graph(50))
    signal = np.random.default_rng(1).normal(size=(51, 1))
    full = ego_features(signal, hub)
    rows = np.array([40, 0, 7])

    np.testing.assert_array_equal(ego_features(signal, hub, rows=rows), full[rows])
    np.testing.assert_array_equal(ego_features(signal, hub, 1), full[:, [0, 1, 2, 4]])
    np.testing.assert_array_equal(ego_features(signal, hub, 0), signal)
    monkeypatch.setattr(egonet, "_PATHS", 100)
    np.testing.assert_allclose(ego_features(signal, hub), full, atol=1e-14)


def test_weights_of_links_do_not_count():
    """A neighbour is a neighbour, whatever the weight of the link."""
    graph = nx.path_graph(5)
    signal = np.arange(5.0)
    plain = ego_features(signal, Graph.of(graph))
    nx.set_edge_attributes(graph, 0.3, "weight")

    np.testing.assert_array_equal(ego_features(signal, Graph.of(graph)), plain)


def test_within_hops():
    graph = nx.gnp_random_graph(30, 0.06, seed=4)
    hops = dict(nx.all_pairs_shortest_path_length(graph, cutoff=2))
    expected = [v in hops[3] or v in hops[17] for v in range(30)]

    assert 4 < sum(expected) < 30
    np.testing.assert_array_equal(within(Graph.of(graph), np.array([3, 17]), 2), expected)


def test_an_edge_has_no_direction():
    x = np.random.default_rng(2).normal(size=(4, 3))
    edges = np.array([[0, 1], [2, 3]])

    np.testing.assert_array_equal(edge_features(x, edges), edge_features(x, edges[:, ::-1]))


def test_bad_input_is_named():
    graph = Graph.of(nx.path_graph(3))
    with pytest.raises(ValueError, match="signal: 2 rows, but the graph has 3"):
        ego_features([[1.0], [2.0]], graph)
    with pytest.raises(ValueError, match="radius: must be 0, 1 or 2, got 3"):
        ego_features(np.zeros((3, 1)), graph, 3)
