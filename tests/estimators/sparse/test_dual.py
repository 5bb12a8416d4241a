"""Facts of the sparse multi-scale dual: threshold, duality, sensitivity, resilience (Peifer 2021)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from estimators.sparse.dual import Margin, Quadratic, Tube, solve_dual, solve_relative, threshold
from estimators.sparse.grid import MultiScaleGrid
from estimators.sparse.relaxation import Relaxation

HUBER = Relaxation.huber(100.0, 0.3)


@pytest.fixture(scope="module")
def problem():
    """Thirty noisy samples of a bump and a dip, on a grid of 61 places and 6 widths."""
    rng = np.random.default_rng(2)
    x = np.linspace(-2.0, 2.0, 30)
    y = np.exp(-((x - 0.5) ** 2) / 0.3) - 0.5 * np.exp(-((x + 1.0) ** 2) / 0.1) + rng.normal(0.0, 0.02, 30)
    grid = MultiScaleGrid.regular(-2.3, 2.3, 61, np.geomspace(0.15, 1.0, 6), "lebesgue")
    return x, y, grid, grid.design(x)


@given(st.floats(-20, 20), st.floats(0, 50))
def test_threshold_is_the_inner_minimiser(abar, gamma):
    """(2.15): no a does better in 1/2 a^2 + gamma [a != 0] - a abar than the threshold rule."""

    def cost(a):
        return 0.5 * a**2 + gamma * (a != 0.0) - a * abar

    best = float(threshold(np.array([abar]), gamma)[0])
    tries = np.concatenate([[0.0], np.linspace(-25.0, 25.0, 501), [abar]])

    assert cost(best) <= min(map(cost, tries)) + 1e-9
    assert best == 0.0 or abs(best) > np.sqrt(2.0 * gamma)


@pytest.mark.parametrize("gamma", [0.0, 2.0])
def test_alpha_is_a_thresholded_combination(problem, gamma):
    """Corollary 2: alpha = thresh(K' lam), and none of it lies between 0 and sqrt(2 gamma)."""
    _, y, grid, K = problem
    found = solve_dual(K, grid.weights, Tube(y, 0.05), gamma, HUBER)

    np.testing.assert_array_equal(found.alpha, threshold(found.multipliers @ K, gamma))
    assert not ((np.abs(found.alpha) > 0.0) & (np.abs(found.alpha) <= np.sqrt(2.0 * gamma))).any()
    np.testing.assert_allclose(found.fitted, K @ (grid.weights * found.alpha))


@pytest.mark.parametrize("price", [Relaxation.quadratic(100.0), HUBER, Relaxation.linear(30.0)])
def test_strong_duality(problem, price):
    """The feasible primal value is above the dual, and meets it at gamma = 0."""
    _, y, grid, K = problem
    dense = solve_dual(K, grid.weights, Tube(y, 0.05), 0.0, price)
    sparse = solve_dual(K, grid.weights, Tube(y, 0.05), 2.0, price)

    assert dense.converged
    assert dense.dual <= dense.primal <= dense.dual * (1.0 + 1e-3)
    assert sparse.dual <= sparse.primal


def test_gap_closes_with_the_grid(problem):
    """Theorem 1 is about integrals: on cells there is a gap with gamma > 0, smaller the finer they are."""
    x, y, _, _ = problem
    gaps = []
    for places, widths in ((41, 4), (161, 10), (481, 20)):
        grid = MultiScaleGrid.regular(-2.3, 2.3, places, np.geomspace(0.15, 1.0, widths), "lebesgue")
        found = solve_dual(grid.design(x), grid.weights, Tube(y, 0.05), 2.0, HUBER)
        gaps.append((found.primal - found.dual) / found.dual)

    assert 0.0 <= gaps[2] < 0.01 < gaps[0]


def test_tube_regression_is_solved(problem):
    """At gamma = 0 the dual is that of tube regression with Gram Q: a general solver finds the same value."""
    _, y, grid, K = problem
    found = solve_dual(K, grid.weights, Tube(y, 0.05), 0.0, HUBER)
    Q = (K * grid.weights) @ K.T

    def primal(u):  # in f(x) = Q u
        miss = np.maximum(np.abs(y - Q @ u) - 0.05, 0.0)
        return 0.5 * u @ Q @ u + HUBER.price(miss).sum()

    def slope(u):
        miss = np.maximum(np.abs(y - Q @ u) - 0.05, 0.0)
        return Q @ (u - np.sign(y - Q @ u) * np.minimum(100.0 * miss, 30.0))

    best = minimize(primal, found.multipliers * 0.9, jac=slope, method="BFGS", options={"maxiter": 5000})

    assert best.fun == pytest.approx(found.dual, rel=2e-3)


def test_quadrature_of_the_gram():
    """K diag(q) K' is the integral over places and widths, whose places part has a closed form."""
    x = np.array([-0.4, 0.0, 0.7])
    widths = np.linspace(0.3, 0.6, 61)
    grid = MultiScaleGrid.regular(-5.0, 5.0, 201, widths, "lebesgue")
    K = grid.design(x)
    over_places = (
        widths * np.sqrt(np.pi) * np.exp(-((x[:, None, None] - x[:, None]) ** 2) / (4.0 * widths**2))
    )
    # np.gradient gives the outermost widths a whole step, where the rule of trapezes gives half a step.
    exact = (over_places * np.gradient(widths)).sum(axis=2)

    np.testing.assert_allclose((K * grid.weights) @ K.T, exact, rtol=1e-6)


def test_slack_and_multipliers_balance(problem):
    """Complementary slackness and h'(u) = lam: every pulling sample is at its tolerance plus lam / c."""
    _, y, grid, K = problem
    y = y.copy()
    y[7] += 3.0
    found = solve_dual(K, grid.weights, Tube(y, 0.05), 0.0, HUBER, max_iter=2000)
    size = np.abs(found.multipliers)

    inside = (size > 1e-6) & (size < 30.0 * 0.999)
    np.testing.assert_allclose(found.slack[inside], size[inside] / 100.0, atol=2e-3)
    assert size.max() <= 30.0
    assert size[7] == pytest.approx(30.0)
    assert found.slack[7] > 2.0
    assert (found.slack[size <= 1e-6] <= 2e-3).all()


def test_a_capped_outlier_may_go_anywhere(problem):
    """Once its multiplier is capped, moving an outlier from 5 to 500 changes nothing."""
    _, y, grid, K = problem
    fits = []
    for size in (5.0, 500.0):
        spoilt = y.copy()
        spoilt[12] = size
        fits.append(solve_dual(K, grid.weights, Tube(spoilt, 0.05), 0.0, HUBER, max_iter=2000).fitted)

    np.testing.assert_allclose(fits[0], fits[1], atol=2e-3)


def test_trivial_zero():
    """Nothing to say: targets within the tolerance give no multiplier and no alpha."""
    grid = MultiScaleGrid.regular(0.0, 1.0, 11, [0.1, 0.2], "lebesgue")
    x = np.linspace(0.0, 1.0, 9)
    found = solve_dual(grid.design(x), grid.weights, Tube(0.1 * np.sin(x), 0.1), 3.0)

    assert not found.multipliers.any()
    assert not found.alpha.any()
    assert found.converged


def test_sensitivity_and_monotony(problem):
    """Proposition 5: dP/dtau = -||lam||_1; the dual rises with gamma and falls with tau."""
    _, y, grid, K = problem

    def solve(tau, gamma=0.0):
        return solve_dual(K, grid.weights, Tube(y, tau), gamma, HUBER, max_iter=2000)

    near, far = solve(0.05), solve(0.052)
    slope = (far.dual - near.dual) / 0.002
    assert -np.abs(near.multipliers).sum() - 1e-3 <= slope <= -np.abs(far.multipliers).sum() + 1e-3
    values = [solve(0.05, gamma).dual for gamma in (0.0, 1.0, 4.0, 16.0)]
    assert values == sorted(values)
    values = [solve(tau).dual for tau in (0.02, 0.05, 0.1, 0.2)]
    assert values == sorted(values, reverse=True)


def test_relaxed_problem_is_always_feasible():
    """Two targets at one place: hard is hopeless and says so, relaxed settles between."""
    grid = MultiScaleGrid.regular(-1.0, 1.0, 21, [0.2, 0.4], "lebesgue")
    K = grid.design([0.0, 0.0])
    hard = solve_dual(K, grid.weights, Tube(np.array([0.0, 1.0]), 0.1), 0.0, max_iter=50)
    soft = solve_dual(K, grid.weights, Tube(np.array([0.0, 1.0]), 0.1), 0.0, HUBER)

    assert not hard.converged
    assert soft.converged
    assert soft.fitted[0] == pytest.approx(soft.fitted[1])
    assert 0.2 < soft.fitted[0] < 0.6


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("gamma", [0.0, 2.0, 20.0])
def test_a_hard_fit_that_says_converged_keeps_its_constraints(gamma, seed):
    """By the model that is handed out, at a value that no solver could lower by more than the gap."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-2.0, 2.0, 30))
    y = np.sin(3.0 * x) + rng.normal(0.0, 0.3, 30)
    grid = MultiScaleGrid.regular(-2.3, 2.3, 61, np.geomspace(0.05, 1.0, 6), "lebesgue")
    K = grid.design(x)
    found = solve_dual(K, grid.weights, Tube(y, 0.1), gamma, Relaxation.hard(), max_iter=400)
    missed = np.abs(y - K @ (grid.weights * found.alpha)) - 0.1

    np.testing.assert_allclose(found.slack, np.maximum(missed, 0.0), atol=1e-12)
    if found.converged:
        assert missed.max() <= 1e-3
        assert abs(found.primal - found.dual) <= 5e-3 * found.dual
        assert (np.flatnonzero(found.alpha) == np.flatnonzero(found.thresholded)).all()
    else:
        assert missed.max() > 1e-3 or abs(found.primal - found.dual) > 5e-3 * found.dual
    if gamma > 0.0 and found.converged:  # what was handed out before missed constraints, and said converged
        plain = threshold(found.multipliers @ K, gamma)
        assert (np.abs(y - K @ (grid.weights * plain)) - 0.1).max() > missed.max()


def test_warm_start_and_relative_threshold(problem):
    """A warm start ends where a cold one does; rho leaves fewer cells than none, and is free of units."""
    _, y, grid, K = problem
    q = grid.weights
    cold = solve_dual(K, q, Tube(y, 0.05), 2.0, HUBER)
    warm = solve_dual(K, q, Tube(y, 0.05), 2.0, HUBER, start=cold.variables)
    dense, sparse = (solve_relative(K, q, Tube(y, 0.05), rho, HUBER) for rho in (0.0, 0.3))
    large = solve_relative(K, q, Tube(1000.0 * y, 50.0), 0.3, Relaxation.huber(100.0, 300.0))

    assert warm.dual >= cold.dual - 1e-9
    assert 0 < np.count_nonzero(sparse.alpha) < np.count_nonzero(dense.alpha)
    overlap = (sparse.alpha != 0.0) == (large.alpha != 0.0)
    assert overlap.mean() > 0.97


def test_quadratic_fit_has_its_closed_form():
    """At gamma = 0 the loss of a ratio has f = (Q C + I/kappa)^-1 Q b."""
    rng = np.random.default_rng(0)
    grid = MultiScaleGrid.regular(-3.0, 3.0, 31, [0.3, 0.6, 1.2])
    K, b, c = grid.design(rng.normal(size=20)), rng.normal(size=20) / 20, rng.uniform(0.5, 1.0, 20) / 20
    found = solve_dual(K, grid.weights, Quadratic(b, c, 300.0), 0.0)
    Q = (K * grid.weights) @ K.T
    exact = np.linalg.solve(np.eye(20) / 300.0 + Q * c, Q @ b)

    np.testing.assert_allclose(found.fitted, exact, atol=1e-4)
    assert found.primal == pytest.approx(found.dual, rel=1e-3)


@pytest.mark.parametrize(
    ("price", "u", "expected"),
    [
        (Relaxation.quadratic(4.0), 2.0, 8.0),
        (Relaxation.huber(4.0, 1.0), 2.0, 6.0),
        (Relaxation.linear(3.0), 2.0, 6.0),
        (Relaxation.hard(), 0.0, 0.0),
        (Relaxation.hard(), 0.1, np.inf),
    ],
)
def test_prices(price, u, expected):
    """The price is what its name says; its conjugate is what the dual uses (Fenchel's inequality, tight)."""
    assert price.price(np.array([u]))[0] == expected
    if u and np.isfinite(expected):
        lam = min(u * price.curvature, price.cap)
        assert price.conjugate(np.array([lam])) + expected == pytest.approx(lam * u)


def test_huber_of_the_residual_not_of_its_square():
    """Ninety points at 0, ten at 10: a capped price on |r| settles near 0, a quadratic one near the mean."""
    y = np.concatenate([np.zeros(90), np.full(10, 10.0)])
    grid = MultiScaleGrid.regular(-1.0, 1.0, 3, [50.0], "probability")
    K = grid.design(np.zeros(100))

    def location(price):
        return float(solve_dual(K, grid.weights, Tube(y, 0.0), 0.0, price).fitted[0])

    assert location(Relaxation.quadratic(10.0)) == pytest.approx(1.0, abs=0.01)
    assert location(Relaxation.huber(10.0, 0.3)) < 0.05


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Relaxation.quadratic(0.0), r"c: must be in \(0, inf\), got 0.0"),
        (lambda: Relaxation.huber(1.0, -1.0), "delta: must be in"),
        (lambda: Relaxation.linear(float("nan")), "beta: must be in"),
        (lambda: Relaxation(cap=0.0), "cap: must be positive"),
        (lambda: Tube(np.zeros(1), -1.0), "tau: must be in"),
        (lambda: solve_dual(np.eye(2), np.ones(2), Margin(np.ones(2), 0.0), -1.0), "gamma: must be in"),
        (lambda: solve_relative(np.eye(2), np.ones(2), Margin(np.ones(2), 0.0), 1.0), "rho: must be in"),
    ],
)
def test_refused(call, message):
    """Bad arguments are refused by name and value."""
    with pytest.raises(ValueError, match=message):
        call()
