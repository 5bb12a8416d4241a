"""Slow drift of all nodes must not deafen, and a node that nothing can be told of says so."""

from __future__ import annotations

import numpy as np

from tests.detector import learnt

TICKS = 6000


def test_slow_drift_does_not_deafen() -> None:
    """Six deviations over 6000 ticks, a hundred times the reference; then three nodes shift by three."""
    pipeline = learnt.pipeline()
    X = learnt.quiet(learnt.NOW, learnt.NOW + TICKS) + np.linspace(0.0, 6.0, TICKS)[:, None, None]
    X[TICKS - 60 :, [0, 1, 2]] += 3.0
    events = pipeline.push(learnt.samples(X, learnt.NOW))
    opened = [event.time - learnt.START - learnt.NOW for event in events if event.event == "incident.opened"]
    assert [time for time in opened if TICKS - 60 <= time <= TICKS - 40], opened
    assert len(opened) <= 4, "false incidents within the budget of 1 in 5000 ticks, by chance three"
    assert pipeline.coverage > 0.5
    assert "out_of_range" not in pipeline.node_states


def test_a_node_out_of_range_is_told_and_comes_back() -> None:
    """Where a new baseline was learnt just before, and values are far from it again."""
    pipeline = learnt.pipeline(incidents={"min_nodes": 8})  # no incident: these nodes are told of already
    pipeline.relearning.learnt[7] = TICKS
    X = learnt.quiet(learnt.NOW, learnt.NOW + 1600)
    X[100:900, 7] += 40.0
    told, states = [], {}
    for t, row in enumerate(X):
        events = pipeline.push(learnt.samples(row[None], learnt.NOW + t))
        told += [(event.event, event.nodes[0].name) for event in events if event.event.endswith("_range")]
        states[t] = pipeline.node_states[7]
    assert told == [("node.out_of_range", "n7"), ("node.in_range", "n7")]
    assert states[890] == "out_of_range"
    assert states[1590] == "watching"


def test_a_new_normal_of_another_shape_asks_for_learning() -> None:
    """One value in ten is far away, and stays so: after each accept an incident opens again, and says why."""
    pipeline = learnt.pipeline()
    X = learnt.quiet(learnt.NOW, learnt.NOW + 1000)
    rng = np.random.default_rng(5)
    for v in (0, 1, 2):
        X[100:, v][rng.random(900) < 0.1] += 20.0
    advised, accepted, opened = [], 0, {}
    for t, row in enumerate(X):
        for event in pipeline.push(learnt.samples(row[None], learnt.NOW + t)):
            if event.event == "incident.opened":
                opened[str(event.incident)] = t
                advised += [(accepted, event)] if "reopened" in event.details else []
            elif event.event == "incident.resolved":
                opened.pop(str(event.incident), None)
        for incident in [incident for incident, begin in opened.items() if t - begin >= 60]:
            pipeline.accept(incident, learnt.START + learnt.NOW + t)
            del opened[incident]
            accepted += 1
        if t == 450:  # counts survive a restart
            pipeline = learnt.thawed(learnt.frozen(pipeline))
    assert advised, "no incident asks for learning"
    before, event = advised[0]
    assert before >= 1
    assert event.details["reopened"]["times"] >= 3
    assert "times since a change here was accepted: the new normal has a shape" in event.summary
