"""From scores to the two numbers per node: walks, standardising, and what neighbours may and may not do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from estimators.core.graph import Graph
from estimators.streaming.graph_statistics import (
    BACKED,
    CLIP_EVENT,
    CLIP_NODE,
    LEAK,
    NEAR,
    OWN,
    SURE,
    WIDE,
    GraphStatistics,
    NullMoments,
)

N, S = 40, 3
W = np.zeros((N, N))
for v in range(N - 1):  # a chain with shortcuts; the last node is isolated
    for u in (v + 1, v + 2):
        if u < N - 1:
            W[v, u] = W[u, v] = 1.0 + 0.5 * (v % 3)
GRAPH = Graph.of(W)


def quiet(n=N):
    """Means 0, spreads 1, hardly any skew: levels are then the plain values."""
    ones = np.ones((5, n, S))
    return NullMoments(np.zeros((n, S)), np.ones((n, S)), 0 * ones, ones, np.full((5, S), 0.05))


def data(seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    scores, exposure = 2.0 * rng.normal(size=(N, S)), rng.gamma(2.0, size=(N, S))
    holes = rng.random((N, S)) < missing
    scores[holes] = exposure[holes] = np.nan
    return scores, exposure


def step_matrix(weight):
    M = W + weight * np.eye(N)
    return M / M.sum(1, keepdims=True)


def test_walks_are_powers_of_a_matrix():
    """Near is one step of the walk over clipped values, wide three, backed one from the discounted values."""
    levels, (scores, exposure) = GraphStatistics(GRAPH, S), data()
    levels.update(scores, exposure, quiet())
    M = step_matrix(levels.self_weight)
    sure = scores / np.sqrt(1.0 + LEAK * exposure)

    np.testing.assert_allclose(levels.values[OWN], scores)
    np.testing.assert_allclose(levels.values[SURE], sure)
    np.testing.assert_allclose(levels.values[NEAR], M @ np.minimum(scores, CLIP_EVENT))
    np.testing.assert_allclose(levels.values[WIDE], M @ M @ M @ np.minimum(scores, CLIP_EVENT))
    np.testing.assert_allclose(levels.values[BACKED], M @ np.minimum(sure, CLIP_NODE))


def test_no_verdict_is_left_out():
    """Neighbours without a verdict do not count in the mean; a node without one gets none."""
    levels, (scores, exposure) = GraphStatistics(GRAPH, S), data(missing=0.2)
    levels.update(scores, exposure, quiet())
    seen = np.isfinite(scores)
    M = W + levels.self_weight * np.eye(N)
    total = M @ np.where(seen, np.minimum(scores, CLIP_EVENT), 0.0)
    expected = np.where(seen, total / (M @ seen), np.nan)

    np.testing.assert_allclose(levels.values[NEAR], expected)
    nothing = ~seen.any(axis=1)
    assert (np.isnan(levels.event) == nothing).all()
    assert (np.isnan(levels.node) == nothing).all()


@given(
    st.lists(st.sets(st.integers(0, N - 1), min_size=1, max_size=6), min_size=1, max_size=6),
    st.integers(0, 5),
)
@settings(max_examples=40, deadline=None)
def test_update_where_scores_moved_is_a_full_update(moves, seed):
    """Updating the rows that moved gives the bits of updating everything."""
    rng = np.random.default_rng(seed)
    part, whole = GraphStatistics(GRAPH, S), GraphStatistics(GRAPH, S)
    scores, exposure = data(seed, missing=0.1)
    part.update(scores, exposure, quiet())
    for rows in moves:
        at = np.array(sorted(rows), np.int32)
        scores[at] = np.where(rng.random((len(at), S)) < 0.2, np.nan, 3.0 * rng.normal(size=(len(at), S)))
        part.update(scores, exposure, quiet(), at)
    whole.update(scores, exposure, quiet())

    for name in ("values", "level", "node", "event"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name), err_msg=name)


def test_skewed_scores_become_nearly_normal():
    """Gamma values standardised with their skewness have a normal tail, as far as one in 10,000."""
    rng = np.random.default_rng(0)
    n, shape = 200_000, 2.5
    levels = GraphStatistics(Graph.empty(n), 1)
    x = rng.gamma(shape, size=(n, 1))
    ones = np.ones((5, n, 1))
    skew = np.full((5, 1), 2.0 / np.sqrt(shape))
    spread = np.sqrt(shape)
    levels.update(
        x, 0 * x, NullMoments(shape * np.ones((n, 1)), spread * np.ones((n, 1)), 0 * ones, ones, skew)
    )

    for p in (0.5, 0.9, 0.99, 0.999, 0.9999):
        assert np.quantile(levels.level[SURE], p) == pytest.approx(norm.ppf(p), abs=0.2), p


def test_largest_over_scales():
    """The level of a node is the largest of its scales that have a verdict."""
    levels = GraphStatistics(Graph.empty(2), S)
    scores = np.array([[1.0, 5.0, 2.0], [np.nan, -1.0, 0.5]])
    levels.update(scores, 0 * scores, quiet(2))

    assert levels.level[OWN] == pytest.approx([5.0, 0.5], abs=0.25)
    assert levels.level[OWN, 0] > levels.level[OWN, 1]


@given(st.integers(0, 1000), st.floats(1.0, 4.0))
@settings(max_examples=40, deadline=None)
def test_neighbours_cannot_replace_own_data(seed, gain):
    """The node statistic never exceeds gain times what the node's own data support."""
    levels, (scores, exposure) = GraphStatistics(GRAPH, S, gain), data(seed, missing=0.1)
    levels.update(4.0 * scores, exposure, quiet())
    sure, seen = levels.level[SURE], np.isfinite(levels.node)

    assert (levels.node[seen] >= sure[seen]).all()
    assert (levels.node[seen] <= np.maximum(sure, gain * sure)[seen] + 1e-12).all()


