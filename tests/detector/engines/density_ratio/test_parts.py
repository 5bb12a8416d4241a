"""Parts decide what comes out; who computes them does not. What is read across a cut is one tick old."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from detector.engines.calibration_report import CalibrationReport
from detector.engines.density_ratio import Choice, DensityRatioEngine
from detector.engines.density_ratio.calibrate import _warn_of_ghosts
from detector.engines.runners.base import started
from detector.settings.core import Settings
from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.core.partition import Cut, partition
from estimators.streaming.graph_statistics import N_LEVELS, NullMoments
from estimators.streaming.level_charts import NullLevels
from estimators.streaming.tail_scale import TailScale

N, D, S = 40, 2, 2
RING = np.roll(np.eye(N), 1, axis=1) + np.roll(np.eye(N), 7, axis=1)
GRAPH = Graph.of(RING + RING.T)
LABELS = partition(GRAPH, 4)
TICKS = 110


def settings_of(**engine: Any) -> Settings:
    return Settings.of(windows={"reference": 40, "tests": [5, 20]}, engine=engine)


def made(labels: Any = LABELS, graph: Graph = GRAPH, cut: Cut | None = None) -> DensityRatioEngine:
    rng = np.random.default_rng(0)
    features = Nystroem(Dictionary(rng.normal(size=(10, D)), 1.5), rank=5, outside=True)
    cut = cut or Cut.of(graph, labels)
    engine = DensityRatioEngine(graph, features, settings_of(), Choice(1.0, 0.5, 0.05, 2.0), 0, cut)
    engine.null = NullMoments(
        np.full((N, S), 0.01), np.full((N, S), 0.02), np.zeros((N_LEVELS, N, S)),
        np.ones((N_LEVELS, N, S)), np.ones((N_LEVELS, S)),
    )  # fmt: skip
    no, one, two = np.zeros((N, D)), np.full((N, D), 0.3), np.ones((2, N, 1))
    engine.joint.null = [NullLevels(no, one, no, one, two, two)]
    engine.joint.tails = TailScale(np.full(N, 2.0), np.full(N, 0.01), 2.0)
    return engine


def play(engine: Any, first: int = 0, last: int = TICKS) -> None:
    """All that can happen to an engine: partial and empty ticks, two values in a tick, open incidents."""
    for t in range(first, last):
        rng = np.random.default_rng(t)
        row = rng.normal(size=(N, D))
        row[3:9] += 3.0 * (t > 75)
        nodes = np.flatnonzero(rng.random(N) < (0.9, 0.08, 0.3)[t % 3 if t > 70 else 0]).astype(np.int32)
        nodes = nodes if t % 17 else nodes[:0]
        for layer in np.array_split(nodes, 2 if t % 5 == 0 else 1):
            engine.slide(layer, row[layer], np.full(len(layer), float(t)))
        engine.silence(np.arange(N) == (20 if t > 85 else -1))
        engine.finish()
        if t == 80:
            engine.hold([3, 4, 5, 6])
        if t == 90:
            engine.rebaseline(4, 8)
            engine.forget(5, 3)
            engine.restart(np.array([11, 12], np.int32))
        if t == 95:
            engine.refill(30, rng.normal(size=(45, D)).astype(np.float32))
        if t == 100:
            engine.release([3, 4, 5, 6])


def bits(engine: Any) -> list[bytes]:
    names = ("node", "event", "inside", "scores", "standard_scores")
    return [np.asarray(getattr(engine, name)).tobytes() for name in names]


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


@pytest.mark.parametrize("held_by", [[[0], [1], [2], [3]], [[0, 2], [1, 3]], [[0, 1, 2, 3]]])
def test_shards_that_exchange_boxes_give_the_same_bits(whole: list[bytes], held_by: list[list[int]]) -> None:
    first = made()
    play(first, 0, 30)
    arrays, meta = first.state()
    shards = Shards([np.flatnonzero(np.isin(LABELS, parts)) for parts in held_by], arrays, meta)
    play(shards, 30)
    assert bits(shards) == whole


class Shards:
    """Engines of some parts each; every operation goes to whom it concerns, in the numbers of that engine."""

    def __init__(self, held: list[Any], arrays: Any, meta: Any) -> None:
        cuts = [Cut.of(GRAPH, LABELS, some) for some in held]
        self.all = [
            DensityRatioEngine.of_parts(c, settings_of(), arrays, meta, np.asarray(c.held, np.intp))
            for c in cuts
        ]

    def slide(self, nodes: Any, z: Any, times: Any) -> None:
        for one in self.all:
            here = np.isin(nodes, one.cut.held)
            if here.any():
                at = np.searchsorted(one.cut.held, nodes[here]).astype(np.int32)
                one.slide(at, z[here], times[here])

    def finish(self) -> None:
        for one in self.all:
            one.finish()
        told: dict[int, Any] = {}
        for one in self.all:
            told |= zip(one.cut.held[one.cut.boundary].tolist(), one.boundary.told, strict=True)
        for one in self.all:
            far = np.flatnonzero(one.cut.source < 0)
            if len(far):
                one.boundary.hear(far, np.stack([told[v] for v in one.cut.nodes[far]]))

    def silence(self, silent: Any) -> None:
        for one in self.all:
            one.silence(silent[one.cut.held])

    def _local(self, name: str, nodes: Any, *rest: Any) -> None:
        for one in self.all:
            some = np.intersect1d(nodes, one.cut.held)
            if len(some):
                at = np.searchsorted(one.cut.held, some).astype(np.int32)
                getattr(one, name)(at if name == "restart" else at.tolist(), *rest)

    def hold(self, nodes: Any) -> None:
        self._local("hold", nodes)

    def release(self, nodes: Any) -> None:
        self._local("release", nodes)

    def restart(self, nodes: Any) -> None:
        self._local("restart", nodes)

    def _one(self, name: str, v: int, *rest: Any) -> None:
        for one in self.all:
            if v in one.cut.held:
                getattr(one, name)(int(np.searchsorted(one.cut.held, v)), *rest)

    def rebaseline(self, v: int, keep: int) -> None:
        self._one("rebaseline", v, keep)

    def forget(self, v: int, keep: int) -> None:
        self._one("forget", v, keep)

    def refill(self, v: int, z: Any) -> None:
        self._one("refill", v, z)

    def __getattr__(self, name: str) -> Any:
        values = [np.asarray(getattr(one, name)) for one in self.all]
        whole = np.empty((N, *values[0].shape[1:]))
        for one, value in zip(self.all, values, strict=True):
            whole[one.cut.held] = value
        return whole


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
