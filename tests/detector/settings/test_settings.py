"""The settings of the streaming core: defaults, words, and errors that name the key."""

from __future__ import annotations

import numpy as np
import pytest

from detector.settings.budget import Budget
from detector.settings.core import Settings


@pytest.mark.parametrize(
    ("text", "count", "period", "unit"),
    [
        ("1 per 30d", 1.0, 30 * 86400.0, "seconds"),
        ("2 per 1w", 2.0, 7 * 86400.0, "seconds"),
        ("0.5 per 12h", 0.5, 12 * 3600.0, "seconds"),
        ("1 per 10000 ticks", 1.0, 10_000.0, "ticks"),
        ("3 per 1e4 ticks", 3.0, 10_000.0, "ticks"),
        ("2 per week", 2.0, 7 * 86400.0, "seconds"),
        ("1 per month", 1.0, 30 * 86400.0, "seconds"),
        ("0.01 per tick", 0.01, 1.0, "ticks"),
        ("1 per 1234567s", 1.0, 1_234_567.0, "seconds"),
        ("1 per 1h 30m", 1.0, 5400.0, "seconds"),
    ],
)
def test_budgets_in_words(text, count, period, unit):
    """A budget is said in words, and said back in words that mean the same."""
    budget = Budget.parse(text)

    assert (budget.count, budget.period, budget.unit) == (count, period, unit)
    assert Budget.parse(str(budget)) == budget


@pytest.mark.parametrize(
    "text",
    [
        "",
        "once a month",
        "1",
        "per 30d",
        "1 per blue moon",
        "x per 1d",
        "1 per x ticks",
        "1 per ",
        "1.2.3 per 1d",
    ],
)
def test_what_is_no_budget(text):
    """It is refused with examples, and with what was given."""
    with pytest.raises(ValueError, match="must be a budget such as '1 per 30d', '2 per week'") as caught:
        Budget.parse(text)
    assert f"(got {text!r})" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "0 per 30d",
        "1 per 0 ticks",
        "1 per 0s",
        "-1 per 1d",
        "inf per 1d",
        "nan per tick",
        "1 per 1e999 ticks",
    ],
)
def test_budgets_of_nothing(text):
    with pytest.raises(ValueError, match="must be more than zero false incidents in more than no time"):
        Budget.parse(text)


def test_budget_per_tick():
    """Time is turned into ticks by the step; ticks are ticks."""
    assert Budget.parse("1 per 1d").per_tick(60.0) == pytest.approx(1 / 1440)
    assert Budget.parse("1 per 1000 ticks").per_tick(60.0) == 0.001


def test_groups_as_mappings():
    """Groups and keys have the names of config.yaml; a budget may be words; lists become tuples."""
    made = Settings.of(windows={"tests": [5, 50]}, alarm={"budget": "2 per 1d"}, estimator={"name": "pool"})

    assert made.windows.tests == (5, 50)
    assert made.alarm.budget == Budget(2.0, 86400.0)
    assert made.windows.reference == Settings().windows.reference
    assert Settings.of(windows=made.windows).windows is made.windows


