"""The event threshold in use: that of the budget by the tail that was learnt, corrected as quiet data come.

Nodes of an incident and their neighbours are no quiet data, nor are they for a while afterwards: what
happened is still in their windows.
"""

from __future__ import annotations

import numpy as np

from detector.engines.calibration_report import CalibrationReport
from detector.incidents.decision import Decision
from detector.incidents.tracker import IncidentTracker
from detector.settings.core import Settings
from detector.stateful import Arrays, Meta, Rows, take_rows
from estimators.streaming.quiet_rate import QuietRate

LEAST_SHARE = 0.3  # of the episodes above the level near the threshold that are expected to stay below that


class EventThreshold:
    """Of one network under watch."""

    def __init__(self, incidents: IncidentTracker, settings: Settings) -> None:
        self.incidents = incidents
        self.quiet = QuietRate(incidents.states.graph, incidents.settings.clear_after)
        self.rest = settings.windows.tests[-1]
        self.resting = np.zeros(incidents.states.graph.n_nodes, np.int64)  # ticks until a node counts again

    def value(self, report: CalibrationReport) -> float:
        return report.event_threshold_at(self.quiet.ratio)

    def follow(self, decision: Decision, report: CalibrationReport, opened: int) -> None:
        """The tick ends, and incidents are up to date; ``opened`` of them are new."""
        if not np.isfinite(report.asked):
            return
        level, rate = report.near or (report.tail.base, report.tail.rate)
        level *= self.value(report) / report.tail.threshold(report.asked)
        worth = max(rate / report.asked, 1.0)
        if self.quiet.ratio >= 1.0:  # below that, incidents count as well
            rate = max(rate - report.asked, LEAST_SHARE * rate)
        live = ~(decision.silent | decision.stuck) & (self.resting == 0)
        self.resting = np.maximum(self.resting - 1, 0)
        self.quiet.follow(decision.event_statistic, live, level, rate)
        owned, neighbours = self.incidents.states.owner, self.incidents.states.graph.neighbours
        around = sorted({u for v in owned for u in (v, *neighbours(v).tolist())})
        self.quiet.take_back(around)
        self.quiet.opened(opened, worth)
        self.resting[around] = self.rest

    def taught(self) -> None:
        """People say that an incident was none: one quiet episode more."""
        self.quiet.count(1)

    def state(self) -> tuple[Arrays, Meta]:
        arrays, meta = self.quiet.state()
        return arrays | {"resting": self.resting.copy()}, meta

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        take_rows(self, ("resting",), arrays, rows)
        self.quiet.restore(arrays, meta, rows)
