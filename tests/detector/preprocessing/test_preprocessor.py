"""Preprocessing: learnt robustly, streamed exactly as over the whole history, restored exactly."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detector.preprocessing.preprocessor import Preprocessor
from detector.settings.preprocessing import PreprocessSettings
from estimators.timeseries.autoregression import burg, lag_one
from estimators.timeseries.robust_scale import SOURCES, borrow, centre_and_scale, quantiles

NAN = np.nan


def series(*columns: Any) -> Any:
    """(T, N, 1) from one sequence per node."""
    return np.stack([np.asarray(column, float) for column in columns], axis=1)[:, :, None]


def autoregressive(rng: np.random.Generator, phi: float, shape: tuple[int, ...]) -> Any:
    noise = rng.normal(size=shape)
    x = np.empty(shape)
    x[0] = noise[0] / np.sqrt(1.0 - phi * phi)
    for t in range(1, shape[0]):
        x[t] = phi * x[t - 1] + noise[t]
    return x


def learnt(x: Any, times: Any = None, **given_settings: Any) -> Preprocessor:
    plain = {"difference": 0, "whiten": 0}
    return Preprocessor(PreprocessSettings(**{**plain, **given_settings})).learn(x, times)


def restored_from(before: Preprocessor, rows: Any) -> Preprocessor:
    """Through JSON and arrays."""
    arrays, meta = before.state()
    made = Preprocessor(before.settings)
    made.restore(arrays, json.loads(json.dumps(meta)), np.array(rows, np.intp))
    return made


def source_of(x: Any) -> list[str]:
    _, _, source = centre_and_scale(x)
    return [SOURCES[k] for k in source[:, 0]]


# ---------------------------------------------------------------------------- scale


@given(st.integers(0, 10_000), st.integers(1, 40))
@settings(max_examples=50, deadline=None)
def test_quantiles_are_numpys_without_the_missing_ones(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    x[rng.random(x.shape) < 0.3] = NAN
    x[0] = 0.5
    levels = (0.0, 0.1, 0.5, 0.9, 1.0)
    np.testing.assert_allclose(quantiles(x, levels), np.nanquantile(x, levels, axis=0), atol=1e-12)


def test_normal_data_get_their_mean_and_standard_deviation() -> None:
    x = np.random.default_rng(0).normal(5.0, 3.0, (20_000, 2, 1))
    centre, scale, _ = centre_and_scale(x)
    np.testing.assert_allclose(centre, 5.0, atol=0.1)
    np.testing.assert_allclose(scale, 3.0, rtol=0.05)


def test_the_scale_falls_back_step_by_step() -> None:
    """Discrete, rare events, constant: each has a finite scale above zero, and says where it is from."""
    rng = np.random.default_rng(1)
    n = 1000
    x = series(
        rng.normal(size=n),
        np.where(rng.random(n) < 0.7, 0.0, rng.integers(1, 5, n)),
        np.where(rng.random(n) < 0.97, 2.0, 3.0),
        np.full(n, 7.0),
        np.full(n, NAN),
    )
    assert source_of(x) == ["mad", "range", "sd", "unit", "unit"]
    centre, scale, source = centre_and_scale(x)
    assert np.isnan(centre[4])
    assert (scale[:4] > 0.0).all()
    scale, source = borrow(scale, source)
    assert SOURCES[source[3, 0]] == "peers"
    assert scale[3, 0] == np.median(scale[:3, 0])


@pytest.mark.parametrize("unit", [1e-300, 1e-12, 1.0, 1e12, 1e300])
def test_any_unit_gives_the_same_scaled_values(unit: float) -> None:
    """Tiny and huge scales, also far from zero."""
    x = np.random.default_rng(2).normal(size=(500, 3, 2))
    reference = learnt(x).transform(x)
    np.testing.assert_allclose(learnt(x * unit).transform(x * unit), reference, rtol=1e-9)


def test_rounding_noise_of_a_constant_is_not_a_signal() -> None:
    x = np.full((100, 1, 1), 1e9) + np.random.default_rng(3).integers(-1, 2, (100, 1, 1)) * np.spacing(1e9)
    assert source_of(x) == ["unit"]


def test_bursts_of_a_nearly_constant_signal_do_not_blow_up() -> None:
    """A third of the time 1000 times the usual noise: the scale knows, and next to nothing is clipped."""
    rng = np.random.default_rng(4)
    x = np.where(rng.random(2000) < 0.3, rng.normal(0.0, 1.0, 2000), rng.normal(0.0, 1e-3, 2000))
    z = learnt(series(x)).transform(series(x))
    assert np.mean(np.abs(z) > 15.0) < 0.01


def test_heavy_tails_and_outliers_are_clipped_and_counted() -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_t(3, (2000, 2, 1))
    made = learnt(x)
    np.testing.assert_allclose(made.to_units()[1], 1.13, rtol=0.1)
    z, valid = made.apply(np.array([0, 1], np.int32), np.array([[1e300], [0.0]]), 0.0)
    assert (z[0, 0], valid.all(), made.steps["clip"].clipped.tolist()) == (20.0, True, [1, 0])
    assert np.isfinite(z.astype(np.float32)).all()


@pytest.mark.parametrize(
    "options", [{"difference": 1}, {"whiten": 2}, {"difference": 1, "whiten": "aic", "embed": 2}]
)
def test_the_largest_floats_leave_everything_finite(options: dict[str, Any]) -> None:
    x = np.random.default_rng(6).normal(size=(200, 1, 1))
    made = learnt(x, **options)
    for value in (1.7e308, -1.7e308, 1.7e308, 0.0, 1.0, -1.7e308, 2.0):
        z, _ = made.apply(np.array([0], np.int32), np.array([[value]]), 0.0)
        assert np.isfinite(z).all()
        assert np.abs(z).max() <= 20.0


def test_too_few_samples_teach_nothing() -> None:
    """No sample, one sample, all missing: invalid, with a warning; the others are not touched."""
    x = np.random.default_rng(7).normal(size=(50, 4, 2))
    x[:, 1] = NAN
    x[1:, 2] = NAN
    x[:, 3, 1] = NAN
    made = learnt(x, whiten="aic", difference=1)
    assert made.learnt.tolist() == [True, False, False, False]
    assert made.warnings == [
        "3 of 4 nodes have fewer than 10 samples to learn from: nothing can be said about them"
    ]
    assert made.describe(1) == {"learnt": False, "why": "too few samples in the learning period"}
    assert np.isnan(made.transform(np.zeros((30, 4, 2)))[:, 1:]).all()
    for step in (made.steps["scale"], made.steps["difference"], made.steps["whiten"]):
        np.testing.assert_array_equal(step.centre[1:], 0.0)
        np.testing.assert_array_equal(step.scale[1:], 1.0)


def test_one_row_of_history_is_survived() -> None:
    made = learnt(np.zeros((1, 2, 1)), difference=3, whiten=2, embed=2)
    z, valid = made.apply(np.array([0, 1], np.int32), np.zeros((2, 1)), 0.0)
    assert not valid.any()
    assert z.shape == (2, 2)


def test_infinite_history_counts_as_missing() -> None:
    x = np.random.default_rng(8).normal(size=(100, 1, 1))
    y = x.copy()
    y[::7] = np.inf
    assert np.isfinite(learnt(y).to_units()).all()


def test_values_that_are_not_finite_leave_no_trace() -> None:
    x = np.random.default_rng(9).normal(size=(100, 1, 1))
    one, two = learnt(x, whiten=1), learnt(x, whiten=1)
    node = np.zeros(1, np.int32)
    one.apply(node, np.array([[0.4]]), 0.0)
    two.apply(node, np.array([[0.4]]), 0.0)
    z, valid = two.apply(node, np.array([[NAN]]), 1.0)
    assert not valid[0]
    assert z[0, 0] == 0.0
    assert one.apply(node, np.array([[0.1]]), 2.0)[0] == two.apply(node, np.array([[0.1]]), 2.0)[0]


# ---------------------------------------------------------------------------- difference, whiten


def test_difference_subtracts_the_value_lag_samples_ago() -> None:
    t = np.arange(60.0)
    x = series(t**2)
    made = learnt(x, difference=3)
    scale, step = made.steps["scale"], made.steps["difference"]
    raw = (made.transform(x) * step.scale + step.centre) * scale.scale
    assert np.isnan(raw[:3]).all()
    np.testing.assert_allclose(raw[3:, 0, 0], (t[3:] ** 2 - t[:-3] ** 2), rtol=1e-9)


def test_differences_follow_a_nodes_own_samples() -> None:
    """A node that reports every third row is differenced between its own reports."""
    rng = np.random.default_rng(10)
    x = rng.normal(size=(300, 2, 1)).cumsum(axis=0)
    x[np.arange(300) % 3 != 0, 1] = NAN
    made = learnt(x, difference=1)
    assert made.learnt.all()
    z = made.transform(x)
    assert np.isfinite(z[3::3, 1]).all()
    np.testing.assert_allclose(np.nanstd(z[:, 1]), 1.0, atol=0.3)


@pytest.mark.parametrize("phi", [-0.6, 0.5, 0.9])
def test_an_autoregression_is_whitened(phi: float) -> None:
    """What is left has no autocorrelation, unit spread, and the right coefficient was found."""
    rng = np.random.default_rng(11)
    x = autoregressive(rng, phi, (4000, 5, 2))
    made = learnt(x[:2000], whiten="aic")
    z = made.transform(x)[2000:]
    assert np.abs(lag_one(z)).max() < 0.1
    np.testing.assert_allclose(z.std(axis=0), 1.0, atol=0.1)
    np.testing.assert_allclose(np.median(made.steps["whiten"].ar.sum(axis=0)), phi, atol=0.06)
    np.testing.assert_allclose(np.median(made.to_units()[1]), 1.0 / (1.0 - phi), rtol=0.3)


def test_burg_agrees_with_the_truth_and_with_missing_samples() -> None:
    rng = np.random.default_rng(12)
    e = rng.normal(size=30_000)
    w = np.zeros_like(e)
    for t in range(2, len(e)):
        w[t] = 0.5 * w[t - 1] - 0.3 * w[t - 2] + e[t]
    holes = w.copy()
    holes[rng.random(len(w)) < 0.05] = NAN
    both = np.stack([w, holes], axis=1)[:, :, None]
    a, order = burg(both, 5, choose=False)
    assert order.tolist() == [[5], [5]]
    np.testing.assert_allclose(a[:, :, 0].T, [[0.5, -0.3, 0, 0, 0]] * 2, atol=0.03)


def test_white_noise_is_mostly_left_alone_by_aic() -> None:
    """AIC overfits about 29 % of the time; most orders are 0 and coefficients stay small."""
    x = np.random.default_rng(13).normal(size=(2000, 50, 1))
    made = learnt(x, whiten="aic")
    assert np.mean(made.steps["whiten"].order == 0) > 0.55
    assert np.abs(made.steps["whiten"].ar).max() < 0.12


def test_a_noiseless_signal_keeps_a_finite_model() -> None:
    x = series(np.sin(np.arange(500.0)), np.ones(500), np.tile([0.0, 1.0], 250))
    made = learnt(x, whiten="aic")
    z = made.transform(x)
    assert np.isfinite(made.steps["whiten"].ar).all()
    assert np.isfinite(z[20:]).all()


@pytest.mark.parametrize(
    ("phi", "lag", "whitened"), [(0.0, 0, False), (0.6, 0, True), (0.9, 0, True), (1.0, 1, False)]
)
def test_auto_decides_by_the_lag_one_autocorrelation(phi: float, lag: int, whitened: bool) -> None:
    rng = np.random.default_rng(14)
    x = rng.normal(size=(2000, 8, 1)).cumsum(axis=0) if phi == 1.0 else autoregressive(rng, phi, (2000, 8, 1))
    made = Preprocessor().learn(x)  # it is the default
    assert (made.steps["difference"].lag, len(made.steps["whiten"].ar) > 0) == (lag, whitened)
    differenced, autoregression = made.chosen
    assert differenced.startswith("differences at lag 1" if lag else "no differences")
    assert autoregression.startswith("an autoregression" if whitened else "no autoregression")
    assert not learnt(x).chosen  # nothing was left to it


# ---------------------------------------------------------------------------- season, embed


def test_a_season_is_removed_by_time() -> None:
    """Also with samples missing, and at times not seen in the learning period."""
    rng = np.random.default_rng(15)
    period, t = 86_400.0, 1.7e9 + np.arange(0.0, 10 * 86_400.0, 600.0)
    noise = rng.normal(size=(len(t), 2, 1))
    wave = np.sin(2 * np.pi * t / period)[:, None, None] * np.array([10.0, -5.0])[:, None] + 100.0
    x = wave + noise
    x[rng.random(x.shape) < 0.05] = NAN
    half = len(t) // 2
    made = learnt(x[:half], t[:half], seasonal=period)
    z = made.transform((wave + noise)[half:], t[half:])
    np.testing.assert_allclose(z.std(axis=0), 1.0, atol=0.15)
    residual = np.abs(z - noise[half:]).mean()
    assert residual < 0.3
    np.testing.assert_allclose(made.describe(0)["seasonal swing"], [20.0], rtol=0.15)


def test_unseen_phases_are_bridged() -> None:
    """Samples only in the first half of each period: the rest lies between its neighbours."""
    t = np.concatenate([100.0 * day + np.arange(0.0, 50.0) for day in range(20)])
    x = series(np.where(np.mod(t, 100.0) < 25, 1.0, 3.0), np.full(len(t), NAN))
    made = learnt(x, t, seasonal=100.0, seasonal_bins=20)
    profile = made.steps["seasonal"].profile
    assert np.isfinite(profile).all()
    assert (profile[0, 10:, 0] <= profile[0, 9, 0]).all()


def test_a_history_shorter_than_two_periods_has_no_profile() -> None:
    made = learnt(np.random.default_rng(16).normal(size=(100, 1, 1)), np.arange(100.0), seasonal=80.0)
    assert made.warnings == [
        "seasonal: the learning period covers 1.2 periods, but 2 are needed: no profile is used"
    ]
    assert made.steps["seasonal"].period == 0.0


def test_embedding_puts_the_latest_first() -> None:
    x = np.random.default_rng(17).normal(size=(100, 1, 2))
    plain, made = learnt(x).transform(x), learnt(x, embed=3)
    z = made.transform(x)
    assert (made.dim_out, z.shape) == (6, (100, 1, 6))
    assert np.isnan(z[:2]).all()
    np.testing.assert_array_equal(
        z[2:, 0], np.concatenate([plain[2:, 0], plain[1:-1, 0], plain[:-2, 0]], axis=1)
    )


# ---------------------------------------------------------------------------- streaming


def test_a_restart_fills_all_lags_again() -> None:
    """lag + order + embed - 1 samples are invalid after the start and after a restart, of that node only."""
    x = autoregressive(np.random.default_rng(18), 0.5, (400, 2, 1))
    made = learnt(x, difference=2, whiten=3, embed=2)
    nodes = np.array([0, 1], np.int32)
    seen = []
    for t in range(30):
        if t == 15:
            made.restart(np.array([1], np.int32))
        seen.append(made.apply(nodes, x[t], float(t))[1].tolist())
    first = [row[0] for row in seen]
    second = [row[1] for row in seen]
    assert first == [False] * 6 + [True] * 24
    assert second == [False] * 6 + [True] * 9 + [False] * 6 + [True] * 9


@given(st.integers(0, 10_000), st.sampled_from([0, 1, 3, "auto"]), st.sampled_from([0, 2, "aic", "auto"]),
       st.integers(1, 3), st.booleans())  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_a_restored_stream_continues_exactly(
    seed: int, lag: Any, whiten: Any, embed: int, season: bool
) -> None:
    """Stop anywhere, in any interleaving of nodes: the same z bit for bit, by `apply` and by `transform`."""
    rng = np.random.default_rng(seed)
    x = autoregressive(rng, 0.8, (200, 3, 2)) * np.array([1.0, 1e6, 1e-6])[:, None]
    made = learnt(
        x, np.arange(200.0), difference=lag, whiten=whiten, embed=embed, seasonal=24.0 if season else None
    )
    restored = None
    stop = int(rng.integers(0, 60))
    for t in range(60):
        if t == stop:
            restored = restored_from(made, range(3))
        nodes = np.flatnonzero(rng.random(3) < 0.7).astype(np.int32)
        z, valid = made.apply(nodes, x[t, nodes], float(t))
        if restored is not None:
            again, valid_again = restored.apply(nodes, x[t, nodes], float(t))
            np.testing.assert_array_equal(z, again)
            np.testing.assert_array_equal(valid, valid_again)
    assert restored is not None
    assert restored.describe(1) == made.describe(1)
    np.testing.assert_array_equal(restored.transform(x[:50]), made.transform(x[:50]))


def test_a_copy_of_state_is_not_touched_by_the_stream() -> None:
    x = np.random.default_rng(19).normal(size=(50, 1, 1))
    made = learnt(x, whiten=1)
    arrays, _ = made.state()
    before = {name: array.copy() for name, array in arrays.items()}
    made.apply(np.zeros(1, np.int32), x[0], 0.0)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, before[name])


def test_restored_nodes_can_be_moved_added_and_removed() -> None:
    """Rows give each node's old place; a new node is invalid until learnt."""
    x = autoregressive(np.random.default_rng(20), 0.7, (200, 3, 1)) * np.array([1.0, 10.0, 100.0])[:, None]
    made = learnt(x, whiten="aic", difference=1)
    made.apply(np.arange(3, dtype=np.int32), x[0], 0.0)
    moved = restored_from(made, [2, -1, 0])
    for t in range(1, 20):
        z, valid = made.apply(np.arange(3, dtype=np.int32), x[t], float(t))
        other, other_valid = moved.apply(np.arange(3, dtype=np.int32), x[t, [2, 1, 0]], float(t))
        np.testing.assert_array_equal(other[[0, 2]], z[[2, 0]])
        np.testing.assert_array_equal(other_valid, [valid[2], False, valid[0]])


