"""Changes put into quiet data, and the sets of nodes they strike."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kurtosis

from detector.engines.density_ratio.injection import Change, community, kinds, neighbourhood
from estimators.core.graph import Graph


@pytest.fixture
def pair():
    """Normal values with correlation .8, and the same at another time."""
    rng = np.random.default_rng(0)
    mix = np.array([[1.0, 0.0], [0.8, 0.6]])
    return rng.normal(size=(20_000, 2)) @ mix.T, rng.normal(size=(20_000, 2)) @ mix.T


def test_mean_and_spread(pair):
    """A change of mean moves by so many sd; one of spread multiplies."""
    z, other = pair
    np.testing.assert_array_equal(Change("mean", 0.7).apply(z, other), z + 0.7)
    np.testing.assert_array_equal(Change("spread", 2.0).apply(z, other), 2.0 * z)


def test_correlation_is_lost_and_nothing_else(pair):
    """Components from different times keep their own distribution and lose what they had in common."""
    z, other = pair
    changed = Change("correlation").apply(z, other)

    assert abs(np.corrcoef(changed.T)[0, 1]) < 0.05
    assert changed.std(axis=0) == pytest.approx([1.0, 1.0], abs=0.03)


def test_shape_keeps_mean_and_spread(pair):
    """Normal values become uniform ones of the same mean and spread."""
    changed = Change("shape").apply(*pair)

    assert changed.mean(axis=0) == pytest.approx([0.0, 0.0], abs=0.03)
    assert changed.std(axis=0) == pytest.approx([1.0, 1.0], abs=0.03)
    assert kurtosis(changed, axis=0) == pytest.approx([-1.2, -1.2], abs=0.05)


@pytest.mark.parametrize(
    "change", [Change("mean", 1.0), Change("spread", 2.0), Change("correlation"), Change("shape")]
)
def test_inputs_are_not_written(change, pair):
    """A change leaves the history as it was, and has a name for people."""
    z, other = pair
    before = z.copy(), other.copy()
    change.apply(z, other)

    np.testing.assert_array_equal(z, before[0])
    np.testing.assert_array_equal(other, before[1])
    assert str(change)


def test_one_component_has_no_correlation():
    """Correlation is among the changes to choose by only where there are components to correlate."""
    assert "correlation" not in {change.kind for change in kinds(1)}
    assert "correlation" in {change.kind for change in kinds(2)}


@given(st.integers(2, 30), st.integers(0, 100), st.integers(1, 12))
def test_neighbourhoods_are_connected(n, seed, size):
    """A neighbourhood holds its centre, is connected and sorted, and as large as there are nodes."""
    graph = nx.gnp_random_graph(n, 0.2, seed=seed)
    centre = seed % n
    found = neighbourhood(Graph.of(graph), centre, size).tolist()

    assert centre in found
    assert found == sorted(set(found))
    assert nx.is_connected(graph.subgraph(found))
    assert len(found) == min(size, len(nx.node_connected_component(graph, centre)))
    assert found == neighbourhood(Graph.of(graph), centre, size).tolist()


def test_community_is_cut_where_links_are_few():
    """Two dense groups joined by one link: the community of a node is its own group."""
    graph = nx.disjoint_union(nx.complete_graph(8), nx.complete_graph(8))
    graph.add_edge(7, 8)

    assert community(Graph.of(graph), 2, 6).tolist() == list(range(8))
    assert community(Graph.of(graph), 12, 6).tolist() == list(range(8, 16))
