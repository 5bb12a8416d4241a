"""What the console follows: a frame a second with the state of every node."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from aiohttp import web
from numpy.typing import NDArray

from detector.http.service import Service
from detector.pipeline.node_view import SHOWN

# One letter per node keeps a frame of a thousand nodes small.
MARKS = {
    "learning": "l", "watching": "w", "suspected": "s", "alarmed": "a", "held": "h", "silent": "x",
    "stuck": "k", "out_of_range": "o",
}  # fmt: skip
_MARKS = np.frombuffer("".join(MARKS[state] for state in SHOWN).encode(), np.uint8)
EVERY_S = 1.0
RATE_FRAMES = 11  # over which samples per second are counted
NODES_PER_FRAME = 5000  # a larger network gets its frames more rarely, so that the traffic stays bounded


class Frames:
    """Makes frames of the service's latest view."""

    clock: Callable[[], float] = staticmethod(time.monotonic)

    def __init__(self, service: Service) -> None:
        self._service = service
        self._network = service.view.network
        self.version = 1  # of the network: readers fetch it anew when this changes
        self._accepted: deque[tuple[float, int]] = deque(maxlen=RATE_FRAMES)
        self._latest = self.clock()  # new sample, or start

    def sample(self) -> None:
        """See whether the network is another one by now."""
        if self._network is not self._service.view.network:
            self._network = self._service.view.network
            self.version += 1
        now, accepted = self.clock(), self._service.view.counts.get("accepted", 0)
        if self._accepted and accepted != self._accepted[-1][1]:
            self._latest = now
        self._accepted.append((now, accepted))

    @property
    def idle(self) -> float:
        """Seconds without a new sample."""
        return self.clock() - self._latest

    @property
    def rate(self) -> float | None:
        """Samples accepted per second, lately; None before there are two looks at the counter."""
        if len(self._accepted) < 2:
            return None
        (begin, first), (end, last) = self._accepted[0], self._accepted[-1]
        return max(0, last - first) / (end - begin) if end > begin else None

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
            "rate": self.rate,
            "idle": round(self.idle, 1),
            "step": self._service.step,
            "queue": self._service.queue,
            "incidents": len(view.open_incidents),
        }
        return msgspec.json.encode(frame)


def _short(values: NDArray[Any]) -> list[float]:
    """Two digits are enough to draw; JSON has no NaN, the encoder writes null."""
    rounded: list[float] = np.round(values.astype(np.float64), 2).tolist()
    return rounded


FRAMES: web.AppKey[Frames] = web.AppKey("frames")
