"""The engine: values in, two numbers per node out, work only where something moved."""

from __future__ import annotations

import numpy as np

from detector.engines.coverage import known
from detector.engines.density_ratio import Choice, DensityRatioEngine
from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.streaming.graph_statistics import N_LEVELS, NullMoments
from tests.detector.learnt import settings

N = 30
EVERYONE = np.arange(N, dtype=np.int32)
CHAIN = np.diag(np.ones(N - 1), 1)
GRAPH = Graph.of(CHAIN + CHAIN.T)


def made(graph=GRAPH, estimator="grulsif", quiet=True, **groups):
    atoms = np.linspace(-3.0, 3.0, 12)[:, None]
    features = Nystroem(Dictionary(atoms, 1.0), rank=5)
    engine = DensityRatioEngine(graph, features, settings(estimator, **groups), Choice(1.0, 0.5, 0.05, 2.0))
    engine.known = known(np.random.default_rng(0).normal(size=(50, 8, 1)), Dictionary(atoms, 1.0), 0)
    if quiet:
        n = graph.n_nodes
        ones = np.ones((N_LEVELS, n, 3))
        engine.null = NullMoments(
            np.zeros((n, 3)), 0.01 * np.ones((n, 3)), 0 * ones, ones, np.ones((N_LEVELS, 3))
        )
    return engine


def run(engine, ticks, seed=0, start=0.0):
    rng = np.random.default_rng(seed)
    for t in range(ticks):
        engine.slide(EVERYONE, rng.normal(size=(N, 1)), np.full(N, start + t))
        engine.finish()
    return engine


def test_statistics_come_with_full_windows():
    """No decision while windows fill; afterwards every node has both statistics."""
    engine = run(made(), 64)
    assert np.isnan(engine.node).all()
    run(engine, 5, 1)
    assert np.isfinite(engine.node).all()
    assert np.isfinite(engine.event).all()


def test_layers_of_one_tick():
    """Several values of a node within a tick enter in order, and the tick ends with one refit."""
    one, two = run(made(), 100), run(made(), 100)
    z = np.random.default_rng(7).normal(size=(3, N, 1))
    for k in range(3):
        one.slide(EVERYONE, z[k], np.full(N, 100.0 + k))
        two.slide(EVERYONE, z[k], np.full(N, 100.0 + k))
        two._settle()  # each by itself instead of the last one fused with the refit
    one.finish()
    two.finish()

    assert one.node.tobytes() == two.node.tobytes()
    np.testing.assert_array_equal(one.recent(3)[-3:, 0], z[:, 3, 0].astype(np.float32))
    np.testing.assert_array_equal(one.times(3)[-3:], [100.0, 101.0, 102.0])


def test_work_only_where_something_moved():
    """A value of one node changes the statistics around it, and leaves those far away as they were."""
    engine = run(made(), 100)
    before = engine.event.copy()
    scores = engine.scores.copy()
    engine.slide(np.array([3], np.int32), np.array([[4.0]]), np.array([100.0]))
    engine.finish()

    assert engine.event[3] != before[3]
    np.testing.assert_array_equal(scores[5:], engine.scores[5:])  # only neighbours are refitted
    np.testing.assert_array_equal(
        before[8:], engine.event[8:]
    )  # and three steps of the walk reach no further


def test_finish_without_news_changes_nothing():
    """A tick without a value leaves every number as it was."""
    engine = run(made(), 100)
    before, _ = engine.state()
    engine.finish()
    after, _ = engine.state()
    assert all(before[name].tobytes() == after[name].tobytes() for name in before)


def test_pool_ignores_the_graph():
    """The estimator `pool` gives a node what it has alone in the world."""
    alone, linked = run(made(Graph.empty(N), "grulsif"), 100), run(made(GRAPH, "pool"), 100)
    np.testing.assert_array_equal(alone.node, linked.node)
    np.testing.assert_array_equal(alone.event, linked.event)


def test_fixed_reference_never_moves():
    """In mode fixed the reference stays the first one, and a release does not let it go."""
    engine = run(made(windows={"mode": "fixed"}), 70)
    first = engine.reference(4).copy()
    engine.release([4])
    run(engine, 120, 3)

    np.testing.assert_array_equal(engine.reference(4), first)


