"""What every analyzer is: settings, a class that looks at case files, and findings, published as events.

from detector.diagnosis.analyzer import Analyzer, AnalyzerSettings, Finding
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import Field

from detector.events.model import Event, Source, iso
from detector.settings.base import Group

if TYPE_CHECKING:
    from detector.incidents.case import Case, Stage


class AnalyzerSettings(Group):
    """Base of the settings of every analyzer: the keys below its name in the group `diagnosis`."""

    enabled: bool = Field(default=True, description="Whether this analyzer is used.")


@dataclass(frozen=True)
class Finding:
    """What an analyzer found out about a case."""

    kind: str  # name of the analyzer
    summary: str  # one plain sentence for people
    data: dict[str, Any] = field(default_factory=dict)  # JSON-ready, with names and numbers; no NaN
    source: Source = "threshold"  # what the nodes it names were chosen by


class Analyzer(Protocol):
    """Analyzes case files of some stages, in the diagnosis thread; the same case gives the same finding."""

    kind: str
    stages: frozenset[Stage]

    def analyze(self, case: Case) -> Finding | None:
        """None: nothing to say. Must not change the case, which other analyzers get as well."""


def finding_event(case: Case, finding: Finding) -> Event:
    """The event of a finding; its id is made of incident, analyzer and stage, so that repeats are dropped."""
    return Event(
        id=f"{case.incident}-{finding.kind}-{case.stage}", event="incident.analyzed", time=case.time,
        time_iso=iso(case.time), summary=finding.summary, incident=case.incident, opened=case.opened,
        onset=case.onset, onset_iso=iso(case.onset), source=finding.source,
        details={"kind": finding.kind, "stage": case.stage, **finding.data},
    )  # fmt: skip
