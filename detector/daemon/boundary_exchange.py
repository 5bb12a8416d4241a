"""The task that carries messages between boxes of one network: signs and sends, checks and hands over.

What is heard waits here until the pipeline's next turn; what is told goes out as fast as the sink takes it,
and where that is too slow only the latest. Nothing waits for a neighbour.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

import msgspec

from connectors.base import Sink, Source
from detector.edge import messages
from detector.edge.messages import Refused, Told
from detector.runtime.metrics import Metrics
from detector.runtime.peer_line import PeerLine

log = logging.getLogger("detector.edge")
TIMEOUT_S = 10.0  # of one message on its way out
MOST_IN = 512  # messages that wait for the pipeline


class BoundaryExchange:
    """Lives on the event loop."""

    def __init__(self, box: str, key: bytes, source: Source, sink: Sink, metrics: Metrics) -> None:
        self.box, self._key, self._metrics = box, key, metrics
        self._line = PeerLine("edge", source, sink, messages.MAX_BYTES, TIMEOUT_S)
        self._in: deque[bytes] = deque()
        self._out: deque[Told] = deque()
        self._news = asyncio.Event()

    @property
    def error(self) -> str | None:
        """Why nobody can be heard; None: connected."""
        return self._line.error

    async def run(self) -> None:
        """Listen and send until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._line.listen(self._hear, lambda count: self._count("malformed", count)))
            tasks.create_task(self._send())

    # ---------------------------------------------------------------------------------- what is heard

    async def _hear(self, payload: bytes) -> None:
        self._metrics.count("boundary_bytes_total", len(payload), direction="heard")
        try:
            body = messages.verified(payload, self._key)
        except Refused as refused:
            self._refuse(refused.outcome, str(refused))
            return
        self._in.append(body)
        if len(self._in) > MOST_IN:
            self._in.popleft()
            self._count("dropped")

    def take(self) -> list[bytes]:
        """What was heard since the last turn of the pipeline, in order."""
        bodies = list(self._in)
        self._in.clear()
        return bodies

    def after(self, heard: Sequence[tuple[str, str]], told: Sequence[Told]) -> None:
        """A turn has ended: what became of messages, and what is to be told: of the latest tick only."""
        for outcome, text in heard:
            if outcome in ("heard", "learning", "late", "other"):  # as it must be, now and then
                self._count(outcome)
            else:
                self._refuse(outcome, text)
        if told:
            latest = [one for one in told if one.age_key == told[-1].age_key]
            self._count("dropped", len(self._out) + len(told) - len(latest))
            self._out = deque(latest)
            self._news.set()

    # ---------------------------------------------------------------------------------- what is told

    async def _send(self) -> None:
        while True:
            self._news.clear()
            while self._out:
                record = messages.record(self._out.popleft(), self._key)
                if (error := await self._line.send(record)) is not None:
                    self._refuse("failed", f"cannot send: {error}")
                else:
                    self._count("sent")
                    size = len(msgspec.json.encode(record))
                    self._metrics.count("boundary_bytes_total", size, direction="sent")
            await self._news.wait()

    def _refuse(self, outcome: str, text: str) -> None:
        self._count(outcome)
        log.warning("edge: %s", text, extra={"repeat": f"edge {outcome}"})

    def _count(self, outcome: str, count: int = 1) -> None:
        if count:
            self._metrics.count("boundary_messages_total", count, outcome=outcome)
