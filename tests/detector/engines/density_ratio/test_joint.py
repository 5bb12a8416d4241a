"""The event statistic joined from the density ratio and the level charts."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from detector.alignment.samples import Columns
from detector.engines.density_ratio.joint import SHARE, JointStatistic
from detector.engines.density_ratio.null_levels import learn_levels
from detector.engines.density_ratio.playback import quiet
from detector.network.network import Network
from detector.pipeline.pipeline import Pipeline
from detector.settings.core import Settings
from estimators.core.graph import Graph
from estimators.streaming.tail_scale import TailScale

N = 9
GRAPH = Graph.of(nx.to_numpy_array(nx.grid_2d_graph(3, 3)))
EVERYONE = np.arange(N, dtype=np.int32)


def learnt(dims=(1, 1), seed=0) -> JointStatistic:
    rng = np.random.default_rng(seed)
    made = JointStatistic(GRAPH, dims, 60)
    made.null = [
        learn_levels(charts, rng.normal(size=(800, N, d)), 5, quiet)[0]
        for charts, d in zip(made.fresh().charts, dims, strict=True)
    ]
    made.tails = TailScale.fit(np.abs(rng.normal(size=(500, N))) + 1.0, 50)
    return made


def play(joint: JointStatistic, x: np.ndarray, ratio: float = 0.0) -> np.ndarray:
    events = []
    for row in x:
        for view in range(len(joint.charts)):
            joint.slide(view, EVERYONE, row)
        joint.update(np.full(N, ratio), EVERYONE)
        joint.follow(np.ones(N, np.bool_), np.zeros(N, np.bool_), 50, np.ones(N, np.bool_))
        events.append(joint.event.copy())
    return np.array(events)


def test_the_larger_of_both_counts():
    joint = learnt()
    x = np.random.default_rng(1).normal(size=(150, N, 1))
    quiet = play(joint, x)
    assert np.nanmax(quiet) < 8.0
    strong = play(joint, x[:1], ratio=50.0)
    np.testing.assert_allclose(strong[0] * joint.tails.weight, 50.0, rtol=0.02)
    x[:, 4] += 4.0
    seen = play(joint, x[:25])
    assert seen[-1].argmax() == 4
    assert seen[-1, 4] > 2.0 * np.nanmax(quiet)
    energy = sum(charts.energy[4] for charts in joint.charts)
    assert joint.joint[4] == pytest.approx(np.sqrt(energy) / SHARE)


def test_undecided_stays_undecided():
    joint = learnt()
    joint.update(np.full(N, np.nan), EVERYONE)
    assert np.isnan(joint.event).all()


@pytest.mark.parametrize("dims", [(1,), (1, 1), ()])
def test_a_restored_statistic_goes_on_exactly(dims):
    joint = learnt(dims) if dims else JointStatistic(GRAPH, (), 60)
    x = np.random.default_rng(2).normal(size=(200, N, 1))
    play(joint, x[:120])
    joint.hold([1, 2])
    other = JointStatistic.restored(GRAPH, 60, joint.state(), np.arange(N), False, joint.undecided)
    np.testing.assert_array_equal(play(other, x[120:]), play(joint, x[120:]))


def test_a_level_that_has_not_come_back_is_the_baseline_after_the_incident():
    joint = learnt()
    rng = np.random.default_rng(3)
    play(joint, rng.normal(size=(150, N, 1)))
    shifted = rng.normal(size=(400, N, 1))
    shifted[:, 4] += 4.0
    assert play(joint, shifted[:25])[-1, 4] > 6.0
    joint.hold([4])
    assert play(joint, shifted[25:200])[-1, 4] > 6.0  # the fault is not learnt while it is held
    joint.release([4])
    after = play(joint, shifted[200:])
    assert np.nanmax(after[:, 4]) < 5.0
    shifted[:, 4] += 4.0
    assert play(joint, shifted[:30])[-1, 4] > 5.5  # and it sees the next change from there


def test_a_level_that_has_come_back_is_no_change_after_the_incident():
    """Though the window still holds the end of the event: it is emptied, the reference stays."""
    joint = learnt()
    rng = np.random.default_rng(3)
    play(joint, rng.normal(size=(150, N, 1)))
    event = rng.normal(size=(60, N, 1))
    event[:, 4] += 6.0
    play(joint, event[:20])
    joint.hold([4])
    play(joint, event[20:])
    play(joint, rng.normal(size=(12, N, 1)))
    assert joint.joint[4] > 3.0
    joint.release([4])
    after = play(joint, rng.normal(size=(300, N, 1)))
    assert np.nanmax(after[:, 4]) < 5.0


def test_a_level_that_has_come_back_needs_no_new_baseline():
    joint = learnt()
    rng = np.random.default_rng(6)
    play(joint, rng.normal(size=(150, N, 1)))
    shifted = rng.normal(size=(60, N, 1))
    shifted[:, 4] += 4.0
    play(joint, shifted[:20])
    joint.hold([4])
    play(joint, shifted[20:])
    play(joint, rng.normal(size=(10, N, 1)))  # it is back, and still in the windows
    assert joint.joint[4] > 3.0
    joint.forget(4)
    joint.release([4])
    assert np.nanmax(play(joint, rng.normal(size=(40, N, 1)))[:, 4]) < 5.0
    assert play(joint, shifted[:25])[-1, 4] > 6.0  # and soon the next change is seen as the first one was


def test_differencing_does_not_hide_a_lasting_change_of_level():
    """One sample of the differenced signal shows it; levels, a view of their own, show it from then on."""
    rng = np.random.default_rng(4)
    history = rng.normal(size=(1500, N, 1))

    def opened(level_charts: bool) -> list[int]:
        settings = Settings.of(
            preprocess={"difference": 1}, windows={"reference": 100, "tests": (5, 20)}, alarm={"learn": 1000},
            estimator={"level_charts": level_charts, "sigma": 1.0, "coupling": 0.3},
        )  # fmt: skip
        pipeline = Pipeline(Network.of([f"n{v}" for v in range(N)], GRAPH), 1, settings)
        pipeline.learn(history)
        stream = np.random.default_rng(5).normal(size=(400, N, 1))
        stream[200:, 4] += 2.5
        return [
            t - 1700
            for t, row in enumerate(stream, 1500)
            for event in pipeline.push_columns(Columns(EVERYONE, np.full(N, float(t)), row))
            if event.event == "incident.opened"
        ]

    assert opened(level_charts=False) == []
    with_levels = opened(level_charts=True)
    assert len(with_levels) >= 1
    assert 0 <= with_levels[0] <= 40
