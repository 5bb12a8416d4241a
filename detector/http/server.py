"""The listener: the table of routes, and the ingest routes of http sources, behind one guard."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import hdrs, web, web_response

from detector.http.answers import Problem, error
from detector.http.auth import refusal
from detector.http.frames import FRAMES, Frames
from detector.http.limits import Connections, limited
from detector.http.routes import Handler, deprecation, mount, route_of
from detector.http.service import SERVICE, Service
from detector.http.status_page import PAGE, StatusPage
from detector.http.streams import HUB, Hub
from detector.settings.service import HttpSettings, Role
from detector.storage.database import StateError

log = logging.getLogger("detector.http")
IDLE_S = 3600.0  # aiohttp's own limit, never reached: `Connections` closes idle ones
LINE, HEADERS = 8190, 100  # largest line and number of lines in a header
SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",  # the page brings its own
}
# What aiohttp writes into the header `Server` of every answer, its own errors included: no versions.
web_response.SERVER_SOFTWARE = "detector"  # type: ignore[attr-defined]


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

    def __init__(self, service: Service, settings: HttpSettings) -> None:
        self.settings = settings
        self.port = 0  # the real one, once it listens
        self._service = service
        self._connections = Connections(settings, service.metrics)
        self._app = application(service, settings.max_body)
        self._app.middlewares.insert(0, self._guard)
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
        self._sweeping = asyncio.create_task(self._connections.run(), name="http sweep")

    async def _listen(self, context: ssl.SSLContext | None) -> None:
        assert self._socket is not None
        assert self._runner.server is not None
        self.port = self._socket.getsockname()[1]
        # asyncio closes what it is given; the duplicate lets a reload change the certificate on one address.
        limit = self.settings.header_timeout if context is not None else None
        self._server = await asyncio.get_running_loop().create_server(
            limited(self._connections, self._runner.server), sock=self._socket.dup(), ssl=context,
            backlog=512, ssl_handshake_timeout=limit,
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
        self.settings = self._connections.settings = prepared.settings
        if changed:
            if self._server is not None:
                self._server.close()
            if prepared.socket is not None:
                if self._socket is not None:
                    self._socket.close()
                self._socket = prepared.socket
            await self._listen(prepared.context)

    async def stop(self) -> None:
        self._app[HUB].stop()
        if self._server is not None:
            self._server.close()
        if self._socket is not None:
            self._socket.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                await self._runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Around every request: time limits and authorisation."""
        self._connections.begun(request.transport)
        route = route_of(request)
        if route is not None and route.is_stream:
            self._connections.endless(request.transport)
        needs: Role | None = "operate" if route is None else route.role if route.needs_token else None
        try:
            response: web.StreamResponse | None = refusal(
                request, self.settings, self._service.metrics, needs=needs
            )
            if response is None:
                response = await handler(request)
        finally:
            # After the answer is written, which happens outside of us: as soon as the loop comes round.
            unread = not request.content.is_eof()
            asyncio.get_running_loop().call_soon(self._connections.ended, request.transport, unread)
        return response


def application(service: Service, max_body: int = 2**20) -> web.Application:
    """The routes of the table with what their handlers use."""
    app = web.Application(client_max_size=max_body, middlewares=[answered])
    app[SERVICE], app[PAGE] = service, StatusPage()
    app[FRAMES] = Frames(service)
    app[HUB] = Hub(service, app[FRAMES])
    mount(app)
    app.cleanup_ctx.append(_frames_running)
    app.on_response_prepare.append(_seal)
    return app


async def _frames_running(app: web.Application) -> AsyncIterator[None]:
    task = asyncio.create_task(app[HUB].run(), name="frames")
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _seal(request: web.Request, response: web.StreamResponse) -> None:
    """Headers of every answer, streams included."""
    route = route_of(request)
    given = SECURITY if route is None else SECURITY | deprecation(request, route)
    for name, value in given.items():
        response.headers.setdefault(name, value)


@web.middleware
async def answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What the handler says; whatever is wrong as JSON."""
    try:
        if isinstance(request.match_info.http_exception, web.HTTPNotFound):
            return await _from_sources(request)
        return await handler(request)
    except Problem as problem:
        return error(problem.status, str(problem))
    except StateError as failure:
        return error(503, str(failure))
    except web.HTTPException as refused:
        if refused.status < 400:
            raise
        response = error(refused.status, refused.reason)
        if hdrs.ALLOW in refused.headers:
            response.headers[hdrs.ALLOW] = refused.headers[hdrs.ALLOW]
        return response


async def _from_sources(request: web.Request) -> web.StreamResponse:
    """The routes of http sources, as they are now."""
    allowed: set[str] = set()
    for route in request.app[SERVICE].source_routes():
        if route.path == request.path:
            if route.method == request.method:
                found: web.StreamResponse = await route.handler(request)
                return found
            allowed.add(route.method)
    if allowed:
        raise web.HTTPMethodNotAllowed(request.method, allowed)
    raise Problem(404, "there is nothing here")


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
