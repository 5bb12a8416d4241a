"""Algorithm 1 and its relatives: folds, held-out losses against plain loops, grids."""

from __future__ import annotations

import numpy as np
import pytest

from estimators import Grulsif, Kliep, Pool, Rulsif, Ulsif, scenario
from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.ratio import selection
from estimators.ratio.moments import Moments, loss, mapped
from estimators.ratio.rulsif import leave_one_out
from estimators.ratio.selection import cross_validate, split, width_grid
from estimators.ratio.solvers import Problem, direct


def test_split():
    """Folds are disjoint, cover all rows, differ in size by at most one, and follow the seed."""
    folds = split(23, 5, np.random.default_rng(0))

    assert sorted(np.concatenate(folds)) == list(range(23))
    assert {len(f) for f in folds} == {4, 5}
    for a, b in zip(folds, split(23, 5, np.random.default_rng(0)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert [len(f) for f in split(0, 3, np.random.default_rng(0))] == [0, 0, 0]


@pytest.mark.parametrize("centred", [False, True])
def test_losses_are_those_of_algorithm_1(network, monkeypatch, centred):
    """The shared, batched, warm-started table equals fits of every fold and combination one by one."""
    monkeypatch.setattr(selection, "PATH_TOL", 1e-10)
    monkeypatch.setattr(selection, "PATH_DTYPE", np.float64)
    graph, D = Graph.of(network.W), Dictionary.build(network.ref, network.test)
    sigmas, lams, gammas, folds = [1.0, 2.0], [1e-3, 0.1], [1e-3, 1.0], 3
    table = cross_validate(network.ref, network.test, graph, D, sigmas, lams, gammas, alpha=0.1,
                           centred=centred, folds=folds, seed=4)  # fmt: skip

    rng = np.random.default_rng(4)
    parts = [[split(len(x), folds, rng) for x in side] for side in (network.ref, network.test)]
    for sigma, lam, gamma, found in table.rows:
        psi = Nystroem(Dictionary(D.atoms, sigma), tol=selection.FEATURE_TOL)
        losses = []
        for f in range(folds):
            inside, outside = (
                Moments.of(*([psi(np.delete(x, p[f], axis=0) if train else x[p[f]])
                              for x, p in zip(side, rows, strict=True)]
                             for side, rows in zip((network.ref, network.test), parts, strict=True)))
                for train in (True, False)
            )  # fmt: skip
            theta = direct(Problem(*inside.system(0.1, centred), graph, lam, gamma)).theta
            losses.append(loss(*outside.system(0.1, centred), theta).mean())
        assert found == pytest.approx(np.mean(losses), abs=1e-7)


def test_large_networks_take_the_other_way(network, monkeypatch):
    """Beyond the size of the Fourier basis the table is the same, by another solver."""
    monkeypatch.setattr(selection, "PATH_TOL", 1e-10)
    monkeypatch.setattr(selection, "PATH_DTYPE", np.float64)
    near = Grulsif.select(*network)
    monkeypatch.setattr(selection, "MAX_NODES", 1)
    far = Grulsif.select(*network)

    np.testing.assert_allclose(far.selection_.rows, near.selection_.rows, rtol=1e-5)


def test_blocks_of_nodes(network):
    """Features computed in blocks of nodes are those of the nodes one by one, empty windows included."""
    psi = Nystroem(Dictionary.build(network.ref))
    windows = [*network.ref[:3], np.empty((0, 2)), *network.ref[3:]]
    for rows in (1, 50, 10_000):
        for x, features in zip(windows, mapped(psi, windows, rows), strict=True):
            np.testing.assert_allclose(features, psi(x), atol=1e-12)


def test_grids(network):
    """Defaults are the document's grids, with one lam more, and two gammas more for POOL."""
    widths = width_grid(network.ref)
    chosen = Grulsif.select(*network).selection_.rows
    pooled = Pool.select(*network).selection_.rows

    assert len(widths) == 5
    assert widths[1] == pytest.approx((widths[0] + widths[2]) / 2.0)
    assert widths[3] == pytest.approx((widths[2] + widths[4]) / 2.0)
    assert len(chosen) == 5 * 6 * 4
    mean_degree = network.W.sum() / 8.0
    np.testing.assert_allclose(np.unique(chosen[:, 1]) * mean_degree, [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0])
    np.testing.assert_array_equal(np.unique(pooled[:, 1]), 1.0)
    np.testing.assert_array_equal(np.unique(pooled[:, 2]), [1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0])


def test_the_best_is_fitted(network):
    """The returned estimator is the fit with the best row of its table."""
    model = Grulsif.select(*network, lams=[0.1, 1e-3], gammas=[0.5], sigmas=[0.8, 1.5], folds=4, alpha=0.3)
    best = model.selection_.best()
    again = Grulsif(alpha=0.3, lam=best["lam"], gamma=best["gamma"], sigma=best["sigma"],
                    dictionary=model.dictionary_).fit(*network)  # fmt: skip

    assert model.alpha == 0.3
    np.testing.assert_array_equal(model.scores_, again.scores_)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"folds": 1}, "folds: must be at least 2, got 1"), ({"gammas": []}, "gammas: the grid is empty")],
)
def test_refused(network, options, message):
    """Too few folds and empty grids are refused."""
    with pytest.raises(ValueError, match=message):
        Grulsif.select(*network, **options)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5])
