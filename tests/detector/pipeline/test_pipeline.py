"""The pure pipeline: the same samples give the same events, and every event is for a reason."""

from __future__ import annotations

import random

import numpy as np
import pytest

from connectors.base import Sample
from detector.pipeline.pipeline import Pipeline
from tests.detector.learnt import (
    LEARN,
    NETWORK,
    NOW,
    START,
    changed,
    pipeline,
    quiet,
    same,
    samples,
    settings,
)


def kinds(events, prefix="incident."):
    return [event.event for event in events if event.event.startswith(prefix)]


def of(events, kind):
    return [event for event in events if event.event == kind]


@pytest.mark.parametrize("nodes", [[1, 2, 3], [6, 7], [4, 5, 0]])
def test_one_change_is_one_incident_with_its_onset(nodes):
    """A shift of linked nodes opens exactly one incident, soon, naming them all and when it began."""
    made = pipeline()
    events = made.push(samples(changed(NOW, NOW + 90, NOW + 40, nodes), NOW))

    (opened,) = of(events, "incident.opened")
    assert NOW + 41 <= opened.time - START <= NOW + 52
    last = [event for event in events if event.incident == opened.incident][-1]
    assert {node.name for node in last.nodes} >= {f"n{v}" for v in nodes}
    assert abs(last.onset - (START + NOW + 40)) <= 4.0
    assert {made.node_states[v] for v in nodes} == {"alarmed"}


def test_incidents_hold_the_nodes_that_changed():
    """Ten samples after the opening, over eight changes, members are changed nodes, and nearly all of them.

    Bars for eight nodes that have learnt from 400 samples; benchmarks/detection.py has the real ones.
    """
    right = named = changed_nodes = 0
    for k, nodes in enumerate([[1, 2, 3], [0, 1, 2], [6, 7], [2, 3], [4, 5], [5, 0], [3, 4, 5], [0, 1]]):
        made, first = pipeline(), NOW + 100 * k  # other noise each time
        stream = changed(first, first + 60, first + 20, nodes)
        for t, row in enumerate(stream):
            made.push(samples(row[None], NOW + t))
            if made.incidents.open and t >= 20 + 10 + 3:  # opened three samples after the change, as a rule
                break
        members = set(made.incidents.states.owner)
        right, named = right + len(members & set(nodes)), named + len(members)
        changed_nodes += len(nodes)

    assert right / changed_nodes >= 0.9
    assert right / named >= 0.8


def test_quiet_stream_opens_nothing():
    """Quiet data open no incident (the budget allows .06 in this stretch)."""
    assert kinds(pipeline().push(samples(quiet(NOW, NOW + 300), NOW))) == []


def test_no_alarm_while_learning():
    """Until enough is seen nothing is said of changes, however large; then the report comes once."""
    made = Pipeline(NETWORK, 1, settings())
    events = made.push(samples(changed(0, LEARN - 5, 100, [0, 1], 50.0), 0))

    assert [event.event for event in events] == ["detector.learning"]
    assert made.phase == "learning"
    assert 0.9 < made.progress_learning < 1.0
    assert np.isnan(made.statistic).all()
    assert np.isnan(made.threshold)
    assert set(made.node_states) == {"learning"}


def in_batches(made, stream, rng):
    events = []
    while stream:
        size = rng.randint(1, 40)
        events += made.push(stream[:size])
        stream = stream[size:]
    return events


@pytest.mark.parametrize("seed", [0, 1])
def test_batches_do_not_matter(seed):
    """The same samples cut into any batches give the same events and the same state, bit for bit."""
    stream = samples(changed(NOW, NOW + 60, NOW + 20, [0, 1]), NOW)
    one, two = pipeline(), pipeline()
    first = one.push(stream)

    assert in_batches(two, stream, random.Random(seed)) == first
    assert kinds(first).count("incident.opened") == 1
    same(one, two)


def test_batches_do_not_matter_to_silent_and_stuck_nodes():
    """A node silent or stuck for a while within one batch is told of as it is sample by sample."""
    X = quiet(NOW, NOW + 120)
    X[10:80, 4] = np.nan
    X[10:100, 1] = 0.05
    stream = samples(X, NOW)
    one, two = (pipeline(align={"silent_after": 30.0, "stuck_after": 20}) for _ in range(2))

    assert one.push(stream) == in_batches(two, stream, random.Random(0))


@pytest.mark.parametrize("seed", [0, 1])
def test_interleavings_do_not_matter(seed):
    """Nodes in another order at every tick, and samples late within what is allowed, give the same events."""
    stream = samples(changed(NOW, NOW + 60, NOW + 20, [0, 1]), NOW)
    one, two, rng = pipeline(), pipeline(), random.Random(seed)
    mixed = sorted(stream, key=lambda s: (s.time + 1.5 * (rng.random() < 0.1), rng.random()))

    assert in_batches(two, mixed, rng) == one.push(stream)
    assert one.flush() == two.flush()
    assert one.statistic.tobytes() == two.statistic.tobytes()
    assert one.event_statistic.tobytes() == two.event_statistic.tobytes()


