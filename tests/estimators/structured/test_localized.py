"""Losses by parts: minimisers against enumeration, the predictor against a literal Eq. 6, Alg. 3, kernels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from estimators import Angular, FOne, Hamming, LocalizedPredictor, PartRidge, Ranking, SquaredParts
from estimators.structured.labelling import expected_cost, miss_cost, node_wise


def cheapest(loss: Any, outputs: list[np.ndarray], labels: list[np.ndarray], alpha: np.ndarray) -> float:
    """Least sum_i alpha_i Delta(z, y_i) over given outputs: Eq. 6 for whole labels with common scores."""
    pi = np.full(len(labels[0]), 1.0 / len(labels[0]))
    return min(sum(a * loss.value(z, y, pi) for a, y in zip(alpha, labels, strict=True)) for z in outputs)


CASES: dict[str, tuple[Any, Any, Any]] = {
    "hamming": (Hamming(3), lambda r: r.integers(0, 3, 4),
                [np.array(z) for z in itertools.product(range(3), repeat=4)]),
    "costs": (Hamming(3, np.array([[0.0, 3.0, 1.0], [1.0, 0.0, 2.0], [0.5, 1.0, 0.0]])),
              lambda r: r.integers(0, 3, 4), [np.array(z) for z in itertools.product(range(3), repeat=4)]),
    "f1": (FOne(5), lambda r: r.integers(0, 2, 5) * r.integers(0, 2),
           [np.array(z) for z in itertools.product((0, 1), repeat=5)]),
    "ranking": (Ranking(), lambda r: r.exponential(size=4),
                [np.array(z) for z in itertools.permutations(range(4))]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(8))
def test_the_minimiser_beats_every_output(name: str, seed: int) -> None:
    """A mixture of labels with known weights: the output found is as cheap as the best of all there are."""
    loss, draw, outputs = CASES[name]
    rng = np.random.default_rng(seed)
    labels = [draw(rng) for _ in range(6)]
    alpha = rng.dirichlet(np.ones(6))
    n = len(labels[0])
    pi = np.full(n, 1.0 / n)
    g = sum(a * loss.embed(y) for a, y in zip(alpha, labels, strict=True))
    z = loss.minimise(g, pi)
    found = sum(a * loss.value(z, y, pi) for a, y in zip(alpha, labels, strict=True))
    assert found == pytest.approx(cheapest(loss, outputs, labels, alpha), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_angles_and_squares_against_a_grid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    eta, alpha = rng.uniform(-3.0, 3.0, 7), rng.normal(size=7)
    grid = np.linspace(-np.pi / 2, np.pi / 2, 20_001)
    g = alpha @ Angular().embed(eta)
    z = Angular().minimise(g[None], np.ones(1))[0]
    cost = (alpha[:, None] * np.sin(grid - eta[:, None]) ** 2).sum(axis=0)
    assert (alpha * np.sin(z - eta) ** 2).sum() <= cost.min() + 1e-6
    share = rng.dirichlet(np.ones(7))
    mean = SquaredParts().minimise((share @ SquaredParts().embed(eta))[None], np.ones(1))[0]
    assert mean == pytest.approx(share @ eta)
    low = SquaredParts(low=0.5, high=0.7).minimise(np.array([[0.1], [0.6], [2.0]]), np.ones(3) / 3)
    assert low.tolist() == [0.5, 0.6, 0.7]


def test_scores_and_embedding_are_those_of_eq_9() -> None:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 2)) for n in (4, 6, 5)]
    Y = [rng.integers(0, 3, len(x)) for x in X]
    model = LocalizedPredictor(Hamming(3), sigma=0.9, lam=0.01).fit(X, Y)
    parts, labels = np.concatenate(X), np.concatenate(Y)
    k = lambda a, b: np.exp(-((a - b) ** 2).sum() / (2 * 0.81))  # noqa: E731
    K = np.array([[k(a, b) for b in parts] for a in parts])
    x = rng.normal(size=(3, 2))
    alpha = np.linalg.solve(K + 15 * 0.01 * np.eye(15), np.array([[k(a, b) for b in parts] for a in x]).T).T
    np.testing.assert_allclose(model.scores(x), alpha, atol=1e-10)
    np.testing.assert_allclose(model.embed(x), alpha @ np.eye(3)[labels], atol=1e-10)
    # Eq. 6 by enumeration of one part's label.
    literal = [min(range(3), key=lambda c, p=p: sum(alpha[p, j] * (c != labels[j]) for j in range(15)))
               for p in range(3)]  # fmt: skip
    assert model.predict(x).tolist() == literal


def test_the_footprint_core_is_one_instance() -> None:
    """Same regression as PartRidge, and with costs the same labels as the footprint's node-wise inference."""
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(20, 3)) for _ in range(5)]
    Y = [(x[:, 0] + 0.3 * rng.normal(size=20) > 0.5).astype(int) for x in X]
    costs = miss_cost(2)
    model = LocalizedPredictor(Hamming(2, costs), sigma=1.3, lam=1e-3).fit(X, Y)
    ridge = PartRidge(sigma=1.3, lam=1e-3).fit(np.concatenate(X), np.eye(2)[np.concatenate(Y)])
    x = rng.normal(size=(30, 3))
    g, support = ridge.embed(x)
    np.testing.assert_allclose(model.embed(x), g, atol=1e-8)
    near = np.abs(support - 1.0) < 0.05  # where the constant of the loss is known, and estimated
    agree = model.predict(x) == node_wise(expected_cost(g, costs))
    assert agree[near].mean() > 0.9
    assert near.sum() > 10


