"""Episodes of exceedances, and the law of their peaks."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import genpareto, norm

from estimators.core.graph import Graph
from estimators.timeseries.extremes import Tail, episodes

W = nx.to_numpy_array(nx.path_graph(6))
W[2, 3] = W[3, 2] = 0.0  # two chains of three
GRAPH = Graph.of(W)


def naive(marks, gap):
    """Peaks of the connected sets of exceedances, linked if near in time and in the graph."""
    graph = nx.empty_graph(len(marks))
    for i, (t, v, _) in enumerate(marks):
        for j, (s, u, _) in enumerate(marks[:i]):
            if t - s <= gap and (u == v or W[u, v]):
                graph.add_edge(i, j)
    return sorted(max(marks[i][2] for i in group) for group in nx.connected_components(graph))


@given(
    st.dictionaries(st.tuples(st.integers(0, 30), st.integers(0, 5)), st.floats(0.0, 9.0), max_size=40),
    st.integers(0, 5),
)
def test_episodes_are_connected_sets(marks, gap):
    """Exceedances of one node or of linked nodes at most ``gap`` ticks apart are one episode."""
    rows = [(t, v, x) for (t, v), x in sorted(marks.items())]
    ticks, nodes, values = (np.array([row[k] for row in rows]) for k in range(3))
    found = episodes(ticks.astype(np.int64), nodes.astype(np.int32), values.astype(float), GRAPH, gap)

    assert sorted(found.tolist()) == naive(rows, gap)


def heights(shape, scale, size):
    """Peaks above 3 whose half squares are generalised Pareto."""
    return np.sqrt(9.0 + 2.0 * genpareto.rvs(shape, scale=scale, size=size, random_state=1))


@pytest.mark.parametrize("shape", [0.0, 0.08, 0.15])
def test_fit_recovers_a_known_tail(shape):
    """Rate, scale and far thresholds of generalised Pareto half squares are found again."""
    tail = Tail.fit(heights(shape, 1.3, 4000), 3.0, 1_000_000)

    assert tail.n == 4000
    assert tail.rate == pytest.approx(0.004)
    assert tail.shape == pytest.approx(shape, abs=0.05)
    assert tail.scale == pytest.approx(1.3, rel=0.07)
    wanted = np.sqrt(9.0 + 2.0 * genpareto.isf(1e-5 / 0.004, shape, scale=1.3))
    assert tail.threshold(1e-5) == pytest.approx(wanted, rel=0.05)


def test_a_normal_tail_is_extrapolated_rightly():
    """From heights that a normal law passes once in 700 to those it passes once in 10 million."""
    draws = norm.isf(np.random.default_rng(2).random(2000) * norm.sf(3.0))
    tail = Tail.fit(draws, 3.0, round(2000 / norm.sf(3.0)))

    assert tail.threshold(1e-7) == pytest.approx(norm.isf(1e-7), rel=0.04)


@given(st.floats(0.0, 0.3), st.floats(0.2, 3.0), st.floats(1e-9, 1e-3))
def test_threshold_is_the_inverse_of_exceeded(shape, scale, rate):
    """The threshold for a rate is exceeded at that rate."""
    tail = Tail(3.0, 1e-3, shape, scale, 100)

    assert tail.exceeded(tail.threshold(rate)) == pytest.approx(rate, rel=1e-6)


def test_more_than_was_seen_is_not_promised():
    """A rate above that of the base gives the base: nothing is known below it."""
    assert Tail(3.0, 1e-3, 0.0, 0.4, 100).threshold(0.5) == 3.0


@pytest.mark.parametrize("n", [0, 1, 9])
def test_few_peaks_give_a_careful_tail(n):
    """With few peaks, however low, the tail is wider than a normal one."""
    tail = Tail.fit(np.full(n, 3.01), 3.0, 10_000)

    assert tail.n == n
    assert tail.scale > 0.8
    assert tail.shape > 0.0
    assert tail.threshold(1e-6) > np.sqrt(9.0 - 2.0 * np.log(1e-6 / tail.rate))


@pytest.mark.parametrize(("n_ticks", "n"), [(300, 8), (1000, 30), (20_000, 300)])
def test_thresholds_of_short_histories_keep_the_rate_on_average(n_ticks, n):
    """Over many histories of a normal tail the true rate at the threshold is at most what was asked for."""
    rng, wanted = np.random.default_rng(7), 1.0 / n_ticks / 5.0
    true = []
    for _ in range(400):
        seen = rng.poisson(n)
        peaks = np.sqrt(9.0 + 2.0 * rng.exponential(1.0, seen))
        threshold = Tail.fit(peaks, 3.0, n_ticks).threshold(wanted)
        true.append(n / n_ticks * np.exp(-(threshold**2 - 9.0) / 2.0))
    assert np.mean(true) < 1.1 * wanted
    assert np.mean(true) > 0.02 * wanted  # careful, not deaf


@pytest.mark.parametrize("n_ticks", [275, 1000])
def test_the_highest_of_a_short_history_is_below_a_rarer_threshold(n_ticks):
    """What came once in so many ticks is no threshold for a rate a few times lower."""
    peaks = np.array([4.1, 15.0])

    assert Tail.fit(peaks, 4.0, n_ticks).threshold(0.25 / n_ticks) > 15.0


def test_heights_go_on_below_the_base():
    """Common rates have lower heights, down to a share of the base; thresholds do not go below it."""
    tail = Tail(3.0, 1e-3, 0.1, 1.0, 100)
    heights = [tail.height(rate) for rate in (1e-4, 1e-3, 1e-2, 1e-1, 1.0)]

    assert heights == sorted(heights, reverse=True)
    assert heights[1] == pytest.approx(3.0)
    assert heights[2] == pytest.approx(np.sqrt(9.0 - 2.0 * np.log(10.0)))
    assert heights[-1] == 1.5
    assert tail.threshold(1e-2) == 3.0


def test_equal_peaks_are_finite():
    """Peaks that are all alike give finite thresholds."""
    tail = Tail.fit(np.full(30, 4.0), 3.0, 10_000)

    assert np.isfinite(tail.threshold(1e-5))
    assert tail.threshold(1e-5) > 3.0


def test_peaks_below_the_base_do_not_count():
    """Only what passes the base is part of the tail."""
    peaks = np.concatenate([np.full(50, 2.0), 3.0 + np.linspace(0.1, 1.0, 20)])
    assert Tail.fit(peaks, 3.0, 1000).n == 20
