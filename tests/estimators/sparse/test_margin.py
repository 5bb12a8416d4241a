"""Critical samples: what matters to a classifier, and training together by sending no more (Peifer 2021)."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from estimators.core.parameters import NotFittedError
from estimators.sparse.federated import (
    CriticalSamples,
    ForeignMessage,
    critical_samples,
    merge_critical_samples,
)
from estimators.sparse.grid import MultiScaleGrid
from estimators.sparse.margin import UNKNOWN, PairwiseClassifier, SparseMarginClassifier, pairs
from estimators.sparse.relaxation import Relaxation

GRID = MultiScaleGrid.regular((-4.0, -4.0), (4.0, 4.0), (13, 13), (0.7, 1.2, 2.0), "probability")


def ring(rng, n, low=-3.0, high=3.0, wrong=0.0):
    """Inside and outside of a circle, with wrong labels."""
    x = rng.uniform(low, high, (n, 2))
    y = np.where((x**2).sum(axis=1) < 4.0, 1.0, -1.0)
    return x, np.where(rng.random(n) < wrong, -y, y)


def named(y):
    return ["in" if side > 0 else "out" for side in y]


def test_dropping_uncritical_samples_changes_nothing():
    """Proposition 3: fewer than half the samples are critical, and they alone give the same classifier."""
    rng = np.random.default_rng(0)
    x, y = ring(rng, 240)
    test = rng.uniform(-3.0, 3.0, (200, 2))
    whole = SparseMarginClassifier(GRID, gamma=0.0, max_iter=2000).fit(x, y)
    kept = whole.critical_
    part = SparseMarginClassifier(GRID, gamma=0.0, max_iter=2000).fit(x[kept], y[kept])

    assert whole.solution_.converged
    assert len(kept) < 120
    assert part.solution_.dual == pytest.approx(whole.solution_.dual, rel=1e-5)
    f, g = whole.decision_function(test), part.decision_function(test)
    assert np.abs(f - g).max() < 0.02 * np.sqrt((f**2).mean())


def test_a_sample_beyond_the_margin_is_not_critical():
    """A new sample that the model already gets right with its margin changes nothing."""
    rng = np.random.default_rng(1)
    x, y = ring(rng, 150)
    model = SparseMarginClassifier(GRID, gamma=0.0, max_iter=2000).fit(x, y)
    new = rng.uniform(-3.0, 3.0, (400, 2))
    side = np.where((new**2).sum(axis=1) < 4.0, 1.0, -1.0)
    easy = new[side * model.decision_function(new) > 1.3][0]
    again = SparseMarginClassifier(GRID, gamma=0.0, max_iter=2000).fit(
        np.vstack([x, easy]), np.append(y, 1.0 if (easy**2).sum() < 4.0 else -1.0)
    )

    assert 150 not in again.critical_
    assert again.solution_.dual == pytest.approx(model.solution_.dual, rel=1e-5)


def test_wrong_labels():
    """A fifth of wrong labels: capped multipliers stay right where hard margins fail; slack tells."""
    rng = np.random.default_rng(2)
    x, truth = ring(rng, 300)
    flipped = rng.random(300) < 0.2
    y = np.where(flipped, -truth, truth)
    test, side = ring(rng, 500)
    soft = SparseMarginClassifier(GRID, gamma=0.0, relaxation=Relaxation.linear(10.0)).fit(x, y)
    hard = SparseMarginClassifier(GRID, gamma=0.0, relaxation=Relaxation.hard()).fit(x, y)

    assert soft.nu_.max() <= 10.0
    assert (soft.predict(test) == side).mean() > 0.9 > (hard.predict(test) == side).mean()
    told = soft.slack_ > 1.0
    assert told[flipped].mean() > 0.8
    assert told[~flipped].mean() < 0.1


def test_federated_round():
    """Four sites that see a quarter of the plane each: merged is as right as the learner of all samples."""
    rng = np.random.default_rng(3)
    corners = [(-3.0, -3.0), (-3.0, -0.5), (-0.5, -3.0), (-0.5, -0.5)]
    sites = []
    for corner in corners:
        x, y = ring(rng, 120, np.array(corner), np.array(corner) + 3.5)
        sites.append((x, named(y)))
    test, side = ring(rng, 600)
    central = PairwiseClassifier(GRID).fit(np.vstack([x for x, _ in sites]), [n for _, y in sites for n in y])
    sent = [critical_samples(PairwiseClassifier(GRID), x, y, site=f"site {k}", features="xy 1")
            for k, (x, y) in enumerate(sites)]  # fmt: skip
    wire = [CriticalSamples.of_json(json.loads(json.dumps(message.as_json()))) for message in sent]
    merged = merge_critical_samples(PairwiseClassifier(GRID), wire, features="xy 1")
    right = [np.mean([a == b for a, b in zip(m.predict(test), named(side), strict=True)])
             for m in (central, merged)]  # fmt: skip

    assert sum(len(message.X) for message in sent) < 0.6 * 480
    assert min(right) > 0.93
    assert abs(right[0] - right[1]) < 0.02


def test_one_site_is_the_server():
    """With one site the merged model is that site's own."""
    rng = np.random.default_rng(4)
    x, y = ring(rng, 100)
    own = PairwiseClassifier(GRID)
    sent = critical_samples(own, x, named(y), site="a", features="xy 1")
    merged = merge_critical_samples(PairwiseClassifier(GRID), [sent, sent], features="xy 1")
    test = rng.uniform(-3.0, 3.0, (300, 2))
    f, g = (next(iter(model.pairs_.values())).decision_function(test) for model in (own, merged))

    np.testing.assert_allclose(f, g, atol=0.05 * np.abs(f).max())
    assert own.predict(test) == merged.predict(test)


