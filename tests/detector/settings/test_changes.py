"""What a change of a setting means is declared with it; everything else follows from there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from detector.config.config import Config
from detector.settings.base import APPLIES, applies
from detector.settings.changes import RelearnNeeded, changes, learnt_with, relearn_needed
from detector.settings.core import Settings

SMALL: dict[str, Any] = {"graph": "simulate", "sources": {"demo": {"type": "simulate"}}}


def differences(before: dict[str, Any], now: dict[str, Any]) -> dict[str, str]:
    found = changes(Config.of(SMALL | before), Config.of(SMALL | now))
    return {change.key: change.applies for change in found}


def test_every_setting_declares_it_or_stands_below_one_that_does():
    for name, field in Config.model_fields.items():
        if applies(field) is None:
            for key, below in field.annotation.model_fields.items():
                assert applies(below) is not None, f"{name}.{key}"


def test_the_schema_tells_it():
    defs = Config.model_json_schema()["$defs"]
    assert defs["AlarmSettings"]["properties"]["budget"][APPLIES] == "now"
    assert defs["PreprocessSettings"]["properties"]["embed"][APPLIES] == "relearn"
    assert defs["HttpSettings"]["properties"]["enabled"][APPLIES] == "restart"


def test_changes_are_found_with_what_they_mean():
    assert differences({}, {}) == {}
    assert differences({"alarm": {"budget": "1 per 1w"}}, {"alarm": {"budget": "1 per 7d"}}) == {}
    assert differences({}, {"alarm": {"budget": "2 per week", "seed": 1}, "windows": {"reference": 100}}) == {
        "windows.reference": "relearn",
        "alarm.budget": "now",
        "alarm.seed": "now",
    }
    assert differences({"state": {"directory": "a"}}, {"state": {"directory": "b", "history": 500}}) == {
        "state.directory": "restart",
        "state.history": "now",
    }
    assert differences({}, {"diagnosis": {"footprint": {"retrain": False}}}) == {
        "diagnosis.footprint.retrain": "now"
    }


def test_changes_of_sources_and_sinks():
    one = {"sources": {"demo": {"type": "simulate"}, "more": {"type": "stdin"}}}
    two = {"sources": {"demo": {"type": "simulate", "nodes": 7}, "other": {"type": "stdin"}},
           "sinks": {"out": {"type": "stdout"}}}  # fmt: skip
    assert differences(one, two) == dict.fromkeys(
        ("sources.demo.nodes", "sources.more", "sources.other", "sinks.out"), "now"
    )


def test_what_a_state_rests_on():
    """It is told in JSON, without the keys that may change; what is told no more had its default."""
    chosen = Settings.of(preprocess={"seasonal": "24h"}, windows={"tests": [5, 50]})
    learnt = json.loads(json.dumps(learnt_with(chosen)))

    assert learnt["preprocess"]["seasonal"] == 86400.0
    assert learnt["windows"]["tests"] == [5, 50]
    assert "alarm" not in learnt  # budget, seed and length of the learning: each counts from the next time on
    assert set(learnt["incidents"]) == {"clear_after"}
    assert relearn_needed(chosen, learnt) == []

    found = relearn_needed(Settings(), learnt)
    assert [(change.key, change.before, change.now) for change in found] == [
        ("preprocess.seasonal", 86400.0, None),
        ("windows.tests", [5, 50], [5, 10, 25, 100, 200]),
    ]
    del learnt["windows"]["tests"], learnt["preprocess"]
    assert relearn_needed(Settings(), learnt) == []
    with pytest.raises(
        RelearnNeeded, match=r"seasonal was 86400.0 and is null now, windows\.tests was .*set them back"
    ):
        raise RelearnNeeded(found)


def test_changes_of_analyzers():
    """One that is not named in a file has its defaults: to name it with these changes nothing."""
    both = {"diagnosis": {"trend": {"enabled": False}, "footprint": {"use": "never"}}}
    assert differences({}, {"diagnosis": {"trend": {"enabled": True}, "value_ranges": {}}}) == {}
    assert differences({"diagnosis": {"trend": {}}}, both) == differences({}, both)
    changed = ("diagnosis.trend.enabled", "diagnosis.footprint.use")
    assert differences(both, {}) == dict.fromkeys(changed, "now")
