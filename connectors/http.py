"""Samples pushed to us by HTTP: JSON batches, and InfluxDB line protocol so that Telegraf can send.

The daemon mounts `routes()` on its own application, which brings the listener, TLS, authentication and
connection limits. An answer goes out only after the daemon has committed the batch, and tells what became of
it: 200 with counts, 422 if nothing of it was taken (all late, or of unknown nodes), 400 if none can be read.
"""

from __future__ import annotations

import asyncio
import importlib.util
import secrets as randomness
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import hdrs, web
from pydantic import Field, field_validator

from connectors.base import MAX_SAMPLES, Batch, ConnectorError, Settings, Source, install_line
from connectors.codec.decoder import Decode, Decoder
from connectors.codec.paths import TimeFormat
from connectors.settings.units import Duration

MAX_ID = 128  # characters of a batch id
TOLD = {"node": "unknown_node"}  # "node" alone is a name that cannot be one
PRECISIONS: dict[str, TimeFormat] = {
    "": "unix_ns", "n": "unix_ns", "ns": "unix_ns", "u": "unix_us", "us": "unix_us",
    "ms": "unix_ms", "s": "unix",
}  # fmt: skip


class _Request:
    """One POST between its arrival and its commit."""

    def __init__(self, batch: Batch, batch_id: str | None, number: int) -> None:
        self.batch = batch
        self.batch_id = batch_id
        self.number = number
        self.discarded: dict[str, int] = {}  # what the stream did not take of it, by reason
        self.committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class HttpSource(Source):
    """POST {prefix}/ingest (JSON, CSV) and POST {prefix}/write, /api/v2/write (line protocol).

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

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._decoder = Decoder(config.decode)
        self._influx = Decoder(config.influx)
        self._has_influx = importlib.util.find_spec("line_protocol_parser") is not None
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
            web.post(prefix + "/ingest", self._ingest),
            web.post(prefix + "/write", self._write),
            web.post(prefix + "/api/v2/write", self._write),
            # Telegraf's v1 output asks for its database before it writes.
            web.post(prefix + "/query", self._query),
            web.get(prefix + "/ping", self._ping),
        ]

    async def open(self, position: Any) -> None:
        self._decoder.open()
        if self._has_influx:
            self._influx.open()
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

    async def _ingest(self, request: web.Request) -> web.Response:
        return await self._take(request, self._decoder, None)

    async def _write(self, request: web.Request) -> web.Response:
        if not self._has_influx:
            return _answer(501, f"line protocol needs a library: run  {install_line('influx')}")
        precision = PRECISIONS.get(request.query.get("precision", ""))
        if precision is None:
            return _answer(400, "precision must be ns, us, ms or s")
        return await self._take(request, self._influx, self.config.influx.time_format or precision)

    async def _query(self, request: web.Request) -> web.Response:
        return web.json_response({"results": [{"statement_id": 0}]})

    async def _ping(self, request: web.Request) -> web.Response:
        return web.Response(status=204)

    async def _take(
        self, request: web.Request, decoder: Decoder, time_format: TimeFormat | None
    ) -> web.Response:
        if not self._accepting():
            return _answer(503, "not ready", retry_after=1)
        batch_id = request.headers.get("Idempotency-Key")
        if batch_id is not None and not (0 < len(batch_id) <= MAX_ID and batch_id.isprintable()):
            return _answer(400, f"Idempotency-Key must be 1 to {MAX_ID} printable characters")
        if batch_id in self._done:
            return web.Response(status=204)
        underway = next(
            (r for r in (*self._waiting, *self._reading) if batch_id and r.batch_id == batch_id), None
        )
        if underway is None:
            if self._uploads + len(self._waiting) + len(self._reading) >= self.config.max_pending:
                return _answer(429, "too many requests wait for the commit", retry_after=1)
            self._uploads += 1
            try:
                body = await self._body(request, decoder.config.max_bytes)
            finally:
                self._uploads -= 1
            if isinstance(body, web.Response):
                return body
            batch = Batch()
            # Unpacked already, unless the application was told to leave that to us.
            packed = request.headers.get(hdrs.CONTENT_ENCODING) == "gzip" and body[:2] == b"\x1f\x8b"
            decoder.payload(body, batch, time_format=time_format, gzipped=packed)
            if batch.rejected and not batch.samples:
                self._refuse(batch)
                return _counts(batch, 413 if set(batch.rejected) == {"too_large"} else 400)
            if not self._accepting():
                return _answer(503, "not ready", retry_after=1)
            self._number += 1
            underway = _Request(batch, batch_id, self._number)
            self._waiting.append(underway)
            self._arrived.set()
        return await self._committed(underway, brief=decoder is self._influx)

    async def _committed(self, underway: _Request, brief: bool) -> web.Response:
        """Wait, then tell what became of it; ``brief``: nothing is said if all was taken."""
        try:
            async with asyncio.timeout(self.config.commit_timeout):
                # Shielded: one client giving up must not undo the wait of another with the same id.
                await asyncio.shield(underway.committed)
        except TimeoutError:
            return _answer(503, "not committed in time; send the batch again", retry_after=1)
        except asyncio.CancelledError:
            if underway.committed.cancelled():
                return _answer(503, "closing; send the batch again", retry_after=1)
            raise
        if brief and not underway.batch.rejected and not underway.discarded:
            return web.Response(status=204)
        taken = len(underway.batch.samples) > sum(underway.discarded.values())
        return _counts(underway.batch, 200 if taken else 422, underway.discarded)

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
            return _answer(408, "the body took too long", close=True)
        except (web.RequestPayloadError, OSError, ValueError):
            broken = Batch()
            broken.reject("malformed")
            self._refuse(broken)
            return _answer(400, "the body cannot be read", close=True)
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
        return _answer(413, f"a body may have {limit} bytes, unpacked", close=True)


def _answer(status: int, text: str, *, retry_after: int | None = None, close: bool = False) -> web.Response:
    headers = {hdrs.RETRY_AFTER: str(retry_after)} if retry_after is not None else {}
    answer = web.Response(
        status=status,
        body=msgspec.json.encode({"error": text}),
        content_type="application/json",
        headers=headers,
    )
    if close:
        answer.force_close()
    return answer


def _counts(batch: Batch, status: int, discarded: Mapping[str, int] | None = None) -> web.Response:
    discarded = discarded or {}
    rejected = batch.rejected | {TOLD.get(reason, reason): count for reason, count in discarded.items()}
    accepted = len(batch.samples) - sum(discarded.values())
    facts = {"received": batch.received, "accepted": accepted, "rejected": rejected}
    return web.Response(status=status, body=msgspec.json.encode(facts), content_type="application/json")
