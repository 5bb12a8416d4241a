"""A setting per node: each node has the fit that was best on its held-out samples, and only that."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from estimators import Grulsif, GrulsifByNode, NotFittedError
from estimators.core.graph import Graph


def windows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    ref, test = rng.normal(size=(2, 8, 120, 1))
    test[:3] *= 0.2
    return ref, test


def test_every_node_has_its_own_fit_of_the_whole_network() -> None:
    ref, test = windows()
    W = nx.cycle_graph(8)
    model = GrulsifByNode().fit(ref, test, W)
    assert len(set(model.choice_)) > 1
    x = np.linspace(-2.0, 2.0, 9)
    for v in range(8):
        sigma, lam, gamma, _ = model.selection_.rows[model.choice_[v]]
        alone = Grulsif(sigma=sigma, lam=lam, gamma=gamma).fit(ref, test, W)
        np.testing.assert_allclose(model.ratio(v, x), alone.ratio(v, x))
        assert model.scores_[v] == pytest.approx(alone.scores_[v])
        np.testing.assert_allclose(model.theta_[v], alone.theta_[v])


def test_the_choice_is_the_least_loss_on_what_was_held_out() -> None:
    """Eq. 42 of a node, by hand: half the mean square under the mixture, less the mean under the test."""
    ref, test = windows(1)
    graph = Graph.of(nx.path_graph(8))
    model = GrulsifByNode(widths=(0.5, 2.0), couplings=(0.01,), gammas=(0.1,), folds=4).fit(ref, test, graph)
    losses = []
    for sigma, lam, gamma, _ in model.selection_.rows:
        fit = Grulsif(sigma=sigma, lam=lam, gamma=gamma).fit(ref[:, :90], test[:, :90], graph)
        row = []
        for v in range(8):
            p, q = fit.ratio(v, ref[v, 90:]), fit.ratio(v, test[v, 90:])
            row.append(0.45 * np.mean(p**2) + 0.05 * np.mean(q**2) - q.mean())
        losses.append(row)
    np.testing.assert_array_equal(model.choice_, np.argmin(losses, axis=0))
    np.testing.assert_allclose(model.selection_.rows[:, -1], np.mean(losses, axis=1))


def test_one_candidate_is_grulsif() -> None:
    ref, test = windows(2)
    model = GrulsifByNode(widths=(1.0,), couplings=(0.02,), gammas=(0.1,)).fit(ref, test, nx.cycle_graph(8))
    sigma, lam, gamma, _ = model.selection_.rows[0]
    plain = Grulsif(sigma=sigma, lam=lam, gamma=gamma).fit(ref, test, nx.cycle_graph(8))
    np.testing.assert_allclose(model.scores_, plain.scores_)
    assert list(model.models_) == [0]


def test_silent_nodes_and_bad_input() -> None:
    ref, test = windows(3)
    parts = [test[v] if v != 5 else np.empty((0, 1)) for v in range(8)]
    model = GrulsifByNode(widths=(1.0, 2.0)).fit(list(ref), parts, nx.cycle_graph(8))
    assert np.isnan(model.scores_).tolist() == [v == 5 for v in range(8)]
    assert np.isfinite(model.ratio(5, [0.0])).all()
    with pytest.raises(NotFittedError):
        GrulsifByNode().divergence()
    with pytest.raises(ValueError, match="W: GrulsifByNode needs the graph"):
        GrulsifByNode().fit(ref, test)
    for given in ({"widths": ()}, {"widths": (0.0,)}, {"couplings": (-1.0,)}, {"folds": 1}, {"alpha": 1.0}):
        with pytest.raises(ValueError, match=next(iter(given))):
            GrulsifByNode(**given)  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="node 8"):
        model.ratio(8, [0.0])
