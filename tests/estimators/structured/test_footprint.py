"""Footprints of events: what is learnt, what is refused, and how well it does beside thresholds."""

from __future__ import annotations

import json
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from estimators import FootprintPredictor, LabelledEvent, PartRidge, TooFewEventsError
from estimators.datasets.events import draw_events, geometric_graph
from estimators.structured.egonet import ego_features
from estimators.structured.labelling import UNKNOWN

GRAPH = geometric_graph(40, 0.25, 0)
EVENTS = draw_events(GRAPH, 8, 1)
TESTS = draw_events(GRAPH, 5, 2)
QUICK = {"sigma": 3.0, "lam": 1e-3}


@pytest.fixture(scope="module")
def fitted() -> FootprintPredictor:
    return FootprintPredictor(3, **QUICK).fit(EVENTS)


def jaccard(said, true):
    return ((said > 0) & (true > 0)).sum() / max(((said > 0) | (true > 0)).sum(), 1)


def scores(labels, events):
    """Share of nodes with a wrong class, and overlap of the footprints: means over events."""
    error = np.mean([(z != e.labels).mean() for z, e in zip(labels, events, strict=True)])
    return error, np.mean([jaccard(z, e.labels) for z, e in zip(labels, events, strict=True)])


def test_is_the_ridge_on_descriptors(fitted):
    """Estimates are those of the regression; labels have one type, and probabilities are probabilities."""
    found = fitted.predict(TESTS[0].signal, GRAPH)

    assert found.g.shape == (40, 3)
    assert found.event_type == TESTS[0].labels.max()
    assert set(found.labels.tolist()) <= {0, found.event_type}
    assert jaccard(found.labels, TESTS[0].labels) > 0.3
    assert found.probabilities.min() >= 0.0
    assert found.probabilities.sum(axis=1).max() <= 1.0 + 1e-12
    assert 0.0 < found.objective < 2.0


def test_learns_what_thresholds_and_whole_inputs_cannot():
    """20 events on 60 nodes: error below .12 and overlap above .45; others stay above .14 and below .25."""
    graph = geometric_graph(60, 0.2, 0)
    train, test = draw_events(graph, 20, 1), draw_events(graph, 60, 2)
    model = FootprintPredictor(3, centres=200).fit(train)
    error, overlap = scores([model.predict(e.signal, graph).labels for e in test], test)
    told = np.mean([model.predict(e.signal, graph).event_type == e.labels.max() for e in test])

    assert error < 0.12
    assert overlap > 0.45
    assert told > 0.75

    levels = np.linspace(0.0, 6.0, 61)  # the sum of both features, at the level best for the training events
    wrong = [np.mean([((e.signal.sum(axis=1) > t) != (e.labels > 0)).mean() for e in train]) for t in levels]
    level = levels[int(np.argmin(wrong))]
    error, overlap = scores([(e.signal.sum(axis=1) > level) * e.labels.max() for e in test], test)
    assert error > 0.14  # though it is told the type
    assert overlap < 0.25

    x, x_ = (np.stack([e.signal.ravel() for e in events]) for events in (train, test))
    whole = PartRidge.select(x, np.stack([np.eye(3)[e.labels].ravel() for e in train]), np.arange(20))
    error, overlap = scores(whole.embed(x_)[0].reshape(60, 60, 3).argmax(axis=2), test)
    assert error > 0.14
    assert overlap < 0.2


def test_the_estimate_of_the_error_is_honest():
    """What is said of events left out errs about as much as what is said of new ones."""
    graph = geometric_graph(60, 0.2, 3)
    events, test = draw_events(graph, 20, 4), draw_events(graph, 60, 5)
    model = FootprintPredictor(3, centres=150).fit(events)
    left_out = np.mean([(out.labels != out.truth.argmax(axis=1)).mean() for out in model.left_out_])
    fresh, _ = scores([model.predict(e.signal, graph).labels for e in test], test)

    assert [out.event_id for out in model.left_out_] == [e.event_id for e in events]
    assert left_out == pytest.approx(fresh, abs=0.035)


def test_left_out_is_a_fit_without_the_event(fitted):
    """At the same width, standardisation and product m lam: exactly."""
    F, H = (np.concatenate(rows) for rows in zip(*(
        (ego_features(e.signal, GRAPH), np.eye(3)[e.labels]) for e in EVENTS), strict=True))  # fmt: skip
    x = (F - F.mean(axis=0)) / F.std(axis=0)
    rest = PartRidge(sigma=3.0, lam=1e-3 * 8 / 7).fit(x[40:], H[40:])

    np.testing.assert_allclose(fitted.ridge_.left_out_[0][:40], rest.embed(x[:40])[0], atol=1e-9)


