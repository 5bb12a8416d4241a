"""Whether the values since the onset are new, or were seen before and only became more frequent.

    n1: 97 % of the values since the onset lie outside of what the reference has seen; n2: 4 %

By the Christoffel function of each member's reference. A model that was fitted on the reference knows nothing
about new values: `detector adapt` can weight the pairs it has, but cannot make up those it lacks.
"""

from __future__ import annotations

from detector.diagnosis.actions import Action
from detector.diagnosis.analyzer import Analyzer, AnalyzerSettings, Finding
from detector.diagnosis.repository import Repository
from detector.diagnosis.samples import samples_of
from detector.events.model import rounded
from detector.incidents.case import Case, Stage
from estimators.spectral.support import within

ACTIONS: dict[str, Action] = {}
LEAST = 8  # values past the onset
LEVEL = 0.99  # a value is new if it has less in common with the reference than so many of its own
MOST = 20  # members analyzed, strongest first
NAMED = 3  # in the summary
LEAST_NEW = 0.1  # below, a sample of the reference itself might show as much


class Settings(AnalyzerSettings):
    """Whether the values since the onset are new or have occurred before."""


def analyzer(settings: Settings, repository: Repository) -> Analyzer:
    return NoveltyAnalyzer()


class NoveltyAnalyzer:
    """Needs no model."""

    kind = "novelty"
    stages: frozenset[Stage] = frozenset({"settled"})

    def analyze(self, case: Case) -> Finding | None:
        names = [name for name in case.certain or case.members if name in case.recent][:MOST]
        new = {name: share for name in names if (share := new_share(case, name)) is not None}
        if not new:
            return None
        ordered = sorted(new, key=lambda name: -new[name])
        told = "; ".join(f"{name}: {new[name]:.0%}" for name in ordered[:NAMED])
        if new[ordered[0]] >= LEAST_NEW:
            words = f"values outside of what the reference has seen: {told} of those since the onset"
        else:
            words = "all values since the onset were seen before; they only became more or less frequent"
        nodes = [{"name": name, "new": rounded(new[name])} for name in ordered]
        return Finding(self.kind, words, {"nodes": nodes})


def new_share(case: Case, name: str) -> float | None:
    """Share of a member's values since the onset that are new; None if too little is known."""
    before, after, _ = samples_of(case, name)
    if len(after) < LEAST or len(before) < LEAST:
        return None
    return 1.0 - float(within(before, after, LEVEL).mean())
