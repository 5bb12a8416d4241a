"""Server-sent events: one hub for `/api/v1/events` (records) and `/api/v1/live` (records and frames).

All readers together are at most `http.max_event_clients`. At the limit the client with the most streams loses
its oldest one: idle streams of one client lock nobody out. What waits for a reader is bounded, too: of frames
only the latest, of records `BACKLOG`; a slower reader is cut off and counted. It may come back with
Last-Event-ID and misses nothing that is stored.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiohttp import hdrs, web

from detector.http.answers import Problem
from detector.http.frames import Frames
from detector.http.service import Service
from detector.storage.database import StateError
from detector.storage.records import Record

BACKLOG = 1000  # records waiting for one reader
KEEPALIVE_S = 15.0
WRITE_S = 30.0  # longest time that a reader may take to accept what is written to it
CATCH_UP = 1000  # stored records given to a reader that comes back
REPLACED = b'event: replaced\ndata: {"reason":"too many streams"}\n\n'


@dataclass(eq=False)
class Reader:
    """One stream, and what waits for it."""

    client: str  # address
    frames: bool  # whether it wants them
    transport: asyncio.BaseTransport | None = None
    records: deque[Record] = field(default_factory=deque)
    frame: bytes | None = None
    ended: str | None = None  # why
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self) -> bytes:
        """Everything that waits."""
        self.wake.clear()
        parts = [_event(record) for record in self.records]
        if self.frame is not None:
            parts.append(b"event: frame\ndata: %b\n\n" % self.frame)
        self.records.clear()
        self.frame = None
        return b"".join(parts)

    def end(self, reason: str) -> None:
        self.ended = reason
        self.wake.set()


class Hub:
    """All readers, oldest first."""

    def __init__(self, service: Service, frames: Frames) -> None:
        self._service, self._frames = service, frames
        self._readers: list[Reader] = []
        service.listen(self.publish)

    async def run(self) -> None:
        """Make frames, as long as the server runs."""
        while True:
            self._frames.sample()
            wanted = [reader for reader in self._readers if reader.frames]
            frame = self._frames.latest() if wanted else None
            for reader in wanted:
                reader.frame = frame
                reader.wake.set()
            await asyncio.sleep(self._frames.pause)

    def publish(self, records: Sequence[Record]) -> None:
        for reader in list(self._readers):
            if len(reader.records) + len(records) > BACKLOG:
                self._cut(reader, "slow")
                continue
            reader.records.extend(records)
            reader.wake.set()

    def stop(self) -> None:
        """End all streams, so that a stopping server need not wait for their readers."""
        for reader in self._readers:
            reader.end("stopping")

    async def serve(self, request: web.Request, *, frames: bool) -> web.StreamResponse:
        """One stream, until its reader goes, is too slow or is replaced."""
        reader = self._admit(request, frames)
        response = web.StreamResponse(
            headers={hdrs.CONTENT_TYPE: "text/event-stream", hdrs.CACHE_CONTROL: "no-store"}
        )
        try:
            await response.prepare(request)
            await _write(response, b": detector\n\n" + await self._missed(request, reader))
            if frames:
                reader.frame = self._frames.latest()
                reader.wake.set()
            while reader.ended is None:
                try:
                    async with asyncio.timeout(KEEPALIVE_S):
                        await reader.wake.wait()
                except TimeoutError:
                    await _write(response, b": still here\n\n")
                    continue
                await _write(response, reader.take())
            if reader.ended == "replaced":
                await _write(response, REPLACED)
        except TimeoutError:
            self._cut(reader, "slow")
        except OSError:
            pass  # the reader is gone
        finally:
            self._remove(reader)
        return response

    def _admit(self, request: web.Request, frames: bool) -> Reader:
        reader = Reader(request.remote or "", frames, request.transport)
        if len(self._readers) >= self._service.settings.max_event_clients:
            streams = Counter(other.client for other in (*self._readers, reader))
            largest = [other for other in self._readers if streams[other.client] == max(streams.values())]
            if max(streams.values()) == 1 or not largest:
                raise Problem(503, "too many readers (http.max_event_clients)")
            self._cut(largest[0], "replaced")
        self._readers.append(reader)
        self._count()
        return reader

    def _cut(self, reader: Reader, reason: str) -> None:
        if reader not in self._readers:
            return
        self._remove(reader)
        self._service.metrics.count("event_clients_dropped_total", reason=reason)
        reader.end(reason)
        if reason == "slow" and isinstance(reader.transport, asyncio.WriteTransport):
            reader.transport.abort()  # it does not read: an orderly end would wait for it

    def _remove(self, reader: Reader) -> None:
        if reader in self._readers:
            self._readers.remove(reader)
            self._count()

    def _count(self) -> None:
        self._service.metrics.set("event_clients", len(self._readers))

    async def _missed(self, request: web.Request, reader: Reader) -> bytes:
        """What was stored since the reader's last record; it is not sent again from the queue."""
        last = request.headers.get("Last-Event-ID")
        if not last:
            return b""
        try:
            missed = await self._service.records_after(last, CATCH_UP)
        except StateError:
            return b""
        known = {record.id for record in missed}
        waiting = [record for record in reader.records if record.id not in known]
        reader.records = deque(waiting)
        return b"".join(map(_event, missed))


async def _write(response: web.StreamResponse, message: bytes) -> None:
    async with asyncio.timeout(WRITE_S):
        await response.write(message)


def _event(record: Record) -> bytes:
    """Ids and kinds are ours and hold no line ends; JSON escapes those of the content."""
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (record.id.encode(), record.event.encode(), record.body)


HUB: web.AppKey[Hub] = web.AppKey("hub")


async def events(request: web.Request) -> web.StreamResponse:
    return await request.app[HUB].serve(request, frames=False)


async def live(request: web.Request) -> web.StreamResponse:
    return await request.app[HUB].serve(request, frames=True)
