"""What every estimator promises, crossed with ESTIMATORS."""

from __future__ import annotations

import copy
import inspect

import numpy as np
import pytest

from estimators import ESTIMATORS, Estimator

GRID = np.linspace(-2.0, 2.0, 10).reshape(5, 2)


@pytest.fixture(params=ESTIMATORS.values(), ids=ESTIMATORS)
def estimator(request):
    return request.param


def test_named(estimator):
    """Each is an Estimator with keyword-only parameters that all have defaults."""
    assert issubclass(estimator, Estimator)
    for parameter in inspect.signature(estimator).parameters.values():
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.default is not inspect.Parameter.empty


def test_results(estimator, network):
    """``fit`` returns the estimator, with the promised attributes."""
    model = estimator()

    assert model.fit(*network) is model
    assert model.scores_.shape == (8,)
    assert model.scores_.dtype == np.float64
    assert len(model.theta_) == 8
    assert np.isfinite(model.scores_).all()
    assert np.all(np.asarray(model.sigma_) > 0.0)
    assert model.n_iter_ >= 1
    assert model.residual_ < 1e-2
    assert model.dictionary_
    assert model.ratio(3, GRID).shape == (5,)
    np.testing.assert_array_equal(model.divergence(), np.maximum(model.scores_, 0.0))


def test_inputs_untouched(estimator, network):
    """``fit``, ``select`` and ``ratio`` write to none of their inputs."""
    before = copy.deepcopy(network)
    grid = GRID.copy()
    estimator().fit(*network).ratio(0, grid)
    estimator.select(*network)

    for side in ("ref", "test"):
        for x, y in zip(getattr(before, side), getattr(network, side), strict=True):
            np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(before.W, network.W)
    np.testing.assert_array_equal(grid, GRID)


def test_read_only_inputs(estimator, network):
    """Read-only arrays are good enough."""
    for side in (network.ref, network.test):
        for x in side:
            x.setflags(write=False)
    network.W.setflags(write=False)

    estimator().fit(*network)


def test_reading_changes_nothing(estimator, network):
    """Reading ratios, divergences and parameters leaves the scores as they are."""
    model = estimator().fit(*network)
    before = model.scores_.copy()
    model.divergence()[:] = 7.0
    model.ratio(2, GRID)[:] = 7.0
    model.get_params()
    repr(model)

    np.testing.assert_array_equal(model.scores_, before)


def test_fit_forgets_the_past(estimator, network):
    """A second fit gives what a first one gives, bit by bit."""
    used = estimator().fit(network.test[:4], network.ref[:4], network.W[:4, :4])
    used.fit(*network)
    fresh = estimator().fit(*network)

    np.testing.assert_array_equal(used.scores_, fresh.scores_)
    np.testing.assert_array_equal(used.ratio(5, GRID), fresh.ratio(5, GRID))


def test_same_seed_same_bits(estimator, network):
    """The same seed gives the same table and the same fit, whatever numpy's global state is."""
    np.random.seed(1)  # noqa: NPY002
    first = estimator.select(*network, seed=3)
    np.random.seed(2)  # noqa: NPY002
    second = estimator.select(*network, seed=3)

    np.testing.assert_array_equal(first.scores_, second.scores_)
    np.testing.assert_array_equal(first.selection_.rows, second.selection_.rows)


def test_selection_table(estimator, network):
    """The table names its columns, and progress counts to the end."""
    seen = []
    model = estimator.select(*network, progress=lambda done, total: seen.append((done, total)))
    table = model.selection_

    assert table.columns[-1] == "loss"
    assert table.rows.shape[1] == len(table.columns)
    assert np.isfinite(table.rows).all()
    assert table.best()["loss"] == table.rows[:, -1].min()
    assert [done for done, _ in seen] == list(range(1, seen[-1][1] + 1))


def test_params_and_repr(estimator, network):
    """Parameters rebuild the estimator; repr shows what differs from the defaults."""
    model = estimator(sigma=0.7)
    again = estimator(**model.get_params())

    assert repr(model) == repr(again) == f"{estimator.__name__}(sigma=0.7)"
    assert repr(estimator()) == f"{estimator.__name__}()"
    assert repr(estimator.select(*network)).startswith(f"{estimator.__name__}(")


def test_silent_nodes_have_no_verdict(estimator, network):
    """An empty window gives NaN, never a number; the others keep theirs; selection bears it as well."""
    ref, test = list(network.ref), list(network.test)
    ref[2], test[6] = np.empty((0, 2)), np.empty(0)
    for model in (estimator().fit(ref, test, network.W), estimator.select(ref, test, network.W)):
        np.testing.assert_array_equal(np.isnan(model.scores_), np.isin(np.arange(8), [2, 6]))


def test_a_change_scores_higher(estimator):
    """Nodes whose test window is moved score higher than all that are not."""
    rng = np.random.default_rng(0)
    ref, test = rng.normal(size=(6, 100, 1)), rng.normal(size=(6, 100, 1))
    test[:3] += 2.0
    W = np.kron(np.eye(2), np.ones((3, 3)) - np.eye(3))
    model = estimator().fit(ref, test, W)

    assert model.scores_[:3].min() > model.scores_[3:].max()
