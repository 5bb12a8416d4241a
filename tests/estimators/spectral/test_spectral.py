"""Filters keep the bounds of Eq. 6 and 7 and are what they stand for; aggregation is optimal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from estimators.spectral.aggregation import convex, folds_of, plain
from estimators.spectral.filters import (
    SCHEMES,
    Spectrum,
    cut_off,
    iterated_tikhonov,
    landweber,
    scheme_named,
    tikhonov,
)

FILTERS = {**SCHEMES, "iterated 1": iterated_tikhonov(1), "iterated 2": iterated_tikhonov(2),
           "iterated 7": iterated_tikhonov(7), "landweber 0.01": landweber(0.01)}  # fmt: skip


def problem(seed: int = 0, r: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """A singular moment matrix as the estimators have it, and a right-hand side in its range."""
    psi = np.random.default_rng(seed).normal(size=(r - 2, r)) / np.sqrt(r)
    return psi.T @ psi / len(psi), psi.mean(axis=0)


@pytest.mark.parametrize("name", FILTERS)
@given(
    largest=st.floats(1e-12, 2.0),
    lam=st.floats(1e-9, 10.0),
    shares=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_bounds(name, largest, lam, shares):
    """Eq. 6 holds with the constants of each scheme, at any t and lambda, to rounding."""
    g = FILTERS[name]
    t = np.array([1e-300, largest, *(share * largest for share in shares)])
    values, near = g(t, lam), 1.0 + 1e-9

    assert np.all(np.abs(1.0 - t * values) <= g.gamma_0 * near)
    assert np.all(np.sqrt(t) * np.abs(values) <= g.gamma_half / np.sqrt(lam) * near)
    assert np.all(np.abs(values) <= g.gamma_1 / lam * near)


@pytest.mark.parametrize("order", [1, 2, 3, 7])
@given(lam=st.floats(1e-6, 2.0), t=st.floats(1e-12, 2.0))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_qualification(order, lam, t):
    """Eq. 7 with constant one: what is left of a component falls with the order-th power of lambda."""
    g = iterated_tikhonov(order)
    left = abs(1.0 - t * g(np.array([t]), lam)[0])

    assert g.qualification == order
    assert t**order * (left - 1e-15) <= lam**order * (1.0 + 1e-9)


def test_qualification_ends():
    """Beyond its qualification no scheme gets better: lambda for the ridge, its cube for order 3."""
    for g, factor in ((tikhonov(), 10.0), (iterated_tikhonov(3), 1000.0)):
        left = [1.0 - g(np.ones(1), lam)[0] for lam in (1e-2, 1e-3)]
        assert left[0] / left[1] == pytest.approx(factor, rel=0.05)


def test_iterated_is_repeated_solving():
    """Order nu is nu ridge solutions, each regularised towards the one before."""
    A, b = problem()
    for order, lam in ((1, 0.1), (3, 0.1), (5, 1e-3)):
        x = np.zeros(len(b))
        for _ in range(order):
            x = np.linalg.solve(A + lam * np.eye(len(b)), b + lam * x)
        np.testing.assert_allclose(Spectrum.of(A).solve(iterated_tikhonov(order), [lam], b)[0], x, rtol=1e-9)


def test_landweber_is_gradient_descent():
    """1/lambda steps of length mu from zero, also where 1/lambda is a whole number but for rounding."""
    A, b = problem()
    for steps, mu in ((1, 0.5), (10, 0.5), (49, 0.25)):
        x = np.zeros(len(b))
        for _ in range(steps):
            x += mu * (b - A @ x)
        np.testing.assert_allclose(Spectrum.of(A).solve(landweber(mu), [1.0 / steps], b)[0], x, rtol=1e-9)


def test_landweber_does_not_diverge():
    """Where the spectrum exceeds 1/mu the steps are as long as they may be: the solution, not infinity."""
    A, b = 50.0 * np.eye(2), np.ones(2)

    np.testing.assert_allclose(Spectrum.of(A).solve(landweber(0.5), [0.01], b)[0], b / 50.0)


def test_cut_off_keeps_leading_components():
    """Components of eigenvalue lambda and above are solved exactly, those below left out."""
    A = np.diag([1.0, 0.1, 0.01])
    found = Spectrum.of(A).solve(cut_off(), [0.5, 0.1, 1e-3], np.ones(3))

    np.testing.assert_allclose(found, [[1, 0, 0], [1, 10, 0], [1, 10, 100]])


@pytest.mark.parametrize("name", SCHEMES)
def test_small_lambda_solves(name):
    """With lambda going to zero every scheme comes to the solution of least norm of a singular matrix."""
    A, b = problem()
    found = Spectrum.of(A).solve(SCHEMES[name], [1e-6], b)[0]

    np.testing.assert_allclose(found, np.linalg.pinv(A, hermitian=True) @ b, atol=2e-3)


def test_least_lambda():
    """N(lambda_*) = n lambda_*, whatever the spectrum; a matrix of zeros has an answer too."""
    for scale, n in ((1.0, 100.0), (1e-9, 5.0), (1e6, 1e4), (0.3, 1.0)):
        spectrum = Spectrum.of(scale * problem()[0])
        lam = spectrum.least_lambda(n)
        assert spectrum.effective_dimension(lam) == pytest.approx(n * lam, rel=1e-6)
    assert Spectrum.of(np.zeros((3, 3))).least_lambda(10.0) == 0.1


def test_grid():
    """The grid falls from the norm of the matrix to where the filter is as large as 1 / lambda_*."""
    A, _ = problem()
    for g in SCHEMES.values():
        spectrum = Spectrum.of(A)
        grid = spectrum.lambdas(g, 1000.0)
        assert grid[0] == pytest.approx(np.linalg.norm(A, 2))
        assert np.all(np.diff(grid) < 0.0)
        assert g.gamma_1 / grid[-1] == pytest.approx(1.0 / spectrum.least_lambda(1000.0))


@given(seed=st.integers(0, 1000), size=st.integers(1, 12), rank=st.integers(1, 12))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_convex_is_the_minimum_over_means(seed, size, rank):
    """No other mean of the candidates has a lower loss, whether they are dependent or not."""
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(20, rank)) @ rng.normal(size=(rank, size))
    G, g = F.T @ F / 20, F.T @ rng.normal(size=20) / 20
    c = convex(G, g)

    def loss(c):
        return 0.5 * c @ G @ c - g @ c

    assert np.all(c >= 0.0)
    assert c.sum() == pytest.approx(1.0)
    start = np.full(size, 1.0 / size)
    slow = minimize(loss, start, jac=lambda c: G @ c - g, bounds=[(0.0, 1.0)] * size, method="SLSQP",
                    constraints={"type": "eq", "fun": lambda c: c.sum() - 1.0}, tol=1e-12)  # fmt: skip
    assert loss(c) <= slow.fun + 1e-6 * (1.0 + abs(slow.fun))


def test_plain_is_the_printed_one():
    """G^-1 g where G has an inverse, and numbers where it has none."""
    F = np.random.default_rng(0).normal(size=(50, 4))
    G, g = F.T @ F, F.T @ np.ones(50)

    np.testing.assert_allclose(plain(G, g), np.linalg.solve(G, g), rtol=1e-5)
    assert np.isfinite(plain(np.zeros((3, 3)), np.zeros(3))).all()


def test_folds():
    """Folds are of equal size but for one, and none is empty."""
    sizes = np.bincount(folds_of(23, 5, np.random.default_rng(0)))

    assert sorted(sizes) == [4, 4, 5, 5, 5]


def test_refused():
    """Unknown names and values out of range are refused by name."""
    with pytest.raises(ValueError, match="scheme: unknown name 'ridge'; known: cutoff, iterated, landweber"):
        scheme_named("ridge")
    with pytest.raises(ValueError, match=r"order: must be in \[1, inf\), got 0"):
        iterated_tikhonov(0)
    with pytest.raises(ValueError, match=r"mu: must be in \(0, inf\), got 0"):
        landweber(0.0)
