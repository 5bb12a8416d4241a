"""What parts are worth: the measures of locality, and the exchange of inputs for parts that they promise."""

from __future__ import annotations

import numpy as np
import pytest

from estimators import PartRidge
from estimators.datasets.events import correlated_parts
from estimators.structured.locality import correlation_by_distance, intra_locality


def test_correlation_of_parts_decays_twice_as_fast():
    """With the linear kernel C_pq is (k^2 + k) exp(-2 gamma d(p, q)): the squared kernel enters (Eq. 21)."""
    n, P, k, gamma = 200, 5, 4, 1.5
    p, groups = np.tile(np.arange(P), n), np.repeat(np.arange(n), P)
    apart = np.abs(p[:, None] - p[None, :])
    draws = [correlated_parts(n, P, k, gamma, seed).reshape(n * P, k) for seed in range(20)]
    C = np.array([correlation_by_distance(x @ x.T, groups, apart) for x in draws])  # (draws, P)
    expected, spread = (k**2 + k) * np.exp(-2 * gamma * np.arange(P) / P), C.std(axis=0) / np.sqrt(20)

    assert (spread < 0.1 * expected).all()
    np.testing.assert_array_less(np.abs(C.mean(axis=0) - expected), 4 * spread)


def test_q_is_the_difference_of_two_means():
    """The estimate is the mean of K^2 within an input less the mean between inputs, and never negative."""
    for seed in range(20):
        x = correlated_parts(6, 3, 2, 1.0, seed)
        K = (x.reshape(18, 2) @ x.reshape(18, 2).T).reshape(6, 3, 6, 3)
        within = np.mean([K[i, p, i, q] ** 2 for i in range(6) for p in range(3) for q in range(3)])
        apart = np.mean([K[i, p, j, q] ** 2 for i in range(6) for j in range(6) if i != j
                         for p in range(3) for q in range(3)])  # fmt: skip
        found = intra_locality(K.reshape(18, 18), np.repeat(np.arange(6), 3))

        assert found == pytest.approx(within - apart)
        assert found > -1e-12


def test_parts_of_unequal_number():
    """Every input counts the same, however many parts of it there are."""
    x = np.random.default_rng(3).normal(size=(7, 2))
    groups = np.array(["a", "a", "a", "b", "b", "c", "c"])
    K2 = (x @ x.T) ** 2
    a = np.array([[K2[np.ix_(groups == i, groups == j)].mean() for j in "abc"] for i in "abc"])
    expected = np.trace(a) / 3 - (a.sum() - np.trace(a)) / 6

    assert intra_locality(x @ x.T, groups) == pytest.approx(expected)
    with pytest.raises(ValueError, match="groups: one input only"):
        intra_locality(x @ x.T, np.zeros(7))


def test_identical_and_independent_parts():
    """Copies of one part are worth nothing more; independent parts divide q by their number."""
    n, P, k = 300, 10, 3
    copies, free = (correlated_parts(n, P, k, gamma, 4).reshape(n * P, k) for gamma in (0.0, 1e6))
    one = correlated_parts(n, 1, k, 0.0, 4).reshape(n, k)
    groups = np.repeat(np.arange(n), P)
    q_one = intra_locality(one @ one.T, np.arange(n))

    assert intra_locality(copies @ copies.T, groups) == pytest.approx(q_one, rel=0.2)
    assert intra_locality(free @ free.T, groups) == pytest.approx(q_one / P, rel=0.2)


def test_q_tells_the_variance_of_the_second_moment():
    """E |C_m - C|^2 = Q / m + (m - 1) / m q / n for m parts drawn from n inputs (Lemma 16, 17): 1.0879."""
    n, P, k, m, gamma = 10, 4, 3, 20, 2.0
    rng = np.random.default_rng(5)
    x = correlated_parts(n * 8_000, P, k, gamma, 6).reshape(8_000, n, P, k)
    i, p = rng.integers(0, n, (8_000, m)), rng.integers(0, P, (8_000, m))
    drawn = x[np.arange(8_000)[:, None], i, p]  # (draws, m, k), Algorithm 1
    moment = np.einsum("dmk,dml->dkl", drawn, drawn) / m - np.eye(k)
    error = (moment**2).sum(axis=(1, 2))
    q = np.mean([intra_locality((s := x[j : j + 40].reshape(400 * P, k)) @ s.T, np.repeat(np.arange(400), P))
                 for j in range(0, 240, 40)])  # fmt: skip
    formula = 12 / m + (m - 1) / m * q / n

    assert formula == pytest.approx(1.0879, abs=0.04)
    assert error.mean() == pytest.approx(1.0879, abs=4 * error.std() / np.sqrt(len(error)))


def test_parts_stand_in_for_inputs():
    """500 inputs of one part, 100 of five, 25 of twenty: the same error; 25 of one part: eight times it."""
    k, rng = 100, np.random.default_rng(77)

    def excess(n, P, seed):
        w = rng.normal(size=k)
        w /= np.linalg.norm(w)
        x = correlated_parts(n, P, k, 1e6, seed).reshape(n * P, k)
        y = x @ w + 0.5 * rng.normal(size=n * P)
        model = PartRidge.select(
            x, y[:, None], np.repeat(np.arange(n), P), kernel="linear", centres=np.eye(k)
        )
        found = model.embed(np.eye(k))[0][:, 0]  # the coefficients
        return ((found - w) ** 2).sum()

    worth = {(n, P): np.mean([excess(n, P, seed) for seed in range(8)]) for n, P in
             ((500, 1), (100, 5), (25, 20), (25, 1))}  # fmt: skip
    reference = worth[500, 1]
    assert reference < 0.09
    assert worth[100, 5] == pytest.approx(reference, rel=0.35)
    assert worth[25, 20] == pytest.approx(reference, rel=0.35)
    assert worth[25, 1] > 8 * reference


def test_local_ridge_beats_whole_inputs_where_parts_are_free():
    """Sec. 6.1, small: Local-LS wins by far for gamma = 10; twenty copies (gamma = 0) help little."""
    n, P, k = 50, 20, 100
    rng = np.random.default_rng(8)
    w = rng.normal(size=k)
    w *= rng.uniform() ** (1 / k) / np.linalg.norm(w)
    found = {}
    for gamma in (0.0, 10.0):
        x, x_ = correlated_parts(n, P, k, gamma, 9), correlated_parts(200, P, k, gamma, 10)
        y, y_ = (a @ w + 0.5 * rng.normal(size=a.shape[:2]) for a in (x, x_))
        lams = np.logspace(-6, 1, 8)
        whole = PartRidge.select(x.reshape(n, -1), y, np.arange(n), lams=lams, kernel="linear")
        local = PartRidge.select(x.reshape(n * P, k), y.reshape(-1, 1), np.repeat(np.arange(n), P), lams=lams,
                                 kernel="linear", centres=np.eye(k))  # fmt: skip
        found[gamma] = (((whole.embed(x_.reshape(200, -1))[0] - y_) ** 2).mean(),
                        ((local.embed(x_.reshape(-1, k))[0].reshape(200, P) - y_) ** 2).mean())  # fmt: skip

    assert found[10.0][1] < 0.35
    assert found[10.0][1] < found[10.0][0] / 2
    assert found[0.0][1] > 0.6
