"""This detector for a single stream, with the interface of river: `update(x)`, then `drift_detected`."""

from __future__ import annotations

from typing import Any

import numpy as np
from river.base import DriftDetector

from detector.api import NetworkDetector
from detector.settings.budget import Budget


class GrulsifDrift(DriftDetector):  # type: ignore[misc]
    """Change of distribution in one stream of numbers or of equal-length vectors, as river has it.

    Learns silently from the first ``learn`` samples, then raises `drift_detected` for the sample at which an
    incident opens, and takes the new regime as normal after ``accept_after`` samples.

    Parameters
    ----------
    budget : str, default="1 per 10000 ticks"
        Rate of false alarms.
    learn : int, default=1500
        Samples to learn from.
    accept_after : int, default=250
        Samples after which a lasting change is the new normal.
    seed : int, default=0
        Of everything that is drawn while learning.

    Attributes
    ----------
    drift_detected : bool
        Whether the last sample brought a change to light.
    statistic : float
        Event statistic; NaN while learning.

    Raises
    ------
    ValueError
        If the budget cannot be read.

    References
    ----------
    "Collaborative likelihood-ratio estimation over graphs", JMLR 26(259), 2025, for a graph of one node.

    Examples
    --------
    >>> import numpy as np
    >>> from detector.river import GrulsifDrift
    >>> rng = np.random.default_rng(0)
    >>> values = np.concatenate([rng.normal(size=1200), rng.normal(3.0, 1.0, size=100)])
    >>> drift = GrulsifDrift(budget="1 per 10000 ticks", learn=1000)
    >>> found = []
    >>> for t, x in enumerate(values):
    ...     drift.update(x)
    ...     if drift.drift_detected:
    ...         found.append(t)
    >>> len(found), 1200 <= found[0] < 1220
    (1, True)
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
        """Take the next sample.

        Parameters
        ----------
        x : float or array_like of shape (d,)
        """
        values = np.atleast_1d(np.asarray(x, dtype=np.float64))
        events = self._watch.update(values[None, :])
        self._begun = True
        self._drift_detected = any(event.event == "incident.opened" for event in events)

    @property
    def statistic(self) -> float:
        """Event statistic; NaN while learning."""
        return float(self._watch.event_statistic[0]) if self._begun else float("nan")
