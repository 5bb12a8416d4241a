"""Who shares a change: honest for nodes that did not, whoever their neighbours are."""

from __future__ import annotations

import numpy as np
import pytest

from estimators.streaming.membership import SURE, Windows, discoveries, log_ratios, membership, returned

N, BEFORE, AFTER, R = 40, 200, 20, 8


def windows(rng: np.random.Generator, shift: np.ndarray, after: int = AFTER) -> Windows:
    """Features that are plain normal values; the first of them moves by ``shift`` (N,)."""
    x, y = rng.normal(size=(N, BEFORE, R)), rng.normal(size=(N, after, R))
    y[:, :, 0] += shift[:, None]
    return Windows(x, y.mean(axis=1), np.full(N, float(after)))


def ring() -> np.ndarray:
    W = np.zeros((N, N))
    for v in range(N):
        for hop in (1, 2):
            W[v, (v + hop) % N] = W[(v + hop) % N, v] = 1.0
    return W


def test_p_values_of_unchanged_nodes_are_honest_beside_a_large_change() -> None:
    shift = np.where(np.arange(N) < 8, 3.0, 0.0)
    seeds = np.arange(N) < 3
    found = [membership(windows(np.random.default_rng(k), shift), ring(), seeds) for k in range(60)]
    p = np.concatenate([one.p_value[8:] for one in found])
    assert np.mean(p <= 0.05) <= 0.06
    assert np.mean(p <= 0.01) <= 0.015
    assert min(one.probability[:8].min() for one in found) > 0.9


@pytest.mark.parametrize("size", [0.7, 1.5, 4.0])
def test_few_of_the_named_are_wrong_and_most_of_the_changed_are_named(size: float) -> None:
    shift = np.where(np.arange(N) < 10, size, 0.0)
    wrong = named = right = 0
    for k in range(40):
        found = membership(windows(np.random.default_rng(k), shift), ring(), np.arange(N) < 2)
        chosen = discoveries(found.probability, 0.05)
        named, wrong, right = named + chosen.sum(), wrong + chosen[10:].sum(), right + chosen[:10].sum()
    assert wrong <= 0.06 * named
    assert right >= (0.75 if size < 1.0 else 0.97) * 400


def test_a_node_that_changed_otherwise_is_found_by_itself() -> None:
    shift = np.where(np.arange(N) < 5, 2.0, 0.0)
    shift[20] = -3.0
    found = membership(windows(np.random.default_rng(1), shift), ring(), np.arange(N) < 3)
    assert found.p_value[20] < 1e-3


def test_discoveries_keep_the_expected_share_of_false_ones() -> None:
    probability = np.array([0.99, 0.3, 0.97, 0.9, 0.6])
    assert discoveries(probability, 0.05).tolist() == [True, False, True, True, False]
    assert not discoveries(np.array([0.4, 0.2]), 0.5).any(), "less likely than not is never named"
    assert not discoveries(np.zeros(0), 0.05).any()


def test_back_to_before_is_told_from_still_changed_and_from_noise() -> None:
    rng = np.random.default_rng(2)
    shift = np.full(N, 2.0)
    changed = windows(rng, shift, after=60)
    back, still = (
        Windows(changed.before, windows(rng, np.full(N, size), after=60).after, changed.count)
        for size in (0.0, 2.0)
    )
    assert returned(changed, back).back.mean() > 0.7
    assert not returned(changed, still).back.any()
    nothing = windows(rng, np.zeros(N), after=4)  # a yardstick of noise measures nothing
    assert returned(nothing, back).back.mean() <= 0.05


def test_nodes_of_one_event_are_back_together_where_none_can_tell_by_itself() -> None:
    alone, together, still = 0, 0, 0
    for seed in range(20):
        rng = np.random.default_rng(100 + seed)
        changed = windows(rng, np.full(N, 1.5), after=25)
        shift = np.where(np.arange(N) < 6, 0.0, 1.5)
        now = Windows(changed.before, windows(rng, shift, after=25).after, changed.count)
        some = np.arange(6)
        part = [Windows(w.before[some], w.after[some], w.count[some]) for w in (changed, now)]
        found = returned(*part)
        alone += int((found.place + SURE * found.error < 0.5).sum())
        together += int(found.back.sum())
        still += int(returned(changed, now).back[6:].sum())
    assert alone < 0.3 * 120
    assert together > 0.9 * 120
    assert still <= 0.02 * 20 * (N - 6), "nodes that are not back do not leave with the others"


def test_log_ratios_rise_at_the_change() -> None:
    rng = np.random.default_rng(3)
    shift = np.full(N, 1.0)
    made = windows(rng, shift)
    samples = [rng.normal(size=(70, R)) for _ in range(N)]
    for x in samples:
        x[50:, 0] += 1.0
    told = np.array(log_ratios(made, ring(), samples))
    assert told[:, :50].mean() < 0.0 < told[:, 50:].mean()
    total = told.sum(axis=0)
    assert int(np.cumsum(total[::-1])[::-1].argmax()) == pytest.approx(50, abs=1)
