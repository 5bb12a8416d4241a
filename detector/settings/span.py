"""A stretch of the stream, as time or as ticks: `2h`, `25 ticks`, or `auto`, which follows from the windows.

A network that samples every second and one that samples every hour have the same windows in ticks; what is to
be waited for is a matter of these, not of the clock.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from connectors.settings.units import format_duration, parse_duration

AUTO = "auto"
_TICKS = re.compile(r"\s*([0-9]+)\s*ticks?\s*")


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


_PATTERN = r"^\s*(auto|[0-9]+\s*ticks?|([0-9]+(\.[0-9]+)?\s*[A-Za-z]+\s*)+)\s*$"
Span = Annotated[
    float | str,
    BeforeValidator(parse_span),
    WithJsonSchema(
        {
            "type": ["string", "number"],
            "minimum": 0,
            "pattern": _PATTERN,
            "examples": ["25 ticks", "30s", "2h", AUTO],
        }
    ),
]