def test_snapshots_of_one_event_are_left_out_together():
    """A copy of an event under its own name tells nothing of it; under another name it gives it away."""
    rng = np.random.default_rng(6)
    noise = [replace(e, labels=rng.permutation(e.labels)) for e in EVENTS]  # nothing can be learnt
    together = FootprintPredictor(3, sigma=1.0, lam=1e-6).fit([*noise, *noise])
    copies = [replace(e, event_id=f"{e.event_id}-copy") for e in noise]
    apart = FootprintPredictor(3, sigma=1.0, lam=1e-6).fit([*noise, *copies])

    def error(model):
        return np.mean([(out.labels != out.truth.argmax(axis=1)).mean() for out in model.left_out_])

    assert error(apart) < 0.02
    assert error(together) > 0.15


def test_numbers_of_nodes_do_not_matter(fitted):
    """Renumbering the nodes renumbers the footprint, and does not change what is learnt."""
    order = np.random.default_rng(7).permutation(40)
    W = GRAPH.matrix().toarray()[np.ix_(order, order)]
    moved = [LabelledEvent(e.event_id, e.signal[order], W, e.labels[order]) for e in EVENTS]
    found = FootprintPredictor(3, **QUICK).fit(moved).predict(TESTS[0].signal[order], W)
    plain = fitted.predict(TESTS[0].signal, GRAPH)

    np.testing.assert_allclose(found.g, plain.g[order], atol=1e-9)
    np.testing.assert_array_equal(found.labels, plain.labels[order])


def test_serves_graphs_never_seen(fitted):
    """What was learnt on 40 nodes finds footprints among 90 others."""
    graph = geometric_graph(90, 0.17, 8)
    events = draw_events(graph, 20, 9)
    _, overlap = scores([fitted.predict(e.signal, graph).labels for e in events], events)

    assert overlap > 0.4


def test_asked_for_some_nodes_only(fitted):
    """Estimates of nodes asked for are those of all; the others are not affected."""
    where = np.arange(40) % 3 > 0
    some, full = fitted.predict(TESTS[0].signal, GRAPH, where=where), fitted.predict(TESTS[0].signal, GRAPH)

    np.testing.assert_allclose(some.g[where], full.g[where], atol=1e-12)
    np.testing.assert_array_equal(some.labels[~where], 0)
    assert fitted.predict(TESTS[0].signal, GRAPH, where=np.zeros(40, bool)).event_type == 0


def test_what_is_like_nothing_seen_is_unknown():
    """Far from all parts the support ends; at a price of abstention it is unknown, not unaffected."""
    far = TESTS[0].signal + 60.0
    plain = FootprintPredictor(3, **QUICK).fit(EVENTS).predict(far, GRAPH)
    careful = FootprintPredictor(3, abstain=0.9, **QUICK).fit(EVENTS)

    assert plain.support.max() < 0.05
    np.testing.assert_array_equal(plain.labels, 0)
    np.testing.assert_array_equal(careful.predict(far, GRAPH).labels, UNKNOWN)
    near = careful.predict(TESTS[0].signal, GRAPH)
    assert (near.labels == UNKNOWN).mean() < 0.5
    assert near.event_type == TESTS[0].labels.max()


def test_soft_labels():
    """Probabilities of zero and one are hard labels; half-sure labels pull the estimates together."""
    sure = [replace(e, labels=np.eye(3)[e.labels]) for e in EVENTS]
    unsure = [replace(e, labels=0.5 * np.eye(3)[e.labels] + 0.5 / 3) for e in EVENTS]
    plain, same, mild = (
        FootprintPredictor(3, **QUICK).fit(events).predict(TESTS[0].signal, GRAPH).g
        for events in (EVENTS, sure, unsure)
    )

    np.testing.assert_array_equal(plain, same)
    assert mild.max() < plain.max() - 0.1


def test_masked_nodes_teach_nothing():
    """Wrong labels of nodes that are masked change nothing."""
    mask = np.random.default_rng(10).uniform(size=40) < 0.7
    hidden = [replace(e, mask=mask) for e in EVENTS]
    lies = [replace(e, mask=mask, labels=np.where(mask, e.labels, 2)) for e in EVENTS]
    one, two = (
        FootprintPredictor(3, **QUICK).fit(events).predict(TESTS[0].signal, GRAPH).g
        for events in (hidden, lies)
    )

    np.testing.assert_array_equal(one, two)


