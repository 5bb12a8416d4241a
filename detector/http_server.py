"""The listener: metrics, health, incidents API, event stream, and the ingest routes of http sources."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiohttp import hdrs, web
from prometheus_client import CONTENT_TYPE_LATEST

from detector.aftermath.api import AftermathApi
from detector.event_stream import EventStream
from detector.http_auth import refusal
from detector.http_limits import Gates, gated
from detector.incidents_api import IncidentsApi, answer, error
from detector.page import StatusPage
from detector.service_settings import HttpSettings

if TYPE_CHECKING:
    from detector.daemon import Daemon

log = logging.getLogger("detector.http")
IDLE_S = 3600.0  # aiohttp's own limit, never reached: the gates close idle connections
LINE, HEADERS = 8190, 100  # largest line and number of lines in a header
SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",  # the page brings its own
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Prepared:
    """New settings whose address is bound and whose certificate is read."""

    settings: HttpSettings
    context: ssl.SSLContext | None
    socket: socket.socket | None  # None: the address stays

    def discard(self) -> None:
        if self.socket is not None:
            self.socket.close()


class HttpServer:
    """One application on one address."""

    def __init__(self, daemon: Daemon, settings: HttpSettings) -> None:
        self.settings = settings
        self.port = 0  # the real one, once it listens
        self._daemon = daemon
        self._stream = EventStream(daemon)
        self._gates = Gates(settings, daemon.metrics)
        self._app = web.Application(client_max_size=settings.max_body, middlewares=[self._guard])
        self._page = StatusPage(daemon, self._gates.endless)
        self._page.mount(self._app)
        self._app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
                web.get("/api/v1/events", self._events),
                *IncidentsApi(daemon).routes(),
                *AftermathApi(daemon).routes(),
                # Sources come and go with a reload, routes of aiohttp do not: looked up at each request.
                web.route(hdrs.METH_ANY, "/{path:.*}", self._other),
            ]
        )
        self._runner = web.AppRunner(
            self._app, access_log=None, handle_signals=False, keepalive_timeout=IDLE_S,
            max_line_size=LINE, max_field_size=LINE, max_headers=HEADERS, shutdown_timeout=1.0,
        )  # fmt: skip
        self._server: asyncio.Server | None = None
        self._socket: socket.socket | None = None
        self._sweeping: asyncio.Task[None] | None = None

    # ---------------------------------------------------------------------------------- listening

    async def start(self) -> None:
        """Listen; OSError if the address cannot be had, ConnectorError if the certificate cannot be used."""
        context = self.settings.tls.context() if self.settings.tls is not None else None
        self._socket = await _bind(self.settings)
        await self._runner.setup()
        await self._listen(context)
        self._sweeping = asyncio.create_task(self._gates.run(), name="http sweep")

    async def _listen(self, context: ssl.SSLContext | None) -> None:
        assert self._socket is not None
        assert self._runner.server is not None
        self.port = self._socket.getsockname()[1]
        # asyncio closes what it is given; the duplicate lets a reload change the certificate on one address.
        limit = self.settings.header_timeout if context is not None else None
        self._server = await asyncio.get_running_loop().create_server(
            gated(self._gates, self._runner.server), sock=self._socket.dup(), ssl=context, backlog=512,
            ssl_handshake_timeout=limit,
        )  # fmt: skip
        scheme = "http" if context is None else "https"
        log.info("listening on %s://%s:%d", scheme, self.settings.host, self.port)

    async def prepare(self, settings: HttpSettings) -> Prepared:
        """Do everything about new settings that can fail."""
        context = settings.tls.context() if settings.tls is not None else None
        moved = (settings.host, settings.port) != (self.settings.host, self.settings.port)
        return Prepared(settings, context, await _bind(settings) if moved else None)

    async def adopt(self, prepared: Prepared) -> None:
        """Go on with prepared settings; open connections stay."""
        changed = prepared.settings.tls != self.settings.tls or prepared.socket is not None
        self.settings = self._gates.settings = prepared.settings
        if changed:
            if self._server is not None:
                self._server.close()
            if prepared.socket is not None:
                if self._socket is not None:
                    self._socket.close()
                self._socket = prepared.socket
            await self._listen(prepared.context)

    async def stop(self) -> None:
        self._stream.stop()
        self._page.stop()
        if self._server is not None:
            self._server.close()
        if self._socket is not None:
            self._socket.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                await self._runner.cleanup()

    # ---------------------------------------------------------------------------------- every request

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._gates.begun(request.transport)
        try:
            response = refusal(request, self.settings, self._daemon.metrics) or await handler(request)
        except web.HTTPException as refused:
            if refused.status >= 400:
                return self._sealed(error(refused.status, refused.reason))
            raise
        finally:
            # After the answer is written, which happens outside of us: as soon as the loop comes round.
            asyncio.get_running_loop().call_soon(self._gates.ended, request.transport)
        return self._sealed(response)

    def _sealed(self, response: web.StreamResponse) -> web.StreamResponse:
        if not response.prepared:
            for name, value in SECURITY.items():
                response.headers.setdefault(name, value)
        return response

    # ---------------------------------------------------------------------------------- pages

    async def _healthz(self, request: web.Request) -> web.Response:
        healthy = self._daemon.pulse.healthy
        return web.Response(text="ok\n" if healthy else "no progress\n", status=200 if healthy else 503)

    async def _readyz(self, request: web.Request) -> web.Response:
        good, parts = self._daemon.gauges.readiness()
        return answer(parts, 200 if good else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        self._daemon.gauges.refresh()
        return web.Response(
            body=self._daemon.metrics.page(), headers={hdrs.CONTENT_TYPE: CONTENT_TYPE_LATEST}
        )

    async def _events(self, request: web.Request) -> web.StreamResponse:
        self._gates.endless(request.transport)
        return await self._stream.handle(request)

    async def _other(self, request: web.Request) -> web.StreamResponse:
        """The routes of http sources, as they are now."""
        allowed: set[str] = set()
        for reader in self._daemon.readers.values():
            routes: Callable[[], list[Any]] | None = getattr(reader.source, "routes", None)
            for route in routes() if routes is not None else ():
                if route.path == request.path:
                    if route.method == request.method:
                        found: web.StreamResponse = await route.handler(request)
                        return found
                    allowed.add(route.method)
        if allowed:
            return web.json_response(
                {"error": "method not allowed"}, status=405, headers={hdrs.ALLOW: ", ".join(sorted(allowed))}
            )
        return error(404, "there is nothing here")


async def _bind(settings: HttpSettings) -> socket.socket:
    """A listening address, the first that the name stands for."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, protocol, _, address = found[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.setblocking(False)
    except OSError as failure:
        listening.close()
        raise OSError(f"{settings.host}:{settings.port}: {failure.strerror}") from None
    return listening
