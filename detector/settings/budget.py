"""The one number that a user promises to bear: false incidents of the whole network, in words."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from connectors.settings.units import format_duration, parse_duration

EXAMPLES = ("1 per 30d", "2 per week", "1 per 10000 ticks")
_EXPECTED = f"must be a budget such as {', '.join(map(repr, EXAMPLES[:-1]))} or {EXAMPLES[-1]!r}"
_WORDS = re.compile(r"\s*(\S+)\s+per\s+(.+?)\s*")
_TICKS = re.compile(r"(\S*?)\s*ticks?")


@dataclass(frozen=True)
class Budget:
    """False incidents that the whole network may open, per period of time or per number of ticks."""

    count: float = 1.0
    period: float = 30 * 86400.0
    unit: Literal["seconds", "ticks"] = "seconds"

    def __post_init__(self) -> None:
        if not all(math.isfinite(part) and part > 0.0 for part in (self.count, self.period)):
            raise ValueError(f"must be more than zero false incidents in more than no time (got {self})")

    @classmethod
    def parse(cls, text: str) -> Budget:
        """``1 per 30d``, ``2 per week``, ``1 per 10000 ticks``."""
        match = _WORDS.fullmatch(text)
        if match is None:
            raise ValueError(f"{_EXPECTED} (got {text[:40]!r})")
        count, period = match.groups()
        ticks = _TICKS.fullmatch(period)
        try:
            if ticks is not None:
                parts = float(count), float(ticks[1] or 1)
            else:
                parts = float(count), parse_duration(period if period[0].isdigit() else f"1 {period}")
        except ValueError:
            raise ValueError(f"{_EXPECTED} (got {text[:40]!r})") from None
        return cls(*parts, "seconds" if ticks is None else "ticks")

    def per_tick(self, step: float) -> float:
        """False incidents per tick of ``step`` seconds."""
        return self.count / (self.period if self.unit == "ticks" else self.period / step)

    def of_share(self, share: float) -> Budget:
        """What a part of the network may open that has this share of its nodes."""
        return Budget(self.count, self.period / share, self.unit)

    def __str__(self) -> str:
        period = f"{self.period:.12g} ticks" if self.unit == "ticks" else format_duration(self.period)
        return f"{self.count:.12g} per {period}"


def parse_budget(value: Any) -> Budget:
    """A budget, or its words."""
    if isinstance(value, Budget):
        return value
    if not isinstance(value, str):
        raise ValueError(_EXPECTED)
    return Budget.parse(value)


BudgetInWords = Annotated[
    Budget,
    PlainValidator(parse_budget),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": r"^\s*[0-9.eE+]+\s+per\s+\S", "examples": list(EXAMPLES)}),
]
