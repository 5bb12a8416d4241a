"""This detector for a single stream, with river's face: `update(x)`, then `drift_detected`."""

from __future__ import annotations

from typing import Any

import numpy as np
from river.base import DriftDetector

from detector.api import NetworkDetector
from detector.settings import Budget


class GrulsifDrift(DriftDetector):  # type: ignore[misc]
    """Change of distribution in one stream of numbers or of equal-length vectors.

    Learns silently from the first ``learn`` samples, then raises `drift_detected` for the sample at which an
    incident opens, and takes the new regime as normal after ``accept_after`` samples.
    """

    def __init__(
        self, budget: str = "1 per 10000 ticks", learn: int = 1500, accept_after: int = 250, seed: int = 0
    ) -> None:
        super().__init__()
        Budget.parse(budget)
        self.budget, self.learn, self.accept_after, self.seed = budget, learn, accept_after, seed
        self._reset()

    def _reset(self) -> None:
        super()._reset()
        self._begun = False
        self._watch: Any = NetworkDetector(
            np.zeros((1, 1)),
            alarm={"budget": self.budget, "learn": self.learn, "seed": self.seed},
            estimator={"sigma": 0.6, "coupling": 0.0},
            incidents={"hold_for": float(self.accept_after), "after_hold": "accept"},
        )

    def update(self, x: Any) -> None:
        """Take the next sample."""
        values = np.atleast_1d(np.asarray(x, dtype=np.float64))
        events = self._watch.update(values[None, :])
        self._begun = True
        self._drift_detected = any(event.event == "incident.opened" for event in events)

    @property
    def statistic(self) -> float:
        """Of the event; NaN while learning."""
        return float(self._watch.event_statistic[0]) if self._begun else float("nan")
