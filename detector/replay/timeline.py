"""What a report keeps of a replay: signals and statistics in a bounded number of bins, and incidents.

The pipeline is given one tick at a time, so that no peak between two looks is missed; how samples are cut
into batches does not change what it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from connectors.base import Sample
from detector.events.model import Event
from detector.pipeline.pipeline import Pipeline
from estimators.core.types import Floats32

BINS = 1500
NUMBERS = 20_000_000  # kept at most: 80 MB


@dataclass
class ReplayedIncident:
    """One incident from its events."""

    id: str
    opened: float
    onset: float | None
    ended: float | None
    severity: str
    nodes: tuple[str, ...]  # that changed
    summary: str
    resolution: str = ""
    peak: float | None = None
    direction: str = ""  # up or down, where a mean moved
    possibly: tuple[str, ...] = ()  # nodes that possibly changed
    findings: list[Event] = field(default_factory=list)  # of the analyzers

    @property
    def named(self) -> tuple[str, ...]:
        """The nodes that changed; while none is certain, those that possibly did."""
        return self.nodes or self.possibly


@dataclass
class ReplayTimeline:
    """Follows ``pipeline``; rows of the arrays are bins of ``per_bin`` ticks each."""

    pipeline: Pipeline
    incidents: dict[str, ReplayedIncident] = field(default_factory=dict)
    notes: list[Event] = field(default_factory=list)  # about nodes and the detector itself
    per_bin: int = 1
    begin: float | None = None  # of watching
    end: float | None = None
    learnt: tuple[float, float] | None = None  # a part of the recording itself that was learnt from

    def __post_init__(self) -> None:
        n, d = self.pipeline.network.n_nodes, self.pipeline.dim
        self.limit = 2 * (int(np.clip(NUMBERS // (n * (2 * d + 2)), 100, BINS)) // 2)
        self.times = np.zeros(self.limit)
        self.low: Floats32 = np.full((self.limit, n, d), np.nan, np.float32)
        self.high: Floats32 = self.low.copy()
        self.statistic: Floats32 = np.full((self.limit, n), np.nan, np.float32)
        self.event_statistic: Floats32 = self.statistic.copy()
        self.rows = 0
        self._in_row = 0

    def push(self, samples: Sequence[Sample]) -> list[Event]:
        """`Pipeline.push`, looked at after each tick."""
        events: list[Event] = []
        for tick in _ticks(samples, self.pipeline.settings.align.step):
            events += self._heard(self.pipeline.push(tick))
            self._look(tick)
        return events

    def flush(self) -> list[Event]:
        events = self._heard(self.pipeline.flush())
        self._look([])
        return events

    def add_findings(self, findings: Sequence[Event]) -> None:
        """What analyzers found out about incidents from the case files of the pipeline."""
        for event in findings:
            if event.incident in self.incidents:
                self.incidents[event.incident].findings.append(event)

    def _heard(self, events: list[Event]) -> list[Event]:
        for event in events:
            if event.incident is not None and event.event.startswith("incident."):
                self._tell(event)
            else:
                self.notes.append(event)
        return events

    def _tell(self, event: Event) -> None:
        assert event.incident is not None
        known = self.incidents.get(event.incident)
        if known is None:
            known = ReplayedIncident(
                event.incident, event.opened or event.time, None, None, event.severity, (), ""
            )
            self.incidents[event.incident] = known
        known.onset, known.severity, known.summary = event.onset, event.severity, event.summary
        known.nodes = tuple(node.name for node in event.nodes if node.changed)
        known.possibly = tuple(node.name for node in event.nodes if not node.changed)
        known.peak = event.peak
        for change in event.description[:1]:
            if change.kind == "mean" and change.effect:
                known.direction = "up" if change.effect > 0.0 else "down"
        if event.resolution is not None:
            known.ended, known.resolution = event.time, event.resolution

    def _look(self, samples: Sequence[Sample]) -> None:
        if not samples and not self.rows:
            return
        time = samples[-1].time if samples else float(self.times[self.rows - 1])
        if self.rows == 0 or self._in_row >= self.per_bin:
            if self.rows == self.limit:
                self._halve()
            self.rows, self._in_row = self.rows + 1, 0
        row = self.rows - 1
        self._in_row += 1
        self.times[row] = time
        index = self.pipeline.network.node_index.index
        known = [sample for sample in samples if sample.node in index]
        if known:
            nodes = [index[sample.node] for sample in known]
            values = np.array([sample.values for sample in known], np.float32)
            np.fmin.at(self.low[row], nodes, values)
            np.fmax.at(self.high[row], nodes, values)
        if self.pipeline.phase == "watching":
            self.begin = time if self.begin is None else self.begin
            np.fmax(self.statistic[row], self.pipeline.statistic, out=self.statistic[row])
            np.fmax(self.event_statistic[row], self.pipeline.event_statistic, out=self.event_statistic[row])
        self.end = time

    def _halve(self) -> None:
        """Two bins become one: extremes stay."""
        half = self.limit // 2
        for array, join in ((self.low, np.fmin), (self.high, np.fmax), (self.statistic, np.fmax),
                            (self.event_statistic, np.fmax)):  # fmt: skip
            array[:half] = join(array[0::2], array[1::2])
            array[half:] = np.nan
        self.times[:half] = self.times[1::2]
        self.rows, self.per_bin = half, 2 * self.per_bin

    def strongest(self, count: int) -> list[int]:
        """The nodes with the highest peaks."""
        if not self.rows:
            return []
        seen = np.where(np.isnan(self.statistic[: self.rows]), -np.inf, self.statistic[: self.rows]).max(
            axis=0
        )
        order = np.argsort(-seen, kind="stable")[:count]
        return [int(v) for v in order if np.isfinite(seen[v])]

    def course(self, v: int) -> dict[str, Any]:
        """Everything about one node over time."""
        rows = slice(0, self.rows)
        return {
            "times": self.times[rows],
            "low": self.low[rows, v],
            "high": self.high[rows, v],
            "statistic": self.statistic[rows, v],
            "event_statistic": self.event_statistic[rows, v],
        }


def _ticks(samples: Sequence[Sample], step: float) -> Iterator[Sequence[Sample]]:
    """Runs of samples within one tick; samples out of order only make shorter runs."""
    first = 0
    for k in range(1, len(samples)):
        if samples[k].time // step != samples[first].time // step:
            yield samples[first:k]
            first = k
    if len(samples):
        yield samples[first:]