@pytest.mark.parametrize("order", [2, 12, "aic"])
def test_a_node_that_comes_later_is_whitened_as_the_others(order: Any) -> None:
    """Of a given order it has as many lags, not those that aic would choose: these would never be full."""
    x = autoregressive(np.random.default_rng(24), 0.7, (400, 2, 1))
    x[:, 1] = NAN
    made = learnt(x, whiten=order)
    later = autoregressive(np.random.default_rng(25), 0.7, (400, 1, 1))
    made.adopt(np.array([1], np.int32), later)
    node = np.array([1], np.int32)
    valid = [bool(made.apply(node, row, float(t))[1][0]) for t, row in enumerate(later)]
    assert all(valid[12:])
    assert np.abs(lag_one(made.transform(np.concatenate([later, later], axis=1))[20:, 1:])).max() < 0.15


def test_learning_in_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x = autoregressive(np.random.default_rng(21), 0.7, (300, 7, 2))
    x[np.random.default_rng(22).random((300, 7)) < 0.1] = NAN
    x[:, 3] = 1.0
    options = {"difference": "auto", "whiten": "aic", "seasonal": 50.0}
    whole = learnt(x, np.arange(300.0), **options).state()[0]
    monkeypatch.setattr("detector.preprocessing.blocks.BLOCK_VALUES", 1300)
    parts = learnt(x, np.arange(300.0), **options).state()[0]
    for name, array in whole.items():
        np.testing.assert_allclose(parts[name], array, rtol=1e-12, err_msg=name)