def test_far_sites_do_not_meddle():
    """Lemma 3: two sites whose kernels do not overlap; the merged model is the sum of theirs."""
    grid = MultiScaleGrid.candidates(
        np.concatenate([np.linspace(-2, 2, 9), np.linspace(98, 102, 9)]), (0.5, 1.0)
    )
    rng = np.random.default_rng(5)
    sent, models = [], []
    for k, centre in enumerate((0.0, 100.0)):
        x = centre + rng.uniform(-2.0, 2.0, (40, 1))
        model = PairwiseClassifier(grid, gamma=0.0)
        sent.append(critical_samples(model, x, named(x[:, 0] - centre), site=str(k), features="x"))
        models.append(model)
    merged = merge_critical_samples(PairwiseClassifier(grid, gamma=0.0), sent, features="x")
    test = np.concatenate([np.linspace(-2, 2, 50), np.linspace(98, 102, 50)])
    f, a, b = (next(iter(m.pairs_.values())).decision_function(test) for m in (merged, *models))

    np.testing.assert_allclose(f, a + b, atol=0.03 * np.abs(f).max())


def test_many_classes_and_one():
    """Three classes by votes; far away nobody votes; one class alone is learnt against nothing."""
    rng = np.random.default_rng(6)
    centres = {"cold": (-2.0, -2.0), "hot": (2.0, -2.0), "wet": (0.0, 2.0)}
    x = np.vstack([rng.normal(c, 0.4, (40, 2)) for c in centres.values()])
    names = [name for name in centres for _ in range(40)]
    model = PairwiseClassifier(GRID).fit(x, names)
    alone = critical_samples(PairwiseClassifier(GRID), x[:40], names[:40], site="a", features="xy")
    pair = critical_samples(PairwiseClassifier(GRID), x[40:], names[40:], site="b", features="xy")
    merged = merge_critical_samples(PairwiseClassifier(GRID), [alone, pair], features="xy")

    assert model.predict(list(centres.values())) == list(centres)
    assert model.predict([(1e3, 1e3)]) == [UNKNOWN]
    assert PairwiseClassifier(GRID).fit(x[:40], names[:40]).predict([(-2.0, -2.0)]) == ["cold"]
    assert merged.predict(list(centres.values())) == list(centres)
    assert pairs(["b", "a", "c"]) == [("a", "b"), ("a", "c"), ("b", "c")]


@pytest.fixture(scope="module")
def message():
    x, y = ring(np.random.default_rng(7), 60)
    return critical_samples(PairwiseClassifier(GRID), x, named(y), site="a", features="xy 1")


