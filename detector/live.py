"""What the status page follows: a frame a second with the state of every node, and a bounded history of them.

Frames and records go out over one connection, `/api/v1/live`: browsers allow few connections to one host.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from aiohttp import hdrs, web
from numpy.typing import NDArray

from detector.network import Network
from detector.pipeline import Pipeline
from detector.records import Record
from detector.views import shown_states

if TYPE_CHECKING:
    from detector.daemon import Daemon

Floats = NDArray[np.float32]

# One letter per node keeps a frame of a thousand nodes small.
LETTERS = {
    "learning": "l", "watching": "w", "suspected": "s", "alarmed": "a", "held": "h", "silent": "x",
    "stuck": "k",
}  # fmt: skip
EVERY_S = 1.0
NODES_PER_FRAME = 5000  # a larger network gets its frames more rarely, so that the traffic stays bounded
KEPT_NUMBERS = 1_000_000  # of the history, per statistic: 4 MB
KEPT_FRAMES = 600
BACKLOG = 200  # messages waiting for one reader; a slower one is cut off and comes back


@dataclass(frozen=True)
class Look:
    """One look into the pipeline: copies, to be read from any thread."""

    network: Network
    components: tuple[str, ...]
    states: str
    statistic: Floats
    event_statistic: Floats
    threshold: float
    event_threshold: float
    phase: str
    progress: float
    watermark: float | None
    ticks: int
    accepted: int
    incidents: int


def look(pipeline: Pipeline) -> Look:
    """Runs in the pipeline's thread."""
    return Look(
        network=pipeline.network,
        components=pipeline.components,
        states="".join(LETTERS[state] for state in shown_states(pipeline)),
        statistic=pipeline.statistic.astype(np.float32),
        event_statistic=pipeline.event_statistic.astype(np.float32),
        threshold=float(pipeline.threshold),
        event_threshold=float(pipeline.event_threshold),
        phase=pipeline.phase,
        progress=float(pipeline.progress_learning),
        watermark=pipeline.watermark,
        ticks=pipeline.ticks,
        accepted=pipeline.counts.get("accepted", 0),
        incidents=len(pipeline.incidents.open),
    )


class History:
    """A ring of the latest looks at one network."""

    def __init__(self, network: Network) -> None:
        self.network = network
        n = network.n_nodes
        length = int(np.clip(KEPT_NUMBERS // max(n, 1), 10, KEPT_FRAMES))
        self._node: Floats = np.full((length, n), np.nan, np.float32)
        self._event: Floats = np.full((length, n), np.nan, np.float32)
        self._times = np.zeros(length)
        self._count = 0
        self._ticks = -1

    def add(self, seen: Look) -> None:
        """Keep a look, unless the stream stands still."""
        if seen.watermark is None or seen.ticks == self._ticks or seen.phase != "watching":
            return
        at = self._count % len(self._times)
        self._times[at] = seen.watermark
        self._node[at], self._event[at] = seen.statistic, seen.event_statistic
        self._ticks = seen.ticks
        self._count += 1

    def of(self, v: int) -> dict[str, Any]:
        """The course of one node, oldest first."""
        length = len(self._times)
        first = max(0, self._count - length)
        rows = np.arange(first, self._count) % length
        return {
            "times": self._times[rows].tolist(),
            "statistic": _short(self._node[rows, v]),
            "event_statistic": _short(self._event[rows, v]),
        }


class Live:
    """Looks into the pipeline again and again, and tells all readers."""

    def __init__(self, daemon: Daemon, endless: Callable[[asyncio.BaseTransport | None], None]) -> None:
        self._daemon, self._endless = daemon, endless
        self._readers: set[asyncio.Queue[bytes | None]] = set()
        self._asked: asyncio.Future[Look] | None = None
        self.latest: Look | None = None
        self.history: History | None = None
        self.version = 0  # of the network: readers fetch it anew when this changes
        daemon.listeners.append(self._publish)

    async def run(self) -> None:
        while True:
            await self.sample()
            if self._readers:
                self._send(self._frame())
            await asyncio.sleep(self._pause())

    def _pause(self) -> float:
        nodes = self.latest.network.n_nodes if self.latest is not None else 0
        return EVERY_S * max(1.0, nodes / NODES_PER_FRAME)

    async def sample(self) -> None:
        """Look, if the pipeline has time: a calibration under way answers much later."""
        worker = self._daemon.worker
        if self._asked is None:
            self._asked = asyncio.ensure_future(worker.run(worker.ask, look))
        await asyncio.wait([self._asked], timeout=EVERY_S)
        if not self._asked.done():
            return
        asked, self._asked = self._asked, None
        if asked.cancelled() or asked.exception() is not None:
            return
        self.latest = seen = asked.result()
        if self.history is None or self.history.network is not seen.network:
            self.history = History(seen.network)
            self.version += 1
        self.history.add(seen)

    def stop(self) -> None:
        for queue in self._readers:
            while queue.full():
                queue.get_nowait()
            queue.put_nowait(None)

    def _frame(self) -> bytes:
        stage, seen = self._daemon.worker.stage, self.latest
        frame: dict[str, Any] = {
            "time": time.time(),
            "stage": None if stage is None else {"name": stage[0], "share": stage[1]},
        }
        if seen is not None:
            frame |= {
                "network": self.version,
                "states": seen.states,
                "statistic": _short(seen.statistic),
                "threshold": seen.threshold,
                "event_threshold": seen.event_threshold,
                "phase": seen.phase,
                "progress": seen.progress,
                "watermark": seen.watermark,
                "ticks": seen.ticks,
                "accepted": seen.accepted,
                "incidents": seen.incidents,
            }
        return _message("frame", msgspec.json.encode(frame))

    def _publish(self, records: Sequence[Record]) -> None:
        for record in records:
            self._send(_message("record", record.body))

    def _send(self, message: bytes) -> None:
        for queue in list(self._readers):
            if queue.full():
                self._readers.discard(queue)
                queue.get_nowait()
                queue.put_nowait(None)
            else:
                queue.put_nowait(message)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if len(self._readers) >= self._daemon.config.http.max_event_clients:
            return web.json_response({"error": "too many readers"}, status=503)
        self._endless(request.transport)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(BACKLOG)
        self._readers.add(queue)
        response = web.StreamResponse(
            headers={hdrs.CONTENT_TYPE: "text/event-stream", hdrs.CACHE_CONTROL: "no-store"}
        )
        try:
            await response.prepare(request)
            await response.write(self._frame())
            while (message := await queue.get()) is not None:
                await response.write(message)
        except (ConnectionError, OSError):
            pass  # the reader is gone
        finally:
            self._readers.discard(queue)
        return response


def _short(values: Floats) -> list[float]:
    """Two digits are enough to draw; JSON has no NaN, the encoder writes null."""
    rounded: list[float] = np.round(values.astype(np.float64), 2).tolist()
    return rounded


def _message(kind: str, body: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), body)