def test_describe_speaks_in_words() -> None:
    x = np.random.default_rng(23).normal(4.0, 2.0, (300, 1, 2))
    x[:, 0, 1] = 5.0
    said = learnt(x, difference=2, whiten=1, embed=2).describe(0)
    assert json.loads(json.dumps(said)) == said
    assert said["scale from"] == ["median absolute deviation", "1, since nothing varied"]
    assert said["difference, lag in samples"] == 2
    assert said["vectors put together"] == 2


def test_wrong_histories_are_refused() -> None:
    with pytest.raises(ValueError, match=r"X: expected \(T, N, d\) with none of them 0, got shape \(5, 2\)"):
        learnt(np.zeros((5, 2)))
    with pytest.raises(ValueError, match="times: a seasonal profile needs the time of each row"):
        learnt(np.zeros((5, 2, 1)), seasonal=10.0)
    with pytest.raises(ValueError, match="times: expected 5 finite numbers"):
        learnt(np.zeros((5, 2, 1)), np.array([0.0, 1.0, NAN, 3.0, 4.0]))
    with pytest.raises(RuntimeError, match="call learn or restore first"):
        Preprocessor().apply(np.zeros(1, np.int32), np.zeros((1, 1)), 0.0)


# ------------------------------------------------------------------------- a new normal


