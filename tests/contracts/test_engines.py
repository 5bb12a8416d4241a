"""What every engine promises, crossed with ENGINES."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detector.engines.base import Engine, engine_class
from detector.engines.calibration_report import CalibrationReport
from detector.settings.core import Settings
from detector.settings.registries import ENGINES
from estimators.core.graph import Graph

N, D = 6, 2
CHAIN = np.diag(np.ones(N - 1), 1)
GRAPH = Graph.of(CHAIN + CHAIN.T)
NAMES = list(ENGINES)
REFERENCE, TESTS = 40, [5, 20]


def settings_of(name: str) -> Settings:
    return Settings.of(
        windows={"reference": REFERENCE, "tests": TESTS},
        estimator={"name": name, "sigma": 1.0, "coupling": 0.5, "ridge": 0.05, "rank": 5, "atoms": 12},
        alarm={"learn": 200, "budget": "1 per 1000 ticks"},
    )


def values(first: int, last: int) -> Any:
    """Rows of one endless stream without changes (T, N, d)."""
    return np.array([np.random.default_rng(t).normal(size=(N, D)) for t in range(first, last)])


@cache
def learnt(name: str) -> tuple[Engine, CalibrationReport]:
    Z = values(0, 260)
    Z[np.random.default_rng(0).random((260, N)) < 0.05] = np.nan
    return engine_class(name).calibrate(Z, GRAPH, settings_of(name), 1.0)


def fresh(name: str) -> Engine:
    return learnt(name)[0].fresh()


def play(engine: Engine, first: int, last: int, shift: dict[int, float] | None = None, cut: int = 1) -> None:
    """Ticks of the stream; a shift adds to nodes, ``cut`` splits every tick into so many layers."""
    for t, row in enumerate(values(first, last), first):
        for v, size in (shift or {}).items():
            row[v] += size
        nodes = np.flatnonzero(np.random.default_rng(t + 10**6).random(N) < 0.9).astype(np.int32)
        for part in np.array_split(nodes, cut):
            if len(part):
                engine.slide(part, row[part], np.full(len(part), float(t)))
        engine.finish()


def statistics(engine: Engine) -> tuple[bytes, ...]:
    arrays = (engine.node, engine.event, engine.inside, engine.scores, engine.standard_scores)
    return tuple(np.asarray(array).tobytes() for array in arrays)


def restored(name: str, engine: Engine, rows: Any = range(N), graph: Graph = GRAPH) -> Engine:
    arrays, meta = engine.state()
    assert all(array.dtype.kind in "biuf" and array.flags.owndata for array in arrays.values())
    twin = engine_class(name).empty(graph, D, settings_of(name))
    twin.restore(arrays, json.loads(json.dumps(meta)), np.array(rows, np.intp))
    return twin


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_calibration_says_what_it_promises(name: str) -> None:
    engine, report = learnt(name)
    assert report.n_ticks == 260
    assert report.step == 1.0
    assert np.isfinite([report.threshold, report.event_threshold]).all()
    again = CalibrationReport.of(report.record(), settings_of(name).alarm.budget)
    assert repr(again.record()) == repr(report.record())
    if not np.isfinite(report.promised):
        assert report.warnings
    assert np.isnan(engine.node).all()  # windows are empty
    assert all(len(engine.reference(v)) == len(engine.recent(v)) == 0 for v in range(N))


def test_a_change_is_over_the_threshold_and_no_change_is_not(name: str) -> None:
    engine, report = fresh(name), learnt(name)[1]
    play(engine, 1000, 1150)
    before = engine.node.copy()
    assert np.isfinite(before).all()
    largest = np.full(N, -np.inf)
    for t in range(1150, 1250):
        play(engine, t, t + 1, {2: 6.0, 3: 6.0})
        np.fmax(largest, engine.event, out=largest)
    assert (largest[[2, 3]] > report.event_threshold).all()


def test_shapes(name: str) -> None:
    engine = fresh(name)
    play(engine, 0, 120)
    n_scores = engine.scores.shape[1]
    assert engine.node.shape == engine.event.shape == engine.inside.shape == (N,)
    assert engine.scores.shape == engine.standard_scores.shape == (N, n_scores)
    assert isinstance(engine.residual, float)
    assert isinstance(engine.atoms, int)
    for v in range(N):
        assert engine.reference(v).shape[1:] == engine.recent(v).shape[1:] == (D,)
        assert 0 < len(engine.reference(v)) <= REFERENCE
        assert len(engine.recent(v)) == len(engine.times(v)) == len(engine.log_ratio(v)) == TESTS[-1]
        assert (np.diff(engine.times(v)) > 0).all()
        assert np.isfinite(engine.log_ratio(v)).all()
        ratio = engine.ratio(v, np.zeros((3, D)))
        assert ratio is None or (ratio.shape == (3,) and np.isfinite(ratio).all())
    latest = engine.time_of_latest(np.arange(N), 1)
    np.testing.assert_array_equal(latest, [engine.times(v)[-1] for v in range(N)])
    assert np.isnan(engine.time_of_latest(np.arange(N), 10**6)).all()
    coverage = engine.coverage(np.arange(N, dtype=np.int32))
    if coverage is not None:
        assert coverage.shape == (N,)
        assert ((coverage >= 0.0) & (coverage <= 1.0)).all()


def test_evidence_is_what_came_in(name: str) -> None:
    engine = fresh(name)
    Z = values(0, 100).astype(np.float32)
    for t, row in enumerate(Z):
        engine.slide(np.arange(N, dtype=np.int32), row.astype(float), np.full(N, float(t)))
        engine.finish()
    np.testing.assert_array_equal(engine.recent(1), Z[-TESTS[-1] :, 1])
    np.testing.assert_array_equal(engine.times(1), np.arange(100.0)[-TESTS[-1] :])
    np.testing.assert_array_equal(engine.reference(1), Z[-REFERENCE - TESTS[-1] : -TESTS[-1], 1])


@given(cut=st.integers(0, 90))
@settings(max_examples=8, deadline=None)
@pytest.mark.parametrize("which", NAMES)
def test_a_restored_engine_goes_on_bit_for_bit(which: str, cut: int) -> None:
    one = fresh(which)
    play(one, 0, cut)
    one.silence(np.arange(N) == 4)
    one.finish()
    one.hold([1])
    two = restored(which, one)
    two.hold([1])
    for engine in (one, two):
        play(engine, cut, cut + 40, {1: 4.0})
        engine.rebaseline(1, 5)
        engine.restart(np.array([0], np.int32))
        play(engine, cut + 40, cut + 60)
    assert statistics(one) == statistics(two)
    for v in range(N):
        np.testing.assert_array_equal(one.recent(v), two.recent(v))
        np.testing.assert_array_equal(one.times(v), two.times(v))


def test_how_a_tick_is_cut_does_not_matter(name: str) -> None:
    one, two = fresh(name), fresh(name)
    play(one, 0, 110)
    play(two, 0, 110, cut=3)
    np.testing.assert_allclose(one.node, two.node, rtol=1e-9, atol=1e-9)
    for v in range(N):
        np.testing.assert_array_equal(one.recent(v), two.recent(v))


def test_a_restarted_node_fills_its_windows_anew(name: str) -> None:
    engine = fresh(name)
    play(engine, 0, 100)
    engine.restart(np.array([2], np.int32))
    engine.finish()
    assert np.isnan(engine.node[2])
    assert len(engine.recent(2)) == len(engine.reference(2)) == 0
    assert len(engine.recent(3)) == TESTS[-1]


def test_a_silent_node_is_survived_and_comes_back(name: str) -> None:
    engine = fresh(name)
    play(engine, 0, 100)
    engine.silence(np.arange(N) == 2)
    engine.finish()
    play(engine, 100, 110)
    engine.silence(np.zeros(N, np.bool_))
    play(engine, 110, 200)
    assert np.isfinite(engine.node).all()


def test_a_rebaselined_node_takes_what_is_new_for_normal(name: str) -> None:
    engine, report = fresh(name), learnt(name)[1]
    play(engine, 0, 100)
    play(engine, 100, 160, {2: 8.0})
    engine.rebaseline(2, 15)
    engine.finish()
    play(engine, 160, 320, {2: 8.0})
    assert engine.node[2] <= report.threshold or not np.isfinite(report.promised)


def test_nodes_come_and_go(name: str) -> None:
    """A new node begins without a past; one that is left keeps its windows."""
    one = fresh(name)
    play(one, 0, 100)
    smaller = Graph.of((CHAIN + CHAIN.T)[:3, :3])
    two = restored(name, one, [3, -1, 0], smaller)
    np.testing.assert_array_equal(two.recent(0), one.recent(3))
    np.testing.assert_array_equal(two.reference(2), one.reference(0))
    np.testing.assert_array_equal(two.times(2), one.times(0))
    assert len(two.recent(1)) == 0
    assert np.isnan(two.node[1])
    play_some(two)


def play_some(engine: Engine) -> None:
    """Three nodes go on."""
    for t in range(200, 280):
        engine.slide(np.arange(3, dtype=np.int32), values(t, t + 1)[0, :3], np.full(3, float(t)))
        engine.finish()
    assert np.isfinite(engine.node).all()


def test_taking_the_state_shares_nothing(name: str) -> None:
    engine = fresh(name)
    play(engine, 0, 90)
    arrays, _ = engine.state()
    before = {key: array.copy() for key, array in arrays.items()}
    play(engine, 90, 120)
    assert all(arrays[key].tobytes() == before[key].tobytes() for key in arrays)


def test_a_tick_without_values_changes_nothing(name: str) -> None:
    engine = fresh(name)
    play(engine, 0, 90)
    before = statistics(engine)
    engine.finish()
    engine.slide(np.zeros(0, np.int32), np.zeros((0, D)), np.zeros(0))
    engine.finish()
    assert statistics(engine) == before
