"""A restart at any sample: the state through JSON and plain arrays, and then the same bits."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detector.network import Network
from detector.pipeline import Pipeline
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
    chosen = learnt.settings()
    chosen = replace(chosen, estimator=replace(chosen.estimator, dictionary="sparse", atoms=8))
    one = Pipeline(NETWORK, 1, chosen)
    one.push(samples(quiet(0, LEARN + 60), 0))
    two = thawed(frozen(one), chosen=chosen)
    rest = samples(changed(NOW, NOW + 60, NOW + 10, [1, 2]), NOW)

    assert 1 < one.dictionary_size <= 8
    assert one.push(rest) == two.push(rest)
    assert one.incidents.open
    same(one, two)
    with pytest.raises(ValueError, match=r"learnt with another estimator\.dictionary, estimator\.atoms"):
        thawed(frozen(one))


def test_a_state_from_before_a_key():
    """A setting that the state does not know yet had its default then."""
    arrays, meta = learnt.state()
    old = msgspec.json.decode(meta)
    del old["estimator"]["dictionary"]

    assert thawed((arrays, msgspec.json.encode(old))).phase == "watching"
    other = learnt.settings()
    other = replace(other, estimator=replace(other.estimator, dictionary="sparse"))
    with pytest.raises(ValueError, match=r"learnt with another estimator\.dictionary"):
        thawed((arrays, msgspec.json.encode(old)), chosen=other)


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

    assert first == second
    assert one.statistic[:6].tobytes() == two.statistic[:6].tobytes()
    np.testing.assert_array_equal(one.engine.recent(6), two.engine.recent(6))


def test_added_node_leaves_the_others_alone():
    """A node that is new to the state starts without a past; the others go on bit for bit."""
    names = ["fresh", *NAMES]
    more = Network.from_edges(EDGES, names)
    one = pipeline()
    two = thawed(frozen(one), more)
    X = changed(NOW, NOW + 60, NOW + 20, [1, 2])
    wide = np.concatenate([quiet(NOW + 5000, NOW + 5060)[:, :1], X], axis=1)
    first, second = one.push(samples(X, NOW)), two.push(samples(wide, NOW, names))

    assert [event for event in second if event.event.startswith("incident")] == first
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
    with pytest.raises(ValueError, match=r"state: learnt with another windows\.tests; learn again"):
        pipeline(windows={"tests": [5, 10]})
    with pytest.raises(ValueError, match=r"estimator\.name"):
        thawed(learnt.state(), chosen=learnt.settings("pool"))


def test_other_budget_is_taken():
    """Settings that the state does not rest on may change."""
    assert pipeline(incidents={"clear_after": 20}).incidents.settings.clear_after == 20


def test_newer_state_is_refused():
    """A state of another version is refused, with both versions."""
    arrays, meta = learnt.state()
    other = msgspec.json.encode(msgspec.json.decode(meta) | {"version": 99})
    with pytest.raises(ValueError, match="version 99, this program reads 1 and 2"):
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