def test_misfits_are_counted_by_reason():
    """Late, duplicate, unknown, ragged, infinite and missing samples are counted and change nothing."""
    one, two = pipeline(), pipeline()
    stream = samples(quiet(NOW, NOW + 30), NOW)
    now = START + NOW + 29
    misfits = [
        Sample(now - 20.0, "n0", (1.0,)),
        Sample(now, "n1", (99.0,)),
        Sample(now, "nobody", (1.0,)),
        Sample(now, "n1", (1.0, 2.0)),
        Sample(now + 0.1, "n1", (float("inf"),)),
        Sample(now + 0.1, "n1", (float("nan"),)),
        Sample(float("nan"), "n1", (1.0,)),
    ]
    one.push(stream + misfits)
    two.push(stream)
    new = {reason: one.counts[reason] - two.counts[reason] for reason in one.counts}
    tail = samples(quiet(NOW + 30, NOW + 40), NOW + 30)

    assert one.push(tail) == two.push(tail)
    assert one.statistic.tobytes() == two.statistic.tobytes()
    new |= {"duplicate": one.counts["duplicate"] - two.counts["duplicate"]}
    expected = dict.fromkeys(("late", "duplicate", "node", "dimension", "infinite", "missing", "time"), 1)
    assert {reason: n for reason, n in new.items() if n and reason != "received"} == expected
    assert new["received"] == 7


def test_gap_restarts_the_windows_of_its_node():
    """After a pause longer than max_gap a node has no decision until its windows are full again."""
    made = pipeline(align={"max_gap": 20.0, "silent_after": 200.0})
    X = quiet(NOW, NOW + 200)
    X[10:40, 2] = np.nan
    for t in range(200):
        made.push(samples(X[t : t + 1], NOW + t))
        if t in (38, 80, 199):
            made.flush()
            assert np.isfinite(made.statistic[2]) == (t != 80), t
            assert np.isfinite(made.statistic[3])
    assert len(made.engine.reference(2)) == 60


def test_silent_node_has_its_own_events():
    """A node that stops is silent, raises no alarm, keeps its neighbours' verdicts, and returns."""
    made = pipeline(align={"silent_after": 30.0, "max_gap": 1000.0})
    X = quiet(NOW, NOW + 120)
    X[10:80, 4] = np.nan
    events = in_batches(made, samples(X, NOW), random.Random(0)) + made.flush()

    assert [(event.event, event.nodes[0].name) for event in events] == [
        ("node.silent", "n4"),
        ("node.returned", "n4"),
    ]
    assert events[0].time - START == pytest.approx(NOW + 9 + 30.0, abs=2.0)
    assert np.isfinite(made.statistic).all()


def test_stuck_node_has_its_own_events():
    """A node that becomes constant is stuck, not changed; it is told apart and let go again."""
    made = pipeline(align={"stuck_after": 20})
    X = quiet(NOW, NOW + 120)
    X[10:60, 5] = 0.05
    events = in_batches(made, samples(X, NOW), random.Random(0)) + made.flush()

    assert [event.event for event in of(events, "node.stuck") + of(events, "node.unstuck")] == [
        "node.stuck",
        "node.unstuck",
    ]
    assert of(events, "node.stuck")[0].time - START == pytest.approx(NOW + 30, abs=2.0)


def test_reference_is_held_while_an_incident_is_open():
    """The fault is not learnt: the references of its nodes stand still, the others' move on."""
    made = pipeline()
    made.push(samples(changed(NOW, NOW + 60, NOW + 20, [1, 2]), NOW))
    assert made.incidents.held >= {1, 2}
    assert made.engine.bank.held[[1, 2]].all()
    before = made.engine.reference(1).copy(), made.engine.reference(6).copy()
    made.push(samples(changed(NOW + 60, NOW + 90, NOW, [1, 2]), NOW + 60))

    np.testing.assert_array_equal(made.engine.reference(1), before[0])
    assert not np.array_equal(made.engine.reference(6), before[1])


def test_accepted_incident_becomes_the_new_normal():
    """Accepting re-baselines from the onset on: the same level raises nothing more, the old one does."""
    made = pipeline()
    events = made.push(samples(changed(NOW, NOW + 60, NOW + 20, [1, 2]), NOW))
    incident = of(events, "incident.opened")[0].incident
    (resolved,) = made.accept(incident, made.watermark)
    assert (resolved.event, resolved.resolution, resolved.by) == ("incident.resolved", "accepted", "operator")
    level = made.preprocess.steps["scale"]
    kept = made.engine.reference(1)[:, 0] * level.scale[1] + level.centre[1]
    assert len(kept) == 25  # all that the longest test window holds: it is younger than the onset
    assert np.mean(kept) > 3.0

    later = made.push(samples(changed(NOW + 60, NOW + 300, NOW, [1, 2]), NOW + 60))
    assert kinds(later) == []
    assert np.isfinite(made.statistic[[1, 2]]).all()
    back = made.push(samples(quiet(NOW + 300, NOW + 330), NOW + 300))
    assert kinds(back).count("incident.opened") == 1


