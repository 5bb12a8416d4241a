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
    """Life of an incident. Ticks count verdicts; times are in the stream's own time."""

    min_nodes: int = field(
        default=1,
        metadata={
            "help": "Nodes alarmed by themselves before an incident opens; 1: evidence pooled over "
            "neighbours is enough.",
        },
    )
    confirm: int = field(
        default=1, metadata={"help": "Ticks a node must stay hot before it opens an incident."}
    )
    join_after: int = field(
        default=1, metadata={"help": "Ticks a node must be judged a member before it joins an incident."}
    )
    clear_after: int = field(
        default=25, metadata={"help": "Ticks all nodes must be cool before an incident is cleared."}
    )
    cool_down: float = field(
        default=60.0,
        metadata={"help": "Time after an end during which its nodes alone open no incident.", "unit": "s"},
    )
    update_every: float = field(
        default=60.0,
        metadata={
            "help": "Least time between two updates of an incident, unless its severity rises.",
            "unit": "s",
        },
    )
    hold_for: float | None = field(
        default=86400.0,
        metadata={
            "help": "Time without a new node, after which after_hold ends an incident that still fires; "
            "null: never.",
            "unit": "s",
        },
    )
    after_hold: Literal["accept", "release"] = field(
        default="accept",
        metadata={"help": "accept what is seen as the new normal, or release the nodes without learning it."},
    )
    keep: int = field(default=100, metadata={"help": "Ended incidents remembered, for labels."})
    # A severity is reached by strength (statistic over threshold) or by extent (number of nodes alarmed).
    warning_excess: float = field(
        default=1.5, metadata={"help": "Severity is warning from this ratio of statistic to threshold on."}
    )
    warning_nodes: int = field(
        default=3, metadata={"help": "Severity is warning from so many alarmed nodes on."}
    )
    critical_excess: float = field(
        default=3.0, metadata={"help": "Severity is critical from this ratio of statistic to threshold on."}
    )
    critical_nodes: int = field(
        default=10, metadata={"help": "Severity is critical from so many alarmed nodes on."}
    )

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
