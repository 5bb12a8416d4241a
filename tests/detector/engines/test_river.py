"""River's detectors as engines, and this detector with river's face."""

from __future__ import annotations

import numpy as np
import pytest
from river import base, drift

from detector.engines.river import ALARM_FOR, RiverEngine
from detector.river import GrulsifDrift
from tests.detector.learnt import settings

TWO = np.arange(2, dtype=np.int32)


def engine(name, dim=1):
    return RiverEngine(2, dim, settings(name))


def run(made, values, start=0.0):
    for t, row in enumerate(values):
        made.slide(TWO, row[:, None], np.full(2, start + t))
        made.finish()
    return made


@pytest.mark.parametrize("name", ["adwin", "kswin", "page-hinkley"])
def test_drift_counts_for_a_while(name):
    """Where river's own detector sees a drift the node's statistic is 1 for ten samples; the other's is 0."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 2))
    x[300:, 0] += 8.0
    made, seen = engine(name), []
    own = {"adwin": drift.ADWIN, "kswin": lambda: drift.KSWIN(seed=0), "page-hinkley": drift.PageHinkley}[
        name
    ]()
    drifts = []
    for t, row in enumerate(x):
        made.slide(TWO, row[:, None], np.full(2, float(t)))
        made.finish()
        own.update(float(np.float32(row[0])))
        drifts.append(own.drift_detected)
        seen.append(made.node.copy())
    seen = np.array(seen)

    first = int(np.flatnonzero(drifts)[0])
    after = [t for t in np.flatnonzero(drifts) if t >= 300]
    assert after, "river sees a shift of eight sd"
    assert seen[after[0] : after[0] + ALARM_FOR, 0].all()
    assert not seen[:first, 0].any()
    assert (seen[300:, 1] == 0.0).mean() > 0.9


def test_faces_match():
    """What pages and incidents ask of an engine is answered: windows, times, ratio, in order."""
    made = run(engine("page-hinkley"), np.arange(400.0).reshape(200, 2), start=50.0)

    assert made.recent(0)[:, 0].tolist() == np.arange(350.0, 400.0, 2.0).tolist()
    assert made.times(0).tolist() == np.arange(225.0, 250.0).tolist()
    assert len(made.reference(0)) == 60
    assert made.reference(0)[-1, 0] == 348.0
    assert len(made.log_ratio(0)) == 25
    assert made.coverage(TWO) is None
    assert made.scores.shape == (2, 1)


def test_silent_restart_rebaseline():
    """Silent and restarted nodes have no decision until they are heard."""
    made = run(engine("adwin"), np.zeros((50, 2)))
    made.silence(np.array([True, False]))
    made.finish()
    assert np.isnan(made.node[0])
    assert made.node[1] == 0.0
    made.silence(np.zeros(2, bool))
    made.rebaseline(1, 5)
    assert np.isnan(made.node[1])
    assert len(made.recent(1)) == 0
    run(made, np.zeros((1, 2)))
    assert (made.node == 0.0).all()


# ------------------------------------------------------------------------------------------ river's face


def test_face_is_rivers():
    """It is a river detector: parameters, clone, and no drift before it has seen anything."""
    made = GrulsifDrift(learn=900, seed=3)
    twin = made.clone()

    assert isinstance(made, base.DriftDetector)
    assert twin is not made
    assert (twin.learn, twin.seed, twin.budget) == (900, 3, made.budget)
    assert made.drift_detected is False
    assert np.isnan(made.statistic)
    with pytest.raises(ValueError, match="budget"):
        GrulsifDrift(budget="sometimes")


def test_face_finds_a_drift():
    """A shift of two sd is signalled once, soon; quiet samples before are not; a reset forgets it all."""
    rng = np.random.default_rng(0)
    made = GrulsifDrift(learn=900, accept_after=150)
    found = []
    for t, x in enumerate(np.concatenate([rng.normal(size=1100), rng.normal(2.0, 1.0, 500)])):
        made.update(x)
        if made.drift_detected:
            found.append(t)
        if t == 1000:
            assert np.isfinite(made.statistic)

    assert len(found) == 1
    assert 1100 <= found[0] <= 1130
    made._reset()
    assert np.isnan(made.statistic)
    assert made.drift_detected is False
