"""Places of large networks: neighbours close, nobody on top of another, parts apart."""

from __future__ import annotations

import networkx as nx
import numpy as np
from scipy.spatial import cKDTree

from detector.network.communities import communities, folded
from detector.network.layout import large_layout, spaced
from estimators.core.graph import Graph


def graph_of(links: nx.Graph) -> Graph:  # type: ignore[type-arg]
    return Graph.of(nx.to_scipy_sparse_array(links, weight=None, dtype=float))


def test_a_grid_looks_like_a_grid() -> None:
    graph = graph_of(nx.grid_2d_graph(30, 25))
    places = large_layout(graph)
    W = graph.matrix().tocoo()
    lengths = np.linalg.norm(places[W.coords[0]] - places[W.coords[1]], axis=1)
    assert np.median(lengths) < 0.06 * np.ptp(places, axis=0).max()
    nearest = cKDTree(places).query(places, k=2)[0][:, 1]
    assert nearest.min() > 0.3 * np.median(nearest)


def test_parts_and_lonely_nodes_do_not_overlap() -> None:
    links = nx.disjoint_union_all(
        [nx.path_graph(2), nx.cycle_graph(40), nx.empty_graph(7), nx.star_graph(30)]
    )
    graph = graph_of(links)
    places = large_layout(graph)
    assert len(np.unique(places.round(6), axis=0)) == graph.n_nodes
    boxes = [places[graph.parts == part] for part in np.unique(graph.parts)]
    big = [box for box in boxes if len(box) > 1]
    for i, one in enumerate(big):
        for other in big[i + 1 :]:
            apart = (one.max(axis=0) < other.min(axis=0)) | (other.max(axis=0) < one.min(axis=0))
            assert apart.any()
    np.testing.assert_array_equal(places, large_layout(graph))


def test_groups_of_a_very_large_network_keep_their_places_and_their_distance() -> None:
    """A hundred times a hundred: the groups on paper are where their nodes are, and none covers another."""
    graph = graph_of(nx.grid_2d_graph(100, 100))
    group = communities(graph)
    real = np.stack(np.divmod(np.arange(10_000), 100), axis=1).astype(float)
    count = np.bincount(group)
    middle = np.stack([np.bincount(group, real[:, axis]) / count for axis in (0, 1)], axis=1)
    placed = spaced(middle, folded(graph, group))
    nearest = cKDTree(placed).query(placed, k=2)[0][:, 1]
    assert np.quantile(nearest, 0.05) > 0.4
    for axis in (0, 1):
        assert abs(np.corrcoef(middle[:, axis], placed[:, axis])[0, 1]) > 0.97