def test_false_alarms_teach_silence():
    """Confirmed false alarms, quiet or one hot node: what looks like them has no footprint."""
    rng = np.random.default_rng(11)
    spikes = rng.normal(size=(6, 40, 2))
    spikes[np.arange(6), rng.integers(0, 40, 6)] += 4.0
    alarms = [LabelledEvent(f"false-{k}", s, GRAPH, np.zeros(40, dtype=int)) for k, s in enumerate(spikes)]
    model = FootprintPredictor(3, centres=150).fit([*EVENTS, *alarms[:-1]])

    assert (model.predict(spikes[-1], GRAPH).labels > 0).sum() <= 2


def test_edges_can_be_coupled():
    """With a share of the cost on edges fewer links are cut; the state carries both regressions."""
    plain = FootprintPredictor(3, **QUICK).fit(EVENTS)
    coupled = FootprintPredictor(3, edge_weight=0.5, **QUICK).fit(EVENTS)
    edges = GRAPH.edges()

    def cut(z):
        return (z[edges[:, 0]] != z[edges[:, 1]]).sum()

    alone, linked = ([m.predict(e.signal, GRAPH).labels for e in TESTS] for m in (plain, coupled))
    assert sum(map(cut, linked)) < sum(map(cut, alone))
    again = FootprintPredictor.of_state(*_through_json(coupled))
    np.testing.assert_array_equal(again.predict(TESTS[0].signal, GRAPH).labels, linked[0])


def test_node_identity_is_off_unless_asked_for():
    """A node that is always odd is learnt with identity; without it equal signals are judged alike."""
    rng = np.random.default_rng(12)
    ring = nx.cycle_graph(12)
    events = []
    for k in range(12):
        signal, labels = rng.normal(size=(12, 1)), np.zeros(12, dtype=int)
        labels[(k + np.arange(3)) % 12] = 1
        signal[labels > 0] += 4.0
        signal[5], labels[5] = 4.0 + rng.normal(), 0  # node 5 is hot at all times, and never affected
        events.append(LabelledEvent(f"e{k}", signal, ring, labels))
    signal = np.zeros((12, 1))
    signal[[5, 11]] = 4.0
    anybody = FootprintPredictor(2, radius=0, sigma=1.0, lam=1e-3).fit(events).predict(signal, ring)
    itself = (
        FootprintPredictor(2, radius=0, sigma=1.0, lam=1e-3, identity=50.0).fit(events).predict(signal, ring)
    )

    assert anybody.g[5, 1] == pytest.approx(anybody.g[11, 1])
    assert itself.g[5, 1] < 0.3 < 0.7 < itself.g[11, 1]


def test_parts_are_blind_beyond_their_radius():
    """Labels that depend on a node far away stay at chance; an estimator without parts learns them."""
    rng = np.random.default_rng(13)
    path = nx.path_graph(8)
    signals = rng.normal(size=(150, 8, 1))
    labels = np.repeat(signals[:, :1, 0] > 0, 8, axis=1).astype(int)  # all nodes do what node 0 says
    events = [LabelledEvent(str(k), s, path, z) for k, (s, z) in enumerate(zip(signals, labels, strict=True))]
    local = FootprintPredictor(2, cost=1 - np.eye(2), one_type=False, sigma=3.0, lam=1e-2).fit(events[:100])
    said = np.stack([local.predict(e.signal, path).labels for e in events[100:]])
    whole = PartRidge(sigma=3.0, lam=1e-2).fit(signals[:100, :, 0], labels[:100])
    heard = whole.embed(signals[100:, :, 0])[0] > 0.5

    assert (said[:, 7] != labels[100:, 7]).mean() > 0.3
    assert (heard[:, 7] != labels[100:, 7]).mean() < 0.2


def test_same_seed_same_bits():
    """Thinned parts and drawn centres come from the seed alone."""
    for params in ({"m_max": 100}, {"centres": 30}):
        models = [FootprintPredictor(3, seed=s, **QUICK, **params).fit(EVENTS) for s in (1, 1, 2)]
        one, two, other = (model.predict(TESTS[0].signal, GRAPH) for model in models)
        np.testing.assert_array_equal(one.g, two.g)
        assert np.abs(one.g - other.g).max() > 0.0


