"""The dictionary that grows: Richard's rule word by word, Algorithm 3 in one pass, bounds, forgetting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimators import Grulsif, OnlineDictionary
from estimators.core.dictionary import coherent_subset
from estimators.core.kernels import KERNELS


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", range(3))
def test_one_pass_is_algorithm_3(kernel: str, seed: int) -> None:
    """Without a budget, the atoms are those of a pass of Algorithm 3 over the same points."""
    x = np.random.default_rng(seed).normal(size=(300, 2))
    online = OnlineDictionary(0.8, mu=0.4, kernel=kernel, budget=1000)
    joined = online.update(x)
    np.testing.assert_array_equal(online.atoms_, coherent_subset(x, 0.4, 0.8, kernel))
    np.testing.assert_array_equal(x[joined], online.atoms_)
    assert online.use_.sum() == 300


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12), st.floats(0.05, 0.95))
def test_it_is_bounded_and_never_more_coherent_than_mu(seed: int, budget: int, mu: float) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(120, 1)) * rng.choice([0.1, 1.0, 30.0])
    online = OnlineDictionary(1.0, mu=mu, budget=budget)
    online.update(x)
    assert 1 <= len(online.atoms_) <= budget
    assert online.n_joined_ - online.n_dropped_ == len(online.atoms_)
    K = KERNELS["gaussian"](online.atoms_, online.atoms_, 1.0) - np.eye(len(online.atoms_))
    assert K.max() <= mu


def test_batches_make_no_difference() -> None:
    x = np.random.default_rng(1).normal(size=(200, 3)) * 3.0
    whole = OnlineDictionary(1.0, budget=20, memory=50.0)
    parts = OnlineDictionary(1.0, budget=20, memory=50.0)
    joined = whole.update(x)
    again = np.concatenate([parts.update(x[a:b]) for a, b in ((0, 1), (1, 77), (77, 200))])
    np.testing.assert_array_equal(joined, again)
    np.testing.assert_array_equal(whole.atoms_, parts.atoms_)
    np.testing.assert_array_equal(whole.use_, parts.use_)


def test_it_follows_a_stream_that_moves_and_covers_what_a_fixed_one_does_not() -> None:
    rng = np.random.default_rng(2)
    online = OnlineDictionary(1.0, budget=12, memory=100.0)
    online.update(rng.normal(size=(300, 1)))
    before = online.dictionary()
    now = rng.normal(40.0, 1.0, size=(300, 1))
    online.update(now)
    assert before.coverage(now).max() < 1e-6
    assert online.dictionary().coverage(now).min() > 0.5
    test = now[150:] + 1.5
    fixed, grown = (Grulsif(dictionary=d).fit([now[:150]], [test], np.zeros((1, 1))).scores_[0]
                    for d in (before, online.dictionary()))  # fmt: skip
    assert grown > 0.3 > 0.05 > fixed + 0.5  # blind: -1/2 is the score of a ratio of zero


def test_the_least_used_gives_way() -> None:
    online = OnlineDictionary(1.0, mu=0.5, budget=2)
    online.update([0.0, 0.1, 0.2, 10.0])
    online.update([20.0])
    assert online.atoms_[:, 0].tolist() == [0.0, 20.0]
    assert online.n_dropped_ == 1


def test_bad_input_is_told() -> None:
    for given_, words in (({"sigma": 0.0}, "sigma"), ({"sigma": 1.0, "mu": 1.0}, "mu"),
                          ({"sigma": 1.0, "budget": 0}, "budget"), ({"sigma": 1.0, "memory": 0.0}, "memory"),
                          ({"sigma": 1.0, "kernel": "cubic"}, "kernel")):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            OnlineDictionary(**given_)  # type: ignore[arg-type]
    online = OnlineDictionary(1.0)
    with pytest.raises(ValueError, match="no point has come yet"):
        online.dictionary()
    online.update([[0.0, 1.0]])
    with pytest.raises(ValueError, match="dimension 1, but the dictionary has 2"):
        online.update([0.0])
    with pytest.raises(ValueError, match="values must be finite"):
        online.update([[np.nan, 0.0]])
    assert online.n_seen_ == 1
