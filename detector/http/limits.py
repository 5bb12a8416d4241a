"""Limits that aiohttp does not bring: slow and large headers, number of connections, endless requests.

A `Connection` stands between a socket and aiohttp's protocol and watches time and bytes. At the limit of
connections the one that has kept us waiting for a header longest is closed: half-open ones cannot lock others
out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from detector.runtime.metrics import Metrics
from detector.settings.service import HttpSettings

SWEEP_S = 0.5
END = b"\r\n\r\n"


class Connections:
    """All connections of a listener."""

    def __init__(self, settings: HttpSettings, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self.open: dict[asyncio.BaseTransport, Connection] = {}

    async def run(self) -> None:
        """Close what has taken too long, again and again."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now = time.monotonic()
            for connection in list(self.open.values()):
                if connection.since_header is None:
                    if now - connection.waiting > self.settings.header_timeout:
                        connection.end("header_slow")
                elif not connection.endless and now - connection.since_header > self.settings.request_timeout:
                    connection.end("request_slow")
            self.metrics.set("http_connections", len(self.open))

    def admit(self, transport: asyncio.BaseTransport, connection: Connection) -> bool:
        if len(self.open) >= self.settings.max_connections:
            waiting = [other for other in self.open.values() if other.since_header is None]
            if not waiting:
                self.metrics.count("http_refused_total", reason="connections")
                return False
            min(waiting, key=lambda other: other.waiting).end("connections")
        self.open[transport] = connection
        return True

    def begun(self, transport: asyncio.BaseTransport | None) -> None:
        """A whole header has come and its request is being worked on."""
        connection = self.open.get(transport) if transport is not None else None
        if connection is not None:
            connection.since_header = time.monotonic()

    def ended(self, transport: asyncio.BaseTransport | None, unread: bool) -> None:
        """The request is answered; the connection waits for another, and perhaps for the rest of a body."""
        connection = self.open.get(transport) if transport is not None else None
        if connection is not None:
            connection.rest(unread)

    def endless(self, transport: asyncio.BaseTransport | None) -> None:
        """This request has no deadline: a stream."""
        connection = self.open.get(transport) if transport is not None else None
        if connection is not None:
            connection.endless = True


class Connection(asyncio.Protocol):
    """One connection."""

    def __init__(self, connections: Connections, inner: Any) -> None:
        self._connections, self._inner = connections, inner
        self._transport: asyncio.Transport | None = None
        self._admitted = False
        self.rest()

    def rest(self, unread: bool = False) -> None:
        self.waiting = time.monotonic()  # since when for a header
        self.since_header: float | None = None
        self.endless = False
        self._head = b""
        # What comes of a body that was refused unread is no header: aiohttp throws it away, and has limits of
        # its own for the header behind it; `header_timeout` counts all the same.
        self._whole = unread

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._admitted = self._connections.admit(transport, self)
        if not self._admitted:
            _say(transport, 503, "Service Unavailable")
            return
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self._admitted:
            return
        if not self._whole and self.since_header is None:
            limit = self._connections.settings.max_header
            self._head += data[: limit + 1]
            self._whole = END in self._head[: limit + len(END)]
            if not self._whole and len(self._head) > limit:
                self._connections.metrics.count("http_refused_total", reason="header_large")
                if self._transport is not None:
                    _say(self._transport, 431, "Request Header Fields Too Large")
                return
            if self._whole:
                self._head = b""
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        if not self._admitted:
            return False
        kept: bool | None = self._inner.eof_received()
        return kept

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is not None:
            self._connections.open.pop(self._transport, None)
        if self._admitted:
            self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def end(self, reason: str) -> None:
        """At once: whoever is this slow does not read an answer either."""
        self._connections.metrics.count("http_refused_total", reason=reason)
        if self._transport is not None:
            self._connections.open.pop(self._transport, None)
            self._transport.abort()


def _say(transport: asyncio.Transport, status: int, words: str) -> None:
    transport.write(f"HTTP/1.1 {status} {words}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    transport.close()


def limited(connections: Connections, server: Callable[[], Any]) -> Callable[[], Connection]:
    """aiohttp's protocol factory with a `Connection` before each protocol."""
    return lambda: Connection(connections, server())