def test_message_is_exact(message):
    """JSON and back keeps every bit."""
    again = CriticalSamples.of_json(json.loads(json.dumps(message.as_json())))

    np.testing.assert_array_equal(again.X, message.X)
    assert again.labels == message.labels
    assert again.nu.keys() == message.nu.keys()
    for pair, nu in message.nu.items():
        np.testing.assert_array_equal(again.nu[pair], nu)


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda m: [], "format: this is no message"),
        (lambda m: m | {"format": "other"}, "format: this is no message"),
        (lambda m: m | {"version": 2}, "version: 2, this program reads 1"),
        (lambda m: {k: v for k, v in m.items() if k != "critical"}, "damaged message: KeyError: 'critical'"),
        (lambda m: m | {"critical": []}, "critical: 0 samples"),
        (lambda m: m | {"samples": 1}, "critical: .* samples of 1"),
        (lambda m: m | {"samples": "many"}, "damaged message: ValueError"),
        (lambda m: m | {"critical": m["critical"][:-1]}, r"multipliers of \('in', 'out'\): "),
        (lambda m: m | {"critical": [{"x": [float("nan"), 0.0], "label": "in"}]}, "is nan"),
        (lambda m: m | {"critical": [{"x": "abc", "label": "in"}]}, "damaged message"),
        (lambda m: m | {"critical": [{"x": [0.0, 0.0], "label": ""}], "multipliers": []}, "empty label"),
        (lambda m: m | {"multipliers": [{"pair": ["in"], "nu": []}]}, "damaged message"),
    ],
)
def test_damaged_messages(message, spoil, error):
    """What is no message, or a damaged one, is refused in words."""
    with pytest.raises(ForeignMessage, match=error):
        CriticalSamples.of_json(spoil(message.as_json()))


def test_foreign_messages(message):
    """Another grid, another meaning of features, another number of them: refused, naming the site."""
    with pytest.raises(ForeignMessage, match="a: grid beef, this one is"):
        merge_critical_samples(PairwiseClassifier(GRID), [replace(message, grid_id="beef")], features="xy 1")
    with pytest.raises(ForeignMessage, match="a: features 'xy 1', here 'xy 2'"):
        merge_critical_samples(PairwiseClassifier(GRID), [message], features="xy 2")
    with pytest.raises(ForeignMessage, match="a: 3 features per sample"):
        merge_critical_samples(
            PairwiseClassifier(GRID), [replace(message, X=np.zeros((len(message.X), 3)))], features="xy 1"
        )
    with pytest.raises(ValueError, match="messages: none to merge"):
        merge_critical_samples(PairwiseClassifier(GRID), [], features="xy 1")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (
            lambda: SparseMarginClassifier(GRID).fit(np.zeros((2, 2)), [0.0, 1.0]),
            r"y: classes must be -1 and \+1",
        ),
        (lambda: SparseMarginClassifier(GRID).fit(np.zeros((0, 2)), []), "X: no sample to learn from"),
        (lambda: SparseMarginClassifier(GRID).fit(np.zeros((2, 2)), [1.0]), r"y: shape \(1,\)"),
        (lambda: SparseMarginClassifier(GRID, eps=1.0), "eps: must be in"),
        (lambda: PairwiseClassifier(GRID, gamma=-1.0), "gamma: must be in"),
        (lambda: PairwiseClassifier(GRID).fit(np.zeros((2, 2)), ["a", ""]), r"labels\[1\] is empty"),
        (lambda: PairwiseClassifier(GRID).fit(np.zeros((2, 2)), ["a"]), "labels: 1, but X has 2"),
        (lambda: PairwiseClassifier(GRID).fit(np.zeros((0, 2)), []), "X: no sample to learn from"),
    ],
)
def test_refused(call, error):
    """Bad arguments are refused by name and value."""
    with pytest.raises(ValueError, match=error):
        call()


def test_contradictions_are_not_fatal():
    """The same point in both classes: no exception, no opinion worth having, everything critical."""
    model = SparseMarginClassifier(GRID).fit(np.zeros((2, 2)), [1.0, -1.0])

    assert np.abs(model.decision_function([[0.0, 0.0]])).max() < 1e-6
    assert len(model.critical_) == 2


def test_nearly_singular_samples():
    """Samples that are nearly alike: the gradient stays away from zero, but the gap says it is solved."""
    rng = np.random.default_rng(8)
    x = np.vstack([rng.normal(0.0, 1e-3, (6, 2)), rng.normal(0.3, 1e-3, (6, 2))])
    model = SparseMarginClassifier(GRID, gamma=0.0).fit(x, [1.0] * 6 + [-1.0] * 6)
    found = model.solution_

    assert found.converged
    assert found.dual <= found.primal + 1e-9 <= found.dual * 1.002


def test_not_fitted():
    """No prediction before a fit."""
    with pytest.raises(NotFittedError):
        SparseMarginClassifier(GRID).predict([[0.0, 0.0]])
    with pytest.raises(NotFittedError):
        PairwiseClassifier(GRID).predict([[0.0, 0.0]])
