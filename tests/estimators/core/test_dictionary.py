"""Kernels, dictionary and features: coherence, budget, order, coverage, rank."""

from __future__ import annotations

import numpy as np
import pytest

from estimators.core.dictionary import Dictionary, coherent_subset
from estimators.core.features import Nystroem
from estimators.core.kernels import as_points, gaussian, kernel_named, laplace, median_distance


@pytest.fixture
def points():
    return np.random.default_rng(3).normal(size=(200, 2))


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_coherence(points, kernel):
    """Atoms are pairwise at most mu coherent, and every point left out is more coherent with one of them."""
    atoms = coherent_subset(points, 0.5, 1.0, kernel)
    K = kernel_named(kernel)
    between = K(atoms, atoms, 1.0) - np.eye(len(atoms))

    assert between.max() <= 0.5
    left_out = K(points, atoms, 1.0).max(axis=1)
    assert np.all(left_out > 0.5)
    np.testing.assert_array_equal(atoms[0], points[0])


def test_budget_keeps_the_early_points(points):
    """A budget cuts the list of atoms at its end: a longer list begins with the shorter."""
    whole = coherent_subset(points, 0.9, 1.0)
    cut = coherent_subset(points, 0.9, 1.0, budget=7)

    assert len(whole) > 7
    np.testing.assert_array_equal(cut, whole[:7])


def test_budget_of_the_network_serves_all_nodes():
    """When the budget is reached, every node has had its turn: no node is without an atom near its data."""
    rng = np.random.default_rng(0)
    ref = [rng.normal(size=(50, 1)) + 10.0 * v for v in range(6)]
    D = Dictionary.build(ref, mu_node=0.9, budget=6, sigma=1.0)

    assert len(D.atoms) == 6
    np.testing.assert_array_equal(np.round(np.sort(D.atoms[:, 0]) / 10.0), np.arange(6))


def test_deterministic(points):
    """The same points in the same order give the same atoms, bit by bit; the test window adds its own."""
    halves = [points[:100], points[100:]]
    first, second = Dictionary.build(halves), Dictionary.build(halves)
    moved = Dictionary.build(halves, [halves[0] + 20.0, halves[1]])

    np.testing.assert_array_equal(first.atoms, second.atoms)
    assert first.coverage([[20.0, 20.0]])[0] < 0.01 < 0.2 < moved.coverage([[20.0, 20.0]])[0]


def test_coverage(points):
    """Coverage is one on an atom, falls with distance and is zero far away."""
    D = Dictionary.build([points])
    near, far = D.atoms[0] + 0.1 * D.sigma, D.atoms[0] + 1e6
    covered = D.coverage(np.stack([D.atoms[0], near, far]))

    assert covered[0] == 1.0
    assert 0.99 < covered[1] < 1.0
    assert covered[2] == 0.0


def test_empty_nodes(points):
    """Nodes without points are passed over; a network without any is refused."""
    D = Dictionary.build([points[:0], points])

    np.testing.assert_array_equal(D.atoms, Dictionary.build([points]).atoms)
    with pytest.raises(ValueError, match="no node has a point"):
        Dictionary.build([points[:0]])
    with pytest.raises(ValueError, match="test: 1 nodes, but ref has 2"):
        Dictionary.build([points, points], [points])


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-10])
def test_features_approximate_the_kernel(points, tol):
    """psi(x)'psi(y) is K(x, y) on the atoms up to the tolerance; no feature vector is longer than one."""
    D = Dictionary.build([points], mu_node=0.5, mu_graph=0.99)
    psi = Nystroem(D, tol=tol)
    on_atoms = psi(D.atoms)

    np.testing.assert_allclose(
        on_atoms @ on_atoms.T, gaussian(D.atoms, D.atoms, D.sigma), atol=tol * len(D.atoms)
    )
    assert np.linalg.norm(psi(points), axis=1).max() <= 1.0 + 1e-9


def test_rank_is_capped(points):
    """``rank`` caps the number of features, a looser tolerance lowers it."""
    D = Dictionary.build([points], mu_node=0.9)

    assert Nystroem(D, rank=3).rank == 3
    assert Nystroem(D, tol=1e-2).rank < Nystroem(D, tol=1e-8).rank <= len(D.atoms)
    with pytest.raises(ValueError, match="x: dimension 1, but the dictionary has 2"):
        Nystroem(D)([[1.0]])


@pytest.mark.parametrize("kernel", [gaussian, laplace])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_kernels_are_scale_free(points, kernel, scale):
    """Points and width scaled together leave the kernel as it is, at any scale."""
    plain = kernel(points, points, 1.0)

    np.testing.assert_allclose(kernel(points * scale, points * scale, scale), plain, rtol=1e-9)
    assert np.all(np.diag(plain) == 1.0)


def test_median_distance():
    """The median ignores duplicates, scales with the data, and is one where there is no distance."""
    x = np.array([[0.0], [0.0], [1.0], [3.0]])

    assert median_distance(x) == 2.0
    assert median_distance(x * 1e200) == pytest.approx(2e200)
    assert (
        median_distance(np.zeros((5, 2)))
        == median_distance(np.ones((5, 2)))
        == median_distance([[3.0]])
        == 1.0
    )
    assert median_distance(np.arange(5000.0)) == pytest.approx(
        median_distance(np.arange(5000.0)[::3]), rel=0.05
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: coherent_subset([[0.0]], 1.0, 1.0), r"mu: coherence threshold must be in \[0, 1\), got 1.0"),
        (lambda: coherent_subset([[0.0]], 0.5, 1.0, budget=0), "budget: must be at least 1, got 0"),
        (lambda: kernel_named("cubic"), "kernel: unknown name 'cubic'; known: gaussian, laplace"),
        (lambda: as_points([[0.0], [np.nan]], "ref[3]"), r"ref\[3\]\[1, 0\] is nan: values must be finite"),
        (lambda: as_points(np.zeros((1, 1, 1))), r"x: expected an \(n, d\) array, got shape \(1, 1, 1\)"),
        (lambda: Nystroem(Dictionary(np.zeros((1, 1)), 1.0), tol=1.0), "tol: relative eigenvalue tolerance"),
    ],
)
def test_refused(call, message):
    """Bad arguments are refused by name and value."""
    with pytest.raises(ValueError, match=message):
        call()
