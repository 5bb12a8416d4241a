"""What an incident's values did: ranges in the sensor's units, told in words; silence otherwise."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from detector.diagnosis.analyzers.value_ranges import Range, Settings, ValueRangeAnalyzer, number
from tests.detector.pipeline.test_case_capture import watched


@pytest.fixture(scope="module")
def case():
    return watched()[2][-1]


def of_values(case, before, after, centre=0.0, scale=1.0):
    """The case with other values of its strongest member, the only one; (n, d) each, in quiet units."""
    name, d = case.certain[0], before.shape[1]
    return replace(
        case, members=(name,), suspected=(), components=tuple(f"c{k}" for k in range(d)),
        reference={name: before.astype(np.float32)}, recent={name: after.astype(np.float32)},
        times={name: case.begin + np.arange(float(len(after)))},
        centre={name: np.full(d, centre)}, scale={name: np.full(d, scale)},
    )  # fmt: skip


def modes(rng, n, shift=0.0):
    """A wide mode at 0 and a narrow one, 0.05, at 2."""
    wide = rng.random(n) < 0.5
    return np.where(wide, rng.normal(0.0, 1.0, n), rng.normal(2.0 + shift, 0.05, n))[:, None]


def explain(case):
    return ValueRangeAnalyzer(Settings()).analyze(case)


def test_a_shift_is_told(case):
    """Both changed nodes: values around 4 appeared, values around 0 vanished; JSON-ready."""
    finding = explain(case)

    assert {row["name"] for row in finding.data["nodes"]} == {"n1", "n2"}
    for ranges in ([row for row in finding.data["nodes"] if row["name"] == name] for name in ("n1", "n2")):
        gained = next(r for r in ranges if r["after"] > r["before"])
        assert gained["centre"] == pytest.approx(4.0, abs=1.0)
        assert gained["component"] == case.components[0]
    assert "appeared (now" in finding.summary
    assert "vanished (before" in finding.summary
    assert msgspec.json.decode(msgspec.json.encode(finding.data)) == finding.data
    assert explain(case) == finding


def test_a_narrow_mode_in_sensor_units(case):
    """A narrow mode moved by three of its deviations: place and width in the sensor's units."""
    rng = np.random.default_rng(0)
    told = explain(of_values(case, modes(rng, 250), modes(rng, 120, 0.15), centre=1000.0, scale=-20.0))
    ranges = told.data["nodes"]
    gained = next(r for r in ranges if r["after"] > r["before"])
    lost = next(r for r in ranges if r["after"] < r["before"])

    assert gained["centre"] == pytest.approx(1000.0 - 20.0 * 2.15, abs=2.0)
    assert lost["centre"] == pytest.approx(1000.0 - 20.0 * 2.0, abs=2.0)
    assert 0.0 < gained["width"] < 4.0
    assert "times as frequent" in told.summary


def test_components_are_named(case):
    """Of two components only the one that changed is told, by its name."""
    rng = np.random.default_rng(1)
    after = rng.normal(size=(100, 2))
    after[:, 1] += 3.0
    told = explain(of_values(case, rng.normal(size=(250, 2)), after))
    parts = {r["component"] for r in told.data["nodes"] if r["before"] < 0.2}

    assert parts == {"c1"}
    assert told.summary.startswith(f"{case.certain[0]}: c1 around")


@pytest.mark.parametrize("values", [0, 1, 7])
def test_too_few_values(case, values):
    """Nothing is said of fewer than eight values."""
    rng = np.random.default_rng(2)

    assert explain(of_values(case, rng.normal(size=(60, 1)), 9.0 + rng.normal(size=(values, 1)))) is None


def test_mostly_silent_when_nothing_changed(case):
    """Windows of one distribution: most of them give no finding."""
    rng = np.random.default_rng(3)
    found = [explain(of_values(case, rng.normal(size=(250, 1)), rng.normal(size=(64, 1)))) for _ in range(12)]

    assert found.count(None) >= 6


def test_no_way_back_to_sensor_units(case):
    """Differenced values stay in quiet units; no NaN is told."""
    rng = np.random.default_rng(4)
    told = explain(of_values(case, rng.normal(size=(100, 1)), 5.0 + rng.normal(size=(64, 1)), scale=np.nan))
    first = told.data["nodes"][0]

    assert np.isfinite(first["centre"])
    assert np.isfinite(first["width"])


def test_case_without_windows(case):
    """Members without values, as of a foreign engine: nothing to say, no error."""
    assert explain(replace(case, recent={}, reference={}, times={}, centre={}, scale={})) is None


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Range("x", 4.104, 0.061, 0.1, 0.3), "around 4.10 (width 0.061) became 3 times as frequent"),
        (Range("x", 4.104, 0.61, 0.3, 0.2), "around 4.1 (width 0.61) became 1.5 times rarer"),
        (Range("x", 1013.26, 20.0, 0.0, 0.25), "around 1013 (width 20) appeared (now 25 %)"),
        (Range("x", -0.00123, 0.0004, 0.5, 0.0), "around -0.0012 (width 0.0004) vanished (before 50 %)"),
    ],
)
def test_words(found, words):
    """Numbers have as many digits as the width makes sense of."""
    assert found.words() == words
    assert number(1e300, 0.0) == "1e+300"
