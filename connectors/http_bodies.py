"""What other programs push by HTTP: for each path how a body is read, and how its sender is answered."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping

import msgspec
from aiohttp import hdrs, web

from connectors.base import Batch, install_line, installed
from connectors.codec import otlp, remote_write
from connectors.codec.decoder import Decode, Decoder, unpack
from connectors.codec.paths import Rejected, TimeFormat
from connectors.codec.series import Series, SeriesReader

TOLD = {"node": "unknown_node"}  # "node" alone is a name that cannot be one
PRECISIONS: dict[str, TimeFormat] = {
    "": "unix_ns", "n": "unix_ns", "ns": "unix_ns", "u": "unix_us", "us": "unix_us",
    "ms": "unix_ms", "s": "unix",
}  # fmt: skip


class Unusable(Exception):
    """A request that is not read at all: the status, and why."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Body(ABC):
    """The bodies of one path."""

    limit: int  # bytes, unpacked
    extra: str | None = None
    modules: tuple[str, ...] = ()
    silent = False  # if all was taken, the answer is 204 without a body

    def open(self) -> None:
        """Load what reading needs."""
        return

    def check(self, request: web.Request) -> None:
        """Raise `Unusable` for a request that says of itself that it cannot be read."""
        if self.extra is not None and not all(map(installed, self.modules)):
            raise Unusable(501, f"this needs a library: run  {install_line(self.extra)}")

    @abstractmethod
    def read(self, request: web.Request, body: bytes, into: Batch) -> str:
        """Accept or count everything; a remark for the sender, or nothing."""

    def told(self, request: web.Request, status: int, batch: Batch, discarded: Mapping[str, int],
             remark: str = "") -> web.Response:  # fmt: skip
        """What became of the batch; ``discarded``: by the stream, by reason."""
        if self.silent and not batch.rejected and not discarded:
            return web.Response(status=204)
        return counts(batch, status, discarded)


class Mapped(Body):
    """JSON or CSV, by the mapping of the configuration."""

    def __init__(self, config: Decode) -> None:
        self.limit = config.max_bytes
        self._decoder = Decoder(config)

    def open(self) -> None:
        self._decoder.open()

    def read(self, request: web.Request, body: bytes, into: Batch) -> str:
        self._decoder.payload(body, into, gzipped=_packed(request, body))
        return ""


class LineProtocol(Mapped):
    """InfluxDB line protocol, as Telegraf sends it. Nothing is said if all was taken."""

    extra, modules = "influx", ("line_protocol_parser",)
    silent = True

    def __init__(self, config: Decode) -> None:
        super().__init__(config)
        self._time_format = config.time_format

    def open(self) -> None:
        if all(map(installed, self.modules)):
            super().open()

    def check(self, request: web.Request) -> None:
        super().check(request)
        if request.query.get("precision", "") not in PRECISIONS:
            raise Unusable(400, "precision must be ns, us, ms or s")

    def read(self, request: web.Request, body: bytes, into: Batch) -> str:
        time_format = self._time_format or PRECISIONS[request.query.get("precision", "")]
        self._decoder.payload(body, into, time_format=time_format, gzipped=_packed(request, body))
        return ""


class RemoteWrite(Body):
    """Prometheus remote write. What is refused is answered with 4xx, after which nobody sends it again."""

    extra, modules = remote_write.EXTRA, remote_write.MODULES
    silent = True

    def __init__(self, config: Series) -> None:
        self.limit = config.max_bytes
        self._reader = SeriesReader(config)

    def check(self, request: web.Request) -> None:
        super().check(request)
        if "io.prometheus.write.v2" in request.headers.get(hdrs.CONTENT_TYPE, ""):
            raise Unusable(415, "version 1 of remote write is understood (prometheus.WriteRequest)")
        if request.headers.get(hdrs.CONTENT_ENCODING, "snappy") != "snappy":
            raise Unusable(415, "the body must be compressed by snappy")

    def read(self, request: web.Request, body: bytes, into: Batch) -> str:
        try:
            self._reader.read(remote_write.remote_points(body, self.limit), into)
        except Rejected as refused:
            into.reject(refused.reason)
        return ""


class Otlp(Body):
    """OpenTelemetry metrics. What was refused of a request that can be read is told in a partial success."""

    extra, modules = otlp.EXTRA, otlp.MODULES

    def __init__(self, config: Series) -> None:
        self.limit = config.max_bytes
        self._reader = SeriesReader(config)

    def check(self, request: web.Request) -> None:
        super().check(request)
        if request.content_type not in ("application/json", "application/x-protobuf"):
            raise Unusable(415, "Content-Type must be application/x-protobuf or application/json")

    def read(self, request: web.Request, body: bytes, into: Batch) -> str:
        try:
            data = unpack(body, self.limit) if _packed(request, body) else body
            points = otlp.otlp_points(data, _is_json(request), time.time(), into, self._reader)
            ignored = self._reader.read(points, into)
        except Rejected as refused:
            into.reject(refused.reason)
            return ""
        return (
            f"none of the metrics is one that the source asks for; the first is {ignored!r}"
            if ignored
            else ""
        )

    def told(self, request: web.Request, status: int, batch: Batch, discarded: Mapping[str, int],
             remark: str = "") -> web.Response:  # fmt: skip
        if set(batch.rejected) & {"malformed", "too_large"}:
            return counts(batch, status, discarded)
        reasons = _reasons(batch, discarded)
        words = remark or ", ".join(f"{count} {reason}" for reason, count in reasons.items())
        body = otlp.otlp_answer(_is_json(request), sum(reasons.values()), words)
        return web.Response(status=200, body=body, content_type=request.content_type)


def refusal(status: int, text: str, *, retry_after: int | None = None, close: bool = False) -> web.Response:
    """An answer that is an error."""
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


def counts(batch: Batch, status: int, discarded: Mapping[str, int]) -> web.Response:
    """How much was accepted, and the rest by reason."""
    accepted = len(batch.samples) - sum(discarded.values())
    facts = {"received": batch.received, "accepted": accepted, "rejected": _reasons(batch, discarded)}
    return web.Response(status=status, body=msgspec.json.encode(facts), content_type="application/json")


def _reasons(batch: Batch, discarded: Mapping[str, int]) -> dict[str, int]:
    return batch.rejected | {TOLD.get(reason, reason): count for reason, count in discarded.items()}


def _packed(request: web.Request, body: bytes) -> bool:
    """Unpacked already, unless the application was told to leave that to us."""
    return request.headers.get(hdrs.CONTENT_ENCODING) == "gzip" and body[:2] == b"\x1f\x8b"


def _is_json(request: web.Request) -> bool:
    return request.content_type == "application/json"
