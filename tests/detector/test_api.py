"""The Python face: arrays in, events out."""

from __future__ import annotations

from functools import cache
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from connectors.base import Sample
from detector import NetworkDetector
from detector.network.network import Network

GROUPS = {
    "windows": {"reference": 60, "tests": [5, 10, 25]},
    "estimator": {"sigma": 1.0, "coupling": 0.5, "ridge": 0.05, "rank": 6, "atoms": 32},
    "alarm": {"budget": "1 per 5000 ticks"},
    "incidents": {"clear_after": 10, "cool_down": 5.0},
}
N = 6
GRAPH = nx.cycle_graph(N)


def history(T=400, dim=1):
    return np.random.default_rng(0).normal(size=(T, N, dim))


@cache
def _learnt():
    watch = NetworkDetector(GRAPH, **GROUPS)
    watch.learn(history())
    return watch.state()


@pytest.fixture
def watch():
    arrays, meta = _learnt()
    return NetworkDetector.from_state(GRAPH, arrays, meta, **GROUPS)


def drive(watch, ticks, seed=1, shift=0.0, nodes=(0, 1)):
    rng, events = np.random.default_rng(seed), []
    for _ in range(ticks):
        x = rng.normal(size=(N, 1))
        x[list(nodes)] += shift
        events += watch.update(x)
    return events


def opened(events):
    return [event for event in events if event.event == "incident.opened"]


def test_a_change_is_found(watch):
    """Quiet updates say nothing; a shift opens one incident on its nodes, with the time of the updates."""
    assert opened(drive(watch, 50)) == []
    events = drive(watch, 40, 2, shift=4.0)

    (event,) = opened(events)
    assert {node.name for node in event.nodes} <= {"0", "1"}
    assert 450.0 <= event.time <= 460.0
    assert abs(event.onset - 450.0) <= 4.0


def test_results_have_their_shapes(watch):
    """Statistics (N,), scores (N, scales), thresholds as numbers."""
    drive(watch, 3)

    assert watch.statistic.shape == watch.event_statistic.shape == (N,)
    assert watch.scores.shape == (N, 3)
    assert np.isfinite(watch.statistic).all()
    assert watch.threshold > 0.0
    assert watch.event_threshold > 0.0
    assert "thresholds" in watch.report.text()


def test_array_and_sample_histories_agree():
    """The same history as an array and as a list of samples in any order teaches the same."""
    X = history(300)
    samples = [Sample(float(t), str(v), (X[t, v, 0],)) for t in range(300) for v in range(N)]
    np.random.default_rng(1).shuffle(samples)
    groups = GROUPS | {"estimator": {"name": "page-hinkley"}}
    one, two = NetworkDetector(GRAPH, **groups), NetworkDetector(GRAPH, **groups)
    one.learn(X)
    two.learn(samples)

    a, b = one.state()[0], two.state()[0]
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_flat_arrays_are_one_component():
    """(T, N) and (N,) are taken as one component per node."""
    watch = NetworkDetector(GRAPH, **(GROUPS | {"estimator": {"name": "page-hinkley"}}))
    watch.learn(history(300)[:, :, 0])
    watch.update(np.zeros(N))
    assert watch.pipeline.dim == 1


def test_missing_values(watch):
    """A NaN row is a node without a sample; all NaN is a tick without any."""
    drive(watch, 5)
    before = watch.scores.copy()
    x = np.full((N, 1), np.nan)
    assert watch.update(x) == []
    np.testing.assert_array_equal(watch.scores, before)
    x[2] = 0.3
    watch.update(x)
    assert watch.pipeline.engine.recent(2)[-1, 0] != pytest.approx(watch.pipeline.engine.recent(3)[-1, 0])
    assert np.isfinite(watch.statistic).all()


def test_times_may_be_given(watch):
    """With times of one's own, events carry them; a time that is over is counted as late."""
    for t in range(3):
        watch.update(np.zeros((N, 1)), time=10_000.0 + t)
    assert watch.pipeline.watermark == 10_002.0
    watch.update(np.zeros((N, 1)), time=9_000.0)
    assert watch.pipeline.counts["late"] == N


def test_state_round_trip(watch):
    """A detector from the state goes on exactly, with an incident open; accept and clear work on it."""
    drive(watch, 30, 2, shift=4.0)
    arrays, meta = watch.state()
    other = NetworkDetector.from_state(GRAPH, arrays, meta, **GROUPS)

    assert drive(watch, 20, 3, 4.0) == drive(other, 20, 3, 4.0)
    assert watch.statistic.tobytes() == other.statistic.tobytes()
    (incident,) = watch.pipeline.incidents.open
    assert watch.accept(incident)[0].resolution == "accepted"
    assert other.label(incident, note="pump 3")[0].labels.note == "pump 3"
    assert other.clear(incident)[0].resolution == "cleared"


