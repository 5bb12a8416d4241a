"""The settings of the streaming core: defaults, words, and errors that name the key."""

from __future__ import annotations

import pytest

from detector.settings import Budget, Settings


@pytest.mark.parametrize(
    ("text", "count", "period", "unit"),
    [
        ("1 per 30d", 1.0, 30 * 86400.0, "seconds"),
        ("2 per 1w", 2.0, 7 * 86400.0, "seconds"),
        ("0.5 per 12h", 0.5, 12 * 3600.0, "seconds"),
        ("1 per 10000 ticks", 1.0, 10_000.0, "ticks"),
        ("3 per 1e4 ticks", 3.0, 10_000.0, "ticks"),
    ],
)
def test_budgets_in_words(text, count, period, unit):
    """A budget is said in words, and said back in words that mean the same."""
    budget = Budget.parse(text)

    assert (budget.count, budget.period, budget.unit) == (count, period, unit)
    assert Budget.parse(str(budget)) == budget


@pytest.mark.parametrize(
    "text", ["", "once a month", "1", "per 30d", "0 per 30d", "1 per 0 ticks", "1 per blue moon", "-1 per 1d"]
)
def test_wrong_budgets(text):
    """What is not a budget is refused."""
    with pytest.raises(ValueError):  # noqa: PT011
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


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"window": {}}, "window: unknown group of settings; known: .*windows"),
        ({"windows": {"length": 5}}, r"windows\.length: unknown; known: .*reference"),
        ({"windows": 5}, "windows: expected a mapping, got 5"),
        ({"windows": {"reference": 5}}, r"windows\.reference: must be at least 20"),
        ({"windows": {"tests": [10, 5]}}, r"windows\.tests: lengths must be increasing"),
        ({"windows": {"mode": "jumping"}}, r"windows\.mode: must be sliding or fixed, got 'jumping'"),
        ({"estimator": {"name": "magic"}}, r"estimator\.name: must be one of grulsif"),
        ({"estimator": {"dictionary": "large"}}, r"estimator\.dictionary: must be one of coherence, sparse"),
        ({"estimator": {"alpha": 1.0}}, r"estimator\.alpha"),
        ({"estimator": {"sigma": 0.0}}, r"estimator\.sigma: must be positive"),
        ({"estimator": {"coupling": -1.0}}, r"estimator\.coupling: must not be negative"),
        ({"estimator": {"rank": 0}}, r"estimator\.rank: must be at least 2"),
        ({"alarm": {"budget": "often"}}, r"alarm\.budget: expected words"),
        ({"alarm": {"learn": 10}}, r"alarm\.learn: needs at least 200"),
        ({"alarm": {"release": 0.0}}, r"alarm\.release: must be in \(0, 1\]"),
        ({"preprocess": {"screen": True}}, r"preprocess\.screen: must be off or on, got True"),
        ({"align": {"step": 0.0}}, r"align\.step"),
        ({"incidents": {"confirm": 0}}, r"incidents\.confirm: must be at least 1"),
    ],
)
def test_errors_name_the_key(groups, words):
    """A wrong setting is refused with its group, its key and its value."""
    with pytest.raises(ValueError, match=words):
        Settings.of(**groups)
