"""Identities of GRULSIF and POOL, their silent nodes, and the checks of their arguments."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from estimators import Dictionary, Grulsif, NotFittedError, Nystroem, Pool
from tests.estimators import oracle

GRID = np.random.default_rng(9).normal(size=(20, 2))


def ratios(model, n_nodes=8):
    return np.stack([model.ratio(v, GRID) for v in range(n_nodes)])


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_full_form(network, kernel):
    """The Nystroem form gives ratios and scores of the full form (Eq. 15) on an independent dictionary."""
    atoms, sigma = np.concatenate(network.ref)[:8], 1.3
    theta, scores = oracle.full_form(*network, atoms, sigma, kernel, 0.1, 0.02, 0.1)
    model = Grulsif(
        lam=0.02, gamma=0.1, sigma=sigma, kernel=kernel, dictionary=atoms, feature_tol=0.0, tol=1e-12
    )
    model.fit(*network)
    full = oracle.kernel_named(kernel)(GRID, atoms, sigma) @ theta.T

    np.testing.assert_allclose(model.scores_, scores, atol=1e-8)
    np.testing.assert_allclose(ratios(model), full.T, atol=1e-7)


def test_full_form_descends(network):
    """Eq. 33, the update of the full form, converges to its exact solution."""
    settings = np.concatenate(network.ref)[:4], 1.0, "gaussian", 0.1, 0.05, 0.5
    exact, _ = oracle.full_form(*network, *settings)
    swept, _ = oracle.full_form(*network, *settings, cycles=3000)

    np.testing.assert_allclose(swept, exact, atol=1e-6)


@pytest.mark.parametrize("centred", [False, True])
def test_identical_windows(network, centred):
    """Identical windows score at most zero: plain -1/2 mean (f - 1)^2; centred exactly zero."""
    same = Grulsif(centred=centred).fit(network.ref, network.ref, network.W)
    expected = [-0.5 * np.mean((same.ratio(v, x) - 1.0) ** 2) for v, x in enumerate(network.ref)]

    assert np.all(same.scores_ <= 0.0)
    np.testing.assert_allclose(same.scores_, expected, atol=1e-12)
    np.testing.assert_array_equal(same.divergence(), 0.0)
    if centred:
        np.testing.assert_array_equal(same.theta_, 0.0)
        np.testing.assert_array_equal(ratios(same), 1.0)


def test_score_is_the_divergence_of_its_ratio(network):
    """Plain or centred, the score is mean_test f - 1/2 mean_mixture f^2 - 1/2 (Eq. 20, 22)."""
    for centred in (False, True):
        model = Grulsif(alpha=0.2, centred=centred).fit(*network)
        for v in range(8):
            f, f_ = model.ratio(v, network.ref[v]), model.ratio(v, network.test[v])
            expected = f_.mean() - 0.5 * (0.8 * np.mean(f**2) + 0.2 * np.mean(f_**2)) - 0.5
            assert model.scores_[v] == pytest.approx(expected, abs=1e-10)


def test_pool_is_grulsif_without_links(network):
    """POOL equals GRULSIF on a graph without edges, and lam = 0 separates the nodes on any graph."""
    pool = Pool(gamma=1e-3).fit(network.ref, network.test)
    unlinked = Grulsif(lam=1.0, gamma=1e-3, tol=1e-12).fit(network.ref, network.test, np.zeros((8, 8)))
    separate = Grulsif(lam=0.0, feature_tol=1e-2, tol=1e-10).fit(*network)
    alone = Grulsif(lam=0.0, feature_tol=1e-2, tol=1e-10, dictionary=separate.dictionary_)
    alone.fit(network.ref[:1], network.test[:1], [[0.0]])

    np.testing.assert_allclose(pool.scores_, unlinked.scores_, atol=1e-9)
    np.testing.assert_allclose(alone.scores_[0], separate.scores_[0], atol=1e-7)


def test_pool_closed_form(network):
    """POOL solves Eq. 41 node by node."""
    model = Pool(gamma=1e-3).fit(network.ref, network.test)
    for v in range(8):
        psi, psi_ = model.features_(network.ref[v]), model.features_(network.test[v])
        A = 0.9 * psi.T @ psi / len(psi) + 0.1 * psi_.T @ psi_ / len(psi_)
        theta = np.linalg.solve(A + 8 * 1e-3 * np.eye(len(A)), psi_.mean(axis=0))

        np.testing.assert_allclose(model.theta_[v], theta, atol=1e-9)


def test_permutation(network):
    """Renumbering the nodes renumbers the scores."""
    order = np.array([3, 7, 0, 5, 1, 2, 6, 4])
    D = Dictionary.build(network.ref, network.test)
    plain = Grulsif(dictionary=D, tol=1e-12).fit(*network)
    moved = Grulsif(dictionary=D, tol=1e-12).fit(
        [network.ref[v] for v in order], [network.test[v] for v in order], network.W[np.ix_(order, order)]
    )

    np.testing.assert_allclose(moved.scores_, plain.scores_[order], atol=1e-9)


def test_strong_graph(network):
    """A very large lam gives all nodes of a connected part the same parameters, and only those."""
    model = Grulsif(lam=1e4, gamma=1e-8).fit(*network)

    np.testing.assert_allclose(model.theta_[:7], model.theta_[:1].repeat(7, axis=0), atol=1e-4)
    assert np.abs(model.theta_[7] - model.theta_[0]).max() > 1e-2


def test_feature_rotation(network, monkeypatch):
    """Rotating the feature basis changes neither scores nor ratios."""
    plain = Grulsif(tol=1e-12).fit(*network)
    before = ratios(plain)
    Q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(plain.features_.rank,) * 2))
    unrotated = Nystroem.__call__
    monkeypatch.setattr(Nystroem, "__call__", lambda self, x: unrotated(self, x) @ Q)
    rotated = Grulsif(tol=1e-12).fit(*network)

    np.testing.assert_allclose(rotated.scores_, plain.scores_, atol=1e-9)
    np.testing.assert_allclose(ratios(rotated), before, atol=1e-8)


def test_graph_forms(network):
    """networkx, sparse and dense graphs give the same fit."""
    dense = Grulsif().fit(*network)
    graph = Grulsif().fit(network.ref, network.test, nx.from_numpy_array(network.W))

    np.testing.assert_array_equal(dense.scores_, graph.scores_)


def test_arrays_and_lists(network):
    """(N, n, d) arrays and lists of (n, d) arrays are the same data; vectors are one-dimensional points."""
    ref, test = np.stack([x[:15] for x in network.ref]), np.stack([x[:15] for x in network.test])
    from_arrays = Grulsif().fit(ref, test, network.W)
    from_lists = Grulsif().fit(list(ref), list(test), network.W)
    flat = Pool().fit(list(ref[:, :, 0]), list(test[:, :, 0]))

    np.testing.assert_array_equal(from_arrays.scores_, from_lists.scores_)
    np.testing.assert_array_equal(flat.scores_, Pool().fit(ref[:, :, :1], test[:, :, :1]).scores_)


@pytest.mark.parametrize("window", ["ref", "test"])
@pytest.mark.parametrize("solver", ["cbcgd", "pcg", "direct"])
def test_silent_node(network, window, solver):
    """A silent node scores NaN, takes its ratio from its neighbours, and leaves the others their verdict."""
    windows = {"ref": list(network.ref), "test": list(network.test)}
    windows[window][1] = np.empty((0, 2))
    model = Grulsif(lam=1.0, gamma=1e-3, solver=solver, max_iter=10**6).fit(**windows, W=network.W)

    assert np.isnan(model.scores_[1])
    assert np.isfinite(np.delete(model.scores_, 1)).all()
    assert np.isnan(model.divergence()[1])
    around = np.mean([model.ratio(0, GRID), model.ratio(2, GRID)], axis=0)
    np.testing.assert_allclose(model.ratio(1, GRID), around, atol=0.01)


def test_silent_and_isolated(network):
    """A silent node that no data reach has no ratio: NaN, with graph or without."""
    ref = [*network.ref[:7], np.empty((0, 2))]
    alone = Grulsif().fit(ref, network.test, network.W)
    pool = Pool().fit([np.empty(0), *network.ref[1:]], network.test)

    assert np.isnan(alone.ratio(7, GRID)).all()
    assert np.isnan(pool.ratio(0, GRID)).all()
    assert np.isfinite(pool.ratio(1, GRID)).all()


def test_known_divergence():
    """With many points the scores come near the true divergence, and r stays below 1/alpha."""
    rng = np.random.default_rng(0)
    ref, test = rng.normal(size=(4, 2000, 1)), rng.normal(size=(4, 2000, 1)) + 1.0
    model = Grulsif.select(ref, test, nx.path_graph(4))

    assert np.mean(model.scores_) == pytest.approx(0.46744, abs=0.03)  # by quadrature, alpha = 0.1
    assert model.ratio(0, np.linspace(-2, 3, 50)).max() < 11.0


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": 1.0}, r"alpha: must be in \[0, 1\), got 1.0"),
        ({"alpha": "a"}, r"alpha: must be in \[0, 1\), got 'a'"),
        ({"lam": -1}, r"lam: must be in \[0, inf\), got -1"),
        ({"gamma": np.inf}, r"gamma: must be in \[0, inf\), got inf"),
        ({"sigma": 0.0}, r"sigma: must be in \(0, inf\), got 0.0"),
        ({"kernel": "cubic"}, "kernel: unknown name 'cubic'"),
        ({"solver": "magic"}, "solver: unknown name 'magic'; known: cbcgd, direct, pcg"),
        ({"tol": 0.0}, r"tol: must be in \(0, inf\), got 0.0"),
        ({"max_iter": 0}, "max_iter: must be in"),
        ({"budget": 0}, "budget: must be in"),
        ({"feature_tol": 1.0}, "feature_tol: must be in"),
        (
            {"dictionary": Dictionary(np.zeros((1, 1)), 1.0, "laplace")},
            "kernel: the dictionary was built for 'laplace'",
        ),
    ],
)
def test_parameters_refused(params, message):
    """A parameter outside of its range is refused by name and value."""
    with pytest.raises(ValueError, match=message):
        Grulsif(**params)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"W": None}, "W: Grulsif needs the graph"),
        ({"W": np.zeros((3, 3))}, "W: 3 nodes, but the data have 8"),
        ({"test": [np.zeros((3, 2))]}, "test: 1 nodes, but ref has 8"),
        ({"ref": [], "test": []}, "ref: no node"),
        ({"ref": [np.empty((0, 2))] * 8, "test": [np.empty((0, 2))] * 8}, "ref: no node has a point"),
    ],
)
def test_data_refused(network, change, message):
    """Data that do not fit together are refused with what does not fit."""
    with pytest.raises(ValueError, match=message):
        Grulsif().fit(**{**network._asdict(), **change})


def test_bad_entries_are_named(network):
    """A non-finite value is refused with window, node and entry, another dimension with window and node."""
    network.test[4][2, 1] = np.inf
    with pytest.raises(ValueError, match=r"test\[4\]\[2, 1\] is inf: values must be finite"):
        Grulsif().fit(*network)
    network.test[4] = np.zeros((5, 3))
    with pytest.raises(ValueError, match=r"test\[4\]: dimension 3, but the other nodes have 2"):
        Grulsif().fit(*network)


def test_asking_too_early_or_too_far(network):
    """Results before fit, and nodes that are not there, are refused."""
    with pytest.raises(NotFittedError, match="Grulsif: call fit first"):
        Grulsif().ratio(0, GRID)
    with pytest.raises(NotFittedError):
        Pool().divergence()
    with pytest.raises(IndexError, match="v: node 8, but there are nodes 0 to 7"):
        Grulsif().fit(*network).ratio(8, GRID)


def test_the_gradient_step_of_the_document_ends_where_the_others_do():
    """Algorithm 2 with Eq. 39, literally, from the constructor; it only takes more sweeps."""
    rng = np.random.default_rng(11)
    ref, test = rng.normal(size=(6, 30, 1)), rng.normal(0.5, 1.0, size=(6, 30, 1))
    W = np.eye(6, k=1) + np.eye(6, k=-1)
    fits = {block: Grulsif(solver="cbcgd", block=block).fit(ref, test, W) for block in ("exact", "gradient")}
    np.testing.assert_allclose(fits["gradient"].theta_, fits["exact"].theta_, atol=1e-5)
    assert fits["gradient"].n_iter_ > fits["exact"].n_iter_
    with pytest.raises(ValueError, match="block: must be 'exact' or 'gradient', got 'half'"):
        Grulsif(block="half")
