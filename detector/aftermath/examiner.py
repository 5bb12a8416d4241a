"""Who looks at a case file, and what comes of it: a finding, told as a record of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from detector.aftermath.casefile import CaseFile, Stage
from detector.events import Event, Source, iso


@dataclass(frozen=True)
class Finding:
    """What an examiner says about a case."""

    kind: str
    summary: str  # one plain sentence for people
    data: dict[str, Any] = field(default_factory=dict)  # JSON-ready, with names and numbers; no NaN
    source: Source = "threshold"  # who named the nodes it speaks of


class Examiner(Protocol):
    """Looks at case files of some stages, in the desk's thread; the same case gives the same finding."""

    kind: str
    stages: frozenset[Stage]

    def examine(self, case: CaseFile) -> Finding | None:
        """None: nothing to say. Must not change the case; others look at it, too."""


def finding_event(case: CaseFile, finding: Finding) -> Event:
    """The record of a finding. Its id tells what was found of which case, so that repeats are dropped."""
    return Event(
        id=f"{case.incident}-{finding.kind}-{case.stage}", event="incident.examined", time=case.time,
        time_iso=iso(case.time), summary=finding.summary, incident=case.incident, opened=case.opened,
        onset=case.onset, onset_iso=iso(case.onset), source=finding.source,
        details={"kind": finding.kind, "stage": case.stage, **finding.data},
    )  # fmt: skip
