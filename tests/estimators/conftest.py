"""Small networks shared by the tests of the estimators."""

from __future__ import annotations

from typing import NamedTuple

import networkx as nx
import numpy as np
import pytest


class Network(NamedTuple):
    ref: list[np.ndarray]
    test: list[np.ndarray]
    W: np.ndarray


@pytest.fixture
def network() -> Network:
    """Eight nodes: a weighted ring of seven with a chord, the last isolated; nodes 0 to 2 shifted by one."""
    rng = np.random.default_rng(5)
    graph = nx.cycle_graph(7)
    graph.add_edge(0, 3)
    graph.add_node(7)
    W = nx.to_numpy_array(graph) * 0.5
    ref = [rng.normal(size=(30 + v, 2)) for v in range(8)]
    test = [rng.normal(size=(25 - v, 2)) + (1.0 if v < 3 else 0.0) for v in range(8)]
    return Network(ref, test, W)
