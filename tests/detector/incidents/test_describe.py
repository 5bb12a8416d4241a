"""Onset and description on simulated changes whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from detector.incidents.describe import compare, describe, pool
from detector.incidents.onset import onset, pooled_onset

ONE = (np.zeros(1), np.ones(1))
TWO = (np.array([3.0, 0.0]), np.array([2.0, 1.0]))


def normal(rng: np.random.Generator, n: int, correlation: float = 0.0) -> np.ndarray:
    return rng.multivariate_normal([0.0, 0.0], [[1.0, correlation], [correlation, 1.0]], n)


def shift_ratio(rng: np.random.Generator, change: int, n: int = 100, shift: float = 1.5) -> np.ndarray:
    """Exact log-ratio of N(shift, 1) to N(0, 1) along a stream that changes at sample ``change``."""
    x = rng.standard_normal(n) + shift * (np.arange(n) >= change)
    return shift * x - shift**2 / 2.0


def test_onset_is_near_and_its_interval_covers() -> None:
    rng = np.random.default_rng(1)
    found = [onset(shift_ratio(rng, 60), 10.0 * np.arange(100)) for _ in range(300)]
    estimates = [estimate for estimate in found if estimate is not None]
    assert len(estimates) == 300
    assert np.median([abs(estimate.time - 600.0) for estimate in estimates]) <= 10.0
    covered = np.mean([(e.earliest is None or e.earliest <= 600.0) and e.latest >= 600.0 for e in estimates])
    assert covered >= 0.93


def test_onset_pooled_over_nodes_is_sharper_than_one() -> None:
    rng = np.random.default_rng(2)
    errors_one, errors_pooled = [], []
    for _ in range(100):
        nodes = [(shift_ratio(rng, 60, shift=0.7), np.arange(100.0)) for _ in range(10)]
        one, pooled = onset(*nodes[0]), pooled_onset(nodes)
        assert pooled is not None
        errors_one.append(abs(one.time - 60.0) if one else 100.0)
        errors_pooled.append(abs(pooled.time - 60.0))
    assert np.mean(errors_pooled) < 0.5 * np.mean(errors_one)


def test_pooled_onset_bears_gaps_rates_and_missing_values() -> None:
    rng = np.random.default_rng(3)
    slow, slow_times = shift_ratio(rng, 30, 50, 2.0), 2.0 * np.arange(50.0)
    fast, fast_times = shift_ratio(rng, 60, 100, 2.0), np.arange(100.0)
    gap = (fast_times < 50.0) | (fast_times > 70.0)
    late = fast_times > 80.0  # its windows were restarted after the change
    holes = fast.copy()
    holes[::7] = np.nan
    estimate = pooled_onset([(slow, slow_times), (fast[gap], fast_times[gap]), (fast[late], fast_times[late]),
                             (holes, fast_times), (np.zeros(0), np.zeros(0))])  # fmt: skip
    assert estimate is not None
    assert estimate.time == pytest.approx(60.0, abs=3.0)


def test_no_evidence_gives_no_onset() -> None:
    assert onset(np.full(10, -0.5), np.arange(10.0)) is None
    assert onset(np.zeros(0), np.zeros(0)) is None
    assert pooled_onset([]) is None


def test_a_change_before_the_window_has_no_earliest() -> None:
    estimate = onset(np.full(20, 0.5), np.arange(20.0))
    assert estimate is not None
    assert (estimate.time, estimate.earliest) == (0.0, None)
    assert 0.0 < estimate.latest < 19.0


def test_one_sample_does_not_decide() -> None:
    ratio = np.concatenate([np.full(50, -0.5), np.full(10, 1.0)])
    ratio[5] = 1e6
    estimate = onset(ratio, np.arange(60.0))
    assert estimate is not None
    assert estimate.time == 50.0


def test_mean_in_standard_deviations_and_original_units() -> None:
    rng = np.random.default_rng(4)
    after = normal(rng, 80) + np.array([1.0, 0.0])
    first, *rest = describe(normal(rng, 250), after, TWO, ["flow", "level"])
    assert (first.kind, first.components) == ("mean", ["flow"])
    assert first.effect == pytest.approx(1.0, abs=0.35)
    assert first.before == pytest.approx(3.0, abs=0.4)
    assert first.after == pytest.approx(5.0, abs=0.6)
    assert first.z is not None
    assert first.z > 4.0
    assert first.text.startswith("mean of flow up ")
    assert rest == []


def test_spread() -> None:
    rng = np.random.default_rng(5)
    first, *_ = describe(normal(rng, 250), normal(rng, 80) * [1.0, 2.0], TWO, ["flow", "level"])
    assert (first.kind, first.components) == ("spread", ["level"])
    assert first.effect == pytest.approx(2.0, rel=0.25)
    assert first.text.startswith("spread of level ×")


@pytest.mark.parametrize(
    ("before", "after", "verb"),
    [(0.8, 0.0, "lost"), (0.0, 0.8, "appeared"), (0.8, -0.8, "reversed"), (0.9, 0.45, "weaker")],
)
def test_correlation(before: float, after: float, verb: str) -> None:
    rng = np.random.default_rng(6)
    first, *rest = describe(normal(rng, 250, before), normal(rng, 150, after), TWO, ["flow", "level"])
    assert (first.kind, first.components, rest) == ("correlation", ["flow", "level"], [])
    assert first.text.startswith(f"correlation of flow and level {verb} (")
    assert first.before == pytest.approx(before, abs=0.15)
    assert first.after == pytest.approx(after, abs=0.2)


def test_normal_to_uniform_is_seen_pooled_and_called_shape_otherwise() -> None:
    """Same mean, same spread: one node with 60 samples cannot say more than that something changed."""
    rng = np.random.default_rng(7)

    def uniform(n: int) -> np.ndarray:
        return rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), (n, 1))

    (alone,) = describe(rng.standard_normal((250, 1)), uniform(60), ONE, ["x"])
    assert alone.text == "distribution changed (shape)"
    twenty = [compare(rng.standard_normal((250, 1)), uniform(60), ONE) for _ in range(20)]
    (first, *_) = pool([one for one in twenty if one is not None], ["x"])
    assert first.text == "tails of x shorter"
    assert first.nodes == 20


def test_heavier_tails_and_asymmetry() -> None:
    rng = np.random.default_rng(8)
    heavy = rng.standard_t(2.5, (400, 1))
    assert "tails of x longer" in [c.text for c in describe(rng.standard_normal((400, 1)), heavy, ONE, ["x"])]
    skewed = rng.exponential(size=(400, 1)) - 1.0
    texts = [change.text for change in describe(rng.standard_normal((400, 1)), skewed, ONE, ["x"])]
    assert "x leans more to high values" in texts


def test_opposite_directions_are_said() -> None:
    rng = np.random.default_rng(9)
    nodes = [
        compare(rng.standard_normal((250, 1)), rng.standard_normal((60, 1)) + sign, ONE)
        for sign in (1, -1) * 5
    ]
    (first, *_) = pool([node for node in nodes if node is not None], ["x"])
    assert first.text.startswith("mean of x up at 5 nodes, down at 5 (-")
    assert first.effect == pytest.approx(1.0, abs=0.3)
    assert first.before is None


@pytest.mark.parametrize("law", ["normal", "autoregressive", "exponential"])
def test_unchanged_values_are_rarely_said_to_have_changed(law: str) -> None:
    rng = np.random.default_rng(10)

    def draw(n: int) -> np.ndarray:
        noise = rng.exponential(size=(n, 2)) if law == "exponential" else rng.standard_normal((n, 2))
        if law == "autoregressive":
            for t in range(1, n):
                noise[t] += 0.6 * noise[t - 1]
        return noise

    wrong = 0
    for _ in range(200):
        changes = describe(draw(250), draw(60), TWO, ["a", "b"])
        wrong += any(change.kind != "distribution" for change in changes)
    assert wrong <= 4  # 2 %; the level is 0.1 %, and small samples cost something


def test_too_few_samples_say_nothing() -> None:
    rng = np.random.default_rng(11)
    assert describe(normal(rng, 250), normal(rng, 5) + 5.0, TWO, ["a", "b"]) == []
    assert describe(normal(rng, 250), normal(rng, 12), TWO, ["a", "b"]) == [], "no evidence of shape either"
    assert pool([], ["a"]) == []


def test_missing_components_and_constants() -> None:
    rng = np.random.default_rng(12)
    after = normal(rng, 100) + np.array([2.0, 0.0])
    after[::5, 1] = np.nan
    first, *_ = describe(normal(rng, 250), after, TWO, ["flow", "level"])
    assert (first.kind, first.components) == ("mean", ["flow"])
    constant = np.zeros((250, 1))
    (still,) = describe(constant, constant[:50], ONE, ["x"])
    assert still.kind == "distribution"
    texts = [change.text for change in describe(constant, rng.standard_normal((50, 1)) + 1.0, ONE, ["x"])]
    assert sorted(text.split(" (")[0] for text in texts) == ["mean of x up 1.1 sd", "x was almost constant"]
    unknown_units = (np.full(2, np.nan), np.full(2, np.nan))
    first, *_ = describe(
        normal(rng, 250), normal(rng, 80) + np.array([2.0, 0.0]), unknown_units, ["flow", "level"]
    )
    assert (first.before, first.after) == (None, None)
    assert first.text.endswith(" sd")
