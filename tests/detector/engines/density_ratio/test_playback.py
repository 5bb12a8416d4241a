"""The joint block bootstrap, and how long its blocks are."""

from __future__ import annotations

import warnings
from itertools import islice

import numpy as np
import pytest

from detector.engines.density_ratio import Choice, DensityRatioEngine
from detector.engines.density_ratio.playback import Moments, Playback
from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.timeseries.block_bootstrap import block_length, correlation_time, rows
from tests.detector.learnt import settings


def autoregression(phi, T=20_000, n=4, seed=0):
    e = np.random.default_rng(seed).normal(size=(T, n, 1))
    for t in range(1, T):
        e[t] += phi * e[t - 1]
    return e


def test_rows_are_blocks_that_wrap_around():
    """Rows come in blocks of neighbours, each begun anywhere, wrapping at the end of the history."""
    found = np.array(list(islice(rows(100, 25, 3), 5000))).reshape(-1, 25)

    assert (np.diff(found, axis=1) % 100 == 1).all()
    assert set(found.ravel()) == set(range(100))
    assert len(set(found[:, 0])) > 80


def test_rows_depend_on_the_seed_only():
    """The same seed gives the same rows, another seed others."""
    first, again, other = (list(islice(rows(1000, 50, seed), 500)) for seed in (1, 1, 2))

    assert first == again
    assert first != other


@pytest.mark.parametrize(("phi", "expected"), [(0.0, 1.0), (0.5, 3.0), (0.9, 19.0)])
def test_correlation_time_of_autoregressions(phi, expected):
    """An AR(1) has an integrated correlation time of (1 + phi) / (1 - phi)."""
    assert correlation_time(autoregression(phi)) == pytest.approx(expected, rel=0.25)


def test_correlated_spread_counts():
    """White values whose spread changes slowly are correlated all the same: their squares are."""
    rng = np.random.default_rng(0)
    spread = np.where(np.arange(20_000) // 50 % 2, 0.2, 2.0)[:, None, None]
    assert correlation_time(spread * rng.normal(size=(20_000, 4, 1))) > 5.0


def test_missing_values_do_not_matter_much():
    """Holes in the history leave the correlation time about where it was; empty nodes are no trouble."""
    Z = autoregression(0.5)
    Z[np.random.default_rng(1).random(Z.shape) < 0.3] = np.nan
    Z[:, 3] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert correlation_time(Z) == pytest.approx(3.0, rel=0.3)
        assert correlation_time(np.full((100, 2, 1), np.nan)) == 1.0
        assert correlation_time(np.ones((100, 2, 1))) == 1.0


def test_blocks_follow_the_correlation():
    """Blocks are twenty correlation times, at least 100 ticks, at most an eighth of the history."""
    assert block_length(1.0, 4000) == 100
    assert block_length(19.0, 20_000) == 380
    assert block_length(100.0, 2000) == 250


def playback(T=300, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(T, 5, 1))
    Z[rng.random((T, 5)) < missing] = np.nan
    W = np.diag(np.ones(4), 1)
    features = Nystroem(Dictionary(rng.normal(size=(20, 1)), 1.0), rank=5)
    engine = DensityRatioEngine(Graph.of(W + W.T), features, settings(), Choice(1.0, 0.5, 0.05, 2.0))
    return Playback(engine, Z, rows(T, 50, seed))


@pytest.mark.parametrize(("missing", "ready"), [(0.0, 1.0), (0.6, 0.6)])
def test_warm_up_fills_the_windows(missing, ready):
    """After the warm-up nodes have verdicts, most of them also with many samples missing."""
    run = playback(missing=missing)
    run.warm_up()
    assert np.isfinite(run.engine.scores).mean() >= ready


def test_forks_go_their_own_ways():
    """A fork starts from the same windows; what it does later does not reach the first, and is repeatable."""
    run = playback()
    run.warm_up()
    run.learn_null(50)
    before = {name: array.copy() for name, array in run.engine.state()[0].items()}
    results = []
    for _ in range(2):
        fork = run.fork(rows(300, 50, 9))
        fork.play(30)
        results.append(fork.engine.event.copy())

    assert results[0].tobytes() == results[1].tobytes()
    after, _ = run.engine.state()
    assert all(after[name].tobytes() == before[name].tobytes() for name in before)


def test_quiet_levels_are_standardised():
    """What was learnt to be quiet makes the levels of a further quiet run about standard normal."""
    run = playback(T=3000)
    run.warm_up()
    run.learn_null(1500)
    seen = []
    run.play(1500, lambda _: seen.append(run.engine.statistics.level.copy()))
    levels = np.array(seen)

    assert np.isfinite(levels).all()
    assert np.quantile(levels, 0.9, axis=(0, 2)) == pytest.approx(1.7, abs=0.6)  # the largest of three scales


def test_nodes_without_a_verdict_do_not_spoil_the_others():
    """A node that never had a verdict, or always the same, leaves the skewness of the others as it is."""
    rng = np.random.default_rng(3)
    one, two = Moments((4, 1)), Moments((6, 1))
    for _ in range(2000):
        x = rng.gamma(3.0, size=(4, 1))
        one.add(x)
        two.add(np.concatenate([x, [[np.nan], [0.1]]]))

    assert np.isfinite(two.skewness()).all()
    assert two.skewness() == pytest.approx(0.8 * one.skewness())


def test_moments_are_those_of_numpy():
    """Mean, spread and skewness equal numpy's, with and without holes; nodes never seen take the others'."""
    rng = np.random.default_rng(2)
    x = rng.gamma(3.0, size=(5000, 4, 2))
    x[rng.random(x.shape) < 0.1] = np.nan
    x[:, 3] = np.nan
    sums = Moments((4, 2))
    for row in x:
        sums.add(row)
    share = np.ones(2)

    np.testing.assert_allclose(sums.mean(share)[:3], np.nanmean(x[:, :3], axis=0))
    np.testing.assert_allclose(sums.spread(share)[:3], np.nanstd(x[:, :3], axis=0))
    np.testing.assert_allclose(sums.mean(share)[3], np.nanmean(x[:, :3], axis=0).mean(axis=0))
    assert sums.skewness() == pytest.approx(2.0 / np.sqrt(3.0), rel=0.1)
    np.testing.assert_allclose(
        sums.mean(0 * share), np.tile(np.nanmean(x[:, :3], axis=0).mean(axis=0), (4, 1))
    )
