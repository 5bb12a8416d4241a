"""Stretches of the stream in ticks or in time."""

from __future__ import annotations

import pytest

from detector.config.blind_spots import blind_spots, spans
from detector.settings.core import Settings
from detector.settings.incidents import IncidentSettings
from detector.settings.span import parse_span, seconds, worded
from detector.settings.windows import WindowSettings


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
