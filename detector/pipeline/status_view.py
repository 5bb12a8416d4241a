"""What metrics, status, page and frames read of the pipeline: its thread makes a view after each turn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector.network.network import Network
from detector.pipeline.node_view import shown_states
from detector.pipeline.pipeline import Pipeline


@dataclass(frozen=True)
class StatusView:
    """Plain values and copies: safe to read from any thread, for as long as one likes."""

    phase: str
    progress: float
    network: Network
    components: Sequence[str]
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
    shown_states: NDArray[np.uint8]  # index into `node_view.SHOWN`, per node
    open_incidents: Mapping[str, Any]  # id -> latest record (Event)
    residual: float
    sweeps: int
    coverage: float
    dictionary_size: int
    promised_rate: float
    promise: str | None  # by now, in words
    quiet_ratio: float  # how often quiet data come near the threshold, over what was learnt
    report: Any  # of the calibration, or None
    neighbours: Mapping[str, tuple[int, bool]]  # other boxes: how late they are, and if they count

    @classmethod
    def of(cls, pipeline: Pipeline) -> StatusView:
        incidents = pipeline.incidents
        return cls(
            phase=str(pipeline.phase),
            progress=float(pipeline.progress_learning),
            network=pipeline.network,
            components=pipeline.components,
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
            shown_states=shown_states(pipeline),
            open_incidents={id: incidents.records[id] for id, one in incidents.open.items() if one.told},
            residual=float(pipeline.residual),
            sweeps=int(pipeline.sweeps),
            coverage=float(pipeline.coverage),
            dictionary_size=int(pipeline.dictionary_size),
            promised_rate=float(pipeline.promised_rate),
            promise=pipeline.promise,
            quiet_ratio=pipeline.quiet_ratio,
            report=pipeline.report,
            neighbours=pipeline.neighbours.ages() if pipeline.neighbours else {},
        )

    def top(self, count: int) -> list[tuple[str, float]]:
        """The nodes with the largest statistic, largest first."""
        known = np.nan_to_num(self.statistic, nan=-math.inf)
        order = np.argsort(-known, kind="stable")[:count]
        return [(self.names[v], float(known[v])) for v in order if known[v] > -math.inf]

    def listed(self, wanted: Sequence[str]) -> list[tuple[str, float]]:
        index = {name: v for v, name in enumerate(self.names)}
        return [(name, float(self.statistic[index[name]])) for name in wanted if name in index]
