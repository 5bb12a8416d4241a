"""Learning from quiet history: repeatable, honest about what it can promise, and true to its promise."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from detector.alignment.samples import Columns
from detector.engines.calibration_report import CalibrationReport
from detector.engines.density_ratio.calibrate import calibrate
from detector.network.network import Network
from detector.pipeline.pipeline import Pipeline
from tests.detector.learnt import settings

N = 10
RING = np.roll(np.eye(N), 1, axis=1)
NETWORK = Network.of([f"n{v}" for v in range(N)], RING + RING.T)


@cache
def learnt(ticks=1200, seed=0, budget="1 per 250 ticks", parts=1):
    """A calibrated pipeline and what it said on the way."""
    told = []
    groups = {"alarm": {"budget": budget, "seed": seed}, "engine": {"parts": parts}}
    made = Pipeline(NETWORK, 1, settings(**groups))
    history = np.random.default_rng(100 + ticks).normal(size=(ticks, N, 1))
    made.learn(history, progress=lambda what, share: told.append((what, share)))
    return made, told


def test_report_says_what_was_learnt():
    """Choice, thresholds, promise, check and expected delays are all there, for programs and for people."""
    report = learnt()[0].report

    assert report.choice.sigma == 1.0
    assert report.rank == 6
    assert report.n_ticks == 1200
    assert report.step == 1.0
    assert report.promised == pytest.approx(1 / 250)
    assert report.event_threshold > 2.5
    assert 2.0 < report.threshold < 6.0
    assert report.validated["ticks"] == 300
    assert report.validated["low"] <= report.validated["incidents"] / report.validated["expected"]
    assert report.validated["incidents"] / report.validated["expected"] <= report.validated["high"]
    assert {row["change"] for row in report.delays} >= {"mean +1 sd", "spread × 2"}
    for words in ("kernel width", "thresholds: event", "promised: 1 per 250 ticks", "expected delay"):
        assert words in report.text()


def test_larger_changes_are_found_sooner():
    """The expected delay of a change of two sd is shorter than that of half a sd."""
    delay = {row["change"]: row["delay"] for row in learnt()[0].report.delays}
    assert delay["mean +2 sd"] < delay["mean +0.5 sd"]


def test_report_and_record():
    """A report is what its record says, and back."""
    report = learnt()[0].report
    assert CalibrationReport.of(report.record(), report.allowed) == report


def test_progress_goes_from_start_to_end():
    """Progress is told in words, with shares that do not fall, from 0 to 1."""
    told = learnt()[1]
    shares = [share for _, share in told]

    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert len({what for what, _ in told}) >= 4
    assert all(0.0 <= share <= 1.0 for share in shares)


def test_same_history_and_seed_give_the_same_bits():
    """Learning twice is learning the same."""
    one = learnt()[0]
    two = Pipeline(NETWORK, 1, settings(alarm={"budget": "1 per 250 ticks"}))
    two.learn(np.random.default_rng(1300).normal(size=(1200, N, 1)))

    assert one.report == two.report
    a, b = one.state()[0], two.state()[0]
    assert all(a[name].tobytes() == b[name].tobytes() for name in a)


def test_short_history_is_warned_of():
    """Less is promised than was asked for, and it is told; the threshold is that of the budget."""
    made = Pipeline(NETWORK, 1, settings(alarm={"budget": "1 per 1000000 ticks"}))
    report = made.learn(np.random.default_rng(0).normal(size=(300, N, 1)))

    assert any("300 ticks can vouch for 1 per 300 ticks" in text for text in report.warnings)
    assert report.promised == pytest.approx(1.0 / 300.0)
    assert "promised: 1 per 300 ticks, the whole network (the budget is 1 per 1000000 ticks)" in report.text()
    assert report.event_threshold == report.tail.threshold(1e-6)
    assert any("all of it was learnt from, and none is left to check" in text for text in report.warnings)
    assert report.validated == {}
    assert "not checked" in report.text()


def test_a_history_that_contradicts_itself_is_learnt_whole_and_told():
    """One node is restless in the last quarter only: what the rest promises does not hold there."""
    X = np.random.default_rng(1).normal(size=(2000, N, 1))
    made = Pipeline(NETWORK, 1, settings(alarm={"budget": "1 per 500 ticks"}))
    calm = made.learn(X)
    X = X.copy()
    for begin in range(1510, 1990, 60):
        X[begin : begin + 30, 2] += 3.0
    other = Pipeline(NETWORK, 1, settings(alarm={"budget": "1 per 500 ticks"}))
    report = other.learn(X)

    assert not calm.contradicted
    assert report.contradicted
    assert any(f"promised is {report.promise} instead of 1 per 500 ticks" in text for text in report.warnings)
    assert report.promised == (report.validated["incidents"] + 1.0) / 500.0
    assert report.promised_after(10_000.0) == report.asked  # it tightens
    assert other.engine.joint.tails.weight.argmax() == 2
    assert other.engine.joint.tails.weight[2] > 1.1
    assert report.event_threshold >= calm.event_threshold


def test_too_short_a_history_is_refused():
    """Without two differences of levels nothing can be learnt, and the message says how much it needs."""
    Z = np.random.default_rng(0).normal(size=(109, N, 1))
    with pytest.raises(ValueError, match=r"history: 109 ticks; learning needs at least 110"):
        calibrate(Z, NETWORK.graph, settings(), 1.0)


def test_few_rows_start_with_a_weaker_promise():
    """The fewest that are taken: quiet data open nothing, a change is found, the promise tightens."""
    X = np.random.default_rng(0).normal(size=(110, N, 1))
    made = Pipeline(NETWORK, 1, settings(alarm={"budget": "1 per 1000 ticks"}))
    report = made.learn(X)
    assert report.promise == "1 per 110 ticks"

    opened = []
    for t, row in enumerate(np.random.default_rng(1).normal(size=(400, N, 1))):
        row = row + (5.0 if t >= 350 else 0.0) * (np.arange(N) < 3)[:, None]
        columns = Columns(np.arange(N, dtype=np.int32), np.full(N, 110.5 + t), row)
        opened += [t for event in made.push_columns(columns) if event.event == "incident.opened"]
    assert len(opened) >= 1
    assert min(opened) >= 350
    assert report.asked < made.promised_rate < report.promised
    assert made.promise == f"1 per {float(f'{1.0 / made.promised_rate:.2g}'):g} ticks"


@pytest.mark.parametrize(
    ("X", "times", "words"),
    [
        (np.zeros((500, 3, 1)), None, r"expected \(T, 10, 1\)"),
        (np.full((500, N, 1), np.inf), None, "must be finite"),
        (np.zeros((500, N, 1)), np.zeros(500), "increasing"),
        (np.zeros((500, N, 1)), np.arange(10.0), "one per row"),
    ],
)
def test_wrong_histories_are_refused(X, times, words):
    """Wrong shapes, infinite values and clocks that stand are refused."""
    with pytest.raises(ValueError, match=words):
        Pipeline(NETWORK, 1, settings()).learn(X, times)


def test_node_without_history_is_left_out():
    """A node of which nothing was seen stops nobody: the others are watched, it has no decision."""
    X = np.random.default_rng(5).normal(size=(400, N, 1))
    X[:, 4] = np.nan
    made = Pipeline(NETWORK, 1, settings())
    report = made.learn(X)

    assert np.isfinite(report.event_threshold)
    assert np.isnan(made.statistic[4])
    assert np.isfinite(np.delete(made.statistic, 4)).all()


@pytest.mark.parametrize("parts", [1, 4])
def test_promise_is_kept_on_fresh_data(parts):
    """Promised 1 false incident per 250 ticks: 12,000 fresh quiet ticks open .6 to 1.6 times the 48 promised.

    The interval covers the chance of the count (±28 %, two sd) and of thresholds learnt from 3000 ticks.
    """
    made, _ = learnt(4000, parts=parts)
    assert len(made.engine.cut.parts) == parts
    rng = np.random.default_rng(7)
    opened = 0
    nodes = np.tile(np.arange(N, dtype=np.int32), 1000)
    for part in range(12):
        times = 5000.0 + 1000 * part + np.repeat(np.arange(1000), N)
        events = made.push_columns(Columns(nodes, times, rng.normal(size=(len(nodes), 1))))
        opened += sum(event.event == "incident.opened" for event in events)

    assert 0.6 * 48 <= opened <= 1.6 * 48


def test_a_strongly_correlated_history_is_called_short():
    """A promise from few independent stretches comes with a warning that names the remedy."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(1200, N, 1))
    for t in range(1, len(X)):
        X[t] = 0.9 * X[t - 1] + 0.44 * X[t]
    report = Pipeline(NETWORK, 1, settings(preprocess={"whiten": 0})).learn(X)

    assert any("independent stretches" in text and "whiten" in text for text in report.warnings)
    assert not any("independent stretches" in text for text in learnt()[0].report.warnings)
