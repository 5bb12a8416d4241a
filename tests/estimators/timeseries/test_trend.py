"""The course of a change: shapes with known answers, and a slow twin that fits each by least squares."""

from __future__ import annotations

import numpy as np
import pytest

from estimators.timeseries.trend import LEFT_OUT, MIN_SIDE, course, inflation


def series(shape, k=1, m=64, size=2.0, seed=0, w=30.0):
    """k nodes with noise of spread 1, sampled once a second."""
    rng = np.random.default_rng(seed)
    u = np.arange(m, dtype=float)
    level = {
        "step": np.full(m, size),
        "growing": size * u / m,
        "fading": size * (1.0 - u / m),
        "burst": size * (u < w),
        "quiet": np.zeros(m),
    }[shape]
    return [rng.normal(level) for _ in range(k)], [u] * k


@pytest.mark.parametrize("shape", ["step", "growing", "fading", "burst"])
@pytest.mark.parametrize("k", [1, 5])
def test_every_shape_is_told_apart(shape, k):
    """Of 50 changes of 4 spreads, nearly all are named by their shape; hardly one is surely called another.

    A step is the simplest: what can speak for it is limited by the number of samples. Of one node with 57 of
    them, odds of 3 are reached where the slope is within 1.4 standard errors: 83 %.
    """
    named = wrong = 0
    for seed in range(50):
        y, u = series(shape, k, size=4.0, seed=seed)
        made = course(y, u, [1.0] * k)
        named += made.shape == shape and made.odds >= (3 if shape == "step" else 20)
        wrong += made.shape != shape and made.odds >= 20
    assert named >= (35 if (shape, k) == ("step", 1) else 45)
    assert wrong <= 1


def test_numbers_of_a_trend():
    """The slope, and the levels at both ends."""
    y, u = series("growing", k=20, size=6.4, seed=3)
    made = course(y, u, [1.0] * 20)
    assert made.shape == "growing"
    assert made.rate.mean() == pytest.approx(0.1, abs=0.01)
    assert made.first.mean() == pytest.approx(0.0, abs=0.2)
    assert made.last.mean() == pytest.approx(6.3, abs=0.2)


def test_the_end_of_a_burst():
    y, u = series("burst", k=3, size=5.0, seed=4)
    made = course(y, u, [1.0] * 3)
    assert (made.shape, made.lasted) == ("burst", pytest.approx(30.0, abs=1.0))
    np.testing.assert_allclose(made.first, 5.0, atol=1.0)
    np.testing.assert_array_equal(made.last, 0.0)


def test_opposite_directions_are_one_shape():
    """One node goes up, the other down: still growing."""
    y, u = series("growing", k=2, size=6.0, seed=5)
    made = course([y[0], -y[1]], u, [1.0, 1.0])
    assert made.shape == "growing"
    assert made.rate[0] > 0 > made.rate[1]


def test_too_few_samples():
    y, u = series("step", k=2)
    assert course([y[0][:7]], [u[0][:7]], [1.0]) is None
    made = course([y[0][:7], y[1]], [u[0][:7], u[1]], [1.0, 1.0])
    assert np.isnan(made.first[0])
    assert np.isfinite(made.first[1])


def test_constants_are_no_trouble():
    """A sensor that sits at one value after the onset."""
    made = course([np.full(40, 3.0)], [np.arange(40.0)], [1.0])
    assert made.shape == "step"
    assert np.isfinite(made.odds)


def test_correlated_noise_is_no_trend():
    """With AR(1) noise of 0.9 a step is seldom taken for anything else, if its inflation is known."""
    wrong = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        e = rng.normal(size=400)
        for t in range(1, 400):
            e[t] += 0.9 * e[t - 1]
        e /= e[:300].std()
        made = course([3.0 + e[300:364]], [np.arange(64.0)], [inflation(e[:300])])
        wrong += made.shape != "step" and made.odds >= 20
    assert wrong <= 5


def test_inflation():
    """1 for independent values, (1 + rho) / (1 - rho) for AR(1); a constant has none."""
    rng = np.random.default_rng(1)
    assert inflation(rng.normal(size=20_000)) == pytest.approx(1.0, abs=0.05)
    x = np.zeros(20_000)
    for t in range(1, len(x)):
        x[t] = 0.5 * x[t - 1] + rng.normal()
    assert inflation(x) == pytest.approx(3.0, rel=0.1)
    assert inflation(np.ones(50)) == 1.0


@pytest.mark.parametrize("seed", range(10))
def test_twin(seed):
    """Shape, odds and numbers equal those of explicit least squares for every shape and every end."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 4))
    y, u, inflations = [], [], rng.uniform(1.0, 2.0, k).tolist()
    for _ in range(k):
        m = int(rng.integers(10, 40))
        u.append(np.sort(rng.choice(np.arange(60.0), m, replace=False)))
        y.append(rng.normal(size=m) + rng.choice([0.0, 1.0, 3.0]) * (u[-1] < rng.uniform(10, 80)))
    made = course(y, u, inflations)

    y, u = ([part[-(-len(part) // LEFT_OUT) :] for part in parts] for parts in (y, u))
    n = [len(part) / f for part, f in zip(y, inflations, strict=True)]

    def score(design, extra):
        total = extra
        for v in range(k):
            X = design(u[v])
            rss = np.sum((y[v] - X @ np.linalg.lstsq(X, y[v], rcond=None)[0]) ** 2)
            total += n[v] * np.log(rss / len(y[v])) + X.shape[1] * np.log(n[v])
        return total

    ends = np.unique(np.concatenate([part[MIN_SIDE : len(part) - MIN_SIDE + 1] for part in u]))
    found = {
        "step": score(lambda t: np.ones((len(t), 1)), 0.0),
        "trend": score(lambda t: np.column_stack([np.ones(len(t)), t]), 0.0),
        "burst": min(score(lambda t, w=w: (t < w)[:, None] * 1.0, np.log(sum(n))) for w in ends),
    }
    best, second = sorted(found.values())[:2]
    winner = min(found, key=found.get)
    assert made.shape in {"trend": ("growing", "fading")}.get(winner, (winner,))
    assert made.odds == pytest.approx(np.exp(min((second - best) / 2, np.log(1e6))), rel=1e-6)
