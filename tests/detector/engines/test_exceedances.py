"""What a quiet run leaves: a level near the threshold."""

from __future__ import annotations

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest

from detector.engines.exceedances import Exceedances
from estimators.core.graph import Graph

N, GAP, BUDGET = 12, 25, 1e-3
GRAPH = Graph.of(nx.to_numpy_array(nx.cycle_graph(N)))


def found(S: np.ndarray) -> Exceedances:
    engine = SimpleNamespace(event=S[0], node=S[0])
    made = Exceedances(engine, len(S))  # type: ignore[arg-type]
    for t, row in enumerate(S):
        engine.event = engine.node = row
        made.look(t)
    return made


@pytest.mark.parametrize("stretches", [0, 6])
def test_a_level_near_the_threshold_is_near_it(stretches: int) -> None:
    """Also where a tenth of the history is restless, so that the threshold is high above what is common."""
    rng = np.random.default_rng(1)
    S = np.abs(rng.normal(size=(3000, N)))
    for k in range(stretches):
        S[300 + 450 * k : 355 + 450 * k, :4] += 6.0
    run = found(S)
    tail = run.tail(GRAPH, GAP)
    level, rate = run.near(BUDGET, tail, GRAPH, GAP)
    threshold = tail.threshold(BUDGET)
    assert Exceedances.CLOSE * threshold <= level <= 1.2 * threshold
    peaks = run.peaks(level, GRAPH, GAP)
    assert rate == pytest.approx(max(len(peaks), 1) / len(S))
