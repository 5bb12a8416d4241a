"""A restart at any sample: the state through JSON and plain arrays, and then the same bits."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detector.network.network import Network
from detector.pipeline.pipeline import Pipeline
from detector.settings.changes import RelearnNeeded
from detector.settings.core import Settings
from detector.storage.database import FILE
from detector.storage.inspect import load_snapshot
from tests.detector import learnt
from tests.detector.learnt import (
    EDGES,
    LEARN,
    NAMES,
    NETWORK,
    NOW,
    changed,
    frozen,
    pipeline,
    quiet,
    same,
    samples,
    thawed,
)


def restarted(one, estimator="grulsif"):
    """``one`` goes on after its state was taken; the other begins from that state."""
    return thawed(frozen(one), chosen=learnt.settings(estimator))


@given(st.integers(1, 8 * 70))
@settings(max_examples=8, deadline=None)
def test_restart_at_any_sample(cut):
    """Whichever sample was the last before it, a restart gives the same later events and statistics."""
    stream = samples(changed(NOW, NOW + 70, NOW + 20, [1, 2], until=NOW + 45), NOW)
    one = pipeline()
    one.push(stream[:cut])
    two = restarted(one)
    same(one, two)

    assert one.push(stream[cut:]) == two.push(stream[cut:])
    assert one.flush() == two.flush()
    same(one, two)


def test_parts_are_kept_and_may_be_run_by_other_workers():
    """An incident across a cut: the same events inline, by threads, and after a restart amid it."""
    arrays, meta = frozen(pipeline())
    arrays = arrays | {"engine.parts": np.array([0, 0, 1, 1, 1, 0, 0, 1], np.int32)}
    threads = learnt.settings(engine={"type": "threads", "workers": 2})
    one, two = thawed((arrays, meta)), thawed((arrays, meta), chosen=threads)
    first = samples(changed(NOW, NOW + 60, NOW + 20, [1, 2]), NOW)
    events = one.push(first)
    assert any(event.event == "incident.opened" for event in events)
    assert two.push(first) == events
    three = thawed(frozen(one), chosen=threads)
    assert [len(held) for held in three.engine.held] == [4, 4]
    rest = samples(changed(NOW + 60, NOW + 160, NOW, [1, 2], until=NOW + 90), NOW + 60)
    events = one.push(rest)
    assert two.push(rest) == three.push(rest) == events
    same(one, two)
    same(one, three)
    with pytest.raises(RelearnNeeded, match=r"engine\.parts was auto and is 2 now"):
        thawed(frozen(one), chosen=learnt.settings(engine={"parts": 2}))


@pytest.mark.parametrize("estimator", ["pool", "adwin", "kswin", "page-hinkley"])
def test_restart_of_every_estimator(estimator):
    """Detectors of every kind go on alike, with an open incident among their state."""
    one = pipeline(estimator)
    one.push(samples(changed(NOW, NOW + 60, NOW + 20, [1, 2]), NOW))
    two = restarted(one, estimator)
    rest = samples(changed(NOW + 60, NOW + 160, NOW, [1, 2], until=NOW + 90), NOW + 60)

    assert one.push(rest) == two.push(rest)
    same(one, two)


def test_restart_with_a_sparse_dictionary():
    """Atoms with widths of their own are part of the state; the other dictionary would have to learn."""
    chosen = learnt.settings(estimator={"dictionary": "sparse", "atoms": 8})
    one = Pipeline(NETWORK, 1, chosen)
    one.push(samples(quiet(0, LEARN + 60), 0))
    two = thawed(frozen(one), chosen=chosen)
    rest = samples(changed(NOW, NOW + 60, NOW + 10, [1, 2]), NOW)

    assert 1 < one.dictionary_size <= 8
    assert one.push(rest) == two.push(rest)
    assert one.incidents.open
    same(one, two)
    with pytest.raises(ValueError, match=r"dictionary was sparse and is coherence now, .*atoms was 8"):
        thawed(frozen(one))


def test_a_state_from_before_a_key():
    """A setting that the state does not know yet had its default then."""
    arrays, meta = learnt.state()
    old = msgspec.json.decode(meta)
    del old["settings"]["estimator"]["dictionary"]

    assert thawed((arrays, msgspec.json.encode(old))).phase == "watching"
    other = learnt.settings(estimator={"dictionary": "sparse"})
    with pytest.raises(ValueError, match=r"estimator\.dictionary was coherence and is sparse now"):
        thawed((arrays, msgspec.json.encode(old)), chosen=other)


@pytest.fixture(scope="module")
def of_0_1(tmp_path_factory):
    """A state as a daemon of version 0.1 has left it."""
    folder = tmp_path_factory.mktemp("state")
    packed = Path(__file__).parents[2] / "data" / "state_0_1.db.gz"
    (folder / FILE).write_bytes(gzip.decompress(packed.read_bytes()))
    found = load_snapshot(folder)
    assert found.meta["version"] == 2
    return found.arrays, dict(found.meta)


def learnt_0_1(**groups):
    """The settings under which it was learnt."""
    steps = {"seasonal": 40.0, "seasonal_bins": 8, "difference": 1, "whiten": "aic", "max_order": 3}
    base = {
        "align": {"step": 1.0, "lateness": 1.0},
        "windows": {"reference": 40, "tests": [5, 20]},
        "estimator": {"sigma": 1.0, "coupling": 0.5, "ridge": 0.1, "rank": 6, "atoms": 16},
        "alarm": {"learn": 400, "budget": "1 per 500 ticks"},
        "preprocess": steps | {"embed": 2, "clip": 8.0, "screen": "on"},
    }
    return Settings.of(**{name: base.get(name, {}) | groups.get(name, {}) for name in {**base, **groups}})


def from_0_1(state, chosen):
    arrays, meta = state
    ring = Network.from_edges([(f"n{v}", f"n{(v + 1) % 8}") for v in range(8)], NAMES)
    return Pipeline.from_state(ring, 1, chosen, dict(arrays), dict(meta))


def test_a_state_of_version_0_1_rests_on_its_settings(of_0_1):
    """What it tells of its settings counts, the rest is taken as it is now."""
    made = from_0_1(of_0_1, learnt_0_1())
    assert made.incidents.open
    assert made.event_threshold == of_0_1[1]["report"]["event_threshold"]
    assert np.isfinite(made.statistic).all()
    assert from_0_1(of_0_1, learnt_0_1(incidents={"clear_after": 20})).phase == "watching"
    assert from_0_1(of_0_1, learnt_0_1(alarm={"budget": "1 per 100 ticks"})).event_threshold < 3.7
    others = (("preprocess", "embed", 3), ("windows", "reference", 50), ("align", "step", 2.0))
    for group, key, value in others:
        with pytest.raises(ValueError, match=rf"{group}\.{key} was .* and is {value} now"):
            from_0_1(of_0_1, learnt_0_1(**{group: {key: value}}))


@given(st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_a_state_of_version_0_1_through_a_state_of_now(of_0_1, seed):
    """Taken over, written anew and read again: the same bits, also where readings are held back."""
    arrays, meta = dict(of_0_1[0]), dict(of_0_1[1])
    rng = np.random.default_rng(seed)
    arrays["screen.held"] = rng.integers(0, 3, 8).astype(np.int8)  # as they were read, in 0.1
    arrays["screen.run"] = arrays["screen.held"].copy()
    arrays["screen.held_values"] = rng.normal(40.0, 30.0, (8, 2, 1))
    one = from_0_1((arrays, meta), learnt_0_1())
    again, told = frozen(one)
    two = from_0_1((again, msgspec.json.decode(told)), learnt_0_1())
    same(one, two)
    stream = samples(rng.normal(size=(60, 8, 1)) + 10.0 * np.arange(8)[:, None], 1_700_000_000 + 520 - 1000)
    assert one.push(stream) == two.push(stream)
    same(one, two)


def test_river_detectors_open_incidents():
    """A river detector in the engine's place opens an incident for a large change, and promises nothing."""
    made = pipeline("adwin")
    events = made.push(samples(changed(NOW, NOW + 150, NOW + 20, [1]), NOW))

    assert "incident.opened" in {event.event for event in events}
    assert np.isnan(made.promised_rate)
    assert any("promises no rate" in text for text in made.report.warnings)


