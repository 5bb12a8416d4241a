"""Regimes: calibrated rejection, answers that combine in any order, state, and the digits."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from estimators.regimes.kahm import KahmGroup
from estimators.regimes.library import Reading, RegimeLibrary, RegimeStructure, combine

SQUARE = 0.5 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


def gaussian(N, centre, seed):
    """Points of one regime in ten dimensions."""
    return np.tanh(0.3 * np.random.default_rng(seed).normal(size=(N, 10)) + centre)


@pytest.fixture(scope="module")
def library():
    found = RegimeLibrary("spec")
    for i, label in enumerate(("calm", "rough", "stuck")):
        found.enrol(label, gaussian(60, 0.5 * i, i) if label != "stuck" else np.full((30, 10), -0.5))
    return found


def test_worked_example():
    """Two daemons with one regime each: both points are named by their holder, the third is of neither."""
    libraries = {}
    for owner, label, shift in (("one", "A", 0.0), ("two", "B", 1.0)):
        libraries[owner] = RegimeLibrary(support=None)
        libraries[owner].enrol(label, SQUARE + np.array([shift, 0.0]), min_samples=4)
    verdicts = [combine({owner: held.distances([y]) for owner, held in libraries.items()})
                for y in ([0.3, 0.2], [1.3, 0.2], [0.8, 1.5])]  # fmt: skip

    assert [v.label for v in verdicts] == ["A", "B", None]
    assert [v.owner for v in verdicts] == ["one", "two", "one"]
    np.testing.assert_allclose([v.gamma for v in verdicts], [0.008548, 0.030821, 0.706364], atol=5e-7)
    np.testing.assert_allclose([v.margin for v in verdicts], [0.606256, 0.480297, 0.212973], atol=2e-6)
    assert verdicts[2].novel
    assert verdicts[2].nearest == "A"


def test_own_points_are_seldom_novel():
    """Fresh points of a regime exceed its threshold at about the rate alpha; in-sample ones would not do."""
    alpha, fresh, in_sample = 0.05, [], []
    for seed in range(12):
        found = RegimeStructure.fit("r", gaussian(100, 0.0, seed))
        rho = found.score(gaussian(400, 0.0, 100 + seed), alpha)[1]
        fresh.append(np.mean(rho > 1.0))
        own = found.group.distance(found.group.Y_)
        in_sample.append(np.mean(rho * found.threshold(alpha) > np.quantile(own, 1.0 - alpha)))

    assert alpha / 3 <= np.mean(fresh) <= 2 * alpha
    assert np.mean(in_sample) > 0.2


def test_samples_of_one_event_are_left_out_together():
    """Events with an offset of their own: only calibration by events knows how far the next one lies."""
    rng = np.random.default_rng(0)

    def event():
        return np.tanh(0.05 * rng.normal(size=(8, 10)) + 0.4 * rng.normal(size=10))

    Y, groups = np.concatenate([event() for _ in range(8)]), np.repeat(np.arange(8), 8).tolist()
    together, apart = RegimeStructure.fit("r", Y, groups=groups), RegimeStructure.fit("r", Y)
    fresh = np.concatenate([event() for _ in range(30)])

    assert np.mean(apart.score(fresh)[1] > 1.0) > 0.5
    assert np.mean(together.score(fresh)[1] > 1.0) < 0.3
    np.testing.assert_array_equal(
        RegimeStructure.fit("r", Y, groups=["one"] * 64).calibration, apart.calibration
    )
    with pytest.raises(ValueError, match="groups: 3, but there are 64 samples"):
        RegimeStructure.fit("r", Y, groups=[1, 2, 3])


def test_pvalue():
    """The p-value counts own points at least as far: from 1 at the surface to 1/(N + 1) far away."""
    found = RegimeStructure.fit("r", gaussian(50, 0.0, 0))
    gamma, rho, pvalue = found.score(np.concatenate([gaussian(200, 0.0, 1), np.full((1, 10), 9.0)]))
    order = np.argsort(gamma)

    assert pvalue[-1] == 1 / 51
    assert np.all(np.diff(pvalue[order]) <= 0)
    assert np.all(np.diff(rho[order]) >= 0)
    for i in (0, 5, 77):
        assert pvalue[i] == (1 + np.sum(found.calibration >= gamma[i])) / 51


def test_a_stuck_sensor_is_a_regime(library):
    """Samples without spread have a threshold all the same: the smallest distance that counts."""
    stuck = library.structures["stuck"]

    assert stuck.threshold(0.05) == pytest.approx(1e-3 * np.sqrt(10))
    assert library.predict(np.full((1, 10), -0.5 + 5e-4)).label == "stuck"
    assert library.predict(np.full((1, 10), -0.45)).label is None


def test_named_or_novel(library):
    """Points of known regimes are named, with the margin to the next; others are novel."""
    calm, novel = library.predict(gaussian(3, 0.0, 50)), library.predict(gaussian(3, -2.0, 51))

    assert (calm.label, calm.novel, calm.nearest) == ("calm", False, "calm")
    assert calm.rho <= 1.0 < novel.rho
    assert calm.margin > 0.0
    assert (novel.label, novel.novel) == (None, True)
    assert novel.pvalue < 0.05 < calm.pvalue


def test_nothing_known():
    """Without a regime there is no decision: neither a name nor a novelty."""
    for verdict in (RegimeLibrary().predict([[0.0]]), combine({}), combine({"a": {}}, ["a", "b"])):
        assert (verdict.label, verdict.nearest, verdict.novel) == (None, None, False)
    assert verdict.answered == ("a",)
    assert verdict.missing == ("b",)


readings = st.builds(Reading, *[st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, np.inf])] * 2, st.just(0.5))
tables = st.dictionaries(st.sampled_from("abcd"), st.dictionaries(st.sampled_from("xyz"), readings))


@given(tables, st.randoms())
def test_combining_is_free_of_order(answers, random):
    """Answers combine to the same verdict in any order, ties included."""
    mixed = list(answers.items())
    random.shuffle(mixed)

    assert repr(combine(dict(mixed), "abcd")) == repr(combine(answers, "abcd"))


@given(tables, tables)
def test_one_more_answer_never_moves_a_regime_away(answers, more):
    """More answers never raise the distance of the nearest regime; an answer repeated changes nothing."""
    joined = {**{owner.upper(): table for owner, table in more.items()}, **answers}
    alone, together = combine(answers), combine(joined)
    twice = combine({**answers, **{f"{owner} again": table for owner, table in answers.items()}})

    assert together.gamma <= alone.gamma
    assert (twice.label, twice.nearest, twice.gamma) == (alone.label, alone.nearest, alone.gamma)


def test_missing_answers_are_listed(library):
    """Who has not answered is named; what the others know still counts."""
    verdict = combine({"here": library.distances(gaussian(3, 0.5, 9))}, ["here", "there"])

    assert verdict.label == "rough"
    assert (verdict.answered, verdict.missing) == (("here",), ("there",))


def test_state_restores_every_bit(library):
    """JSON and arrays give the regime back; distances, thresholds and p-values are the same bits."""
    found = RegimeStructure.fit("r", gaussian(130, 0.2, 3), "spec", block=40)
    meta, arrays = found.state()
    again = RegimeStructure.restore(json.loads(json.dumps(meta)), arrays)
    y = gaussian(20, 0.0, 4)

    assert len(found.group.parts_) > 1
    for before, after in zip(found.score(y), again.score(y), strict=True):
        np.testing.assert_array_equal(before, after)
    assert (again.label, again.spec) == ("r", "spec")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "regime: format 2, this version reads 1"),
        ({"label": 7}, "label and spec must be text"),
        ({"machine": {"colour": 1}}, "regime 'r': machine: .*colour"),
        ({"machine": {"guard": 0.0}}, "guard: must be in"),
        ({"samples": np.zeros((3, 10))}, "calibration must be 3 ascending distances"),
        ({"samples": np.full((30, 10), np.nan)}, r"regime 'r': samples\[0, 0\] is nan"),
        ({"calibration": np.arange(30.0)[::-1]}, "calibration must be 30 ascending distances"),
        ({"sizes": [10.0, 10.0]}, "sizes: .* do not cut 30 samples"),
        ({"sizes": None}, "regime: sizes missing"),
    ],
)
def test_foreign_state_is_refused(change, message):
    """A state that is not one is refused with what is wrong."""
    meta, arrays = RegimeStructure.fit("r", gaussian(30, 0.0, 0)).state()
    for key, value in change.items():
        part = meta if key in meta else arrays
        if value is None:
            del part[key]
        else:
            part[key] = value

    with pytest.raises(ValueError, match=message):
        RegimeStructure.restore(meta, arrays)


def test_library_refuses_what_does_not_belong(library):
    """Too few samples, another dimension, other features: refused, and the library is as before."""
    before = dict(library.structures)
    with pytest.raises(ValueError, match="regime 'few': 24 samples, at least 25 are needed"):
        library.enrol("few", gaussian(24, 0.0, 0))
    with pytest.raises(ValueError, match="regime 'flat': dimension 2, but 'calm' has 10"):
        library.enrol("flat", np.random.default_rng(0).normal(size=(30, 2)))
    with pytest.raises(ValueError, match="regime 'r': features 'other', the library has 'spec'"):
        library.add(RegimeStructure.fit("r", gaussian(30, 0.0, 0), "other"))
    with pytest.raises(ValueError, match="y: dimension 3, but the samples have 10"):
        library.predict([[0.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="y: no point"):
        library.predict(np.empty((0, 10)))
    with pytest.raises(ValueError, match="alpha: must be in"):
        library.predict(gaussian(1, 0.0, 0), alpha=0.0)
    with pytest.raises(ValueError, match="table of 'a': 'x': no distance: nan"):
        combine({"a": {"x": Reading(np.nan, 1.0, 1.0)}})

    assert library.structures == before


def test_digits():
    """Digits by distances alone: 0.985 and more over five folds, and not below 1-NN and SVC."""
    digits = load_digits()
    Y, z = np.tanh(digits.data / 16.0), digits.target
    hits: dict[str, list[bool]] = {"kahm": [], "1-NN": [], "SVC": []}
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(Y, z):
        table = np.array([KahmGroup().fit(Y[train][z[train] == c]).distance(Y[test]) for c in range(10)])
        hits["kahm"] += (table.argmin(axis=0) == z[test]).tolist()
        for name, rival in (("1-NN", KNeighborsClassifier(1)), ("SVC", SVC())):
            hits[name] += (rival.fit(Y[train], z[train]).predict(Y[test]) == z[test]).tolist()
    shares = {name: np.mean(found) for name, found in hits.items()}

    assert shares["kahm"] >= 0.985
    assert shares["kahm"] >= max(shares.values())
