"""What the status page follows: a frame a second with the state of every node, and a bounded history."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import numpy as np
from aiohttp import web
from numpy.typing import NDArray

from detector.http.service import Service
from detector.network.network import Network
from detector.pipeline.node_view import SHOWN
from detector.pipeline.status_view import StatusView
from estimators.core.types import Floats32

# One letter per node keeps a frame of a thousand nodes small.
MARKS = {
    "learning": "l", "watching": "w", "suspected": "s", "alarmed": "a", "held": "h", "silent": "x",
    "stuck": "k", "out_of_range": "o",
}  # fmt: skip
_MARKS = np.frombuffer("".join(MARKS[state] for state in SHOWN).encode(), np.uint8)
EVERY_S = 1.0
NODES_PER_FRAME = 5000  # a larger network gets its frames more rarely, so that the traffic stays bounded
KEPT_NUMBERS = 1_000_000  # of the history, per statistic: 4 MB
KEPT_FRAMES = 600


class History:
    """A ring of the latest statistics of one network."""

    def __init__(self, network: Network) -> None:
        self.network = network
        n = network.n_nodes
        length = int(np.clip(KEPT_NUMBERS // max(n, 1), 10, KEPT_FRAMES))
        self._node: Floats32 = np.full((length, n), np.nan, np.float32)
        self._event: Floats32 = np.full((length, n), np.nan, np.float32)
        self._times = np.zeros(length)
        self._count = 0
        self._ticks = -1

    def add(self, view: StatusView) -> None:
        """Keep a view, unless the stream stands still."""
        if view.watermark is None or view.ticks == self._ticks or view.phase != "watching":
            return
        at = self._count % len(self._times)
        self._times[at] = view.watermark
        self._node[at], self._event[at] = view.statistic, view.event_statistic
        self._ticks = view.ticks
        self._count += 1

    def of(self, v: int) -> dict[str, Any]:
        """The statistics of one node, oldest first."""
        length = len(self._times)
        first = max(0, self._count - length)
        rows = np.arange(first, self._count) % length
        return {
            "times": self._times[rows].tolist(),
            "statistic": _short(self._node[rows, v]),
            "event_statistic": _short(self._event[rows, v]),
        }


class Frames:
    """Makes frames of the service's latest view."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.history = History(service.view.network)
        self.version = 1  # of the network: readers fetch it anew when this changes

    def sample(self) -> None:
        """Add the latest view to the history."""
        view = self._service.view
        if self.history.network is not view.network:
            self.history = History(view.network)
            self.version += 1
        self.history.add(view)

    @property
    def pause(self) -> float:
        """Seconds until the next frame."""
        return EVERY_S * max(1.0, self._service.view.network.n_nodes / NODES_PER_FRAME)

    def latest(self) -> bytes:
        """The latest frame in JSON."""
        stage, view = self._service.stage, self._service.view
        frame = {
            "time": time.time(),
            "stage": None if stage is None else {"name": stage[0], "share": stage[1]},
            "network": self.version,
            "states": _MARKS[view.shown_states].tobytes().decode(),
            "statistic": _short(view.statistic),
            "threshold": view.threshold,
            "event_threshold": view.event_threshold,
            "phase": view.phase,
            "progress": view.progress,
            "watermark": view.watermark,
            "ticks": view.ticks,
            "accepted": view.counts.get("accepted", 0),
            "incidents": len(view.open_incidents),
        }
        return msgspec.json.encode(frame)


def _short(values: NDArray[Any]) -> list[float]:
    """Two digits are enough to draw; JSON has no NaN, the encoder writes null."""
    rounded: list[float] = np.round(values.astype(np.float64), 2).tolist()
    return rounded


FRAMES: web.AppKey[Frames] = web.AppKey("frames")