@pytest.mark.parametrize("half", [0, 1, LEARN // 2])
def test_restart_while_learning(half):
    """Also half way through learning, or before the first tick: what is learnt later is the same."""
    if half == LEARN // 2:  # through calibration to the very state of the course that was not interrupted
        two = thawed(learnt.state(when="half"))
        two.push(samples(quiet(half, LEARN + 60), half))
        same(two, pipeline())
        return
    one = Pipeline(NETWORK, 1, learnt.settings())
    one.push(samples(quiet(0, half), 0))
    two = thawed(frozen(one))
    rest = samples(quiet(half, 300), half)
    assert one.push(rest) == two.push(rest)
    same(one, two)


def test_restart_right_after_a_command():
    """A state taken between an operator's word and the next sample loses nothing of it."""
    one = pipeline()
    events = one.push(samples(changed(NOW, NOW + 50, NOW + 20, [1, 2]), NOW))
    incident = next(event.incident for event in events if event.event == "incident.opened")
    one.accept(incident, one.watermark)
    two = restarted(one)
    rest = changed(NOW + 50, NOW + 120, NOW, [1, 2])
    rest[:10, [1, 2]] = np.nan  # the re-baselined nodes have no sample at first

    assert one.push(samples(rest, NOW + 50)) == two.push(samples(rest, NOW + 50))
    same(one, two)


def test_state_is_plain():
    """Arrays of plain dtypes, and JSON that a strict writer takes and gives back: no pickle anywhere."""
    made = pipeline()
    made.push(samples(changed(NOW, NOW + 50, NOW + 20, [1, 2]), NOW))
    arrays, meta = made.state()

    assert all(array.dtype.kind in "biuf" and not array.dtype.hasobject for array in arrays.values())
    text = msgspec.json.encode(meta)
    assert msgspec.json.encode(msgspec.json.decode(text)) == text
    assert all(array.flags.owndata for array in arrays.values())


def test_taking_the_state_does_not_share_it():
    """What the pipeline does later does not reach the arrays given out."""
    made = pipeline()
    arrays, _ = made.state()
    before = {name: array.copy() for name, array in arrays.items()}
    made.push(samples(quiet(NOW, NOW + 20), NOW))

    assert all(arrays[name].tobytes() == before[name].tobytes() for name in arrays)


def test_removed_node_leaves_the_others_alone():
    """Without one node, those not linked with it go on bit for bit; its neighbours keep their windows."""
    names = [name for name in NAMES if name != "n7"]
    fewer = Network.from_edges([edge for edge in EDGES if "n7" not in edge], names)
    one = pipeline()
    two = thawed(frozen(one), fewer)
    X = changed(NOW, NOW + 60, NOW + 20, [1, 2])
    first = one.push(samples(X, NOW))
    second = two.push(samples(X[:, :7], NOW, names))

    assert told(first) == told(second)
    assert one.statistic[:6].tobytes() == two.statistic[:6].tobytes()
    np.testing.assert_array_equal(one.engine.recent(6), two.engine.recent(6))


def told(events):
    """Without the event threshold, which follows the share of a network that is quiet."""
    return [msgspec.structs.replace(event, threshold=None) for event in events]


def test_added_node_leaves_the_others_alone():
    """A node that is new to the state starts without a past; the others go on bit for bit."""
    names = ["fresh", *NAMES]
    more = Network.from_edges(EDGES, names)
    by_size = {"incidents": {"warning_share": 1.0, "critical_share": 1.0}}  # shares differ with the network
    one = pipeline(**by_size)
    two = thawed(frozen(one), more, learnt.settings(**by_size))
    X = changed(NOW, NOW + 60, NOW + 20, [1, 2])
    wide = np.concatenate([quiet(NOW + 5000, NOW + 5060)[:, :1], X], axis=1)
    first, second = one.push(samples(X, NOW)), two.push(samples(wide, NOW, names))

    assert told(event for event in second if event.event.startswith("incident")) == told(first)
    assert one.statistic.tobytes() == two.statistic[1:].tobytes()
    assert np.isnan(two.statistic[0])


def test_samples_of_removed_nodes_are_counted():
    """What still arrives for a node that was taken out is unknown, and counted so."""
    names = [name for name in NAMES if name != "n7"]
    two = thawed(frozen(pipeline()), Network.from_edges([e for e in EDGES if "n7" not in e], names))
    before = two.counts["node"]
    two.push(samples(quiet(NOW, NOW + 10), NOW))
    assert two.counts["node"] == before + 10


def test_incident_of_a_removed_node_ends_with_it():
    """An open incident goes on without the node that was removed."""
    one = pipeline()
    one.push(samples(changed(NOW, NOW + 50, NOW + 20, [5, 0]), NOW))
    assert {0, 5} <= one.incidents.held
    names = [name for name in NAMES if name != "n5"]
    two = thawed(frozen(one), Network.from_edges([e for e in EDGES if "n5" not in e], names))

    assert 0 in two.incidents.held
    X = np.delete(changed(NOW + 50, NOW + 90, NOW, [5, 0]), 5, axis=1)
    two.push(samples(X, NOW + 50, names))
    assert all("n5" not in incident.members for incident in two.incidents.open.values())


def test_other_windows_are_refused():
    """A state learnt with other windows or another estimator is refused, naming the setting."""
    expected = (
        r"state: learnt with other settings: windows\.tests was \[5, 10, 25\] and is \[5, 10\] now; "
        r"set it back, or learn again: `detector learn FILE --force`, or another state\.directory"
    )
    with pytest.raises(RelearnNeeded, match=expected):
        pipeline(windows={"tests": [5, 10]})
    with pytest.raises(ValueError, match=r"estimator\.name"):
        thawed(learnt.state(), chosen=learnt.settings("pool"))


@pytest.mark.parametrize(
    ("group", "key", "value"),
    [
        ("preprocess", "embed", 2), ("preprocess", "whiten", "aic"), ("preprocess", "difference", 1),
        ("preprocess", "seasonal", "24h"), ("preprocess", "clip", 5.0), ("preprocess", "screen", "on"),
        ("incidents", "clear_after", 20), ("align", "step", "2s"), ("estimator", "sweeps", 2),
        ("windows", "mode", "fixed"),
    ],
)  # fmt: skip
def test_what_was_learnt_rests_on_it(group, key, value):
    """Changed after learning it is refused, with its name; while learning it is free."""
    with pytest.raises(RelearnNeeded, match=rf"learnt with other settings: {group}\.{key} was "):
        pipeline(**{group: {key: value}})
    half = thawed(learnt.state(when="half"), chosen=learnt.settings(**{group: {key: value}}))
    assert half.phase == "learning"


@pytest.mark.parametrize(("difference", "whiten"), [(0, 0), (1, 3)])
def test_auto_goes_on_with_what_was_learnt(difference, whiten):
    """Only the next learning chooses again: states from before it was the default are taken over."""
    given = {"preprocess": {"difference": difference, "whiten": whiten}}
    one = Pipeline(NETWORK, 1, learnt.settings(**given))
    one.push(samples(quiet(0, LEARN + 60), 0))
    two = thawed(frozen(one))
    row = samples(quiet(LEARN + 60, LEARN + 80), LEARN + 60)
    one.push(row)
    two.push(row)
    np.testing.assert_array_equal(one.event_statistic, two.event_statistic)


def test_other_settings_are_taken():
    """Settings that the state does not rest on may change; those of the learning count at the next one."""
    made = pipeline(
        incidents={"confirm": 3, "hold_for": "2h"}, align={"lateness": 9.0}, alarm={"seed": 1, "learn": 500}
    )

    assert (made.incidents.settings.confirm, made.incidents.settings.hold_for) == (3, 7200.0)
    assert made.aligner.watermark == pipeline().aligner.watermark - 7.0


def test_another_budget_is_another_threshold():
    """The threshold is read off the stored tail, for the budget of now; all that tells of it follows."""
    one = pipeline()
    two = thawed(frozen(one), chosen=learnt.settings(alarm={"budget": "20 per 100 ticks"}))
    fresh = Pipeline(NETWORK, 1, learnt.settings(alarm={"budget": "20 per 100 ticks"}))
    fresh.push(samples(quiet(0, LEARN + 60), 0))

    assert two.report.event_threshold == fresh.report.event_threshold < one.report.event_threshold
    assert two.threshold == one.threshold
    assert two.promised_rate == fresh.promised_rate == pytest.approx(0.2)
    assert two.report.record()["event_threshold"] == two.report.event_threshold
    assert two.report.record()["budget"] == "20 per 100 ticks"
    assert "promised: 20 per 100 ticks, the whole network" in two.report.text()
    assert "at most 20 per 100 ticks" in two.report.summary
    assert any("was 1 per 1000 ticks when it was learnt" in text for text in two.report.warnings)
    assert not any("when it was learnt" in text for text in one.report.warnings)

    stream = samples(quiet(NOW, NOW + 300), NOW)
    opened = [sum(event.event == "incident.opened" for event in made.push(stream)) for made in (one, two)]
    assert opened[0] < opened[1]
    back = thawed(frozen(two))
    assert back.report.event_threshold == one.report.event_threshold
    assert back.report.record() == one.report.record()


def test_a_promise_beyond_the_history_is_told_for_the_budget_of_now():
    made = pipeline(alarm={"budget": "1 per 1000000 ticks"})
    told = [text for text in made.report.warnings if "history too short for the budget" in text]

    assert len(told) == 1
    assert "1 per 1000000 ticks was asked for" in told[0]
    back = thawed(frozen(made), chosen=learnt.settings(alarm={"budget": "1 per 400 ticks"}))
    assert not [text for text in back.report.warnings if "history too short for the budget" in text]


def test_a_graph_cannot_be_learnt_afterwards():
    """Without links the promise would be another; a graph that is given can change."""
    with pytest.raises(RelearnNeeded, match=r"graph\.learn was false and is true now"):
        thawed(learnt.state(), None, names=NAMES)


def test_newer_state_is_refused():
    """A state of another version is refused, with both versions."""
    arrays, meta = learnt.state()
    other = msgspec.json.encode(msgspec.json.decode(meta) | {"version": 99})
    with pytest.raises(ValueError, match="version 99, this program reads 1 to 3"):
        thawed((arrays, other))


def test_learnt_graph_is_part_of_the_state():
    """Links learnt from the data are restored exactly, and among the nodes that are left if some go."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(400, 2, 1))
    X = 0.5 * rng.normal(size=(400, 8, 1)) + shared[:, [0, 0, 0, 0, 1, 1, 1, 1]]
    chosen = learnt.settings("page-hinkley")  # quick to learn; the graph is the same for all
    one = Pipeline(None, 1, chosen, names=NAMES)
    one.learn(X)
    two = thawed(frozen(one), None, chosen, names=NAMES)
    fewer = thawed(frozen(one), None, chosen, names=NAMES[1:])

    assert one.network.graph.weights.sum() > 0.0
    W = one.network.graph.matrix().toarray()
    np.testing.assert_array_equal(two.network.graph.matrix().toarray(), W)
    np.testing.assert_array_equal(fewer.network.graph.matrix().toarray(), W[1:, 1:])


def test_changed_edge_leaves_the_others_alone():
    """Without the link of the pair, the ring goes on bit for bit, and the pair keeps its windows."""
    one = pipeline()
    two = thawed(frozen(one), Network.from_edges([edge for edge in EDGES if edge != ("n6", "n7")], NAMES))
    X = changed(NOW, NOW + 60, NOW + 20, [1, 2])

    assert one.push(samples(X, NOW)) == two.push(samples(X, NOW))
    assert one.statistic[:6].tobytes() == two.statistic[:6].tobytes()
    for v in (6, 7):
        np.testing.assert_array_equal(one.engine.recent(v), two.engine.recent(v))
        np.testing.assert_array_equal(one.engine.reference(v), two.engine.reference(v))
