"""The two-sample test: scores as Grulsif has them, p-values as counted, and a level that is held."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, false_discovery_control

from estimators import CollaborativeTwoSampleTest, Graph, Grulsif, NotFittedError
from estimators.ratio import permutation
from estimators.ratio.block_sums import BlockSums

Array = NDArray[np.float64]


def ar(rng: np.random.Generator, n_nodes: int, n: int, phi: float) -> Array:
    """Rows of time (N, n) with autocorrelation phi and a part that all nodes have in common."""
    noise = 0.8 * rng.normal(size=(n_nodes, n + 50)) + 0.6 * rng.normal(size=n + 50)
    x = noise.copy()
    for t in range(1, n + 50):
        x[:, t] = phi * x[:, t - 1] + np.sqrt(1.0 - phi**2) * noise[:, t]
    return x[:, 50:]


def test_scores_of_every_permutation_are_those_of_grulsif() -> None:
    """The sums of blocks, taken apart and put together again, against a fit of the permuted samples."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5, 24, 2))
    Y = rng.normal(0.5, 1.0, size=(5, 18, 2))
    graph = Graph.of(nx.path_graph(5))
    test = CollaborativeTwoSampleTest(permutations=19, block=3, seed=4).fit(X, Y, graph)
    assert test.rows_ == (24, 18)
    Z = np.concatenate([X, Y], axis=1)
    # The same draws as in fit: first the order for the dictionary, then the labels.
    again = np.random.default_rng(4)
    again.permutation(42)
    L = permutation.labels(8, 6, 19, again)
    psi = test._features
    found, _ = test._scores(BlockSums.of(Z, np.ones((5, 42), bool), psi, 3).split(L), test.coupling)
    coupling = test.coupling / graph.mean_degree
    model = Grulsif(alpha=0.1, lam=coupling / 5, gamma=test.ridge / coupling, dictionary=psi.dictionary,
                    feature_tol=test.feature_tol, centred=True, solver="direct")  # fmt: skip
    for row in (0, 7, 19):
        mask = np.repeat(L[row], 3) == 1.0
        new = model.fit(Z[:, ~mask], Z[:, mask], graph).scores_
        old = model.fit(Z[:, mask], Z[:, ~mask], graph).scores_
        np.testing.assert_allclose(found[row], [new, old], atol=1e-7)
    np.testing.assert_allclose(test.directions_, found[0], atol=1e-9)
    x = rng.normal(size=(4, 2))
    forward = model.fit(X, Y, graph)
    np.testing.assert_allclose(test.ratio(2, x), forward.ratio(2, x), atol=1e-6)
    backward = model.fit(Y, X, graph)
    np.testing.assert_allclose(test.ratio(2, x, "old"), backward.ratio(2, x), atol=1e-6)


def test_labels_move_whole_blocks_and_begin_with_the_truth() -> None:
    L = permutation.labels(7, 4, 200, np.random.default_rng(0))
    assert L.shape == (201, 11)
    assert L[0].tolist() == [0.0] * 7 + [1.0] * 4
    assert set(L.sum(axis=1)) == {4.0}
    np.testing.assert_allclose(L[1:].mean(axis=0), 4 / 11, atol=0.12)


def test_p_values_against_counting() -> None:
    rng = np.random.default_rng(2)
    S = rng.normal(size=(100, 6))
    S[0] += [0.0, 1.0, 2.0, 3.0, 4.0, 0.5]
    p = permutation.upper_p(S)
    assert p.tolist() == [sum(S[k, v] >= S[0, v] for k in range(100)) / 100 for v in range(6)]
    z = permutation.standardised(S)
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-12)
    family = permutation.family_p(z)
    assert family.tolist() == [sum(max(z[k]) >= z[0, v] for k in range(100)) / 100 for v in range(6)]
    assert (family >= p).all()
    np.testing.assert_allclose(permutation.benjamini_hochberg(p), false_discovery_control(p))
    with_gap = permutation.benjamini_hochberg(np.append(p, np.nan))
    np.testing.assert_allclose(with_gap, np.append(false_discovery_control(p), np.nan))


