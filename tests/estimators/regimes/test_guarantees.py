"""Bounds and checks of a library of regimes, against loops that follow the document word by word."""

from __future__ import annotations

import math

import numpy as np
import pytest

from estimators import RegimeStructure, guarantees, risk_deviation, samples_needed


def test_sample_sizes_are_those_of_the_document() -> None:
    """(56) with the accuracies and confidences of its Fig. 3."""
    assert [samples_needed(0.05, d) for d in (0.05, 5e-5)] == [10_916, 15_502]
    assert [samples_needed(0.01, d) for d in (0.05, 5e-5)] == [272_889, 387_538]


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.03])
def test_sample_size_and_deviation_are_inverse(epsilon: float) -> None:
    n = samples_needed(epsilon)
    assert risk_deviation(n) <= epsilon < risk_deviation(n - 1)


@pytest.mark.parametrize("seed", range(3))
def test_checks_and_bound_against_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = {name: np.tanh(rng.normal(at, 0.2, (30 + 5 * k, 4))) for k, (name, at) in
               enumerate((("a", -0.6), ("b", 0.0), ("c", 0.7)))}  # fmt: skip
    structures = {name: RegimeStructure.fit(name, y) for name, y in samples.items()}
    known = guarantees(structures, samples, delta=0.1)

    member = lambda c, y: math.exp(-float(structures[c].group.distance(y[None])[0]) / 4)  # noqa: E731
    everything = [(c, y) for c, rows in samples.items() for y in rows]
    assert known.n == 105
    assert known.e1 == pytest.approx(max(abs(1.0 - member(c, y)) for c, y in everything))
    assert known.e2 == pytest.approx(
        np.mean([member(d, y) for c, y in everything for d in samples if d != c])
    )
    for c in samples:
        risk = np.mean([((own == c) - member(c, y)) ** 2 for own, y in everything])
        bound = risk + 4 / math.sqrt(105) + math.sqrt(math.log(10) / 210)
        assert known.empirical[c] == pytest.approx(risk)
        assert known.bound(c) == pytest.approx(bound)
    nearest = [min(samples, key=lambda d, y=y: -member(d, y)) == c for c, y in everything]
    assert known.accuracy == pytest.approx(np.mean(nearest))
    assert known.more_samples(0.25) == samples_needed(0.25, 0.1) - 105
    assert known.more_samples(5.0) == 0


def test_one_class_has_no_others() -> None:
    y = np.tanh(np.random.default_rng(0).normal(size=(30, 2)))
    known = guarantees({"a": RegimeStructure.fit("a", y)}, {"a": y})
    assert math.isnan(known.e2)
    assert known.accuracy == 1.0


def test_bad_input_is_told() -> None:
    y = np.tanh(np.random.default_rng(0).normal(size=(30, 2)))
    made = RegimeStructure.fit("a", y)
    for call, words in (
        (lambda: guarantees({}, {}), "there is no class"),
        (lambda: guarantees({"a": made}, {"b": y}), "none of class 'a'"),
        (lambda: guarantees({"a": made}, {"a": y}, delta=1.0), "delta"),
        (lambda: samples_needed(0.0), "epsilon"),
        (lambda: risk_deviation(0), "n:"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
