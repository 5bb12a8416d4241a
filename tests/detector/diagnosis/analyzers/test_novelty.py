"""New values are told from known ones that became frequent."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from detector.diagnosis.analyzers.novelty import NoveltyAnalyzer
from tests.detector.adaptation.test_adapt import CENTRE, SCALE, case, moved


def analyze(values, **given):
    return NoveltyAnalyzer().analyze(case(values, **given))


def test_new_values():
    """Far off: all of them are new, at both members; the neighbour that did not change is none."""
    found = analyze(moved(shift=80.0))

    assert {node["name"]: node["new"] for node in found.data["nodes"]} == {"n0": 1.0, "n1": 1.0}
    assert found.summary.startswith("values outside of what the reference has seen: n0: 100%; n1: 100%")
    assert msgspec.json.decode(msgspec.json.encode(found.data)) == found.data
    assert analyze(moved(shift=80.0)) == found


def test_values_seen_before():
    """A narrow part of the known range became the rule: nothing is new."""
    found = analyze(moved(shift=8.0, spread=2.0))

    assert max(node["new"] for node in found.data["nodes"]) < 0.05
    assert found.summary.startswith("all values since the onset were seen before")


def test_between_two_modes():
    """A gap between two modes is new, though the range was known."""
    rng = np.random.default_rng(0)
    modes = np.where(rng.random(200) < 0.5, -3.0, 3.0)[:, None] + 0.3 * rng.normal(size=(200, 1))
    found = analyze(CENTRE + SCALE * 0.2 * rng.normal(size=(100, 1)), reference=modes)

    assert max(node["new"] for node in found.data["nodes"]) > 0.9


@pytest.mark.parametrize("shape", ["constant", "few", "none"])
def test_little_to_go_by(shape):
    """A stuck sensor is old news or new; too few values, or none, are no finding."""
    if shape == "constant":
        assert analyze(np.full((50, 1), CENTRE)).data["nodes"][0]["new"] == 0.0
        assert analyze(np.full((50, 1), CENTRE + 90.0)).data["nodes"][0]["new"] == 1.0
    elif shape == "few":
        assert analyze(moved(5)) is None
    else:
        assert NoveltyAnalyzer().analyze(replace(case(moved()), members=())) is None