@pytest.mark.parametrize(("n", "n_"), [(12, 12), (9, 14)])
def test_leave_one_out(alpha, n, n_):
    """The closed form equals as many fits as there are pairs, each without its pair."""
    rng = np.random.default_rng(0)
    phi, phi_ = rng.random((n, 6)), rng.random((n_, 6))
    m, gamma = min(n, n_), 0.05
    pairs = rng.permutation(n)[:m], rng.permutation(n_)[:m]
    losses = []
    for i, j in zip(*pairs, strict=True):
        x, x_ = np.delete(phi, i, axis=0), np.delete(phi_, j, axis=0)
        A = (1 - alpha) * x.T @ x / len(x) + alpha * x_.T @ x_ / len(x_)
        theta = np.linalg.solve(A + gamma * np.eye(6), x_.mean(axis=0))
        f, f_ = phi[i] @ theta, phi_[j] @ theta
        losses.append(0.5 * (1 - alpha) * f**2 + 0.5 * alpha * f_**2 - f_)

    assert leave_one_out(phi, phi_, alpha, gamma, pairs) == pytest.approx(np.mean(losses), rel=1e-9)


def test_node_by_node(network):
    """RULSIF chooses for every node by itself: removing the others changes nothing; ULSIF is alpha = 0."""
    whole = Rulsif.select(network.ref, network.test)
    first = Rulsif.select(network.ref[:1], network.test[:1])
    plain = Ulsif(gamma=0.2, sigma=1.0).fit(network.ref, network.test)

    assert first.scores_[0] == whole.scores_[0]
    assert whole.selection_.columns == ("node", "sigma", "gamma", "loss")
    np.testing.assert_array_equal(
        plain.scores_, Rulsif(alpha=0.0, gamma=0.2, sigma=1.0).fit(network.ref, network.test).scores_
    )


def test_per_node_parameters(network):
    """Widths and ridges may be given per node; a wrong number of them, or a bad one, is refused."""
    with pytest.raises(ValueError, match="sigma: 3 values, but the data have 8 nodes"):
        Rulsif(sigma=[1.0, 2.0, 3.0]).fit(network.ref, network.test)
    with pytest.raises(ValueError, match=r"gamma\[1\]: must be in \[0, inf\), got -2.0"):
        Rulsif(gamma=[1.0, -2.0])


def test_centres(network):
    """At most ``n_centres`` centres, all of them test points of the node."""
    model = Rulsif(n_centres=5, seed=1).fit(network.ref, network.test)

    for v, D in enumerate(model.dictionary_):
        assert len(D.atoms) == 5 == len(model.theta_[v])
        assert all((network.test[v] == atom).all(axis=1).any() for atom in D.atoms)


def test_kliep_is_the_maximum():
    """No feasible neighbour of the KLIEP solution is more likely, and the certificate bounds the gap."""
    rng = np.random.default_rng(0)
    ref, test = rng.normal(size=(80, 1)), rng.normal(size=(40, 1)) + 0.5
    rough, fine = (Kliep(tol=tol, max_iter=10**5).fit([ref], [test]) for tol in (1e-2, 1e-5))
    D, theta = fine.dictionary_[0], fine.theta_[0]
    b = np.exp(-((ref - D.atoms.T) ** 2) / (2 * D.sigma**2)).mean(axis=0)
    k = np.exp(-((test - D.atoms.T) ** 2) / (2 * D.sigma**2))

    assert theta.min() >= 0.0
    assert theta @ b == pytest.approx(1.0)
    assert 0.0 <= fine.scores_[0] - rough.scores_[0] <= 1e-2
    for _ in range(200):
        other = rng.random(len(theta)) * (rng.random(len(theta)) < 0.1)
        mixed = 0.9 * theta + 0.1 * other / max(other @ b, 1e-12) if other.any() else theta
        assert np.log(k @ mixed).mean() <= fine.scores_[0] + 1e-5


def test_windows_without_common_support():
    """KLIEP has no ratio where the windows are worlds apart: NaN, not a number."""
    model = Kliep(sigma=0.1).fit([np.zeros((5, 1))], [np.full((5, 1), 1e6)])

    assert np.isnan(model.scores_[0])


@pytest.mark.parametrize("name", ["Ia", "Ib", "IIb"])
def test_order_of_the_document(name):
    """On the document's scenarios the error of GRULSIF is below that of POOL."""
    truth = scenario(name, 40, seed=1)
    ref, test = truth.sample(50, seed=1)
    errors = {}
    for estimator in (Grulsif, Pool):
        model = estimator.select(ref, test, truth.graph)
        errors[estimator] = truth.error(model.ratio, n=1000).mean()

    assert errors[Grulsif] < errors[Pool]
