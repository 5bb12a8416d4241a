"""The part to learn from: the earliest long one without a change; and seasons, told from noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from detector.trial.quiet import quiet_part
from detector.trial.season import explained, find_season, without

DAY = 86400.0


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("memory", [0.0, 0.6])
def test_quiet_noise_is_learnt_from_the_begin(seed: int, memory: float) -> None:
    X = lfilter([1.0], [1.0, -memory], np.random.default_rng(seed).normal(size=(2400, 6, 1)), axis=0)
    assert quiet_part(X, 200, 10_000) == (0, 1200, [])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["mean", "spread"])
def test_a_change_is_left_out(seed: int, kind: str) -> None:
    X = np.random.default_rng(seed).normal(size=(2400, 6, 1))
    if kind == "mean":
        X[300:700, 2] += 2.5
    else:
        X[300:700, 2] *= 4.0
    found = quiet_part(X, 200, 10_000)
    assert found.begin >= 620  # hardly any of the change, and none of it whole
    assert found.end - found.begin >= 1100
    assert found.restless == []


def test_a_node_that_is_never_quiet_does_not_decide() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2400, 6, 1))
    X[:, 4, 0] += 30.0 * (np.arange(2400) // 37 % 2)  # a pump that goes on and off
    X[100:500, 1] += 3.0
    found = quiet_part(X, 200, 10_000)
    assert found.begin >= 460


def test_where_everything_changes_the_least_is_taken_and_told() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(1200, 2, 1))
    for k in range(0, 1200, 100):
        X[k : k + 100, 0] += rng.uniform(-40.0, 40.0)
    X[:, 1, 0] += np.where(np.arange(1200) % 400 < 200, 0.0, 20.0)
    found = quiet_part(X, 200, 10_000)
    assert found.end - found.begin >= 200


@settings(deadline=None, max_examples=40)
@given(
    rows=st.integers(20, 900),
    nodes=st.integers(1, 4),
    holes=st.floats(0.0, 1.0),
    levels=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_it_is_a_part_of_the_recording(rows: int, nodes: int, holes: float, levels: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, levels, size=(rows, nodes, 1)).astype(float)
    X[rng.uniform(size=X.shape[:2]) < holes] = np.nan
    least = min(rows, 200)
    found = quiet_part(X, least, 600)
    assert 0 <= found.begin < found.end <= rows
    assert found.end - found.begin >= least - rows // 100 - 10
    assert set(found.restless) <= set(range(nodes))


def wave(
    days: float, period: float, step: float, noise: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    times = np.arange(0.0, days * DAY, step)
    rng = np.random.default_rng(seed)
    return 5.0 * np.sin(2 * np.pi * times / period)[:, None, None] + noise * rng.normal(
        size=(len(times), 3, 1)
    ), times


@pytest.mark.parametrize("noise", [0.1, 2.0])
def test_a_daily_course_is_found_and_removed(noise: float) -> None:
    X, times = wave(6, DAY, 600.0, noise)
    season = find_season(X, times)
    assert season is not None
    assert season[0] == DAY
    assert np.std(without(X, times, *season)) == pytest.approx(noise, rel=0.3, abs=0.3)


def test_a_week_is_told_from_a_day() -> None:
    X, times = wave(35, DAY, 3600.0, 0.2)
    X[(times // DAY % 7) >= 5] *= 0.1  # nothing moves at weekends
    assert find_season(X, times) == (7 * DAY, 168)


@pytest.mark.parametrize("seed", range(5))
def test_noise_and_wandering_levels_are_no_season(seed: int) -> None:
    times = np.arange(0.0, 6 * DAY, 600.0)
    white = np.random.default_rng(seed).normal(size=(len(times), 3, 1))
    for X in (white, np.cumsum(white, axis=0)):
        assert find_season(X, times) is None


def test_two_days_cannot_tell() -> None:
    X, times = wave(2, DAY, 600.0, 0.1)
    assert explained(X, times, DAY, 48) == 0.0