@pytest.mark.parametrize(("factor", "scale"), [(1.0, 1.0), (3.0, 3.0)])
def test_a_calm_stretch_is_no_new_normal(factor: float, scale: float) -> None:
    """Restless by day and calm by night: a night is nothing new, three times a day's spread is."""
    rng = np.random.default_rng(5)
    day = np.where(np.arange(4000) // 200 % 2 == 0, 1.0, 0.3)[:, None, None]
    x = rng.normal(size=(4000, 2, 1)) * day
    steps = learnt(x)
    steps.learn_variation(steps.transform(x), 150)
    before: Any = steps.steps["scale"].scale.copy()
    stretch = rng.normal(size=(150, 1)) * (0.3 if factor == 1.0 else factor)
    steps.restandardise(0, 5.0 + stretch, np.arange(150.0))
    after: Any = steps.steps["scale"].scale
    np.testing.assert_allclose(after[0] / before[0], scale, rtol=0.35)
    np.testing.assert_array_equal(after[1], before[1])
    centre: Any = steps.steps["scale"].centre
    assert abs(centre[0, 0] - 5.0) < 1.0


def test_what_a_stretch_varies_by_is_restored_with_its_node() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(900, 3, 1))
    steps = learnt(x)
    steps.learn_variation(steps.transform(x), 100)
    other = restored_from(steps, [2, -1, 0])
    np.testing.assert_array_equal(other.usual[:, [0, 2]], steps.usual[:, [2, 0]])
    np.testing.assert_array_equal(other.usual[:, 1], 1.0)
