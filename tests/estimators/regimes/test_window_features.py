"""Shapes of windows: constants of quiet windows, what each feature sees, sensors of any unit, the hash."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from estimators.regimes.window_features import NAMES, FeatureSpec, shape_features, spread

SPEC = FeatureSpec()
RNG = np.random.default_rng(0)
QUIET = RNG.normal(size=(250, 1))
T = np.arange(64.0)


def feature(x, name):
    """One feature of one window."""
    return shape_features(np.asarray(x, dtype=float).reshape(64, -1))[0, NAMES.index(name)]


def test_constants_are_those_of_quiet_windows():
    """Centres and scales are mean and deviation of the features of independent normal values."""
    rng = np.random.default_rng(1)
    refs, windows = rng.normal(size=(250, 20_000)), rng.normal(size=(64, 20_000))
    phi = shape_features((windows - np.median(refs, axis=0)) / spread(refs))

    np.testing.assert_allclose(phi.std(axis=0), SPEC.s, rtol=0.06)
    np.testing.assert_array_less(np.abs(phi.mean(axis=0) - SPEC.mu), 0.05 * np.array(SPEC.s))


def test_features_by_hand():
    """Every feature on a window whose value is known."""
    noise = np.random.default_rng(2).normal(size=64)
    wave = np.sin(2 * np.pi * 8 * T / 64)  # 8 of at most 32 periods

    assert feature(np.full(64, 3.0), "median") == 3.0
    assert feature(2 * wave, "log sd") == pytest.approx(np.log(np.sqrt(2) + 1e-3))
    assert feature(np.tile([0.0, 1.0], 32), "log sd of differences") == pytest.approx(np.log(1.0), abs=0.01)
    assert feature(np.tile([1.0, -1.0], 32), "autocorrelation 1") == pytest.approx(-63 / 64, abs=1e-5)
    assert feature(np.tile([1.0, -1.0], 32), "autocorrelation 2") == pytest.approx(62 / 64, abs=1e-5)
    assert feature(np.repeat([0.0, 5.0], 32), "second half minus first") == 5.0
    assert feature(wave, "log kurtosis") == pytest.approx(np.log(1.5), abs=1e-6)
    assert feature(wave, "spectral centroid") == pytest.approx(8 / 32, abs=1e-3)
    assert feature(wave, "peak share of spectrum") == pytest.approx(1.0, abs=1e-4)
    assert feature(np.repeat(noise[:2], 32), "log share of standstill") == pytest.approx(
        np.log(62 / 63 + 1 / 64)
    )


def test_sensors_of_any_unit_look_alike():
    """Gain and offset of a sensor, applied to window and reference alike, change nothing."""
    x = QUIET[:64] * 2.0 + 1.0
    plain = SPEC.transform(x, QUIET)

    np.testing.assert_allclose(SPEC.transform(300.0 + 0.01 * x, 300.0 + 0.01 * QUIET), plain, atol=1e-9)


def test_components_follow_each_other():
    """A sensor of two components has the ten features of the first, then those of the second."""
    x, ref = RNG.normal(size=(64, 2)), RNG.normal(size=(250, 2))
    parts = [SPEC.transform(x[:, [j]], ref[:, [j]]) for j in (0, 1)]

    np.testing.assert_allclose(SPEC.transform(x, ref), np.concatenate(parts), atol=1e-12)


@settings(deadline=None)
@given(arrays(np.float64, (64, 1), elements=st.floats(-1e6, 1e6, width=32)),
       arrays(np.float64, (20, 1), elements=st.floats(-1e6, 1e6, width=32)))  # fmt: skip
def test_every_window_is_a_point_of_the_cube(x, ref):
    """Constant windows, constant references, huge jumps: always ten finite numbers in [-1, 1]."""
    y = SPEC.transform(x, ref)

    assert y.shape == (10,)
    assert np.all(np.abs(y) <= 1.0)


def test_hash_tells_maps_apart():
    """The hash is that of all constants; sites with the same one understand each other: it must not move."""
    assert SPEC.spec_id == "v1-d7294fa18d39"
    others = [replace(SPEC, window=32), replace(SPEC, mu=(0.1, *SPEC.mu[1:])), replace(SPEC, s=(1.0,) * 10)]
    assert len({SPEC.spec_id, *(other.spec_id for other in others)}) == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FeatureSpec(version=2), "features: version 2, this program has 1"),
        (lambda: FeatureSpec(window=4), "features: a window of 4 samples has no shape"),
        (lambda: FeatureSpec(mu=(0.0,)), r"features: mu must be 10 numbers, got \[0.0\]"),
        (lambda: FeatureSpec(s=(0.0,) * 10), "features: s must be positive"),
        (lambda: SPEC.transform(QUIET[:63], QUIET), "x: 63 samples, the window has 64"),
        (lambda: SPEC.transform(QUIET[:64], QUIET[:0]), "ref: shape"),
        (lambda: SPEC.transform(np.full(64, np.nan), QUIET), r"x\[0, 0\] is nan"),
    ],
)
def test_refused(call, message):
    """Bad arguments are refused by name and value."""
    with pytest.raises(ValueError, match=message):
        call()
