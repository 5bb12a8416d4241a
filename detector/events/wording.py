"""Numbers, durations and times in words, the same in every report and view."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from detector.events.model import clock, iso


def counted(n: int, thing: str) -> str:
    """ "1 node", "2,000 nodes"."""
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def number(value: float | None, digits: int = 3) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.{digits}g}" if abs(value) < 1e6 else f"{value:.2e}"


def duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "–"
    for name, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if abs(seconds) >= size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:.3g} s"


def split_nodes(nodes: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """Of the nodes of a record the names of those that changed, and of those that possibly did."""
    changed: list[str] = []
    possibly: list[str] = []
    for node in nodes:
        told = node.get("changed")
        if told is None:  # a record of version 0.1
            told = node.get("state") != "suspected"
        (changed if told else possibly).append(str(node["name"]))
    return changed, possibly


def extent(changed: int, possibly: int) -> str:
    """``6 changed, 3 possibly``: how many nodes are in an incident."""
    if not changed and possibly:
        return f"{possibly:,} possibly changed"
    return f"{changed:,} changed" + (f", {possibly:,} possibly" if possibly else "")


def moment(time: float | None) -> str:
    return "–" if time is None else clock(time, 0.0)


def when(time: float | None) -> str:
    """ISO 8601 where the stream has such times, else the number."""
    return "–" if time is None else iso(time) or f"{time:.10g}"