def test_locality_is_told(fitted):
    """n_eff lies between the number of events and of parts."""
    assert fitted.locality_["r"] == 1.0
    assert 0.0 < fitted.locality_["q"] <= 1.0
    assert 8 <= fitted.locality_["n_eff"] <= 320


def _through_json(model):
    meta, arrays = model.state()
    return json.loads(json.dumps(meta)), arrays


@pytest.mark.parametrize("centres", [None, 50])
def test_state_gives_the_same_predictor(centres):
    """State passes through JSON and arrays; what is built from it says the same, bit by bit."""
    model = FootprintPredictor(3, centres=centres, abstain=1.5, **QUICK).fit(EVENTS)
    again = FootprintPredictor.of_state(*_through_json(model))
    one, two = model.predict(TESTS[0].signal, GRAPH), again.predict(TESTS[0].signal, GRAPH)

    np.testing.assert_array_equal(one.g, two.g)
    np.testing.assert_array_equal(one.labels, two.labels)
    assert (again.n_events_, again.locality_) == (8, model.locality_)


def test_foreign_state_is_refused(fitted):
    """Another version, missing pieces, arrays that do not fit: an error that says so."""
    meta, arrays = _through_json(fitted)
    for wrong in ({**meta, "version": 99}, {}, {**meta, "parameters": {}}, {**meta, "ridge": 3}):
        with pytest.raises(ValueError, match=r"version|not a predictor"):
            FootprintPredictor.of_state(wrong, arrays)
    for name in arrays:
        with pytest.raises(ValueError, match=r"."):
            FootprintPredictor.of_state(meta, {k: v for k, v in arrays.items() if k != name})
        with pytest.raises(ValueError, match=r"."):
            FootprintPredictor.of_state(meta, {**arrays, name: arrays[name][:-1]})


def test_few_events_and_one_class_are_refused():
    """Fewer events than asked for, and labels with nothing to tell apart, are errors that say so."""
    with pytest.raises(TooFewEventsError, match="4 labelled, but at least 5"):
        FootprintPredictor(3).fit(EVENTS[:4])
    with pytest.raises(TooFewEventsError, match="1 labelled"):
        FootprintPredictor(3).fit([EVENTS[0]] * 9)
    for labels, told in (
        (np.zeros(40, int), "no node is affected"),
        (np.ones(40, int), "all nodes are affected"),
    ):
        with pytest.raises(ValueError, match=told):
            FootprintPredictor(3).fit([replace(e, labels=labels) for e in EVENTS])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"labels": np.full(40, 3)}, "event 'event-2': labels: node 0 has 3, but classes are 0 to 2"),
        ({"labels": np.zeros(39, int)}, "event 'event-2': labels: expected 40 whole numbers"),
        ({"labels": np.full((40, 3), 0.5)}, "rows of probabilities must sum to 1"),
        ({"signal": np.zeros((39, 2))}, "event 'event-2': signal: 39 rows, but the graph has 40"),
        ({"signal": np.full((40, 2), np.inf)}, r"event 'event-2': signal\[0, 0\] is inf"),
        ({"signal": np.zeros((40, 1))}, "event 'event-2': 5 features of a part, the others have 9"),
        ({"mask": np.ones(40)}, "event 'event-2': mask: expected 40 truth values"),
        ({"nodes": np.ones(40)}, "event 'event-2': nodes: expected 40 whole numbers"),
        ({"graph": -np.ones((40, 40))}, r"event 'event-2': W\[0, 0\]"),
    ],
)
def test_bad_events_are_named(change, told):
    """Errors name the event and what is wrong with it."""
    with pytest.raises(ValueError, match=told):
        FootprintPredictor(3).fit([*EVENTS[:2], replace(EVENTS[2], **change), *EVENTS[3:]])


def test_bad_parameters_are_named(fitted):
    """Errors name the parameter."""
    bad = {"n_classes": 1, "radius": 3, "sigma": 0.0, "edge_weight": 1.0, "cost": np.eye(3), "centres": -1}
    for name, value in {**bad, "abstain": 0.0, "min_events": 1}.items():
        with pytest.raises(ValueError, match=f"{name}: "):
            FootprintPredictor(**{name: value})
    with pytest.raises(ValueError, match="call fit first"):
        FootprintPredictor().predict(np.zeros((3, 1)), nx.path_graph(3))
    with pytest.raises(ValueError, match="signal: 5 features of a part, but 9 were learnt"):
        fitted.predict(np.zeros((40, 1)), GRAPH)
