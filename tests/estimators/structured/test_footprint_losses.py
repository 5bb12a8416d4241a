"""Losses of footprints: what is cheapest is compared with all outputs there are; F1 in the predictor."""

from __future__ import annotations

from itertools import product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimators import FootprintCosts, FootprintFOne, FootprintPredictor, LabelledEvent
from estimators.structured.labelling import Coupling, miss_cost

N, T = 5, 3
EQUAL = np.full(N, 1.0 / N)


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from(["costs", "f1"]))
@settings(max_examples=60, deadline=None)
def test_nothing_is_cheaper(seed, one_type, name):
    """For the mean of some labels: no output has a smaller mean loss than the one that is chosen."""
    rng = np.random.default_rng(seed)
    loss = FootprintCosts(T, miss_cost(T), one_type) if name == "costs" else FootprintFOne(T, N, one_type)
    labels = [rng.integers(0, 2, N) * rng.integers(1, T) for _ in range(4)]
    g = np.mean([loss.embed(y) for y in labels], axis=0)
    z, told = loss.cheapest(g, Coupling.none())
    risk = {w: np.mean([loss.value(np.array(w), y, EQUAL) for y in labels])
            for w in product(range(T), repeat=N) if not one_type or len(set(w) - {0}) < 2}  # fmt: skip
    assert risk[tuple(z.tolist())] == pytest.approx(min(risk.values()))
    assert told == pytest.approx(min(risk.values()))


def test_f1_counts_the_size_of_an_event_that_was_thinned():
    """Rows of some parts of an event have the columns of its whole size."""
    loss = FootprintFOne(2, 4)
    H = np.eye(2)[[1, 0, 1]]
    phi = loss.rows(H, np.array([3, 3, 9]))
    np.testing.assert_array_equal(phi[:, :2], H)
    np.testing.assert_array_equal(phi[:, 2:], [[0, 0, 0, 1, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1]])
    np.testing.assert_array_equal(loss.rows(H[[1]], np.array([0]))[:, 2:], [[1, 0, 0, 0, 0]])


def events(rng: np.random.Generator, n: int, noise: float) -> list[LabelledEvent]:
    ring = nx.cycle_graph(20)
    made = []
    for k in range(n):
        size = int(rng.choice([0, 3, 8]))
        labels = np.isin(np.arange(20), (np.arange(size) + int(rng.integers(20))) % 20).astype(int)
        made.append(LabelledEvent(f"{k}", labels[:, None] + noise * rng.normal(size=(20, 1)), ring, labels))
    return made


def f1(said: np.ndarray, true: np.ndarray) -> float:
    return 1.0 - FootprintFOne(2, 20).value(said, true, np.full(len(true), 1.0 / len(true)))


def test_the_predictor_learns_for_the_loss_that_is_chosen():
    """Over seeds, with noisy signals: more F1 when learnt for it, and less cost when learnt for costs."""
    gain, saved = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        train, test = events(rng, 25, 0.7), events(rng, 30, 0.7)
        said = {loss: [model.predict(one.signal, one.graph).labels for one in test]
                for loss in ("costs", "f1")
                for model in [FootprintPredictor(radius=1, loss=loss).fit(train)]}  # fmt: skip
        score = {loss: np.mean([f1(z, np.asarray(one.labels)) for z, one in zip(found, test, strict=True)])
                 for loss, found in said.items()}  # fmt: skip
        price = {loss: np.mean([miss_cost(2)[z, np.asarray(one.labels)].sum()
                                for z, one in zip(found, test, strict=True)])
                 for loss, found in said.items()}  # fmt: skip
        gain.append(score["f1"] - score["costs"])
        saved.append(price["f1"] - price["costs"])
    assert np.mean(gain) > 0.0
    assert np.mean(saved) > 0.0


def test_a_state_keeps_the_loss():
    rng = np.random.default_rng(1)
    train = events(rng, 12, 0.3)
    model = FootprintPredictor(radius=1, loss="f1").fit(train)
    back = FootprintPredictor.of_state(*model.state())
    assert back.loss_ == model.loss_
    for one in events(rng, 3, 0.3):
        np.testing.assert_array_equal(
            back.predict(one.signal, one.graph).labels, model.predict(one.signal, one.graph).labels
        )
    meta, arrays = FootprintPredictor(radius=1).fit(train).state()
    del meta["parameters"]["loss"]  # as it was before there was a choice
    assert FootprintPredictor.of_state(meta, arrays).loss == "costs"
    with pytest.raises(ValueError, match="do not fit together"):
        FootprintPredictor.of_state(meta | {"parameters": meta["parameters"] | {"loss": "f1"}}, arrays)


def test_scores_of_foreign_parts():
    """The same as in a network of one's own; of another length an error."""
    rng = np.random.default_rng(2)
    train = events(rng, 12, 0.3)
    for loss in ("costs", "f1"):
        model = FootprintPredictor(radius=0, loss=loss).fit(train)
        g, support = model.scores(train[0].signal)
        said = model.predict(train[0].signal, train[0].graph)
        np.testing.assert_array_equal(g, said.g)
        np.testing.assert_array_equal(support, said.support)
    with pytest.raises(ValueError, match="2 features, but 1 were learnt"):
        model.scores([[1.0, 2.0]])


@pytest.mark.parametrize("wrong", [{"abstain": 0.4}, {"cost": miss_cost(2)}, {"edge_weight": 0.2}])
def test_what_belongs_to_costs(wrong):
    with pytest.raises(ValueError, match="f1 has no cost, abstain or edge_weight"):
        FootprintPredictor(loss="f1", **wrong)
    with pytest.raises(ValueError, match="unknown name 'f2'; known: costs, f1"):
        FootprintPredictor(loss="f2")
