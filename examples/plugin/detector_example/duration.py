"""How long a change has been there when its case is settled."""

from __future__ import annotations

from pydantic import Field

from detector.diagnosis.actions import Action
from detector.diagnosis.analyzer import Analyzer, AnalyzerSettings, Finding
from detector.diagnosis.repository import Repository
from detector.incidents.case import Case, Stage

ACTIONS: dict[str, Action] = {}  # there is nothing that people can have it do


class Settings(AnalyzerSettings):
    """How long a change has been there."""

    least: float = Field(default=0.0, description="Seconds below which nothing is said.", ge=0)


class DurationAnalyzer:
    """Needs no model: the case says it all."""

    kind = "duration"
    stages: frozenset[Stage] = frozenset({"settled"})

    def __init__(self, settings: Settings) -> None:
        self._least = settings.least

    def analyze(self, case: Case) -> Finding | None:
        seconds = case.time - case.begin
        if seconds < self._least:
            return None
        return Finding(self.kind, f"The change has been there for {seconds:.0f} s.", {"seconds": seconds})


def analyzer(settings: Settings, repository: Repository) -> Analyzer:
    return DurationAnalyzer(settings)
