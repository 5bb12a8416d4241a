"""What the analyzer `trend` finds in real case files."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest

from detector.diagnosis.analyzers.trend import TrendAnalyzer
from tests.detector.learnt import NOW, START, pipeline, quiet, samples
from tests.detector.storage.test_cases import case


def settled(change):
    """The settled case file of n1 and n2, to which ``change`` of the ticks since NOW + 20 is added."""
    made = pipeline()
    made.cases = []
    X = quiet(NOW, NOW + 120)
    since = np.arange(120.0) - 20.0
    X[:, [1, 2], 0] += np.where(since >= 0, change(since), 0.0)[:, None]
    made.push(samples(X, NOW))
    return next(found for found in made.cases if found.stage == "settled")


@pytest.mark.parametrize(
    ("shape", "change", "words"),
    [
        ("step", lambda t: 4.0 + 0 * t, "changed in a step and stays there"),
        ("growing", lambda t: 0.15 * t, "still moves away"),
        ("fading", lambda t: np.maximum(7.0 - 0.2 * t, 0.0), "comes back"),
        ("burst", lambda t: 5.0 * (t < 12), "is back after 12 s"),
    ],
)
def test_every_shape(shape, change, words):
    """In words and in numbers, for the nodes that changed; the same each time, and plain JSON."""
    one = settled(change)
    finding = TrendAnalyzer().analyze(one)

    assert finding is not None
    assert finding.data["shape"] == shape
    assert finding.summary.startswith("mean of value ")
    assert words in finding.summary
    assert {"n1", "n2"} <= {node["name"] for node in finding.data["nodes"]}
    assert finding.data["since"] == one.begin
    assert abs(one.begin - START - NOW - 20) <= 15
    assert msgspec.json.decode(msgspec.json.encode(finding.data)) == finding.data
    assert TrendAnalyzer().analyze(one) == finding


def test_numbers_in_units_of_the_sensor():
    """A ramp of 0.15 per second is told as such."""
    finding = TrendAnalyzer().analyze(settled(lambda t: 0.15 * t))
    rates = [node["change_per_time"] for node in finding.data["nodes"] if node["name"] in ("n1", "n2")]
    assert np.mean(rates) == pytest.approx(0.15, abs=0.08)


def test_a_spread_that_grew():
    """Where no mean moved, the size of the deviations is looked at."""
    rng = np.random.default_rng(2)
    before = {name: rng.normal(size=(100, 1)).astype(np.float32) for name in ("a", "b")}
    after = {name: rng.normal(size=(60, 1), scale=3.0).astype(np.float32) for name in before}
    begin = case().begin
    given = {"members": ("a", "b"), "suspected": (), "reference": before, "recent": after}
    finding = TrendAnalyzer().analyze(
        dataclasses.replace(case(), times=dict.fromkeys(before, begin + np.arange(60.0)), **given)
    )
    assert (finding.data["change"], finding.data["shape"]) == ("spread", "step")


def test_nothing_to_say():
    """Quiet values, and too few of them, lead to no finding."""
    assert TrendAnalyzer().analyze(case()) is None
