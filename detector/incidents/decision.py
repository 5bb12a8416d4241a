"""From statistics to incidents: where an event may begin, which nodes belong to one, which are still warm.

Decisions and evidence go in, actions on the windows come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from detector.alignment.ticks import Tick
from detector.engines.base import Engine
from detector.engines.calibration_report import CalibrationReport
from detector.settings.core import Settings
from estimators.core.types import Bools, Floats
from estimators.streaming.membership import Membership

if TYPE_CHECKING:
    from detector.incidents.tracker import IncidentTracker  # it takes decisions


@dataclass(frozen=True)
class Decision:
    """What the statistics say at the end of a tick; arrays over the N nodes."""

    time: float  # end of the tick, in the stream's own time
    tick: int
    hot: Bools  # event statistic over its threshold: may open an incident
    member: Bools  # node statistic says: belongs to an event, if there is one here
    warm: Bools  # node statistic over the lower release level (hysteresis)
    statistic: Floats  # of the node itself; NaN: undecided
    event_statistic: Floats  # pooled around the node; NaN: undecided
    threshold: float  # of the node statistic
    event_threshold: float
    silent: Bools
    stuck: Bools
    ready: Bools
    step: float = 1.0  # time between ticks

    def __post_init__(self) -> None:
        # Plain floats whatever came in, so that records are the same before and after a restart.
        for name in ("time", "threshold", "event_threshold"):
            object.__setattr__(self, name, float(getattr(self, name)))


@dataclass
class Actions:
    """What the windows must do now: freeze references, let them go, or restart them after a time."""

    hold: list[int] = field(default_factory=list)
    release: list[int] = field(default_factory=list)
    forget: dict[int, float] = field(default_factory=dict)  # node: test windows begin at this time
    rebaseline: dict[int, float] = field(default_factory=dict)  # node: keep only samples from this time on
    restore: dict[int, float] = field(default_factory=dict)  # node: back to its earlier normal since then


class Evidence(Protocol):
    """What the windows hold about node v; the pipeline implements it."""

    @property
    def components(self) -> Sequence[str]:
        """Names of the d components."""

    def units(self, v: int) -> Sequence[str]:
        """Units of the d components of this node; empty: none were given."""

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

    def log_ratios(self, nodes: NDArray[np.int32], since: float) -> dict[int, NDArray[np.float64]]:
        """`log_ratio` of nodes that changed together at ``since``; without those of which it is not known."""

    def membership(self, nodes: NDArray[np.int32], since: float, seeds: Bools) -> Membership | None:
        """How likely each of ``nodes`` changed at ``since`` as ``seeds`` did; None: thresholds alone tell."""

    def between(self, nodes: NDArray[np.int32], first: float, second: float) -> tuple[float, float] | None:
        """Where nodes were between two times: 0 as before, 1 as since the second; error. None: not known."""

    def earlier(self, v: int, latest: int) -> bool:
        """Whether the ``latest`` samples are those of the normal before a change that was accepted."""

    def returned(self, nodes: NDArray[np.int32], since: Floats, latest: int) -> Bools:
        """Whether the ``latest`` samples of nodes that changed ``since`` then are as before the change."""


def decide(
    tick: Tick,
    engine: Engine,
    report: CalibrationReport,
    incidents: IncidentTracker,
    settings: Settings,
    silent: Bools,
    stuck: Bools,
    event_threshold: float,
) -> Decision:
    """What the statistics say at the end of ``tick``."""
    able = ~(silent | stuck)  # these have events of their own
    node, event = engine.node, engine.event
    with np.errstate(invalid="ignore"):  # NaN, undecided, is over no threshold
        hot = event > event_threshold
        member = node > report.threshold
        warm = node > settings.alarm.release * report.threshold
        if incidents.open:
            settled = (node > event_threshold) | ~_recovered(incidents, settings.incidents.clear_after)
            member, warm = member & settled, warm & settled
    return Decision(
        tick.end, tick.index, hot & able, member & able, warm & able, node.copy(), event.copy(),
        report.threshold, event_threshold, silent.copy(), stuck.copy(), np.isfinite(node), report.step,
    )  # fmt: skip


def _recovered(incidents: IncidentTracker, clear_after: int) -> Bools:
    """Nodes of incidents that came back to quiet. It is believed: else the many nodes of a large incident,
    each now and then over a bar meant for one, would keep each other from ever being all cool at once."""
    states = incidents.states
    owned = np.zeros(states.graph.n_nodes, np.bool_)
    owned[list(states.owner)] = True
    return np.asarray(owned & (states.cool_row >= clear_after))
