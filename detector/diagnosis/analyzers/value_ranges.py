"""Which value ranges gained or lost mass, and how narrow they are: a sparse density ratio of each member.

    n1: values around 4.10 (width 0.06) became 3 times as frequent, around 3.95 (width 0.06) vanished

A range is reported only if it is larger than what windows drawn from the reference alone would mostly show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from detector.diagnosis.actions import Action
from detector.diagnosis.analyzer import AnalyzerSettings, Finding
from detector.diagnosis.repository import Repository
from detector.diagnosis.samples import samples_of
from detector.events.model import rounded
from detector.incidents.case import Case, Stage
from estimators.sparse.ratio import Component, SparseRatioExplainer

ACTIONS: dict[str, Action] = {}
LEAST = 8  # values past the onset; fewer say little about a distribution
MOST_FITS = 60  # of one case file, a tenth of a second each
NAMED = 3  # nodes in the summary
CLEAR = 1.2  # a range is reported if it became so many times as frequent, or as rare


class Settings(AnalyzerSettings):
    """Ranges of values that gained or lost mass, in the sensor's units."""

    nodes: int = Field(default=3, description="Members that are analyzed, strongest first.", ge=1, le=50)


@dataclass(frozen=True)
class Range:
    """One range of values of one component, in the sensor's units where there is a way back to them."""

    component: str
    centre: float
    width: float
    before: float  # share of the values
    after: float

    def record(self) -> dict[str, Any]:
        """JSON-ready."""
        return {key: rounded(x) if isinstance(x, float) else x for key, x in vars(self).items()}

    def words(self) -> str:
        where = f"around {number(self.centre, self.width)} (width {self.width:.2g})"
        if self.before == 0.0:
            return f"{where} appeared (now {100 * self.after:.0f} %)"
        if self.after == 0.0:
            return f"{where} vanished (before {100 * self.before:.0f} %)"
        if self.after > self.before:
            return f"{where} became {_times(self.after / self.before)} as frequent"
        return f"{where} became {_times(self.before / self.after)} rarer"


class ValueRangeAnalyzer:
    """Of both stages: what is known early, and again when more has been seen."""

    kind = "value_ranges"
    stages: frozenset[Stage] = frozenset(("early", "settled"))

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def analyze(self, case: Case) -> Finding | None:
        found: dict[str, list[Range]] = {}
        nodes = [name for name in case.certain or case.members if name in case.recent]
        for name in nodes[: min(self.settings.nodes, max(1, MOST_FITS // len(case.components)))]:
            ranges = explain(case, name)
            if ranges:
                found[name] = ranges
        if not found:
            return None
        told = [f"{name}: {_sentence(case, ranges)}" for name, ranges in list(found.items())[:NAMED]]
        data = [{"name": name} | r.record() for name, ranges in found.items() for r in ranges]
        return Finding(self.kind, "; ".join(told), {"nodes": data})


def explain(case: Case, name: str) -> list[Range]:
    """Ranges of one node that gained or lost mass, largest first; none if too little was seen since."""
    before, after, _ = samples_of(case, name)
    if len(after) < LEAST or len(before) < LEAST:
        return []
    ranges: list[tuple[float, Range]] = []
    for c, component in enumerate(case.components[:MOST_FITS]):
        parts = SparseRatioExplainer().fit(before[:, c], after[:, c]).components_
        centre, scale = (float(side[name][c]) for side in (case.centre, case.scale))
        back = math.isfinite(centre) and math.isfinite(scale)
        for part in parts:
            if _clear(part):
                z, w = float(part.center[0]), part.width
                ranges.append((abs(part.mass), Range(
                    component, centre + scale * z if back else z, abs(scale) * w if back else w,
                    part.before, part.after,
                )))  # fmt: skip
    return [found for _, found in sorted(ranges, key=lambda pair: -pair[0])]


def _clear(part: Component) -> bool:
    """Overlapping parts may share a range: only what the shares of values confirm is reported."""
    more, less = (part.after, part.before) if part.mass > 0.0 else (part.before, part.after)
    return more > 0.0 and more >= CLEAR * less


def _sentence(case: Case, ranges: list[Range]) -> str:
    """The largest gain and the largest loss."""
    best = [next((r for r in ranges if (r.after > r.before) == gained), None) for gained in (True, False)]
    kept = sorted((r for r in best if r is not None), key=ranges.index)
    if len(case.components) == 1:
        return "values " + ", ".join(r.words() for r in kept)
    return ", ".join(f"{r.component} {r.words()}" for r in kept)


def number(x: float, width: float) -> str:
    """As many digits as the width makes sense of."""
    return f"{x:.{min(max(-math.floor(math.log10(width)), 0), 9)}f}" if width > 0.0 else f"{x:g}"


def _times(factor: float) -> str:
    return f"{factor:.0f} times" if factor >= 1.95 else f"{factor:.1f} times"


def analyzer(settings: Settings, repository: Repository) -> ValueRangeAnalyzer:
    return ValueRangeAnalyzer(settings)
