"""The learning period is judged by profiles of its other days: tomorrow will not be fitted any better."""

from __future__ import annotations

import numpy as np
import pytest

from detector.preprocessing.preprocessor import Preprocessor, PreprocessSettings
from estimators.timeseries.seasonal_profile import OthersProfile, at_time, learn_profile

DAY = 48.0
SETTINGS = PreprocessSettings(seasonal=DAY, seasonal_bins=24, difference=0, whiten=0)


def days(n: int, rng: np.random.Generator) -> np.ndarray:
    course = 10.0 * np.sin(2.0 * np.pi * np.arange(n * DAY) / DAY)
    return course[:, None, None] + rng.normal(size=(int(n * DAY), 20, 1))


@pytest.mark.parametrize("n", [3, 5, 12])
def test_what_is_left_of_the_learning_period_is_what_will_be_left_of_the_next_days(n: int) -> None:
    rng = np.random.default_rng(n)
    X = days(n + 6, rng)
    times = np.arange(float(len(X)))
    learning, later = slice(0, int(n * DAY)), slice(int(n * DAY), None)
    made = Preprocessor(SETTINGS)
    _, Z, _ = made.learn_views(X[learning], times[learning])
    flattered = made.transform(X[learning], times[learning])
    to_come = made.transform(X[later], times[later])
    assert np.std(Z) == pytest.approx(np.std(to_come), rel=0.07)
    if n < 10:
        assert np.std(flattered) < 0.95 * np.std(to_come)


def test_each_stretch_has_the_profile_of_the_others() -> None:
    rng = np.random.default_rng(0)
    x, times = days(4, rng)[:, :3], np.arange(4 * DAY)
    clock = np.broadcast_to(times[:, None], x.shape[:2])
    centre = np.zeros((3, 1))
    others = OthersProfile(0.0, times[-1], DAY, 24, 3, 1)
    others.learn(slice(0, 3), x, clock, centre)
    nodes = np.arange(3, dtype=np.int32)
    whole = learn_profile(x, clock, centre, DAY, 24)
    usual = others.at_time(whole, nodes, clock)
    for day in range(4):
        rows = slice(int(day * DAY), int((day + 1) * DAY))
        rest = np.delete(np.arange(len(x)), np.arange(len(x))[rows])
        expected = at_time(learn_profile(x[rest], clock[rest], centre, DAY, 24), nodes, clock[rows], DAY)
        np.testing.assert_array_equal(usual[rows], expected)
        one = others.at_time(whole, nodes, np.full(3, times[rows][7]))  # as in the stream: one time for all
        np.testing.assert_array_equal(one, expected[7])
    after = np.full(3, times[-1] + 5.0)
    np.testing.assert_array_equal(others.at_time(whole, nodes, after), at_time(whole, nodes, after, DAY))