def test_the_network_p_value_is_uniform_when_rows_are_alike() -> None:
    """Every row in turn taken as the truth: p-values of exchangeable rows have no value below their rank."""
    S = permutation.standardised(np.random.default_rng(3).normal(size=(60, 4)))
    p = [permutation.network_p(np.roll(S, -k, axis=0)) for k in range(60)]
    for level in (0.05, 0.1, 0.25, 0.5):
        assert np.mean(np.array(p) <= level) <= level + 1e-9


def test_nodes_that_are_copies_pay_nothing_for_being_many() -> None:
    """One permutation for all nodes keeps what they have in common: ten copies are one node."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(1, 80, 1))
    x[:, 40:] += 0.5
    one = CollaborativeTwoSampleTest(permutations=199).fit(x[:, :40], x[:, 40:])
    many = np.repeat(x, 10, axis=0)
    ten = CollaborativeTwoSampleTest(permutations=199).fit(many[:, :40], many[:, 40:])
    np.testing.assert_allclose(ten.p_family_, one.p_values_[0])
    np.testing.assert_allclose(ten.p_values_, one.p_values_[0])


RUNS = 80


def rejected(sample: Callable[[int], Array], **settings: object) -> tuple[int, int]:
    """Of RUNS quiet samples: network-wide, and family-wise, at .1."""
    network = family = 0
    for seed in range(RUNS):
        x = sample(seed)
        n = x.shape[1] // 2
        test = CollaborativeTwoSampleTest(permutations=39, seed=seed, budget=16, **settings)  # type: ignore[arg-type]
        test.fit(x[:, :n], x[:, n:], nx.cycle_graph(len(x)))
        network += test.p_network_ <= 0.1
        family += bool(test.changed(0.1).any())
    return network, family


def test_the_level_holds_for_independent_samples() -> None:
    low, high = binom.ppf([0.001, 0.999], RUNS, 0.1)
    network, family = rejected(lambda seed: ar(np.random.default_rng(seed), 5, 60, 0.0))
    assert low <= family <= high
    assert network <= high


def test_the_level_holds_for_correlated_samples_with_blocks_and_only_with_them() -> None:
    high = binom.ppf(0.999, RUNS, 0.1)
    network, family = rejected(lambda seed: ar(np.random.default_rng(seed), 5, 300, 0.6))
    assert max(network, family) <= high
    _, without = rejected(lambda seed: ar(np.random.default_rng(seed), 5, 300, 0.6), block=1)
    assert without > 2 * high


def test_blocks_are_told_from_the_samples() -> None:
    rng = np.random.default_rng(0)
    white, slow = ar(rng, 6, 600, 0.0)[..., None], ar(rng, 6, 600, 0.8)[..., None]
    shifted = white[:, 300:] + 5.0
    assert permutation.block_of(white[:, :300], shifted)[0] == 1, "a change is no correlation"
    length, tau, _ = permutation.block_of(slow[:, :300], slow[:, 300:])
    assert 5.0 < tau < 14.0
    assert length >= 4 * tau
    test = CollaborativeTwoSampleTest(permutations=19).fit(slow[:, :60], slow[:, 300:360])
    assert "can only have" in test.warnings_[0]


def test_a_change_is_found_where_it_is() -> None:
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(2, 12, 80, 1))
    Y[3:6] += 0.9
    Y[9] *= 2.0
    test = CollaborativeTwoSampleTest(permutations=199).fit(X, Y, nx.cycle_graph(12))
    assert test.p_network_ == 1 / 200
    assert [one.tolist() for one in test.sets()] == [[3, 4, 5], [9]]
    assert set(np.flatnonzero(test.changed(0.05, "fdr"))) >= {3, 4, 5, 9}
    swapped = CollaborativeTwoSampleTest(permutations=199).fit(Y, X, nx.cycle_graph(12))
    assert [one.tolist() for one in swapped.sets()] == [[3, 4, 5], [9]]


def test_a_node_is_named_only_if_its_own_samples_agree() -> None:
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(2, 12, 60, 1))
    Y[3:9] += 0.35
    graph = nx.cycle_graph(12)
    test = CollaborativeTwoSampleTest(permutations=199, coupling=3.0).fit(X, Y, graph)
    alone = CollaborativeTwoSampleTest(permutations=199, coupling=0.0).fit(X, Y, graph)
    np.testing.assert_array_equal(test.p_own_, alone.p_values_)
    drawn_in = (test.p_values_ <= 0.05) & (test.p_own_ > 0.05)
    assert drawn_in.any()
    assert not test.changed(0.05, "none")[drawn_in].any()
    assert test.changed(0.05, "none").sum() == ((test.p_values_ <= 0.05) & (test.p_own_ <= 0.05)).sum()


def test_missing_samples_count_for_nothing() -> None:
    rng = np.random.default_rng(8)
    X, Y = rng.normal(size=(2, 4, 60, 1))
    Y[0] += 1.5
    X[1, ::3], Y[1, 1::4] = np.nan, np.nan
    Y[2] = np.nan
    test = CollaborativeTwoSampleTest(permutations=99).fit(X, Y, nx.path_graph(4))
    assert np.flatnonzero(test.changed()).tolist() == [0]
    assert np.isnan([test.scores_[2], test.p_values_[2], test.p_family_[2], test.p_fdr_[2]]).all()
    assert np.isfinite(test.ratio(2, [0.0])).all()  # by its neighbours
    # A node with gaps has the score of the samples that there are.
    alone = CollaborativeTwoSampleTest(coupling=0.0, permutations=19, sigma=1.0)
    dense = alone.fit(X[1:2, ~np.isnan(X[1, :, 0])], Y[1:2, ~np.isnan(Y[1, :, 0])])
    score, D = dense.scores_[0], dense._features.dictionary
    gaps = alone.fit(X[1:2], Y[1:2])
    assert gaps._features.dictionary.atoms.shape[1] == D.atoms.shape[1]
    assert gaps.scores_[0] == pytest.approx(score, rel=0.15)


def test_a_large_network_is_solved_like_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    X, Y = rng.normal(size=(2, 6, 30, 1))
    fits = {}
    for most in (2000, 3):
        monkeypatch.setattr("estimators.ratio.two_sample_test.MAX_NODES", most)
        fits[most] = CollaborativeTwoSampleTest(permutations=19).fit(X, Y, nx.cycle_graph(6))
    np.testing.assert_allclose(fits[3].scores_, fits[2000].scores_, atol=1e-6)
    np.testing.assert_allclose(fits[3].p_family_, fits[2000].p_family_)


def test_bad_input_is_told() -> None:
    x = np.zeros((2, 20, 1)) + np.arange(20)[:, None]
    test = CollaborativeTwoSampleTest(permutations=19)
    with pytest.raises(NotFittedError, match="call fit first"):
        test.changed()
    for arguments, words in (
        (([[1.0] * 20, [1.0] * 19], x), "ref: nodes have different numbers of rows"),
        ((x, x[:1]), "test: 1 nodes"),
        ((x[:, :5], x), "5 and 20 rows; at least 10"),
        ((np.where(x == 3.0, np.inf, x), x), r"ref\[0, 3, 0\] is inf"),
        ((np.full_like(x, np.nan), x), "test: no node has samples on both sides"),
        ((np.full_like(x, np.nan), np.full_like(x, np.nan)), "ref: no node has a sample"),
        ((x, x, np.zeros((3, 3))), "3"),
    ):
        with pytest.raises(ValueError, match=words):
            test.fit(*arguments)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError,
        match=r"block: the shorter sample has \d+ rows; at least \d+ blocks of 5 rows are needed",
    ):
        CollaborativeTwoSampleTest(block=5).fit(x, x)
    for given in ({"alpha": 1.0}, {"coupling": -1.0}, {"permutations": 5}, {"block": 0}, {"ridge": 0.0}):
        with pytest.raises(ValueError, match=next(iter(given))):
            CollaborativeTwoSampleTest(**given)  # type: ignore[arg-type]
    fitted = test.fit(x, x)
    with pytest.raises(ValueError, match="control: unknown name 'all'"):
        fitted.changed(0.05, "all")  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="node 2"):
        fitted.ratio(2, [0.0])
