"""The screen for corrupt readings: what it may mask at most, and that it hides and delays no change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detector.alignment.samples import Columns
from detector.pipeline.pipeline import Pipeline
from detector.preprocessing.base import Shape
from detector.preprocessing.preprocessor import Preprocessor
from detector.preprocessing.steps.screen import GAINS, IN_A_ROW, LEVEL, SHARE, TOLERANCE, Screen
from detector.settings.preprocessing import PreprocessSettings
from estimators.core.graph import Graph
from tests.detector import learnt
from tests.detector.learnt import LEARN, NETWORK, NOW, changed, frozen, quiet, same, samples, thawed

ON = PreprocessSettings(screen="on")


def ready(n_nodes: int = 1, window: int = 200, gain: float = 1 / 32) -> Screen:
    made = Screen(ON, Shape(n_nodes, 1, window))
    made.noise[:], made.gain[:] = 1.0, gain
    return made


def passed(screen: Screen, values) -> list[float]:
    """Times of the readings (0, 1, 2, ...) that one node's windows get, in the order they get them."""
    got = []
    for t, value in enumerate(values):
        layer = Columns(np.zeros(1, np.int32), np.array([float(t)]), np.array([[value]]))
        for part in screen.apply(layer):
            got += part.times.tolist()
    return got


def twin(values, window: int, gain: float) -> tuple[list[int], int]:
    """Slow and obvious: readings that pass, in order; and how many were masked."""
    level, run, held, masked, got = values[0], 0, [], [], []
    for t, v in enumerate(values):
        away = v - level
        moved = level + gain * min(max(away, -TOLERANCE), TOLERANCE)
        if abs(away) <= TOLERANCE + LEVEL:
            masked += held
            held, run, level = [], 0, moved
            got.append(t)
            continue
        run += 1
        recent = [m for m in masked if m > t - window]
        if run <= IN_A_ROW and len(held) == run - 1 and len(recent) + len(held) + 1 <= int(SHARE * window):
            held.append(t)
        else:
            got += [*held, t]
            held, level = [], moved
        if run > IN_A_ROW:
            level = v
    return got, len(masked)


readings = st.lists(st.sampled_from([0.0, 0.5, -1.0, 2.0, 9.0, 20.0, -30.0, 1e6]), min_size=1, max_size=150)


@given(readings, st.sampled_from([5, 20, 40, 200]), st.sampled_from(GAINS))
@settings(max_examples=150, deadline=None)
def test_twin(values, window, gain):
    """Reading by reading what the slow twin does."""
    screen = ready(window=window, gain=gain)
    got, masked = twin(values, window, gain)

    assert passed(screen, values) == got
    assert screen.masked[0] == masked


@given(readings, st.sampled_from([5, 20, 40, 200]), st.sampled_from(GAINS))
@settings(max_examples=150, deadline=None)
def test_never_more_than_two_in_a_row_nor_a_tenth(values, window, gain):
    """Of any three readings one passes, of a longest test window a tenth is masked at most, in order."""
    screen = ready(window=window, gain=gain)
    got = passed(screen, [*values, 0.0, 0.0, 0.0])  # so that nothing is undecided
    kept = np.isin(np.arange(len(values) + 3), got)

    assert got == sorted(got)
    assert len(got) == len(set(got))
    gone = np.convolve(~kept, np.ones(3))
    assert gone.max() <= IN_A_ROW
    assert np.convolve(~kept, np.ones(window)).max() <= SHARE * window
    assert screen.masked[0] + screen.held[0] == (~kept).sum()


@given(st.lists(st.floats(-3.0, 3.0), min_size=5, max_size=60), st.floats(10.0, 1e6), st.integers(3, 40))
@settings(max_examples=80, deadline=None)
def test_a_lasting_change_is_never_hidden(before, size, after):
    """A jump that lasts three readings or more reaches the windows whole, two readings late at most."""
    screen = ready()
    screen.level[:] = 0.0
    values = [*before, *([size] * after)]
    got = []
    for t, value in enumerate(values):
        layer = Columns(np.zeros(1, np.int32), np.array([float(t)]), np.array([[value]]))
        for part in screen.apply(layer):
            got += part.times.tolist()
        if t >= len(before) + 2:
            assert got == list(range(t + 1))

    assert screen.masked[0] == 0


def test_isolated_spikes_are_masked():
    """One or two far readings, then the old level: gone, and counted; the next ones pass."""
    screen = ready()
    values = np.zeros(100)
    values[[10, 30, 31, 60]] = [50.0, -9.0, 400.0, 1e9]

    assert passed(screen, values) == [t for t in range(100) if t not in (10, 30, 31, 60)]
    assert screen.masked[0] == 4


def test_linked_nodes_pass_at_once():
    """Two linked nodes that stand out in one tick are an event; two that are not linked are held."""
    for edges, expected in (([[0, 1], [1, 0]], 2), ([[0, 0], [0, 0]], 0)):
        screen = ready(2)
        screen.link(Graph.of(np.array(edges, float)))
        screen.level[:] = 0.0
        layer = Columns(np.arange(2, dtype=np.int32), np.zeros(2), np.array([[20.0], [30.0]]))
        got = screen.apply(layer)
        assert sum(len(part) for part in got) == expected


