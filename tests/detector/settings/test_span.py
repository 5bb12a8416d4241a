"""Stretches of the stream in ticks or in time."""

from __future__ import annotations

import re

import pytest

from detector.config.blind_spots import blind_spots, spans
from detector.config.config import Config, ConfigError
from detector.config.fields import Kind, keys_of
from detector.config.paths import model_in
from detector.settings.changes import learnt_with, relearn_needed
from detector.settings.core import Settings
from detector.settings.incidents import IncidentSettings
from detector.settings.span import TICKS, TIMES, parse_span, seconds, worded
from detector.settings.windows import WindowSettings

HEAD = "graph: {empty: true, nodes: [a, b]}\nsources: {in: {type: stdin}}\n"


@pytest.mark.parametrize(
    ("given", "meant", "long"),
    [("25 ticks", "25 ticks", 250.0), ("1tick", "1 ticks", 10.0), ("2h", 7200.0, 7200.0), (90, 90.0, 90.0)],
)
def test_ticks_or_time(given: object, meant: object, long: float) -> None:
    assert parse_span(given) == meant
    assert seconds(parse_span(given), step=10.0) == long


@pytest.mark.parametrize("given", ["-3 ticks", "many ticks", "soon", -1.0, "2.5 ticks"])
def test_what_is_neither_is_refused(given: object) -> None:
    with pytest.raises(ValueError, match="must be ticks such as 25 ticks"):
        parse_span(given)


IN_TICKS = """align: {step: 30s, lateness: 3 ticks, max_skew: 10 ticks, max_gap: 20 ticks,
  silent_after: 5 ticks, max_ahead: 200 ticks}
preprocess: {seasonal: 2880 ticks}
incidents: {confirm: 2 ticks, join_after: 1 tick, clear_after: 40 ticks}
diagnosis: {early: 12 ticks}
"""
IN_TIME = """align: {step: 30s, lateness: 90, max_skew: 5m, max_gap: 10m, silent_after: 150s, max_ahead: 100m}
preprocess: {seasonal: 24h}
incidents: {confirm: 31s, join_after: 1ms, clear_after: 20m}
diagnosis: {early: 6m}
"""


def test_every_stretch_of_the_stream_is_ticks_or_time() -> None:
    """In a file and in Python; a state that was learnt with one notation is kept with the other."""
    by_ticks, by_time = Config.parse(HEAD + IN_TICKS), Config.parse(HEAD + IN_TIME)
    assert by_ticks.settings() == by_time.settings()
    assert by_ticks.align.silent_after == 150.0
    assert by_ticks.incidents.clear_after == 40
    assert by_ticks.diagnosis.early == 12
    learnt = learnt_with(Config.parse(HEAD + IN_TIME.replace("20m", "40")).settings())
    assert relearn_needed(by_time.settings(), learnt) == relearn_needed(by_ticks.settings(), learnt) == []
    assert Settings.of(align={"step": "2s"}, incidents={"clear_after": "1m"}).incidents.clear_after == 30
    assert Settings.of(align={"step": "2s"}, preprocess={"seasonal": "9 ticks"}).preprocess.seasonal == 18.0


def test_all_that_reads_as_ticks_or_time_is_converted() -> None:
    found = {
        (group, key.name)
        for group, field in Config.model_fields.items()
        if (model := model_in(field.annotation)) is not None
        for key in keys_of(model)
        if key.value.startswith(Kind.STRETCH.value)
    }
    assert found == {
        (group, name) for keys in (TIMES, TICKS) for group, names in keys.items() for name in names
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("align: {silent_after: 0 ticks}", "align.silent_after: must be at least align.step, 1 s"),
        ("align: {lateness: some ticks}", "align.lateness: must be ticks such as 25 ticks, or a duration"),
        ("incidents: {clear_after: 0s}", "incidents.clear_after: must be at least 1 (got '0s')"),
        ("incidents: {clear_after: soon}", "incidents.clear_after: must be ticks such as 25 ticks"),
        ("incidents: {hold_for: 0 ticks}", "incidents.hold_for: must be more than 0: an incident would end"),
        ("incidents: {hold_for: 0}", "incidents.hold_for: must be more than 0"),
        ("preprocess: {seasonal: 0 ticks}", "preprocess.seasonal: must be greater than 0"),
    ],
)  # fmt: skip
def test_wrong_stretches_are_refused_as_they_were_written(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)):
        Config.parse(HEAD + text)


def test_defaults_follow_from_the_windows_whatever_the_step() -> None:
    resolved = IncidentSettings().resolved(WindowSettings(reference=100, tests=(5, 40)))
    assert (resolved.cool_down, resolved.update_every) == ("10 ticks", "5 ticks")
    assert resolved.hold_for == "560 ticks"
    assert worded(resolved.hold_for, step=3600.0) == "560 ticks (560h)"
    assert worded(7200.0, step=30.0) == "2h (240 ticks)"
    kept = IncidentSettings(hold_for=None, cool_down="3 ticks").resolved(WindowSettings())
    assert (kept.hold_for, kept.cool_down) == (None, "3 ticks")
    assert worded(kept.hold_for, 1.0) == "never"


def test_what_is_waited_for_and_what_cannot_be_seen_is_said() -> None:
    settings = Settings.of(preprocess={"difference": 1})
    assert any("hold_for" in line and "1800 ticks (30m)" in line for line in spans(settings, 1.0))
    assert any("correlation" in line for line in blind_spots(settings, 1))
    assert not any("correlation" in line for line in blind_spots(settings, 2))
    assert not any("level" in line for line in blind_spots(settings, 1))  # levels are a view of their own
    alone = Settings.of(preprocess={"difference": 1}, estimator={"level_charts": False})
    assert any("level" in line for line in blind_spots(alone, 1))
    assert not any("level" in line for line in blind_spots(Settings(), 1, differenced=False))