def test_incident_clears_when_values_return():
    """Values that come back end the incident as cleared, and references are let go."""
    made = pipeline()
    events = made.push(samples(changed(NOW, NOW + 150, NOW + 20, [1, 2], until=NOW + 45), NOW))

    (resolved,) = of(events, "incident.resolved")
    assert resolved.resolution == "cleared"
    assert made.incidents.held == set()
    assert not made.engine.bank.held.any()


@pytest.mark.parametrize(("size", "words"), [(5.0, "mean up"), (-4.0, "mean down")])
@pytest.mark.parametrize("lasts", [20, 30, 60])
@pytest.mark.parametrize("nodes", [[1, 2], [0, 1, 2, 3]])
def test_what_is_said_at_the_end_is_what_happened(size, words, lasts, nodes):
    """Windows that hold the end of a change show a wide spread that never was."""
    X = changed(NOW, NOW + lasts + 140, NOW + 20, nodes, size, until=NOW + 20 + lasts)
    events = pipeline().push(samples(X, NOW))
    told = [event for event in events if event.event.startswith("incident.")]
    assert len({event.incident for event in told}) == 1
    assert told[-1].event == "incident.resolved"
    assert told[-1].resolution == "cleared"
    described = [event for event in told if "too few samples" not in event.summary]
    assert len(described) >= 2
    for event in described:
        assert words in event.summary, event.summary
    for name in nodes:
        assert f"n{name}" in told[-1].summary or f"{len(nodes)} nodes" in told[-1].summary
    assert "no single node is certain" not in told[-1].summary


def test_operator_clears_and_labels():
    """Cleared by hand, the incident ends and references slide again; a label stays with its record."""
    made = pipeline()
    events = made.push(samples(changed(NOW, NOW + 50, NOW + 20, [1, 2]), NOW))
    incident = of(events, "incident.opened")[0].incident
    (labelled,) = made.label(incident, made.watermark, alarm="false", note="maintenance")
    assert labelled.labels.note == "maintenance"
    (resolved,) = made.clear(incident, made.watermark)
    assert (resolved.resolution, resolved.by) == ("cleared", "operator")
    assert not made.engine.bank.held.any()
    with pytest.raises(ValueError, match="has ended already"):
        made.clear(incident, made.watermark)


def test_two_places_are_two_incidents():
    """Changes on sides of the network that are not linked open an incident each."""
    made = pipeline()
    X = changed(NOW, NOW + 60, NOW + 20, [1, 2])
    X[20:, [6, 7]] -= 4.0
    opened = of(made.push(samples(X, NOW)), "incident.opened")

    assert len(opened) == 2
    groups = [{node.name for node in event.nodes} for event in opened]
    assert any(group <= {"n6", "n7"} for group in groups)
    assert any(not group & {"n6", "n7"} for group in groups)


def test_values_far_from_what_was_learnt_are_told():
    """When most values leave the learnt range a warning says so, once."""
    made = pipeline()
    X = quiet(NOW, NOW + 1500)
    X[20:] += 30.0
    told = of(made.push(samples(X, NOW)), "detector.warning")

    assert len(told) == 1
    assert "left the range" in told[0].summary


def test_nodes_at_their_own_pace():
    """A node with a third of the samples is watched as well, at its own pace, and its change is found."""
    made = pipeline()
    X = changed(NOW, NOW + 300, NOW + 210, [7, 6])
    X[np.arange(300) % 3 != 0, 7] = np.nan
    opened = of(made.push(samples(X, NOW)), "incident.opened")

    assert len(opened) == 1
    assert {node.name for node in opened[0].nodes} & {"n6", "n7"}


def test_views_are_ready_for_json():
    """What pages show of a node is plain data, while learning and while watching."""
    import msgspec

    young, made = Pipeline(NETWORK, 1, settings()), pipeline()
    assert young.node_view("n0")["learning"] == 0.0
    view = made.node_view("n3")
    msgspec.json.encode(view)
    assert view["neighbours"] == ["n2", "n4"]
    assert len(view["reference"]) == 60
    assert len(view["recent"]) == len(view["times"]) == 25
    assert [scale["length"] for scale in view["scales"]] == [5, 10, 25]


def test_pipeline_needs_nodes():
    """Neither a network nor names is an error, as are too few names of components."""
    with pytest.raises(ValueError, match="needs a network, or names"):
        Pipeline(None, 1)
    with pytest.raises(ValueError, match="2 names for 1 components"):
        Pipeline(NETWORK, 1, components=["a", "b"])
