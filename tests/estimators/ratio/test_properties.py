"""Whatever the network and the data: results are finite, or NaN by rule, or the error is clear."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from estimators import ESTIMATORS, Dictionary, Grulsif, Nystroem
from estimators.core.graph import Graph
from estimators.ratio.solvers import ConvergenceWarning, Problem, cbcgd, direct, pcg

SETTINGS = settings(max_examples=25, deadline=None, derandomize=True,
                    suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
SHAPES = ("normal", "constant", "duplicated", "integers", "far", "heavy")


@st.composite
def networks(draw, max_nodes=7):
    """Random graphs, connected or not, with windows of 0 to 12 points of any dimension, shape and scale."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, max_nodes)), draw(st.integers(1, 4))
    upper = np.triu(rng.random((n, n)) < draw(st.sampled_from([0.0, 0.3, 1.0])), 1)
    W = upper * 10.0 ** rng.uniform(-2, 2, (n, n))
    scale = draw(st.sampled_from([1e-150, 1e-6, 1.0, 1e6, 1e150]))

    def window(least):
        size = draw(st.integers(least, 12))
        kind = draw(st.sampled_from(SHAPES))
        x = rng.normal(size=(size, d))
        if kind == "constant":
            x[:] = 1.5
        elif kind == "duplicated":
            x[:] = x[np.arange(size) // 4]
        elif kind == "integers":
            x = np.round(x)
        elif kind == "far":
            x += 1e4
        elif kind == "heavy":
            x = rng.standard_cauchy(size=(size, d))
        return x * scale

    ref = [window(0) for _ in range(n - 1)] + [window(1)]
    test = [window(0) for _ in range(n - 1)] + [window(1)]
    return ref, test, W + W.T


@pytest.mark.parametrize("name", ESTIMATORS)
@given(case=networks())
@SETTINGS
def test_finite_or_no_verdict(name, case):
    """Scores and ratios are finite where a node has both windows, NaN where not."""
    ref, test, W = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ESTIMATORS[name]().fit(ref, test, W)
    silent = [not (len(x) and len(y)) for x, y in zip(ref, test, strict=True)]

    if name != "kliep":  # KLIEP has no finite ratio for windows without common support
        np.testing.assert_array_equal(np.isnan(model.scores_), silent)
        for v in np.flatnonzero(~np.array(silent)):
            assert np.isfinite(model.ratio(int(v), np.concatenate([ref[v], test[v]]))).all()
    assert np.isnan(model.scores_[silent]).all()
    assert not np.isinf(model.scores_).any()


@pytest.mark.parametrize("name", ["grulsif", "pool", "rulsif"])
@given(case=networks(max_nodes=4))
@settings(SETTINGS, max_examples=10)
def test_selection_bears_all(name, case):
    """Selection chooses something on any data of which some can be held out, and says so where none can."""
    ref, test, W = case
    silent = [not (len(x) and len(y)) for x, y in zip(ref, test, strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model = ESTIMATORS[name].select(ref, test, W)
        except ValueError as refused:
            assert "no node has points enough to hold some out" in str(refused)  # noqa: PT017
            return

    np.testing.assert_array_equal(np.isnan(model.scores_), silent)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 8),
    r=st.integers(1, 25),
    lam=st.sampled_from([0.0, 1e-3, 1.0]),
)
@SETTINGS
def test_solvers_agree(seed, n, r, lam):
    """All solvers agree on random problems, in both branches of the compiled product (small rank, BLAS)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, r + 3, r)) / np.sqrt(r)
    W = np.triu(rng.random((n, n)) < 0.5, 1) * rng.random((n, n))
    problem = Problem(
        X.transpose(0, 2, 1) @ X / (r + 3), rng.normal(size=(n, r)), Graph.of(W + W.T), lam, 0.1
    )
    exact = direct(problem).theta
    scale = np.abs(exact).max()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for found in (
            cbcgd(problem, tol=1e-11, max_iter=50_000),
            pcg(problem, tol=1e-11),
            pcg(problem, tol=1e-11, precondition="blocks"),
        ):
            np.testing.assert_allclose(found.theta, exact, atol=1e-5 * scale)


@given(case=networks(max_nodes=4))
@SETTINGS
def test_scale_free(case):
    """Scaling all data by a power of two changes no score."""
    ref, test, W = case
    factor = 2.0**-3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        plain = Grulsif().fit(ref, test, W)
        scaled = Grulsif().fit([x * factor for x in ref], [x * factor for x in test], W)
    if plain.sigma_ != 1.0:  # the width of constant data is 1 by definition, at any scale
        np.testing.assert_allclose(scaled.scores_, plain.scores_, atol=1e-6)


@given(case=networks(), budget=st.integers(1, 20))
@SETTINGS
def test_dictionary_within_budget(case, budget):
    """No dictionary exceeds its budget, and its features are never longer than one."""
    ref, test, _ = case
    D = Dictionary.build(ref, test, budget=budget)
    psi = Nystroem(D, tol=1e-6)

    assert 1 <= len(D.atoms) <= budget
    for x in ref:
        assert np.all(np.linalg.norm(psi(x), axis=1) <= 1.0 + 1e-6)
