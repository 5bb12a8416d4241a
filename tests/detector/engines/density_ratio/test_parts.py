"""Parts decide what comes out; who computes them does not. What is read across a cut is one tick old."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from detector.engines.calibration_report import CalibrationReport
from detector.engines.density_ratio import DensityRatioEngine
from detector.engines.density_ratio.calibrate import _warn_of_ghosts
from detector.engines.runners.base import started
from detector.settings.core import Settings
from estimators.core.graph import Graph
from estimators.core.partition import Cut, partition
from tests.detector.engines.eventful import GRAPH, LABELS, D, N, bits, made, play, settings_of


@pytest.fixture(scope="module")
def whole() -> list[bytes]:
    engine = made()
    play(engine)
    assert np.isfinite(engine.event).mean() > 0.85
    return bits(engine)


def test_one_part_is_the_network_as_it_was() -> None:
    one, other = made(np.zeros(N, np.int32)), made(cut=Cut.whole(GRAPH))
    for engine in (one, other):
        play(engine)
    assert bits(one) == bits(other)
    assert "parts" not in one.state()[0]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_threads_give_the_same_bits(whole: list[bytes], workers: int) -> None:
    engine = started(made(), GRAPH, settings_of(type="threads", workers=workers))
    play(engine)
    assert bits(engine) == whole


@pytest.mark.parametrize("cut_at", [40, 78, 85, 99])
def test_a_restored_engine_keeps_its_parts_and_goes_on_bit_for_bit(whole: list[bytes], cut_at: int) -> None:
    one = made()
    play(one, 0, cut_at)
    arrays, meta = one.state()
    two = DensityRatioEngine.empty(GRAPH, D, settings_of())
    two.restore(arrays, json.loads(json.dumps(meta)), np.arange(N, dtype=np.intp))
    if cut_at in range(81, 101):
        two.hold([3, 4, 5, 6] if cut_at <= 90 else [3, 5, 6])  # a new baseline has let 4 go
    np.testing.assert_array_equal(two.cut.labels, LABELS)
    assert bits(two) == bits(one)
    play(two, cut_at)
    assert bits(two) == whole


def test_nodes_come_and_go_between_parts() -> None:
    one = made()
    play(one, 0, 60)
    arrays, meta = one.state()
    rows = np.array([*range(1, N), -1, -1], np.intp)
    size = len(rows)
    ring = np.roll(np.eye(size), 1, axis=1)
    two = DensityRatioEngine.empty(Graph.of(ring + ring.T), D, settings_of())
    two.restore(arrays, meta, rows)
    assert len(two.cut.parts) == 4
    np.testing.assert_array_equal(two.recent(0), one.recent(1))
    for t in range(200, 280):
        z = np.random.default_rng(t).normal(size=(size, D))
        two.slide(np.arange(size, dtype=np.int32), z, np.full(size, float(t)))
        two.finish()
    assert np.isfinite(two.event).all()


def test_across_a_cut_a_node_reads_what_its_neighbour_was_a_tick_ago() -> None:
    engine = made()
    play(engine, 0, 70)
    before = engine.bank.theta[:N].copy()
    play(engine, 70, 71)
    ghosts = engine.bank.theta[N:]
    np.testing.assert_array_equal(ghosts, before[engine.cut.nodes].astype(np.float32))


def test_parts_see_what_the_whole_network_sees() -> None:
    """Statistics differ at the cuts only, and little."""
    parts, one = made(), made(np.zeros(N, np.int32))
    for engine in (parts, one):
        for t in range(140):
            z = np.random.default_rng(t).normal(size=(N, D))
            z[3:9] += 1.5 * (t > 110)
            engine.slide(np.arange(N, dtype=np.int32), z, np.full(N, float(t)))
            engine.finish()
    difference = np.abs(parts.event - one.event) / np.abs(one.event).max()
    assert 0.0 < difference.max() < 0.1
    assert np.corrcoef(parts.event, one.event)[0, 1] > 0.99


def test_learning_cuts_the_network_and_plays_with_the_lag() -> None:
    chain = np.eye(12, k=1)
    graph = Graph.of(chain + chain.T)
    groups: dict[str, Any] = {
        "windows": {"reference": 40, "tests": [5, 20]},
        "estimator": {"sigma": 1.0, "coupling": 0.5, "ridge": 0.05, "rank": 4, "atoms": 8},
        "alarm": {"learn": 200, "budget": "1 per 1000 ticks"},
        "engine": {"parts": 2},
    }
    Z = np.random.default_rng(0).normal(size=(160, 12, 1))
    engine, report = DensityRatioEngine.calibrate(Z, graph, Settings.of(**groups), 1.0)
    assert np.isfinite(report.event_threshold)
    assert not any("does not fall" in text for text in report.notes)
    arrays, meta = engine.state()
    np.testing.assert_array_equal(arrays["parts"], partition(graph, 2))
    groups["engine"] |= {"type": "threads", "workers": 2}
    threaded, the_same = DensityRatioEngine.calibrate(Z, graph, Settings.of(**groups), 1.0)
    again, other = threaded.state()
    assert {key: a.tobytes() for key, a in arrays.items()} == {key: a.tobytes() for key, a in again.items()}
    assert (meta, repr(report.record())) == (other, repr(the_same.record()))


def test_hubs_are_warned_of() -> None:
    graph = Graph.of(np.ones((N, N)) - np.eye(N))
    report = CalibrationReport.without_promise("nothing was learnt", 10, 1.0, 1.0)
    _warn_of_ghosts(report, Cut.of(graph, LABELS), graph)
    assert "does not fall into 4 parts: 3.0 copies per node" in report.notes[-1]
