"""Weights by which each node pays for its own tail."""

from __future__ import annotations

import numpy as np

from estimators.streaming.tail_scale import RATE, TailScale


def drawn(seed: int, n_ticks: int, scale: np.ndarray) -> np.ndarray:
    return np.abs(np.random.default_rng(seed).normal(size=(n_ticks, len(scale)))) * scale


def test_a_restless_node_weighs_more():
    scale = np.ones(20)
    scale[3] = 4.0
    tails = TailScale.fit(drawn(0, 5000, scale), 50)
    weight = tails.weight
    assert weight.argmax() == 3
    assert 1.6 < weight[3] < 2.4  # half of its logarithm: its own quantile and the network's median
    np.testing.assert_allclose(np.delete(weight, 3), 1.0, atol=0.08)


def test_the_share_above_returns_after_drift():
    """Twice the spread from now on: at first passed far too often, then as often as on quiet data."""
    tails = TailScale.fit(drawn(1, 5000, np.ones(10)), 50)
    wanted = tails.share.mean()
    live, event = np.ones(10, np.bool_), np.zeros(10, np.bool_)
    over = []
    for row in drawn(2, 12_000, np.full(10, 2.0)):
        over.append((row > tails.quantile).mean())
        tails.follow(row, live, event, 50)
    assert np.mean(over[:500]) > 5.0 * wanted
    assert 0.7 * wanted < np.mean(over[-6000:]) < 1.4 * wanted


def test_incidents_and_silence_teach_nothing():
    tails = TailScale.fit(drawn(3, 2000, np.ones(4)), 50)
    before = tails.quantile.copy()
    live = np.array([True, False, True, True])
    tails.follow(np.array([9.0, 9.0, np.nan, 0.0]), live, ~live & False, 50)
    assert tails.quantile[0] == before[0] * np.exp(RATE * (1.0 - tails.share[0]))
    assert tails.quantile[1] == before[1]
    assert tails.quantile[2] == before[2]
    assert tails.quantile[3] == before[3]  # never below what was learnt
    tails.follow(np.zeros(4), np.ones(4, np.bool_), np.zeros(4, np.bool_), 50)
    assert before[0] < tails.quantile[0] < before[0] * np.exp(RATE)


def test_a_day_of_events_does_not_make_their_neighbours_deaf():
    """Events of 80 ticks, told after 20; one neighbour belongs to none, and stands out while they last."""
    tails = TailScale.fit(drawn(6, 4000, np.ones(3)), 50)
    before = tails.quantile.copy()
    for k, row in enumerate(drawn(7, 6000, np.ones(3))):
        tick = k % 200
        if tick < 80 + 50:  # for as long as it is in the windows
            row[:2] += 5.0
        event = np.array([True, True, False]) & (20 <= tick < 80)
        tails.follow(row, np.ones(3, np.bool_), event, 50)
    assert (tails.quantile[:2] < 1.1 * before[:2]).all()
    assert (tails.quantile >= before).all()


def test_one_event_that_was_missed_counts_little_and_lasting_restlessness_in_full():
    tails = TailScale.fit(drawn(8, 4000, np.ones(3)), 50)
    before = tails.quantile.copy()
    live, no = np.ones(3, np.bool_), np.zeros(3, np.bool_)
    for _ in range(100):
        tails.follow(np.full(3, 9.0), live, no, 50)
    assert (tails.quantile < 1.06 * before).all()
    for _ in range(8000):
        tails.follow(np.full(3, 9.0), live, no, 50)
    assert (tails.quantile > 3.0 * before).all()


def test_state_goes_on_exactly_and_new_nodes_are_ordinary():
    tails = TailScale.fit(drawn(4, 2000, np.array([1.0, 2.0, 3.0])), 50)
    loud, live = np.array([9.0, 9.0, 9.0]), np.ones(3, np.bool_)
    tails.follow(loud, live, np.array([False, False, True]), 50)
    other = TailScale.restored(tails.state(), np.array([2, -1, 0]))
    for event in (np.array([True, False, False]), live & False):
        tails.follow(loud, live, event[::-1], 50)
        other.follow(loud, live, event, 50)
    np.testing.assert_array_equal(other.weight[[0, 2]], tails.weight[[2, 0]])
    assert other.quantile[1] == np.median(tails.quantile)


def test_nodes_never_heard_take_the_median():
    S = drawn(5, 500, np.ones(5))
    S[:, 2] = np.nan
    tails = TailScale.fit(S, 50)
    assert np.isfinite(tails.weight).all()
    assert 0.8 < tails.weight[2] < 1.2
    assert (TailScale.neutral(3).weight == 1.0).all()
