"""`/healthz`, `/readyz`, `/metrics`: for supervisors, load balancers and Prometheus."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from aiohttp import hdrs, web
from prometheus_client import CONTENT_TYPE_LATEST

from detector.http.answers import answer
from detector.http.service import SERVICE


class Readiness(msgspec.Struct):
    """How each part of the daemon is."""

    ready: bool
    status: Literal["ready", "degraded", "unready"]
    parts: dict[str, dict[str, Any]]
    sources: dict[str, dict[str, Any]]
    sinks: dict[str, dict[str, Any]]


async def healthz(request: web.Request) -> web.Response:
    healthy = request.app[SERVICE].healthy
    return web.Response(text="ok\n" if healthy else "no progress\n", status=200 if healthy else 503)


async def readyz(request: web.Request) -> web.Response:
    good, parts = request.app[SERVICE].readiness()
    return answer(parts, 200 if good else 503)


async def metrics(request: web.Request) -> web.Response:
    page = request.app[SERVICE].metrics_page()
    return web.Response(body=page, headers={hdrs.CONTENT_TYPE: CONTENT_TYPE_LATEST})