def test_words_of_the_file():
    """Python takes what the file takes: durations in words, and numbers of numpy besides."""
    made = Settings.of(
        incidents={"hold_for": "2h", "cool_down": "5min"},
        preprocess={"seasonal": "24h"},
        windows={"reference": np.int64(100), "tests": np.array([5, 20])},
        estimator={"alpha": np.float32(0.5)},
    )

    assert (made.incidents.hold_for, made.incidents.cool_down) == (7200.0, 300.0)
    assert made.preprocess.seasonal == 86400.0
    assert (made.windows.reference, made.windows.tests, made.estimator.alpha) == (100, (5, 20), 0.5)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"window": {}}, r"window: unknown; did you mean windows\?"),
        ({"windows": {"length": 5}}, r"windows\.length: unknown; known: .*reference"),
        ({"windows": 5}, r"windows: must be a mapping of keys \(got 5\)"),
        ({"windows": {"reference": 5}}, r"windows\.reference: must be at least 20"),
        ({"windows": {"tests": [10, 5]}}, r"windows\.tests: lengths must be increasing"),
        ({"windows": {"mode": "jumping"}}, r"windows\.mode: must be 'sliding' or 'fixed' \(got 'jumping'\)"),
        ({"estimator": {"name": "magic"}}, r"estimator\.name: must be one of grulsif"),
        (
            {"estimator": {"dictionary": "large"}},
            r"estimator\.dictionary: must be 'coherence' or 'sparse' \(got 'large'\)",
        ),
        ({"estimator": {"alpha": 1.0}}, r"estimator\.alpha: must be less than 1 \(got 1.0\)"),
        ({"estimator": {"sigma": 0.0}}, r"estimator\.sigma: must be greater than 0"),
        ({"estimator": {"coupling": -1.0}}, r"estimator\.coupling: must be at least 0"),
        ({"estimator": {"rank": 0}}, r"estimator\.rank: must be at least 2"),
        ({"alarm": {"budget": "often"}}, r"alarm\.budget: must be a budget such as"),
        ({"alarm": {"learn": 10}}, r"alarm\.learn: must be at least 200"),
        ({"alarm": {"release": 0.0}}, r"alarm\.release: must be greater than 0"),
        ({"preprocess": {"screen": True}}, r"preprocess\.screen: must be 'off' or 'on' \(got True\)"),
        ({"align": {"step": 0.0}}, r"align\.step: must be at least 1e-06 \(got 0.0\)"),
        ({"align": {"step": "soon"}}, r"align\.step: must be a duration such as"),
        ({"align": {"origin": 1e12}}, r"align\.origin: must be at most"),
        ({"align": {"lateness": -1.0}}, r"align\.lateness: must be a duration of zero or more \(got -1.0\)"),
        ({"align": {"lateness": float("inf")}}, r"align\.lateness: must be a duration of zero or more"),
        ({"align": {"max_gap": 0.5}}, r"align\.max_gap: must be at least align\.step, 1 s \(got 0.5\)"),
        (
            {"align": {"step": "2s", "silent_after": "1s"}},
            r"align\.silent_after: must be at least align\.step",
        ),
        ({"align": {"confirm": 0}}, r"align\.confirm: must be at least 1 \(got 0\)"),
        ({"align": {"stuck_after": 1}}, r"align\.stuck_after: must be at least 2"),
        ({"align": {"max_hold": -1}}, r"align\.max_hold: must be at least 0"),
        ({"align": {"max_waiting": 0}}, r"align\.max_waiting: must be at least 1"),
        ({"align": {"missing": "guess"}}, r"align\.missing: must be 'hold' or 'drop' \(got 'guess'\)"),
        ({"preprocess": {"seasonal": 0.0}}, r"preprocess\.seasonal: must be greater than 0 \(got 0.0\)"),
        ({"preprocess": {"seasonal_bins": 1}}, r"preprocess\.seasonal_bins: must be at least 2"),
        (
            {"preprocess": {"difference": -1}},
            r"preprocess\.difference: must be at least 0 or 'auto' \(got -1\)",
        ),
        (
            {"preprocess": {"difference": "aic"}},
            r"difference: must be a whole number or 'auto' \(got 'aic'\)",
        ),
        ({"preprocess": {"whiten": 1.5}}, r"whiten: must be a whole number or 'aic' or 'auto' \(got 1.5\)"),
        ({"preprocess": {"max_order": 0}}, r"preprocess\.max_order: must be at least 1"),
        ({"preprocess": {"embed": 0}}, r"preprocess\.embed: must be at least 1"),
        ({"preprocess": {"clip": 0.5}}, r"preprocess\.clip: must be at least 1 \(got 0.5\)"),
        ({"incidents": {"min_nodes": 0}}, r"incidents\.min_nodes: must be at least 1"),
        ({"incidents": {"cool_down": -1.0}}, r"incidents\.cool_down: must be ticks such as 25 ticks"),
        ({"incidents": {"after_hold": "explode"}}, r"incidents\.after_hold: must be 'accept' or 'release'"),
        ({"incidents": {"critical_size": 1.0}}, r"incidents: critical_size must not be below warning_size"),
        (
            {"alarm": {"learn": 300}},
            r"^alarm\.learn: 300 samples are too few for these windows; at least 900",
        ),
        ({"incidents": {"confirm": 0}}, r"incidents\.confirm: must be at least 1"),
    ],
)
def test_errors_name_the_key(groups, words):
    """A wrong setting is refused with its group, its key and its value."""
    with pytest.raises(ValueError, match=words):
        Settings.of(**groups)


def test_everything_wrong_is_told_at_once():
    with pytest.raises(ValueError, match="estimator") as caught:
        Settings.of(estimator={"alpha": 7, "sweeps": 0}, alarm={"release": 9})

    assert str(caught.value) == (
        "estimator.alpha: must be less than 1 (got 7); estimator.sweeps: must be at least 1 (got 0); "
        "alarm.release: must be at most 1 (got 9)"
    )


def test_settings_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        Settings().alarm.release = 0.5


def test_parts_follow_from_the_network_and_not_from_the_machine():
    """Inline there is one; else as many as are worth it, or as many as were asked for."""
    inline, threads = Settings().engine, Settings.of(engine={"type": "threads"}).engine
    assert [inline.n_parts(n) for n in (1, 5000)] == [1, 1]
    assert [threads.n_parts(n) for n in (1, 999, 1000, 1600, 100_000)] == [1, 1, 2, 3, 4]
    assert [Settings.of(engine={"parts": 7}).engine.n_parts(n) for n in (3, 100)] == [3, 7]
    with pytest.raises(ValueError, match=r"engine\.type: must be one of inline, threads"):
        Settings.of(engine={"type": "rays"})
