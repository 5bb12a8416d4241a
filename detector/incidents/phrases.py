"""Statements about a change in words. Direction, size and values are of the same samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from detector.events.model import SINGLE, ChangeKind

MOST_SD = 1000.0  # standard deviations, or a ratio, beyond which the number says nothing more
WAYS: dict[ChangeKind, tuple[str, str]] = {  # what up and down mean of a kind, if not up and down
    "spread": ("wider", "narrower"),
    "tails": ("shorter", "longer"),
    "asymmetry": ("to high values", "to low values"),
}
TINY = 1e-300
EXTREME = 100.0  # ratio of spreads from which on one side is called almost constant


class Sizes(NamedTuple):
    """The size of one change: its median and range over nodes, and of a single node its values."""

    size: float  # sd for a mean, ratio for a spread, difference otherwise
    low: float
    high: float
    up: int  # nodes where it went up
    nodes: int
    before: float  # original units; NaN: several nodes, or no way back
    after: float
    unit: str = ""


def phrase(kind: ChangeKind, names: Sequence[str], sizes: Sizes, agreed: bool) -> str:
    """``mean of flow up 2.1 sd (52.6 → 55.0 l/s)``, or of several nodes ``mean up 2.1 sd (1.4 to 3.0)``."""
    of = "" if list(names) == [SINGLE] else f" of {' and '.join(names)}"
    if not agreed and 0 < sizes.up < sizes.nodes:
        rose, fell = WAYS.get(kind, ("up", "down"))
        subject = f"{names[0]} leans more" if kind == "asymmetry" else f"{kind}{of}"
        at = f"at {sizes.up} {'node' if sizes.up == 1 else 'nodes'}, {fell} at {sizes.nodes - sizes.up}"
        return f"{subject} {rose} {at}{_range(kind, sizes)}"
    up = sizes.size > (1.0 if kind == "spread" else 0.0)
    tail = _values(sizes) if sizes.nodes == 1 else _range(kind, sizes)
    if kind == "mean":
        amount = f" {_short(abs(sizes.size))} sd" if abs(sizes.size) < MOST_SD else ""
        return f"mean{of} {'up' if up else 'down'}{amount}{tail}"
    if kind == "spread":
        least = sizes.low if up else 1.0 / max(sizes.high, TINY)  # of the ratios, or of their inverses
        if least > EXTREME:
            where = tail if sizes.nodes == 1 else " at each node"
            return f"{names[0]} {'was' if up else 'is'} almost constant{where}"
        if max(sizes.size, 1.0 / max(sizes.size, TINY)) > MOST_SD:
            return f"spread{of} much {WAYS[kind][not up]}{tail}"
        return f"spread{of} ×{_short(sizes.size)}{tail}"
    if kind == "tails":
        return f"tails{of} {WAYS[kind][not up]}"
    if kind == "asymmetry":
        return f"{names[0]} leans more {WAYS[kind][not up]}"
    if sizes.nodes > 1:
        return f"correlation{of} {'up' if up else 'down'} by {_short(abs(sizes.size))}"
    return f"correlation{of} {_correlation_verb(sizes.before, sizes.after)}{tail}"


def _values(sizes: Sizes) -> str:
    before, after = sizes.before, sizes.after
    if not (math.isfinite(before) and math.isfinite(after)):
        return ""
    told = [decimal(value, after - before) for value in (before, after)]
    if told[0] == told[1]:  # a difference below what the numbers can show
        return ""
    return f" ({' → '.join(told)}{' ' + sizes.unit if sizes.unit else ''})"


def _range(kind: ChangeKind, sizes: Sizes) -> str:
    if kind not in ("mean", "spread") or not max(abs(sizes.low), abs(sizes.high)) < MOST_SD:
        return ""
    if kind == "spread" and sizes.low * MOST_SD < 1.0:  # of a sensor that stands still
        return ""
    sign = "×" if kind == "spread" else ""
    low, high = (f"{sign}{_short(x)}" for x in (sizes.low, sizes.high))
    return f" ({low} to {high}{' sd' * (kind == 'mean')})"


def decimal(value: float, step: float) -> str:
    """``value`` with as many digits as a difference of ``step`` needs to show: two of the step's own."""
    if step == 0.0 or not math.isfinite(step):
        return f"{value:.4g}"
    places = 1 - math.floor(math.log10(abs(step)))
    if places > 12 or abs(value) >= 1e15:
        return f"{value:.6g}"
    whole = round(value, places)
    return f"{whole:.{places}f}" if places > 0 else f"{whole:.0f}"


def _short(x: float) -> str:
    """Two digits; without an exponent for all sizes that are worth a number."""
    digits = 0 if abs(x) >= 10.0 else 1 if abs(x) >= 1.0 else 2
    return f"{x:.{digits}f}" if abs(x) >= 0.1 or x == 0.0 else f"{x:.2g}"


def _correlation_verb(before: float, after: float) -> str:
    weak, clear = 0.3, 0.5
    if abs(before) >= clear and abs(after) < weak:
        return "lost"
    if abs(before) < weak and abs(after) >= clear:
        return "appeared"
    if before * after < 0.0 and min(abs(before), abs(after)) >= weak:
        return "reversed"
    return "stronger" if abs(after) > abs(before) else "weaker"
