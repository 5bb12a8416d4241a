"""Samples pushed to us by HTTP: JSON, CSV, line protocol, OpenTelemetry metrics, Prometheus remote write.

The daemon mounts `routes()` on its own application, which brings the listener, TLS, authentication and
connection limits. An answer goes out only after the daemon has committed the batch, and tells what became of
it: 200 with counts, 422 if nothing of it was taken (all late, or of unknown nodes), 400 if none can be read.
"""

from __future__ import annotations

import asyncio
import secrets as randomness
from collections import OrderedDict, deque
from functools import partial
from typing import Any

from aiohttp import web
from pydantic import Field, field_validator

from connectors.base import MAX_SAMPLES, Batch, ConnectorError, Settings, Source
from connectors.codec.decoder import Decode
from connectors.codec.series import Series
from connectors.http_bodies import Body, LineProtocol, Mapped, Otlp, RemoteWrite, Unusable, refusal
from connectors.settings.units import Duration

MAX_ID = 128  # characters of a batch id


class _Request:
    """One POST between its arrival and its commit."""

    def __init__(self, batch: Batch, batch_id: str | None, number: int) -> None:
        self.batch = batch
        self.batch_id = batch_id
        self.number = number
        self.discarded: dict[str, int] = {}  # what the stream did not take of it, by reason
        self.committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class HttpSource(Source):
    """Samples pushed over HTTP: JSON, CSV, line protocol, OpenTelemetry, Prometheus remote write.

    POST {prefix}/ingest (JSON, CSV), /write and /api/v2/write (line protocol), /v1/metrics (OTLP) and
    /api/v1/write (remote write).

    With an `Idempotency-Key` header a batch that was committed is not taken twice: the last ids travel
    with the position, so they survive a crash.
    """

    name = "http"
    replayable = False
    urgent = True
    exclusive = "prefix"
    listens = True
    guarantee = "No lost alert, no distinct duplicate, if the client retries until 2xx with a batch id."

    class Config(Settings):
        prefix: str = Field(default="", description="Path before /ingest and /write.")
        decode: Decode = Field(default=Decode(), description="How the body of /ingest is read.")
        influx: Decode = Field(default=Decode(format="influx"), description="How the body of /write is read.")
        otlp: Series = Field(
            default=Series(), description="How OpenTelemetry metrics at /v1/metrics are read."
        )
        remote_write: Series = Field(
            default=Series(), description="How Prometheus remote write at /api/v1/write is read."
        )
        max_pending: int = Field(
            default=64, description="Concurrent requests; further ones get 429.", ge=1, le=10_000
        )
        commit_timeout: Duration = Field(
            default=30.0, description="Longest wait for the commit; then 503.", gt=0
        )
        body_timeout: Duration = Field(default=10.0, description="Longest time to send a body.", gt=0)
        remember: int = Field(default=256, description="Batch ids remembered.", ge=0, le=10_000)

        @field_validator("prefix")
        @classmethod
        def _path(cls, prefix: str) -> str:
            if prefix and (not prefix.startswith("/") or prefix.endswith("/") or set(prefix) & set("{}?# ")):
                raise ValueError("must be empty or a path such as /plant-1")
            return prefix

        @field_validator("influx")
        @classmethod
        def _line_protocol(cls, influx: Decode) -> Decode:
            if influx.format != "influx":
                raise ValueError("format must be influx")
            return influx

    @classmethod
    def requires(cls, config: Any = None) -> dict[str, tuple[str, ...]]:
        """What is configured needs its library; the other paths answer 501 without theirs."""
        needed = super().requires(config)
        for key, body in (("otlp", Otlp), ("remote_write", RemoteWrite)):
            if config is not None and key in config.model_fields_set:
                needed[str(body.extra)] = body.modules
        return needed

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._bodies: dict[str, Body] = {
            "/ingest": Mapped(config.decode),
            "/write": LineProtocol(config.influx),
            "/api/v2/write": LineProtocol(config.influx),
            "/v1/metrics": Otlp(config.otlp),
            "/api/v1/write": RemoteWrite(config.remote_write),
        }
        self._session = randomness.token_hex(4)
        self._number = 0  # of the last request taken
        self._delivery = 0  # of the last request read
        self._open = False
        self._uploads = 0  # bodies being received
        self._waiting: deque[_Request] = deque()  # decoded, not read yet
        self._refused = Batch()  # counts of what was answered with 4xx, for the next read
        self._reading: deque[_Request] = deque()  # read, not committed yet
        self._arrived = asyncio.Event()
        self._done: OrderedDict[str, None] = OrderedDict()  # ids of committed batches
        self._given: OrderedDict[str, None] = OrderedDict()  # the same, and of those read

    def routes(self) -> list[web.RouteDef]:
        """What the daemon mounts on its application."""
        prefix = self.config.prefix
        return [
            *(web.post(prefix + path, partial(self._take, body)) for path, body in self._bodies.items()),
            # Telegraf's v1 output asks for its database before it writes.
            web.post(prefix + "/query", self._query),
            web.get(prefix + "/ping", self._ping),
        ]

    async def open(self, position: Any) -> None:
        for body in self._bodies.values():
            body.open()
        remembered = (position or {}).get("batches", []) if isinstance(position, dict) else []
        for batch_id in remembered:
            self._done[batch_id] = self._given[batch_id] = None
        self._open = True

    async def read(self) -> Batch | None:
        while not self._waiting and not self._refused.received:
            if not self._accepting():
                raise ConnectorError("http is not open", retry=True)
            self._arrived.clear()
            await self._arrived.wait()
        merged, self._refused = self._refused, Batch()
        while self._waiting and len(merged.samples) < MAX_SAMPLES:
            request = self._waiting.popleft()
            self._reading.append(request)
            merged.merge(request.batch)
            merged.accounts.append((len(request.batch.samples), request.discarded))
            self._note(self._given, request.batch_id)
            self._delivery = request.number
        merged.position = {
            "session": self._session,
            "delivery": self._delivery,
            "batches": list(self._given),
        }
        return merged

    async def commit(self, position: Any) -> None:
        if not isinstance(position, dict) or position.get("session") != self._session:
            return
        while self._reading and self._reading[0].number <= position["delivery"]:
            request = self._reading.popleft()
            self._note(self._done, request.batch_id)
            if not request.committed.done():
                request.committed.set_result(None)

    def _note(self, ids: OrderedDict[str, None], batch_id: str | None) -> None:
        if batch_id is not None and self.config.remember:
            ids[batch_id] = None
            ids.move_to_end(batch_id)
            while len(ids) > self.config.remember:
                ids.popitem(last=False)

    async def close(self) -> None:
        """Turn all waiting clients away: none of their batches was committed."""
        self._open = False
        for request in (*self._waiting, *self._reading):
            if not request.committed.done():
                request.committed.cancel()
        self._waiting.clear()
        self._reading.clear()
        self._given = self._done.copy()
        self._arrived.set()

    # -- handlers -----------------------------------------------------------------------------

    async def _query(self, request: web.Request) -> web.Response:
        return web.json_response({"results": [{"statement_id": 0}]})

    async def _ping(self, request: web.Request) -> web.Response:
        return web.Response(status=204)

    async def _take(self, kind: Body, request: web.Request) -> web.Response:
        if not self._accepting():
            return refusal(503, "not ready", retry_after=1)
        try:
            kind.check(request)
        except Unusable as reason:
            return refusal(reason.status, str(reason))
        batch_id = request.headers.get("Idempotency-Key")
        if batch_id is not None and not (0 < len(batch_id) <= MAX_ID and batch_id.isprintable()):
            return refusal(400, f"Idempotency-Key must be 1 to {MAX_ID} printable characters")
        if batch_id in self._done:
            return web.Response(status=204)
        underway = next(
            (r for r in (*self._waiting, *self._reading) if batch_id and r.batch_id == batch_id), None
        )
        if underway is None:
            if self._uploads + len(self._waiting) + len(self._reading) >= self.config.max_pending:
                return refusal(429, "too many requests wait for the commit", retry_after=1)
            self._uploads += 1
            try:
                body = await self._body(request, kind.limit)
            finally:
                self._uploads -= 1
            if isinstance(body, web.Response):
                return body
            batch = Batch()
            remark = kind.read(request, body, batch)
            if not batch.samples:  # nothing to wait for
                self._refuse(batch)
                status = 413 if set(batch.rejected) == {"too_large"} else 400 if batch.rejected else 200
                return kind.told(request, status, batch, {}, remark)
            if not self._accepting():
                return refusal(503, "not ready", retry_after=1)
            self._number += 1
            underway = _Request(batch, batch_id, self._number)
            self._waiting.append(underway)
            self._arrived.set()
        return await self._committed(kind, request, underway)

    async def _committed(self, kind: Body, request: web.Request, underway: _Request) -> web.Response:
        """Wait, then tell what became of it."""
        try:
            async with asyncio.timeout(self.config.commit_timeout):
                # Shielded: one client giving up must not undo the wait of another with the same id.
                await asyncio.shield(underway.committed)
        except TimeoutError:
            return refusal(503, "not committed in time; send the batch again", retry_after=1)
        except asyncio.CancelledError:
            if underway.committed.cancelled():
                return refusal(503, "closing; send the batch again", retry_after=1)
            raise
        taken = len(underway.batch.samples) > sum(underway.discarded.values())
        return kind.told(request, 200 if taken else 422, underway.batch, underway.discarded)

    async def _body(self, request: web.Request, limit: int) -> bytes | web.Response:
        """The body within cap and deadline; aiohttp unpacks gzip piece by piece, so a bomb stops early."""
        if (request.content_length or 0) > limit:
            return self._refuse_size(limit)
        body = bytearray()
        try:
            async with asyncio.timeout(self.config.body_timeout):
                async for chunk in request.content.iter_any():
                    body += chunk
                    if len(body) > limit:
                        return self._refuse_size(limit)
        except TimeoutError:
            return refusal(408, "the body took too long", close=True)
        except (web.RequestPayloadError, OSError, ValueError):
            broken = Batch()
            broken.reject("malformed")
            self._refuse(broken)
            return refusal(400, "the body cannot be read", close=True)
        return bytes(body)

    def _accepting(self) -> bool:
        return self._open

    def _refuse(self, batch: Batch) -> None:
        """Count what will not be waited for; no more than numbers are kept of it."""
        self._refused.merge(batch)
        self._arrived.set()

    def _refuse_size(self, limit: int) -> web.Response:
        batch = Batch()
        batch.reject("too_large")
        self._refuse(batch)
        return refusal(413, f"a body may have {limit} bytes, unpacked", close=True)