@pytest.mark.parametrize(
    "graph",
    [
        nx.to_numpy_array(GRAPH),
        sp.csr_array(nx.to_scipy_sparse_array(GRAPH)),
        nx.to_numpy_array(GRAPH).tolist(),
        Network.of([str(v) for v in range(N)], GRAPH),
    ],
    ids=["array", "sparse", "lists", "network"],
)
def test_graphs_of_every_kind(graph):
    """A networkx graph, a matrix of any kind and a Network mean the same network."""
    assert NetworkDetector(graph, dim=1).pipeline.network == NetworkDetector(GRAPH, dim=1).pipeline.network


def test_links_are_learnt_from_names():
    """A list of names is a network whose links are learnt, with a warning."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 1, 1)) + 0.4 * rng.normal(size=(400, 3, 1))
    watch = NetworkDetector(["a", "b", "c"], **(GROUPS | {"estimator": {"name": "page-hinkley"}}))
    report = watch.learn(X)

    assert watch.pipeline.network.graph.weights.sum() > 0.0
    assert report.warnings


def test_updates_before_learning():
    """Without a history updates are learnt from silently."""
    watch = NetworkDetector(GRAPH, **GROUPS)
    with pytest.raises(RuntimeError, match="nothing seen yet"):
        watch.statistic
    assert [event.event for event in drive(watch, 5)] == ["detector.learning"]
    assert np.isnan(watch.statistic).all()
    assert watch.report is None


@pytest.mark.parametrize("x", [np.zeros((N + 1, 1)), np.zeros((N, 2)), np.zeros(N - 1)])
def test_wrong_shapes_are_refused(watch, x):
    """An update of another network or dimension is an error that names both shapes."""
    with pytest.raises(ValueError, match=r"expected \(6, 1\) values, got"):
        watch.update(x)


def test_words_of_the_file():
    """Durations and budgets are taken in words, as config.yaml has them."""
    watch = NetworkDetector(GRAPH, alarm={"budget": "2 per week"}, incidents={"hold_for": "2h"})

    assert str(watch.settings.alarm.budget) == "2 per 1w"
    assert watch.settings.incidents.hold_for == 7200.0
    with pytest.raises(ValueError, match=r"hold_for: must be ticks such as .* \(got 'long'\)"):
        NetworkDetector(GRAPH, incidents={"hold_for": "long"})


def test_wrong_histories_are_refused():
    """Histories of a wrong rank are refused with their shape, unknown settings with the known ones."""
    with pytest.raises(ValueError, match=r"history: expected \(T, N, d\) or \(T, N\), got shape \(5,\)"):
        NetworkDetector(GRAPH).learn(np.zeros(5))
    with pytest.raises(ValueError, match=r"window: unknown; did you mean windows\?"):
        NetworkDetector(GRAPH, window={})


def test_frames_are_taken_by_the_names_of_their_columns() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal([0.0, 10.0, 20.0], 1.0, size=(400, 3))
    index = pd.date_range("2026-03-01", periods=400, freq="min", tz="Europe/Berlin")
    frame = pd.DataFrame(X[:, [2, 0, 1]], columns=["c", "a", "b"], index=index)
    settings: Any = {"align": {"step": "1min"}, "windows": {"reference": 40, "tests": [5, 10]},
                     "estimator": {"sigma": 1.0, "coupling": 0.3}}  # fmt: skip
    by_frame, by_array = (NetworkDetector(["a", "b", "c"], **settings) for _ in range(2))
    by_frame.learn(frame)
    by_array.learn(X, index.as_unit("ns").asi8 / 1e9)
    assert by_frame.pipeline.learnt_until == by_array.pipeline.learnt_until
    x = rng.normal([0.0, 10.0, 20.0])
    by_frame.update(pd.Series(x[[1, 2, 0]], index=["b", "c", "a"]))
    by_array.update(x)
    np.testing.assert_array_equal(by_frame.statistic, by_array.statistic)
    with pytest.raises(ValueError, match=r"no column for 'b' \(columns: c, a\)"):
        NetworkDetector(["a", "b", "c"], **settings).learn(frame[["c", "a"]])
    with pytest.raises(ValueError, match="expected a number in every column"):
        NetworkDetector(["a", "b", "c"], **settings).learn(frame.assign(b="on"))