def test_held_reference_is_released():
    """A held reference stands; released it moves on."""
    engine = run(made(), 100)
    engine.hold([4])
    held = engine.reference(4).copy()
    run(engine, 10, 5)
    np.testing.assert_array_equal(engine.reference(4), held)
    engine.release([4])
    run(engine, 10, 6)
    assert not np.array_equal(engine.reference(4), held)


def test_times_stand_beside_the_values():
    """The times of the longest test window are those at which its values came, in order."""
    engine = run(made(), 100, start=500.0)
    np.testing.assert_array_equal(engine.times(0), np.arange(575.0, 600.0))
    assert len(engine.times(0)) == len(engine.recent(0))
    engine.restart(np.array([0], np.int32))
    assert len(engine.times(0)) == len(engine.recent(0)) == 0


def test_rebaseline_keeps_the_latest():
    """A new reference begins with the latest values, and the node has no decision until it is full."""
    engine = run(made(), 100)
    latest = engine.recent(2)[-10:].copy()
    engine.hold([2])
    engine.rebaseline(2, 10)
    engine.finish()

    np.testing.assert_array_equal(engine.reference(2), latest)
    assert np.isnan(engine.node[2])
    assert not engine.bank.held[2]
    assert np.isfinite(engine.node[3])


def test_silence_takes_the_verdict_and_gives_it_back():
    """A silent node has no decision and its neighbours do; when it is heard again it has one at once."""
    engine = run(made(), 100)
    silent = np.zeros(N, bool)
    silent[5] = True
    engine.silence(silent)
    engine.finish()
    assert np.isnan(engine.node[5])
    assert np.isfinite(engine.node[[4, 6]]).all()
    engine.silence(~silent & False)
    engine.finish()
    assert np.isfinite(engine.node[5])


def test_log_ratio_points_at_the_change():
    """The log-ratio of recent values is positive for those after a change, negative before."""
    engine = run(made(), 90)
    rng = np.random.default_rng(9)
    for t in range(12):
        engine.slide(EVERYONE, 2.5 + 0.5 * rng.normal(size=(N, 1)), np.full(N, 90.0 + t))
        engine.finish()
    logs = engine.log_ratio(0)

    assert len(logs) == 25
    assert logs[-12:].mean() > 0.3 > 0.0 > logs[:13].mean()


def test_coverage_falls_outside_of_what_was_learnt():
    """Values where nothing was learnt are covered badly, also where the dictionary has an atom."""
    engine = run(made(), 100)
    inside = engine.coverage(EVERYONE).mean()
    engine.slide(EVERYONE, np.full((N, 1), 50.0), np.full(N, 100.0))
    engine.finish()
    assert inside > 0.8
    assert engine.coverage(EVERYONE).max() < 0.01
    engine.slide(EVERYONE, np.full((N, 1), -3.0), np.full(N, 101.0))
    engine.finish()
    assert engine.bank.features.dictionary.coverage([[-3.0]])[0] == 1.0
    assert engine.coverage(EVERYONE).max() < 0.95 * inside
    assert np.isnan(made().coverage(EVERYONE)).all()


def test_copy_and_fresh():
    """A copy goes its own way; a fresh engine has the settings and empty windows."""
    engine = run(made(), 100)
    before = engine.node.copy(), engine.stamps.copy()
    twin = run(engine.copy(), 10, 4, start=900.0)

    assert engine.node.tobytes() == before[0].tobytes()
    assert engine.stamps.tobytes() == before[1].tobytes()
    assert twin.node.tobytes() != before[0].tobytes()
    fresh = engine.fresh()
    assert fresh.null is engine.null
    assert not fresh.bank.ref_count.any()


def test_restored_engine_goes_on_alike():
    """The same bits after state and restore, with refits still to be done among it."""
    one = run(made(), 100)
    one.rebaseline(3, 5)
    two = made()
    two.restore(*one.state(), np.arange(N))
    for engine in (one, two):
        engine.finish()
        run(engine, 20, 11)
    assert one.node.tobytes() == two.node.tobytes()
    assert one.event.tobytes() == two.event.tobytes()
    assert one.stamps.tobytes() == two.stamps.tobytes()


def test_residual_falls_with_the_budget():
    """More sweeps per tick leave a smaller residual."""
    few, many = made(), made(estimator="grulsif")
    many.bank.sweeps = 4
    assert 0.0 < run(many, 100).residual < run(few, 100).residual < 1.0
