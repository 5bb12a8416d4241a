"""The detector on a recording: its event statistic, and its own incidents at its own threshold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from recordings.harness import PER, Alarms
from recordings.sets import GRACE, Recording

from detector import NetworkDetector
from detector.incidents.incident import Incident

NEVER = "1 per 1000000000 ticks"  # a budget that opens no incident
PREPROCESS = {"difference": "auto", "whiten": "auto"}
BANKS = ((250, (5, 10, 25, 100, 200)), (100, (5, 10, 25, 50)), (60, (5, 10, 25)))


def windows(n_history: int) -> dict[str, Any]:
    """The largest bank of windows of which the history holds two."""
    reference, tests = next((b for b in BANKS if n_history >= 2 * (b[0] + b[1][-1])), BANKS[-1])
    return {"reference": reference, "tests": tests}


def watch(
    rec: Recording, budget: str = f"1 per {PER} ticks", **estimator: Any
) -> Iterator[tuple[NDArray[np.float32], Alarms, NDArray[np.float64]]]:
    """Of every stream, each from the state after learning: statistic (T, N), alarms, and promise.

    The promise (T,) is what the detector says of itself: false incidents per tick, as of each tick.
    ``estimator``: settings of that group.
    """
    T = len(rec.history)
    settings: dict[str, Any] = {
        "alarm": {"budget": budget},
        "preprocess": PREPROCESS,
        "windows": windows(T),
        "estimator": estimator,
        # An event that lasts is accepted, so that the next one can be found.
        "incidents": {"hold_for": 100.0, "cool_down": 0.0},
    }
    learning = NetworkDetector(rec.network, **settings)
    learning.learn(rec.history)
    arrays, meta = learning.state()
    for x, _ in rec.streams:
        detector = NetworkDetector.from_state(rec.network, arrays, meta, **settings)
        S, promised = np.full(x.shape[:2], np.nan, np.float32), np.zeros(len(x))
        told = Told()
        for t, row in enumerate(x):
            detector.update(row, time=T + t + 0.5)
            S[t], promised[t] = (
                detector.event_statistic,
                detector.pipeline.promised_rate,
            )  # a tick is a second
            told.look(t, detector.pipeline.incidents.open)
        yield S, told.alarms, promised


class Told:
    """What an operator is told: an incident opens, or grows again after a pause of GRACE ticks."""

    def __init__(self) -> None:
        self.alarms: Alarms = []
        self._known: dict[str, set[str]] = {}  # incident: its nodes so far
        self._grew: dict[str, tuple[int, int]] = {}  # incident: its latest alarm, tick of its latest node

    def look(self, t: int, incidents: dict[str, Incident]) -> None:
        for incident in incidents.values():
            known = self._known.setdefault(incident.id, set())
            joined = incident.members.keys() - known
            if not joined:
                continue
            latest, last = self._grew.get(incident.id, (0, -GRACE - 1))
            if t - last > GRACE:
                latest = len(self.alarms)
                self.alarms.append((t, set()))
            self.alarms[latest][1].update(joined)
            known |= joined
            self._grew[incident.id] = (latest, t)
