"""The solvers agree, descend, warm-start, and say when they did not arrive."""

from __future__ import annotations

import numpy as np
import pytest

from estimators.core.graph import Graph
from estimators.ratio.solvers import ConvergenceWarning, Problem, cbcgd, direct, inverse_steps, pcg
from tests.estimators import oracle


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    n, r = 9, 4
    X = rng.normal(size=(n, 12, r)) / 2.0
    W = np.triu(rng.random((n, n)) < 0.4, 1) * rng.random((n, n))
    W[:, -1] = 0.0
    return Problem(X.transpose(0, 2, 1) @ X / 12.0, rng.normal(size=(n, r)), Graph.of(W + W.T), 0.05, 0.1)


@pytest.mark.parametrize(
    ("solver", "options"),
    [
        (cbcgd, {"block": "exact"}),
        (cbcgd, {"block": "gradient"}),
        (pcg, {"precondition": "fourier"}),
        (pcg, {"precondition": "blocks"}),
    ],
)
@pytest.mark.parametrize("warm", [False, True])
def test_agreement(problem, solver, options, warm):
    """All iterations reach the direct solution, from zero and from a random start."""
    start = np.random.default_rng(1).normal(size=problem.h.shape) if warm else None
    found = solver(problem, start, tol=1e-12, max_iter=20_000, **options)

    np.testing.assert_allclose(found.theta, direct(problem).theta, atol=1e-10)
    assert problem.residual(found.theta) < 1e-11


def test_direct_is_exact(problem):
    """The direct solution makes the gradient of Eq. 38 vanish, by differences of the objective."""
    theta = direct(problem).theta
    steps = np.eye(theta.size).reshape(-1, *theta.shape) * 1e-4
    slope = [problem.objective(theta + s) - problem.objective(theta - s) for s in steps]

    np.testing.assert_allclose(slope, 0.0, atol=1e-14)


@pytest.mark.parametrize("block", ["exact", "gradient"])
def test_objective_falls(problem, block):
    """The objective falls at every single block update (Theorem 3)."""
    theta = np.random.default_rng(2).normal(size=problem.h.shape)
    last = problem.objective(theta)
    for _ in range(5):
        for theta in oracle.sweep(problem, theta, block):  # noqa: B020
            now = problem.objective(theta)
            assert now <= last + 1e-14
            last = now


@pytest.mark.parametrize("block", ["exact", "gradient"])
def test_sweep_twin(problem, block):
    """Three compiled sweeps equal three sweeps of the numpy twin."""
    twin = np.zeros_like(problem.h)
    for _ in range(3):
        *_, twin = oracle.sweep(problem, twin, block)
    with pytest.warns(ConvergenceWarning):
        found = cbcgd(problem, block=block, max_iter=3, tol=1e-15)

    np.testing.assert_allclose(found.theta, twin, atol=1e-13)
    assert found.n_iter == 3


def test_one_warm_sweep_at_a_time(problem):
    """Sweeps made one by one, each from the last, arrive where a cold run arrives."""
    theta = np.zeros_like(problem.h)
    for _ in range(2000):
        *_, theta = oracle.sweep(problem, theta)

    np.testing.assert_allclose(theta, cbcgd(problem, tol=1e-13).theta, atol=1e-10)


def test_start_is_not_written(problem):
    """A warm start is read, never changed."""
    start = np.ones_like(problem.h)
    for solver in (cbcgd, pcg):
        solver(problem, start)

    np.testing.assert_array_equal(start, 1.0)


def test_inverse_steps(problem):
    """eta_v is the largest eigenvalue of A_v plus coupling times degree."""
    expected = [
        np.linalg.norm(A, 2) + problem.coupling * d
        for A, d in zip(problem.A, problem.graph.degree, strict=True)
    ]

    np.testing.assert_allclose(inverse_steps(problem), expected)


def test_cap_warns(problem):
    """A cap on iterations is kept, and the residual reached is in the warning."""
    for solver in (cbcgd, pcg):
        with pytest.warns(ConvergenceWarning, match=r"residual .* after 1 iterations"):
            assert solver(problem, max_iter=1, tol=1e-14).n_iter == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": np.zeros((9, 3, 3))}, r"A: shape \(9, 3, 3\)"),
        ({"graph": Graph.empty(4)}, "graph: 4 nodes, but h has 9"),
        ({"lam": -1.0}, "lam: must be finite and >= 0, got -1.0"),
        ({"gamma": np.nan}, "gamma: must be finite"),
    ],
)
def test_refused(problem, change, message):
    """A problem whose parts do not fit is refused with the part's name."""
    parts = {name: getattr(problem, name) for name in ("A", "h", "graph", "lam", "gamma")}
    with pytest.raises(ValueError, match=message):
        Problem(**{**parts, **change})


def test_unknown_variant(problem):
    """Unknown block and preconditioner names, and a start of the wrong shape, are refused."""
    with pytest.raises(ValueError, match="block: must be"):
        cbcgd(problem, block="newton")
    with pytest.raises(ValueError, match="precondition: must be"):
        pcg(problem, precondition="none")
    with pytest.raises(ValueError, match="theta: start has shape"):
        pcg(problem, np.zeros((2, 2)))
