"""What pages and metrics read of the pipeline: its thread takes a picture after each turn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from detector.pipeline import Pipeline


@dataclass(frozen=True)
class Picture:
    """Plain values and copies: safe to read from any thread, for as long as one likes."""

    phase: str
    progress: float
    names: Sequence[str]
    counts: Mapping[str, int]
    watermark: float | None
    behind: float | None  # the time of samples that are all late
    ticks: int
    statistic: Any
    event_statistic: Any
    threshold: float
    event_threshold: float
    states: Mapping[str, int]
    open_incidents: Mapping[str, Any]  # id -> latest record (Event)
    residual: float
    sweeps: int
    coverage: float
    dictionary_size: int
    promised_rate: float
    report: Any  # of the calibration, or None

    @classmethod
    def of(cls, pipeline: Pipeline) -> Picture:
        incidents = pipeline.incidents
        return cls(
            phase=str(pipeline.phase),
            progress=float(pipeline.progress_learning),
            names=pipeline.names,
            counts=dict(pipeline.counts),
            watermark=pipeline.watermark,
            behind=pipeline.behind,
            ticks=int(pipeline.ticks),
            statistic=np.array(pipeline.statistic, float),
            event_statistic=np.array(pipeline.event_statistic, float),
            threshold=float(pipeline.threshold),
            event_threshold=float(pipeline.event_threshold),
            states=pipeline.state_counts,
            open_incidents={id: incidents.records[id] for id in incidents.open} if incidents else {},
            residual=float(pipeline.residual),
            sweeps=int(pipeline.sweeps),
            coverage=float(pipeline.coverage),
            dictionary_size=int(pipeline.dictionary_size),
            promised_rate=float(pipeline.promised_rate),
            report=pipeline.report,
        )

    def top(self, count: int) -> list[tuple[str, float]]:
        """The nodes with the largest statistic, largest first."""
        known = np.nan_to_num(self.statistic, nan=-math.inf)
        order = np.argsort(-known, kind="stable")[:count]
        return [(self.names[v], float(known[v])) for v in order if known[v] > -math.inf]

    def listed(self, wanted: Sequence[str]) -> list[tuple[str, float]]:
        index = {name: v for v, name in enumerate(self.names)}
        return [(name, float(self.statistic[index[name]])) for name in wanted if name in index]
