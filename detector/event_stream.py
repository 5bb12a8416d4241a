"""`/api/v1/events`: every record as it is made, as server-sent events; bounded per reader."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiohttp import hdrs, web

from detector.database import StateError
from detector.metrics import Metrics
from detector.records import Record

if TYPE_CHECKING:
    from detector.daemon import Daemon

BACKLOG = 1000  # records waiting for one reader; a slower one is cut off
KEEPALIVE_S = 15.0
CATCH_UP = 1000  # stored records given to a reader that comes back


class EventStream:
    """All readers."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._metrics: Metrics = daemon.metrics
        self._readers: set[asyncio.Queue[Record | None]] = set()
        daemon.listeners.append(self._publish)

    def _publish(self, records: Sequence[Record]) -> None:
        for queue in list(self._readers):
            for record in records:
                if queue.full():
                    # It may come back with Last-Event-ID and miss nothing that is stored.
                    self._readers.discard(queue)
                    self._metrics.count("event_clients_dropped_total")
                    queue.get_nowait()
                    queue.put_nowait(None)
                    break
                queue.put_nowait(record)

    def stop(self) -> None:
        for queue in self._readers:
            while queue.full():
                queue.get_nowait()
            queue.put_nowait(None)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if len(self._readers) >= self._daemon.config.http.max_event_clients:
            return web.json_response({"error": "too many readers"}, status=503)
        queue: asyncio.Queue[Record | None] = asyncio.Queue(BACKLOG)
        self._readers.add(queue)
        self._metrics.set("event_clients", len(self._readers))
        response = web.StreamResponse(
            headers={hdrs.CONTENT_TYPE: "text/event-stream", hdrs.CACHE_CONTROL: "no-store"}
        )
        try:
            await response.prepare(request)
            await response.write(b": detector\n\n")
            for missed in await self._missed(request.headers.get("Last-Event-ID")):
                await response.write(_event(missed))
            while True:
                try:
                    async with asyncio.timeout(KEEPALIVE_S):
                        record = await queue.get()
                except TimeoutError:
                    await response.write(b": still here\n\n")
                    continue
                if record is None:
                    break
                await response.write(_event(record))
        except (ConnectionError, OSError):
            pass  # the reader is gone
        finally:
            self._readers.discard(queue)
            self._metrics.set("event_clients", len(self._readers))
        return response

    async def _missed(self, last: str | None) -> list[Record]:
        if not last:
            return []
        recorder = self._daemon.recorder
        try:
            return await recorder.ask(recorder.store.records_after, last, CATCH_UP)
        except StateError:
            return []


def _event(record: Record) -> bytes:
    """Ids and kinds are ours and hold no line ends; JSON escapes those of the content."""
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (record.id.encode(), record.event.encode(), record.body)