def test_quiet_node_among_changed_ones_stays_out():
    """Neighbours far over any threshold lift the event statistic of a quiet node, not its node statistic."""
    levels = GraphStatistics(GRAPH, S)
    scores = np.full((N, S), 30.0)
    scores[10] = 0.0
    levels.update(scores, np.zeros((N, S)), quiet())

    assert levels.event[10] > 2.5
    assert levels.node[10] < 0.3
    assert levels.node[9] > 3.0


def test_leaked_score_is_discounted():
    """A score that neighbours alone could give (large exposure) counts for little in the node statistic."""
    levels = GraphStatistics(GRAPH, S)
    scores, exposure = np.zeros((2, N, S))
    scores[[10, 30]], exposure[10] = 6.0, 200.0
    levels.update(scores, exposure, quiet())

    assert levels.level[OWN, 10] == levels.level[OWN, 30]
    assert levels.node[10] < 1.0 < 3.0 < levels.node[30]


def test_isolated_node_stands_for_itself():
    """Without neighbours every level is the node's own, clipped where walks clip."""
    levels = GraphStatistics(GRAPH, S)
    scores = np.zeros((N, S))
    scores[-1] = 2.0
    levels.update(scores, np.zeros((N, S)), quiet())

    assert levels.values[:, -1] == pytest.approx(2.0)
    assert levels.event[-2] == pytest.approx(levels.event[0], abs=1e-12)


def test_unit_of_the_weights_does_not_matter():
    """A graph with all weights times ten gives the same levels."""
    one, ten, (scores, exposure) = GraphStatistics(GRAPH, S), GraphStatistics(Graph.of(10.0 * W), S), data()
    one.update(scores, exposure, quiet())
    ten.update(scores, exposure, quiet())

    np.testing.assert_allclose(ten.event, one.event, rtol=1e-12)
    np.testing.assert_allclose(ten.node, one.node, rtol=1e-12)
