"""Where in a message the node, the time and the values stand: paths, templates, topics, time formats."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from datetime import time as clock
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

NamedTimeFormat = Literal["unix", "unix_ms", "unix_us", "unix_ns", "iso8601"]


def _time_pattern(pattern: str) -> str:
    """A pattern of strptime that holds at least a date."""
    try:
        again = datetime.strptime(datetime(2001, 2, 3, 4, 5, 6).strftime(pattern), pattern)
    except ValueError:
        raise ValueError(f"not a time pattern: {pattern!r}; write it like %d.%m.%Y %H:%M:%S") from None
    if "%" not in pattern or again.date() != date(2001, 2, 3):
        raise ValueError(f"{pattern!r} must hold day, month and year, like %d.%m.%Y %H:%M:%S")
    return pattern


# A name, or a pattern such as %d.%m.%Y %H:%M:%S
TimeFormat = NamedTimeFormat | Annotated[str, AfterValidator(_time_pattern)]
LAST_TIME = 253402300800.0  # year 10000: milliseconds taken for seconds land beyond it
MAX_NODE_LENGTH = 256
NUMERIC = {"unix": 1.0, "unix_ms": 1e3, "unix_us": 1e6, "unix_ns": 1e9}  # time formats that are numbers
_STEP = re.compile(r"\.?([^.\[\]{}'\"]+)|\[(-?[0-9]+)\]|\[['\"]([^'\"]+)['\"]\]")

Getter = Callable[[Any], Any]


class Rejected(Exception):
    """One message is refused; `reason` is from `REASONS`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def parse_path(path: str) -> tuple[str | int, ...]:
    """`$.a.b[0]['c.d']` or `a.b[0]` -> ("a", "b", 0, "c.d")."""
    rest = path.removeprefix("$")
    steps: list[str | int] = []
    at = 0
    while at < len(rest):
        match = _STEP.match(rest, at)
        if match is None:
            raise ValueError(f"not a path: {path!r} (write it like reading.values[0])")
        steps.append(int(match[2]) if match[2] else match[1] or match[3])
        at = match.end()
    if not steps:
        raise ValueError("an empty path")
    return tuple(steps)


def path_of(field: str) -> str:
    """The path to a field whose name may hold dots."""
    return field if re.fullmatch(r"[^.\[\]{}'\"$]+", field) else f"['{field}']"


def getter(path: str) -> Getter:
    """A function that follows the path and raises `Rejected("missing")` where it breaks off."""
    steps = parse_path(path)

    def get(item: Any) -> Any:
        for step in steps:
            try:
                item = item[step]
            except (KeyError, IndexError, TypeError):
                raise Rejected("missing") from None
        return item

    return get


def node_getter(spec: str) -> Getter:
    """A path, or a template of paths in braces such as `{tags.site}/{tags.host}`."""
    if "{" not in spec:
        return getter(spec)
    pieces = re.split(r"\{([^{}]+)\}", spec)
    if "{" in "".join(pieces[::2]) or len(pieces) < 2:
        raise ValueError(f"unbalanced braces in {spec!r}")
    getters = [getter(path) for path in pieces[1::2]]
    texts = pieces[::2]

    def get(item: Any) -> str:
        return texts[0] + "".join(
            node_name(one(item)) + text for one, text in zip(getters, texts[1:], strict=True)
        )

    return get


def node_fields(spec: str) -> set[str]:
    """The top-level fields that a node path or template reads."""
    paths = re.findall(r"\{([^{}]+)\}", spec) or [spec]
    return {str(parse_path(path)[0]) for path in paths}


def topic_pattern(pattern: str, separator: str) -> re.Pattern[str]:
    """`sensors/{node}/+` -> an expression; + or * is one level, a last # or > is any rest."""
    if pattern.count("{node}") != 1:
        raise ValueError(f"topic pattern {pattern!r} must hold {{node}} exactly once")
    level = f"[^{re.escape(separator)}]+"
    parts = []
    for part in pattern.split(separator):
        if part in ("+", "*"):
            parts.append(level)
        elif part in ("#", ">"):
            parts.append(".*")
        else:
            before, _, after = part.partition("{node}")
            name = f"(?P<node>{level})" if "{node}" in part else ""
            parts.append(re.escape(before) + name + re.escape(after))
    return re.compile(re.escape(separator).join(parts), re.DOTALL)


def node_name(value: Any) -> str:
    """A node id from a message: a string, or an integer written out."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return str(value)
        except ValueError:  # integers beyond Python's limit of digits
            raise Rejected("node") from None
    raise Rejected("type")


def valid_node(node: str) -> bool:
    """Short, not empty, printable: it will stand in logs, labels and headers."""
    return 0 < len(node) <= MAX_NODE_LENGTH and node.isprintable()


def parse_time(value: Any, time_format: TimeFormat | None) -> float:
    """Unix seconds; `Rejected("time")` if it is none. Without a format: a number of them, or ISO 8601."""
    if isinstance(value, date):  # of a typed table
        moment = value if isinstance(value, datetime) else datetime.combine(value, clock())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if time_format is None:
        time_format = "iso8601" if isinstance(value, str) else "unix"
    if time_format not in NUMERIC:
        if not isinstance(value, str):
            raise Rejected("type")
        try:
            named = time_format == "iso8601"
            moment = datetime.fromisoformat(value) if named else datetime.strptime(value, time_format)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            raise Rejected("time") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Rejected("type")
    try:
        return value / NUMERIC[time_format]
    except OverflowError:
        raise Rejected("time") from None


def number(value: Any) -> float:
    """One component: a number, or None for a missing one."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Rejected("type")
    try:
        found = float(value)
    except OverflowError:
        raise Rejected("values") from None
    if math.isinf(found):  # only typed tables can hold one
        raise Rejected("values")
    return found
