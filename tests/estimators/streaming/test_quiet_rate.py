"""A threshold that follows how often quiet data come near it."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimators.core.graph import Graph
from estimators.streaming.quiet_rate import MEMORY, PRIOR, RANGE, QuietRate

N = 5
PATH = Graph.of(nx.to_numpy_array(nx.path_graph(N)))
LIVE = np.ones(N, bool)
QUIET = np.zeros(N)


def hot(*nodes: int) -> np.ndarray:
    S = np.zeros(N)
    S[list(nodes)] = 9.0
    return S


def level(ratio: float) -> float:
    """Of exponential heights: passed once in 100 ticks, over the ratio."""
    return float(np.log(100.0 * ratio))


@pytest.mark.parametrize("restless", [0.5, 1.0, 3.0])
def test_the_rate_above_the_level_converges_to_what_was_learnt(restless):
    """Data that come ``restless`` times as often as learnt: the level rises or falls until they do not."""
    rng = np.random.default_rng(3)
    quiet = QuietRate(Graph.empty(1), gap=0)
    heights = rng.exponential(size=30_000) + np.log(restless)
    over = []
    for height in heights:
        over.append(height > level(quiet.ratio))
        quiet.follow(np.array([height]), np.ones(1, bool), level(quiet.ratio), 0.01)

    assert quiet.ratio == pytest.approx(restless, rel=0.5)
    assert np.mean(over[10_000:]) == pytest.approx(0.01, rel=0.2)


def test_linked_nodes_and_near_ticks_are_one_episode():
    quiet = QuietRate(PATH, gap=3)
    for S in (hot(0, 1), QUIET, hot(1), hot(2), QUIET, QUIET, QUIET, hot(3)):
        quiet.follow(S, LIVE, 5.0, 0.0)
    assert quiet.episodes == 2  # 3 is linked with 2, but four ticks later
    quiet.follow(hot(0), LIVE, 5.0, 0.0)
    assert quiet.episodes == 3


def test_nodes_that_are_not_live_neither_count_nor_are_expected():
    quiet = QuietRate(PATH, gap=3)
    quiet.follow(hot(0), ~LIVE, 5.0, 0.5)
    assert (quiet.ratio, quiet.episodes, quiet.ticks) == (1.0, 0, 0.0)
    some = np.array([True, True, False, False, False])
    quiet.follow(np.full(N, np.nan), some, 5.0, 0.5)
    quiet.follow(QUIET, some, 5.0, 0.5)
    assert quiet.ticks == pytest.approx(0.4)


def test_an_event_does_not_make_deaf():
    """However high it is and however often it comes: what opened an incident is taken back."""
    quiet = QuietRate(PATH, gap=3)
    for _ in range(50):
        quiet.follow(1e6 * hot(2), LIVE, 5.0, 0.0)
        quiet.take_back([1, 2, 3])
        quiet.opened(1, 2.0)
        for _ in range(5):
            quiet.follow(QUIET, LIVE, 5.0, 0.0)
    assert quiet.ratio == 1.0
    assert quiet.episodes == 0


def test_incidents_bring_a_low_ratio_back_to_one():
    quiet = QuietRate(PATH, gap=3)
    for _ in range(2000):
        quiet.follow(QUIET, LIVE, 5.0, 0.02)
    low = quiet.ratio
    assert low < 0.5
    for _ in range(200):
        quiet.opened(1, 2.0)
    assert quiet.ratio == 1.0


def test_an_incident_far_rarer_than_its_episodes():
    """A budget that nothing should pass makes one incident worth more episodes than exp can take."""
    quiet = QuietRate(PATH, gap=3)
    for _ in range(200):
        quiet.follow(QUIET, LIVE, 5.0, 0.02)
    quiet.opened(1, 1e9)
    assert quiet.ratio == 1.0


def test_one_episode_moves_it_little():
    """By 1/PRIOR at first, by 1/MEMORY later."""
    quiet = QuietRate(PATH, gap=3)
    quiet.follow(hot(0), LIVE, 5.0, 0.0)
    assert np.log(quiet.ratio) == pytest.approx(1.0 / PRIOR)
    quiet.expected, before = 1000.0, quiet.ratio
    quiet.count(1)
    assert np.log(quiet.ratio / before) == pytest.approx(1.0 / MEMORY)


@given(st.lists(st.tuples(st.integers(0, N - 1), st.booleans()), max_size=80), st.integers(0, 80))
def test_a_restart_changes_no_bit(ticks, at):
    """State at any tick; the ratio stays within its range."""
    one = QuietRate(PATH, gap=2)
    for k, (v, live) in enumerate(ticks):
        if k == at:
            other = QuietRate(PATH, gap=2)
            arrays, meta = one.state()
            other.restore(arrays, meta, np.arange(N))
            one = other
        one.follow(hot(v), np.full(N, live), 5.0, 0.1)
    plain = QuietRate(PATH, gap=2)
    for v, live in ticks:
        plain.follow(hot(v), np.full(N, live), 5.0, 0.1)

    assert RANGE[0] <= one.ratio <= RANGE[1]
    assert one.state()[1] == plain.state()[1]
    assert all(
        (a == b).all() for a, b in zip(one.state()[0].values(), plain.state()[0].values(), strict=True)
    )


def test_nodes_may_come_and_go():
    quiet = QuietRate(PATH, gap=5)
    quiet.follow(hot(0), LIVE, 5.0, 0.0)
    arrays, meta = quiet.state()
    other = QuietRate(Graph.empty(2), gap=5)
    other.restore(arrays, meta, np.array([-1, 0]))
    other.follow(np.array([0.0, 9.0]), np.ones(2, bool), 5.0, 0.0)
    assert other.episodes == 1  # the old node goes on with its episode
    other.follow(np.array([9.0, 9.0]), np.ones(2, bool), 5.0, 0.0)
    assert other.episodes == 2
