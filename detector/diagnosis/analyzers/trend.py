"""How a change went on since its onset: whether it stays as it came, still grows, fades, or is over already.

The description of an incident compares before and after; this looks at the order of what came after.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from detector.diagnosis.actions import Action
from detector.diagnosis.analyzer import Analyzer, AnalyzerSettings, Finding
from detector.diagnosis.repository import Repository
from detector.diagnosis.samples import Samples, samples_of
from detector.events.model import rounded
from detector.incidents.case import Case, Stage
from estimators.core.types import Floats
from estimators.timeseries.trend import MIN_SAMPLES, Course, course, inflation

ODDS = 20.0  # against the next shape; below, there is no finding
ODDS_STEP = 3.0  # the simplest shape: what speaks for it grows with the root of the samples only
LEVEL = 4.0  # strength that the change itself must have, as a z value over the nodes
NAMED = 20  # nodes listed in the data

ACTIONS: dict[str, Action] = {}


class Settings(AnalyzerSettings):
    """Whether a change persists, grows, fades, or is already over."""


def analyzer(settings: Settings, repository: Repository) -> Analyzer:
    return TrendAnalyzer()


class TrendAnalyzer:
    """Needs no model."""

    kind = "trend"
    stages: frozenset[Stage] = frozenset({"settled"})

    def analyze(self, case: Case) -> Finding | None:
        names = [name for name in case.certain or case.members if name in case.recent]
        found = {name: samples_of(case, name) for name in names}
        found = {
            name: samples
            for name, samples in found.items()
            if len(samples.after) >= MIN_SAMPLES and len(samples.before) > 1
        }
        if not found:
            return None
        strongest = _strongest(case, found, "mean")
        if strongest.strength < LEVEL:  # a mean that moves widens the spread, too: it comes first
            strongest = _strongest(case, found, "spread")
        if strongest.strength < LEVEL:
            return None
        made = strongest.course()
        if made is None or made.odds < (ODDS_STEP if made.shape == "step" else ODDS):
            return None
        return strongest.finding(made)


def _strongest(case: Case, samples: Mapping[str, Samples], what: str) -> _Signal:
    signals = [_Signal(case, samples, c, what) for c in range(len(case.components))]
    return max(signals, key=lambda signal: signal.strength)


class _Signal:
    """The level, or the size of the deviations, of one component of the nodes, in baseline spreads."""

    def __init__(self, case: Case, samples: Mapping[str, Samples], c: int, what: str) -> None:
        self.case, self.names, self.c, self.what = case, list(samples), c, what
        self.y: list[Floats] = []
        self.u: list[Floats] = []
        self.inflations: list[float] = []
        self.units: list[float] = []  # of the sensor, per unit of y
        z = []
        for name, (reference, since, times) in samples.items():
            before, after = reference[:, c], since[:, c]
            if what == "spread":
                before, after = np.abs(before - before.mean()), np.abs(after - after.mean())
            unit = max(float(before.std(ddof=1)), 1e-9)
            y = (after - before.mean()) / unit
            self.y.append(y)
            self.u.append(times - case.begin)
            self.inflations.append(inflation(before))
            self.units.append(unit * float(case.scale[name][c]))
            error = np.sqrt(self.inflations[-1] * (1.0 / len(before) + max(1.0, y.var()) / len(y)))
            z.append(float(y.mean()) / error)
        k, scores = len(z), np.array(z)
        agreed, either = abs(scores.sum()) / np.sqrt(k), ((scores**2).sum() - k) / np.sqrt(2.0 * k)
        self.strength = float(max(agreed, either))  # nodes may change in opposite directions

    def course(self) -> Course | None:
        return course(self.y, self.u, self.inflations)

    def finding(self, made: Course) -> Finding:
        case, component = self.case, self.case.components[self.c]
        subject = f"{self.what} of {component}"
        first, last = float(np.nanmean(np.abs(made.first))), float(np.nanmean(np.abs(made.last)))
        words = {
            "step": f"{subject} changed in a step and stays there",
            "growing": f"{subject} still moves away: {first:.2g} sd off at the onset, {last:.2g} sd now",
            "fading": f"{subject} comes back: {first:.2g} sd off at the onset, {last:.2g} sd now",
            "burst": f"{subject} is back after {_span(made.lasted)}",
        }
        data: dict[str, Any] = {
            "shape": made.shape,
            "change": self.what,
            "component": component,
            "odds": rounded(made.odds),
            "since": case.begin,
            "lasted": rounded(made.lasted),
            "nodes": [self._node(v, made) for v in range(min(len(self.names), NAMED))],
        }
        return Finding("trend", words[made.shape], data)

    def _node(self, v: int, made: Course) -> dict[str, Any]:
        unit = self.units[v]
        return {
            "name": self.names[v],
            "first_sd": rounded(float(made.first[v])),
            "last_sd": rounded(float(made.last[v])),
            "change_now": rounded(float(made.last[v]) * unit),
            "change_per_time": rounded(float(made.rate[v]) * unit),
        }


def _span(seconds: float | None) -> str:
    if seconds is None:
        return "a while"
    for name, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.2g} {name}"
    return f"{seconds:.3g} s"
