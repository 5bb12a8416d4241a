"""The status page at `/`: its files, and the questions that only it asks.

/                        the page; needs no token, as it holds no data
/page/{file}             its scripts and styles
/api/v1/network          names, places and links of the nodes
/api/v1/history/{name}   the course of a node's statistics
/api/v1/live             frames and records, as server-sent events
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import scipy.sparse as sp
from aiohttp import hdrs, web

from detector.live import Live, Look
from detector.network import Network

if TYPE_CHECKING:
    from detector.daemon import Daemon

# No script and no style but our own files; nothing is ever loaded from elsewhere.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
KINDS = {
    ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml",
    ".txt": "text/plain",
}  # fmt: skip
MOST_LINKS = 20_000  # drawn; of more, the strongest


class StatusPage:
    """``endless`` is told of connections that stay open."""

    def __init__(self, daemon: Daemon, endless: Callable[[asyncio.BaseTransport | None], None]) -> None:
        self._live = Live(daemon, endless)
        self._files = load_files()
        self._drawn: tuple[Network, bytes] | None = None

    def mount(self, app: web.Application) -> None:
        app.add_routes(
            [
                web.get("/", self._index),
                web.get("/page/{file}", self._file),
                web.get("/api/v1/network", self._network),
                web.get("/api/v1/history/{name}", self._history),
                web.get("/api/v1/live", self._live.handle),
            ]
        )
        app.cleanup_ctx.append(self._running)

    def stop(self) -> None:
        """End the streams, so that a stopping server need not wait for their readers."""
        self._live.stop()

    async def _running(self, app: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(self._live.run(), name="live")
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def _index(self, request: web.Request) -> web.Response:
        return self._give(request, "index.html")

    async def _file(self, request: web.Request) -> web.Response:
        return self._give(request, request.match_info["file"])

    def _give(self, request: web.Request, name: str) -> web.Response:
        if name not in self._files:
            raise web.HTTPNotFound
        body, kind, tag = self._files[name]
        # Looked at each time, but sent only if it changed: an upgrade must not meet old scripts.
        headers = {hdrs.CACHE_CONTROL: "no-cache", hdrs.ETAG: tag, "Content-Security-Policy": POLICY}
        if request.headers.get(hdrs.IF_NONE_MATCH) == tag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)

    async def _network(self, request: web.Request) -> web.Response:
        seen = await self._seen()
        if self._drawn is None or self._drawn[0] is not seen.network:
            # A layout by springs takes a second.
            self._drawn = seen.network, await asyncio.to_thread(drawn, seen.network, seen.components)
        response = web.Response(body=self._drawn[1], content_type="application/json")
        response.enable_compression()
        return response

    async def _history(self, request: web.Request) -> web.Response:
        seen, history = await self._seen(), self._live.history
        v = seen.network.roster.index.get(request.match_info["name"])
        if v is None or history is None:
            return web.json_response({"error": "there is no such node"}, status=404)
        course = history.of(v) | {"threshold": seen.threshold, "event_threshold": seen.event_threshold}
        return web.Response(body=msgspec.json.encode(course), content_type="application/json")

    async def _seen(self) -> Look:
        if self._live.latest is None:
            await self._live.sample()
        if self._live.latest is None:
            raise web.HTTPServiceUnavailable(reason="the pipeline is busy; ask again")
        return self._live.latest


def load_files() -> dict[str, tuple[bytes, str, str]]:
    """Every file of the page: content, kind, and a tag that changes with the content."""
    found = {}
    for file in resources.files("detector").joinpath("page").iterdir():
        kind = KINDS.get(file.name[file.name.rfind(".") :])
        if kind is not None:
            body = file.read_bytes()
            found[file.name] = (body, kind, f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"')
    return found


def drawn(network: Network, components: tuple[str, ...] = ()) -> bytes:
    """Names, places in a unit square, and links as a flat list of node numbers."""
    places = network.layout()
    low = places.min(axis=0) if len(places) else np.zeros(2)
    span = float(np.ptp(places, axis=0).max()) if len(places) else 1.0
    unit = (places - low) / (span or 1.0)
    links = sp.triu(network.graph.matrix(), k=1).tocoo()
    kept = np.argsort(-links.data, kind="stable")[:MOST_LINKS]
    ends = np.stack([links.coords[0][kept], links.coords[1][kept]], axis=1)
    content: dict[str, Any] = {
        "names": network.names,
        "components": components,
        "places": np.round(unit, 4).tolist(),
        "links": ends.ravel().tolist(),
        "links_left_out": int(links.nnz - len(kept)),
        "warning": network.warning,
    }
    return msgspec.json.encode(content)