@pytest.mark.parametrize("loss", [SquaredParts(), Angular()])
def test_algorithm_3_finds_what_is_exact(loss: Any) -> None:
    rng = np.random.default_rng(2)
    X = [rng.uniform(-1.0, 1.0, size=(5, 1)) for _ in range(12)]
    Y = [0.6 * x[:, 0] + 0.05 * rng.normal(size=5) for x in X]
    model = LocalizedPredictor(loss, sigma=0.8, lam=1e-2).fit(X, Y)
    x = np.linspace(-0.8, 0.8, 5)[:, None]
    exact = model.predict(x)
    if isinstance(loss, SquaredParts):  # Eq. 6 as printed divides by the sum of the scores
        exact = exact / model.scores(x).sum(axis=1)
    found = model.predict_stochastic(x, steps=12_000, seed=3)
    assert np.abs(found - exact).max() < 0.06
    np.testing.assert_array_equal(found, model.predict_stochastic(x, steps=12_000, seed=3))


def test_the_universal_kernel_alone_is_ridge_on_whole_inputs() -> None:
    """Eq. 13 with all parts is vector-valued ridge regression with |P| times the ridge."""
    rng = np.random.default_rng(4)
    X, Y = rng.normal(size=(10, 3, 2)), rng.normal(size=(10, 3))
    model = LocalizedPredictor(SquaredParts(), local=0.0, universal=1.0, sigma_universal=2.0, lam=0.01)
    model.fit(list(X), list(Y))
    flat = X.reshape(10, -1)
    K = np.exp(-((flat[:, None] - flat) ** 2).sum(axis=2) / 8.0)
    x = rng.normal(size=(3, 2))
    v = np.exp(-((flat - x.ravel()) ** 2).sum(axis=1) / 8.0)
    np.testing.assert_allclose(model.predict(x), v @ np.linalg.solve(K + 10 * 3 * 0.01 * np.eye(10), Y))


@pytest.mark.parametrize("seed", range(3))
def test_both_kernels_learn_what_parts_alone_cannot(seed: int) -> None:
    """The label of a part is its own sign times that of the first part, which it cannot tell by itself."""
    rng = np.random.default_rng(seed)

    def draw(n: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        X = [rng.choice([-1.0, 1.0], size=(3, 1)) + 0.1 * rng.normal(size=(3, 1)) for _ in range(n)]
        return X, [(np.sign(x[:, 0]) * np.sign(x[0, 0]) > 0).astype(int) for x in X]

    train, test = draw(80), draw(60)
    errors = {}
    for name, settings in (("local", {}), ("both", {"universal": 1.0})):
        model = LocalizedPredictor(Hamming(2), sigma=0.5, sigma_universal=1.0, lam=1e-3, **settings)
        model.fit(*train)
        pi = np.ones(3) / 3
        errors[name] = np.mean(
            [Hamming(2).value(model.predict(x), y, pi) for x, y in zip(*test, strict=True)]
        )
    assert errors["local"] > 0.2
    assert errors["both"] < 0.05


def test_bad_input_is_told() -> None:
    x = np.zeros((3, 1))
    with pytest.raises(ValueError, match="call fit first"):
        LocalizedPredictor(Hamming(2)).predict(x)
    model = LocalizedPredictor(Hamming(2))
    for X, Y, words in (
        ([x], [], "0 labels for 1 inputs"),
        ([x], [np.zeros(2, int)], r"Y\[0\]: 2 part labels, but X\[0\] has 3 parts"),
        ([x, np.zeros((3, 2))], [np.zeros(3, int)] * 2, r"X\[1\]: descriptors of 2"),
        ([x], [np.array([0, 1, 2])], "expected classes 0 to 1"),
        ([x], [np.array([0.0, 1.0, 1.0])], "expected classes 0 to 1"),
        ([np.full((3, 1), np.nan)], [np.zeros(3, int)], "must be finite"),
    ):
        with pytest.raises(ValueError, match=words):
            model.fit(X, Y)
    whole = LocalizedPredictor(Hamming(2), universal=1.0)
    with pytest.raises(ValueError, match="X: 20001 parts, but the kernel of more than 20000 takes gigabytes"):
        LocalizedPredictor(Hamming(2)).fit([np.zeros((20_001, 1))], [np.zeros(20_001, int)])
    with pytest.raises(ValueError, match="the universal kernel needs the same"):
        whole.fit([x, np.zeros((4, 1))], [np.zeros(3, int), np.zeros(4, int)])
    fitted = model.fit([x + np.arange(3)[:, None]], [np.array([0, 1, 1])])
    with pytest.raises(TypeError, match="Hamming has no gradient"):
        fitted.predict_stochastic(x)
    with pytest.raises(ValueError, match="pi: expected 3 weights"):
        fitted.predict(x, pi=[1.0, -1.0, 1.0])
    with pytest.raises(ValueError, match="descriptors of 2, learnt were 1"):
        fitted.predict(np.zeros((3, 2)))
    for call in (
        lambda: Hamming(1),
        lambda: Hamming(2, np.zeros((3, 3))),
        lambda: FOne(0),
        lambda: FOne(1).embed(np.array([1, 1])),
        lambda: FOne(2).embed(np.array([0.5])),
        lambda: SquaredParts().embed(np.array([np.inf])),
        lambda: LocalizedPredictor(Hamming(2), local=0.0),
    ):
        with pytest.raises(ValueError, match=r"\w+:"):
            call()
