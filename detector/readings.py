"""What others read of a pipeline: pages, metrics, reports, the Python faces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from detector.align import Aligner
    from detector.coverage import Coverage
    from detector.engine import Engine
    from detector.history import History
    from detector.incidents import Incidents
    from detector.learnt import Report
    from detector.network import Network
    from detector.river_engine import RiverEngine
    from detector.screen import Screen
    from detector.settings import Settings

Floats = NDArray[np.float64]
STATES = ("learning", "watching", "suspected", "alarmed", "stuck", "silent")  # the first two by readiness


class Readings:
    """The side of a `Pipeline` that changes nothing."""

    settings: Settings
    network: Network
    aligner: Aligner
    history: History | None
    engine: Engine | RiverEngine | None
    report: Report | None
    incidents: Incidents
    cover: Coverage
    screen: Screen | None
    silent: NDArray[np.bool_]
    stuck: NDArray[np.bool_]

    @property
    def names(self) -> tuple[str, ...]:
        return self.network.names

    @property
    def phase(self) -> Literal["learning", "watching"]:
        return "learning" if self.engine is None else "watching"

    @property
    def counts(self) -> dict[str, int]:
        """Samples by what became of them; ``masked`` ones were accepted, but kept out of the windows."""
        masked = {} if self.screen is None else {"masked": int(self.screen.masked.sum())}
        return self.aligner.counts | masked

    @property
    def watermark(self) -> float | None:
        return self.aligner.watermark

    @property
    def behind(self) -> float | None:
        return self.aligner.behind

    @property
    def progress_learning(self) -> float:
        """Share of the learning period seen, 0 to 1."""
        return 1.0 if self.history is None else self.history.share(self.settings.alarm.learn)

    @property
    def statistic(self) -> Floats:
        return self.engine.node if self.engine else np.full(self.network.n_nodes, np.nan)

    @property
    def event_statistic(self) -> Floats:
        return self.engine.event if self.engine else np.full(self.network.n_nodes, np.nan)

    @property
    def scores(self) -> Floats:
        return self.engine.scores if self.engine else np.full((self.network.n_nodes, 1), np.nan)

    @property
    def threshold(self) -> float:
        return self.report.threshold if self.report else float("nan")

    @property
    def event_threshold(self) -> float:
        return self.report.event_threshold if self.report else float("nan")

    @property
    def promised_rate(self) -> float:
        """False incidents per second of stream time that the budget allows; NaN where nothing is promised."""
        return self.report.promised / self.report.step if self.report else float("nan")

    @property
    def residual(self) -> float:
        return self.engine.residual if self.engine else float("nan")

    @property
    def sweeps(self) -> int:
        return self.settings.estimator.sweeps

    @property
    def dictionary_size(self) -> int:
        return self.engine.atoms if self.engine else 0

    @property
    def node_states(self) -> list[str]:
        """learning, watching, suspected, alarmed, silent or stuck, per node."""
        return [STATES[state] for state in self._states().tolist()]

    @property
    def state_counts(self) -> dict[str, int]:
        """How many nodes are in each state that any is in."""
        return {STATES[k]: n for k, n in enumerate(np.bincount(self._states()).tolist()) if n}

    def _states(self) -> NDArray[np.intp]:
        """Index into `STATES`, per node."""
        states = np.isfinite(self.statistic).astype(np.intp)
        for v, owner in self.incidents.roster.owner.items():
            member = self.incidents.open[owner].members[self.names[v]]
            states[v] = STATES.index("suspected" if member.suspected else "alarmed")
        states[self.stuck] = STATES.index("stuck")
        states[self.silent] = STATES.index("silent")
        return states

    @property
    def coverage(self) -> float:
        """How well the dictionary covers what comes in; 1 until it was looked at."""
        return self.cover.value
