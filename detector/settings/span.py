"""A stretch of the stream, as time or as ticks: `2h`, `25 ticks`, or `auto`, which follows from the windows.

A network that samples every second and one that samples every hour have the same windows in ticks; what is to
be waited for is a matter of these, not of the clock.

Settings that hold such a stretch in seconds or as a number of ticks take both notations, too: `by_step`
brings what a file gives into the unit of the setting before it is read, so that a state knows no difference.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from connectors.settings.units import format_duration, parse_duration

AUTO = "auto"
TIMES: Mapping[str, tuple[str, ...]] = {  # the settings of each group that are of type `Time`
    "align": ("lateness", "max_skew", "max_gap", "silent_after", "max_ahead"),
    "preprocess": ("seasonal",),
}
TICKS: Mapping[str, tuple[str, ...]] = {  # those of type `Ticks`
    "incidents": ("confirm", "join_after", "clear_after"),
    "diagnosis": ("early",),
    "edge": ("patience",),
}
_TICKS = re.compile(r"\s*([0-9]+)\s*ticks?\s*")
_EXPECTED = "must be ticks such as 25 ticks, or a duration such as 30s or 2h"


def parse_span(value: Any) -> float | str:
    """Seconds as a number; ticks and `auto` stay words, spelt in one way."""
    if isinstance(value, str) and (match := _TICKS.fullmatch(value)):
        return f"{int(match[1])} ticks"
    if value == AUTO:
        return AUTO
    try:
        return parse_duration(value)
    except ValueError:
        raise ValueError("must be ticks such as 25 ticks, a duration such as 30s or 2h, or auto") from None


def parse_time(value: Any) -> float:
    """Seconds, or a duration; `by_step` has replaced ticks."""
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ValueError(_EXPECTED if isinstance(value, str) else str(error)) from None


def parse_ticks(value: Any) -> Any:
    """A number of ticks, bare or in words; `by_step` has replaced durations."""
    if not isinstance(value, str):
        return value
    if (match := _TICKS.fullmatch(value)) is None:
        raise ValueError(_EXPECTED)
    return int(match[1])


def by_step(groups: Mapping[str, Any]) -> dict[str, Any]:
    """Groups as a file gives them, with seconds for ticks and ticks, rounded up, for durations where needed.

    What cannot be read stays as it is: its own setting refuses it.
    """
    align = groups.get("align")
    step = align.get("step", 1.0) if isinstance(align, dict) else getattr(align, "step", 1.0)
    try:
        step = parse_duration(step) or 1.0
    except ValueError:  # for which all is refused
        step = 1.0

    def in_seconds(value: str) -> float | str:
        match = _TICKS.fullmatch(value)
        return value if match is None else int(match[1]) * step

    def in_ticks(value: str) -> int | str:
        try:
            return math.ceil(parse_duration(value) / step - 1e-9)
        except ValueError:
            return value

    return _converted(_converted(groups, TIMES, in_seconds), TICKS, in_ticks)


def _converted(
    groups: Mapping[str, Any], keys: Mapping[str, tuple[str, ...]], convert: Callable[[str], Any]
) -> dict[str, Any]:
    made = dict(groups)
    for group, names in keys.items():
        given = made.get(group)
        if isinstance(given, dict):
            words = {name: given[name] for name in names if isinstance(given.get(name), str)}
            made[group] = given | {name: convert(value) for name, value in words.items()}
    return made


def seconds(span: float | str, step: float) -> float:
    """How long ``span`` is where ticks are ``step`` seconds apart; `auto` must have been resolved."""
    if isinstance(span, str):
        match = _TICKS.fullmatch(span)
        if match is None:
            raise ValueError(f"{span!r} has no length of its own")
        return int(match[1]) * step
    return span


def worded(span: float | str | None, step: float) -> str:
    """``900 ticks (15m)``, ``2h (240 ticks)`` or ``never``."""
    if span is None:
        return "never"
    length = seconds(span, step)
    if isinstance(span, str):
        words = span.removesuffix("s") if span == "1 ticks" else span
        return f"{words} ({format_duration(round(length, 3))})"
    return f"{format_duration(length)} ({length / step:g} ticks)"


_PATTERN = r"([0-9]+\s*ticks?|([0-9]+(\.[0-9]+)?\s*[A-Za-z]+\s*)+)\s*$"
_IN_WORDS = {"pattern": rf"^\s*{_PATTERN}", "examples": ["25 ticks", "30s", "2h"]}
Time = Annotated[
    float,
    BeforeValidator(parse_time),
    WithJsonSchema({"type": ["string", "number"], "minimum": 0, **_IN_WORDS}),
]
Ticks = Annotated[
    int,
    BeforeValidator(parse_ticks),
    WithJsonSchema({"type": ["string", "integer"], "minimum": 1, **_IN_WORDS}),
]
Span = Annotated[
    float | str,
    BeforeValidator(parse_span),
    WithJsonSchema(
        {
            "type": ["string", "number"],
            "minimum": 0,
            "pattern": rf"^\s*(auto\s*$|{_PATTERN})",
            "examples": ["25 ticks", "30s", "2h", AUTO],
        }
    ),
]
