"""Communities: every node in one, linked ones together, bounded in size, the same each time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from detector.network.communities import FOLDED, communities, folded
from detector.network.network import Network


def grid(side: int) -> Network:
    names = [f"{i}-{j}" for i in range(side) for j in range(side)]
    right = [(f"{i}-{j}", f"{i}-{j + 1}") for i in range(side) for j in range(side - 1)]
    down = [(f"{i}-{j}", f"{i + 1}-{j}") for i in range(side - 1) for j in range(side)]
    return Network.from_edges(right + down, names)


@pytest.mark.parametrize("side", [18, 32, 60])
def test_connected_and_about_equal(side: int) -> None:
    graph = grid(side).graph
    group = communities(graph)
    n = side * side
    count = group.max() + 1
    assert sorted(set(group.tolist())) == list(range(count))
    assert 1.0 * np.sqrt(n) <= count <= 2.5 * np.sqrt(n)
    sizes = np.bincount(group)
    assert sizes.max() <= 3.0 * n / (2.0 * np.sqrt(n)) + 1
    W = graph.matrix()
    for one in range(count):
        inside = np.flatnonzero(group == one)
        assert connected_components(W[inside][:, inside], directed=False)[0] == 1
    np.testing.assert_array_equal(group, communities(graph))
    small = folded(graph, group)
    assert small.n_nodes == count
    across = sum(group[u] != group[v] for u, v in zip(*np.nonzero(np.triu(W.toarray())), strict=True))
    assert small.matrix().sum() / 2 == pytest.approx(across)


def test_small_networks_are_not_folded() -> None:
    graph = grid(5).graph
    np.testing.assert_array_equal(communities(graph), np.arange(25))


def test_nodes_without_links() -> None:
    group = communities(Network.empty([f"n{v}" for v in range(FOLDED + 100)]).graph)
    assert group.max() + 1 <= 60
    assert np.bincount(group).max() <= 60


def test_a_hub_does_not_swallow_all() -> None:
    names = ["hub", *(f"n{v}" for v in range(999))]
    group = communities(Network.from_edges([("hub", name) for name in names[1:]], names).graph)
    assert np.bincount(group).max() <= 50