@pytest.mark.parametrize("kind", ["white", "ar", "walk", "stairs"])
def test_noise_and_gain_are_learnt(kind):
    """White noise, a slow signal, a random walk, a mostly constant one: spikes go, quiet data stay."""
    rng = np.random.default_rng(4)
    e = rng.normal(size=(1200, 3))
    X = {
        "white": e,
        "ar": e.copy(),
        "walk": np.cumsum(e, axis=0),
        "stairs": np.repeat(rng.integers(0, 3, (60, 3)), 20, 0),
    }[kind]
    if kind == "ar":
        for t in range(1, len(X)):
            X[t] += 0.9 * X[t - 1]
    X = X[:, :, None].astype(float)
    bad = rng.permutation(1100)[:12] + 50
    bad = bad[bad % 20 > 3]  # next to a stair a spike belongs to that change
    spoilt = X.copy()
    spoilt[bad, 1] += 100.0 * X[:, 1].std()
    times = np.arange(1200.0)
    made = Preprocessor(ON, window=200)
    clean = made.learn_views(spoilt, times)[0]
    screen = made.steps["screen"]

    assert screen.gain[0, 0] == {"white": 1 / 32, "ar": 1.0, "walk": 1.0, "stairs": screen.gain[0, 0]}[kind]
    masked = np.isnan(clean[:, 1, 0])
    assert masked[bad].all()
    assert np.isnan(clean[:, [0, 2]]).mean() <= 0.002
    np.testing.assert_array_equal(clean[~np.isnan(clean)], spoilt[~np.isnan(clean)])


def test_missing_readings_change_nothing():
    """A reading that is not there neither ends a run nor begins one; unlearnt nodes pass."""
    screen = ready()
    assert passed(screen, [0.0, 20.0, np.nan, 0.0, 1.0]) == [0.0, 2.0, 3.0, 4.0]
    assert screen.masked[0] == 1
    assert passed(Screen(ON, Shape(1, 1, 200)), [0.0, 1e9, 0.0]) == [0.0, 1.0, 2.0]


# ------------------------------------------------------------------------------------- in the pipeline


def chosen(on: bool = True):
    return learnt.settings(preprocess={"screen": "on" if on else "off"}, windows={"tests": [5, 10, 30]})


def spoilt(first: int, last: int, every: int = 40) -> np.ndarray:
    """The quiet stream with a spike of one node, another one each time."""
    X = quiet(first, last)
    for t in range(first, last):
        if t % every == 0:
            X[t - first, (t // every) % 8] += 60.0
    return X


@pytest.fixture(scope="module")
def states():
    """Learnt from a history with spikes: without and with the screen."""
    made = {}
    for on in (False, True):
        pipeline = Pipeline(NETWORK, 1, chosen(on))
        pipeline.push(samples(spoilt(0, LEARN + 60), 0))
        assert pipeline.phase == "watching"
        made[on] = frozen(pipeline)
    return made


def opened(pipeline, X, first=NOW) -> list:
    return [e for e in pipeline.push(samples(X, first)) if e.event == "incident.opened"]


def test_spikes_reach_no_window(states):
    """With the screen neither reference nor tests hold a spike, nor does the dictionary; they are counted."""
    on, off = (thawed(states[k], chosen=chosen(k)) for k in (True, False))
    for pipeline in (on, off):
        pipeline.push(samples(spoilt(NOW, NOW + 100), NOW))

    def largest(pipeline):
        return max(np.abs(pipeline.engine.reference(v)).max() for v in range(8))

    assert largest(on) < 8.0 < largest(off)
    assert on.counts["masked"] >= (LEARN + 160) / 40 - 2
    assert "masked" not in off.counts
    assert on.node_view("n1")["preprocess"]["readings masked"] >= 1
    assert on.counts["accepted"] == off.counts["accepted"]


@pytest.mark.parametrize("nodes", [[1, 2], [6]])
@pytest.mark.parametrize("size", [3.0, 30.0])
def test_a_change_is_seen_as_soon(states, nodes, size):
    """Linked nodes: at the same tick with and without the screen. A single node: two ticks later at most."""
    times = {}
    for on in (False, True):
        pipeline = thawed(states[on], chosen=chosen(on))
        found = opened(pipeline, changed(NOW, NOW + 60, NOW + 20, nodes, size=size))
        assert found
        times[on] = found[0].time
    late = times[True] - times[False]

    assert late <= (0 if len(nodes) > 1 else IN_A_ROW)


@given(st.integers(1, 8 * 50))
@settings(max_examples=6, deadline=None)
def test_restart_at_any_sample(states, cut):
    """Held readings, levels and counts are part of the state, bit for bit."""
    stream = samples(spoilt(NOW, NOW + 50, every=3), NOW)
    one = thawed(states[True], chosen=chosen())
    one.push(stream[:cut])
    two = thawed(frozen(one), chosen=chosen())

    assert one.push(stream[cut:]) == two.push(stream[cut:])
    same(one, two)


def test_newcomers_and_gaps(states):
    """A node that was not learnt is screened once it is; a gap forgets what was held."""
    from detector.network.network import Network

    bigger = Network.from_edges([*learnt.EDGES, ("n7", "new")], [*learnt.NAMES, "new"])
    pipeline = thawed(states[True], bigger, chosen=chosen())
    rng = np.random.default_rng(9)
    X = np.concatenate([quiet(NOW, NOW + 150), rng.normal(5.0, 1.0, (150, 1, 1))], axis=1)
    X[[120, 140], 8] += 80.0
    pipeline.push(samples(X, NOW, [*learnt.NAMES, "new"]))

    screen = pipeline.preprocess.steps["screen"]
    assert screen.masked[8] >= 1
    screen.held[8] = 1
    pipeline.preprocess.restart(np.array([8], np.int32))
    assert screen.held[8] == 0
    assert np.isnan(screen.level[8]).all()


def test_off_is_off(states):
    """Without the setting there is no screen, and no trace of one in the state."""
    pipeline = thawed(states[False], chosen=chosen(False))

    assert not pipeline.preprocess.steps["screen"].active
    assert not [name for name in states[False][0] if "screen" in name]
