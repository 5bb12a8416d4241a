"""Quantities in words: `30s`, `1MiB`. Numbers stay allowed where the unit is obvious."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

SECONDS = {
    "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0,
    "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0,
    "month": 30 * 86400.0, "year": 365 * 86400.0,
}  # fmt: skip
BYTES = {
    "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30,
}  # fmt: skip
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*")
_WORDS = r"^\s*([0-9]+(\.[0-9]+)?\s*[A-Za-z]+\s*)+$"  # for editors: JSON Schema knows no units


def parse_duration(value: Any) -> float:
    """`"1h 30m"`, `"500ms"`, or a number of seconds -> seconds."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str):
        seconds = _sum_of(value, SECONDS, "a duration such as 30s, 500ms, 2h, 7d")
    else:
        raise ValueError("must be a duration such as 30s, 500ms, 2h, 7d, or a number of seconds")
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError("must be a duration of zero or more")
    return seconds


def parse_size(value: Any) -> int:
    """`"1MiB"`, `"500kB"`, or a number of bytes -> bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str):
        size = int(_sum_of(value, BYTES, "a size such as 64KiB or 1MiB"))
    else:
        raise ValueError("must be a size such as 64KiB, 1MiB, or a number of bytes")
    if size < 0:
        raise ValueError("must be a size of zero or more")
    return size


def _sum_of(text: str, units: dict[str, Any], wanted: str) -> float:
    total, at = 0.0, 0
    for match in _QUANTITY.finditer(text):
        unit = match[2] if match[2] in units else match[2].lower()
        if unit not in units and unit.endswith("s"):
            unit = unit[:-1]  # "2 days"
        if match.start() != at or unit not in units:
            break
        total, at = total + float(match[1]) * units[unit], match.end()
    if at == 0 or at != len(text):
        raise ValueError(f"must be {wanted} (got {text[:40]!r})")
    return total


def format_duration(seconds: float) -> str:
    """The shortest exact spelling with one unit: 90 -> "90s", 7200 -> "2h"."""
    if seconds == 0:
        return "0s"
    for unit in ("w", "d", "h", "m", "s", "ms"):
        count = seconds / SECONDS[unit]
        if count >= 1 and abs(count - round(count)) < 1e-9 * count:
            return f"{round(count)}{unit}"
    return f"{seconds:g}s"


def format_size(size: int) -> str:
    for unit, name in (("gib", "GiB"), ("mib", "MiB"), ("kib", "KiB")):
        if size and size % BYTES[unit] == 0:
            return f"{size // BYTES[unit]}{name}"
    return f"{size}B"


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema(
        {"type": ["string", "number"], "minimum": 0, "pattern": _WORDS, "examples": ["30s", "500ms", "2h"]}
    ),
]
Size = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema(
        {"type": ["string", "integer"], "minimum": 0, "pattern": _WORDS, "examples": ["64KiB", "1MiB"]}
    ),
]
