"""The contract between statistics and incidents: verdicts and evidence in, actions out; and the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from detector.events import Severity

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Verdict:
    """What the statistics say at the end of a tick; arrays over the N nodes."""

    time: float  # end of the tick, in the stream's own time
    tick: int
    hot: Bools  # event statistic over its threshold: may open an incident
    member: Bools  # node statistic says: belongs to an event, if there is one here
    warm: Bools  # node statistic over the lower release level (hysteresis)
    statistic: Floats  # of the node itself; NaN: no verdict
    event_statistic: Floats  # pooled around the node; NaN: no verdict
    threshold: float  # of the node statistic
    event_threshold: float
    silent: Bools
    stuck: Bools
    ready: Bools

    def __post_init__(self) -> None:
        # Plain floats whatever came in, so that records are the same before and after a restart.
        for name in ("time", "threshold", "event_threshold"):
            object.__setattr__(self, name, float(getattr(self, name)))


@dataclass(frozen=True)
class IncidentSettings:
    """The keys of `incidents:` in config.yaml. Ticks count verdicts; times are in the stream's own time."""

    min_nodes: int = 1  # nodes alarmed by themselves before opening; 1: pooled evidence is enough
    confirm: int = 1  # ticks a node must stay hot before it opens an incident
    join_after: int = 1  # ticks a node must be judged a member before it joins
    clear_after: int = 25  # ticks all nodes must be cool before the incident is cleared
    cool_down: float = 60.0  # time after an end during which its nodes alone open nothing
    update_every: float = 60.0  # least time between updates, unless the severity rises
    hold_for: float | None = 86400.0  # time without a new node until the policy ends what still fires
    after_hold: Literal["accept", "release"] = "accept"
    keep: int = 100  # ended incidents remembered, for labels
    # A severity is reached by strength (statistic over threshold) or by extent (number of nodes alarmed).
    warning_excess: float = 1.5
    warning_nodes: int = 3
    critical_excess: float = 3.0
    critical_nodes: int = 10

    def __post_init__(self) -> None:
        for name in ("min_nodes", "confirm", "join_after", "clear_after", "keep"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        for name in ("cool_down", "update_every", "hold_for"):
            if getattr(self, name) is not None and not getattr(self, name) >= 0.0:
                raise ValueError(f"{name}: must not be negative, got {getattr(self, name)}")
        if self.after_hold not in ("accept", "release"):
            raise ValueError(f"after_hold: must be accept or release, got {self.after_hold!r}")
        if self.critical_excess < self.warning_excess or self.critical_nodes < self.warning_nodes:
            raise ValueError("critical_excess and critical_nodes: must not be below those of warning")

    def level(self, excess: float, nodes: int) -> Severity:
        if excess >= self.critical_excess or nodes >= self.critical_nodes:
            return "critical"
        return "warning" if excess >= self.warning_excess or nodes >= self.warning_nodes else "info"


@dataclass
class Actions:
    """What the windows must do now: freeze references, let them go, or restart them after a time."""

    hold: list[int] = field(default_factory=list)
    release: list[int] = field(default_factory=list)
    rebaseline: dict[int, float] = field(default_factory=dict)  # node: keep only samples from this time on


class Evidence(Protocol):
    """What the windows hold about node v; the pipeline implements it."""

    @property
    def components(self) -> Sequence[str]:
        """Names of the d components."""

    def reference(self, v: int) -> NDArray[np.float32]:
        """(n, d) reference values in time order."""

    def recent(self, v: int) -> NDArray[np.float32]:
        """(m, d) values of the longest test window in time order."""

    def sample_times(self, v: int) -> NDArray[np.float64]:
        """(m,) times of the recent values, increasing."""

    def scale(self, v: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Centre (d,) and scale (d,) that lead back to original units; NaN where there is no way back."""

    def log_ratio(self, v: int) -> NDArray[Any]:
        """(m,) log of the estimated ratio after/before at the recent values."""
