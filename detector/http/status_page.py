"""The console at `/`: its files, its addresses, and the network as it draws it."""

from __future__ import annotations

import asyncio
import hashlib
from importlib import resources

import msgspec
import numpy as np
import scipy.sparse as sp
from aiohttp import hdrs, web

from detector.http.answers import Problem
from detector.http.service import SERVICE, Service
from detector.network.communities import communities, folded
from detector.network.layout import spaced
from detector.network.network import Network
from estimators.core.graph import Graph
from estimators.core.types import Floats

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


class NetworkDrawing(msgspec.Struct):
    """The network as the page draws it."""

    names: list[str]
    components: list[str]
    places: list[tuple[float, float]]  # in a unit square
    links: list[int]  # pairs of node numbers, one after the other
    links_left_out: int
    warning: str | None
    groups: list[int]  # community of each node; empty: a network that is drawn whole
    group_places: list[tuple[float, float]]
    group_links: list[int]


class StatusPage:
    """The files of the page, and the latest drawing of the network."""

    def __init__(self) -> None:
        self._files = load_files()
        self._drawn: tuple[Network, bytes] | None = None

    def file(self, request: web.Request, name: str) -> web.Response:
        if name not in self._files:
            raise Problem(404, "there is no such file")
        body, kind, tag = self._files[name]
        # Looked at each time, but sent only if it changed: an upgrade must not meet old scripts.
        headers = {hdrs.CACHE_CONTROL: "no-cache", hdrs.ETAG: tag, "Content-Security-Policy": POLICY}
        if request.headers.get(hdrs.IF_NONE_MATCH) == tag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)

    async def network(self, service: Service) -> bytes:
        view = service.view
        if self._drawn is None or self._drawn[0] is not view.network:
            # A layout by springs takes a second.
            self._drawn = view.network, await asyncio.to_thread(drawn, view.network, tuple(view.components))
        return self._drawn[1]


PAGE: web.AppKey[StatusPage] = web.AppKey("page")


async def index(request: web.Request) -> web.Response:
    return request.app[PAGE].file(request, "index.html")


async def file(request: web.Request) -> web.Response:
    return request.app[PAGE].file(request, request.match_info["file"])


async def network(request: web.Request) -> web.Response:
    body = await request.app[PAGE].network(request.app[SERVICE])
    response = web.Response(body=body, content_type="application/json")
    response.enable_compression()
    return response


def load_files() -> dict[str, tuple[bytes, str, str]]:
    """Every file of the page: content, kind, and a tag that changes with the content."""
    found = {}
    for file in resources.files("detector").joinpath("http", "static").iterdir():
        kind = KINDS.get(file.name[file.name.rfind(".") :])
        if kind is not None:
            body = file.read_bytes()
            found[file.name] = (body, kind, f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"')
    return found


def drawn(network: Network, components: tuple[str, ...] = ()) -> bytes:
    """Names, places in a unit square, and links as a flat list of node numbers."""
    places = network.layout()
    links, left_out = _strongest(network.graph)
    group = communities(network.graph)
    content = NetworkDrawing(
        names=list(network.names),
        components=list(components),
        places=_unit(places),
        links=links,
        links_left_out=left_out,
        warning=network.warning,
        groups=[],
        group_places=[],
        group_links=[],
    )
    if len(group) and group.max() + 1 < len(group):
        small = folded(network.graph, group)
        content.groups = group.tolist()
        # Where their nodes are, on the average; apart, unless the places are those of a real map.
        count = np.bincount(group)
        middle = np.stack([np.bincount(group, places[:, axis]) / count for axis in (0, 1)], axis=1)
        content.group_places = _unit(middle if network.positions is not None else spaced(middle, small))
        content.group_links = _strongest(small)[0]
    return msgspec.json.encode(content)


def _unit(places: Floats) -> list[tuple[float, float]]:
    """In a unit square, with the proportions that they have."""
    low = places.min(axis=0) if len(places) else np.zeros(2)
    span = float(np.ptp(places, axis=0).max()) if len(places) else 1.0
    found: list[tuple[float, float]] = np.round((places - low) / (span or 1.0), 4).tolist()
    return found


def _strongest(graph: Graph) -> tuple[list[int], int]:
    """Pairs of node numbers, one after the other, and how many links were left out."""
    links = sp.triu(graph.matrix(), k=1).tocoo()
    kept = np.argsort(-links.data, kind="stable")[:MOST_LINKS]
    ends: list[int] = np.stack([links.coords[0][kept], links.coords[1][kept]], axis=1).ravel().tolist()
    return ends, int(links.nnz - len(kept))
