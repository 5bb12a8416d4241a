"""How the daemon is: probes, metrics; and records that a sink would not take, to send again or to drop."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from aiohttp import hdrs, web
from msgspec import Meta
from prometheus_client import CONTENT_TYPE_LATEST

from detector.events.model import Event
from detector.http.answers import Problem, answer, parse_body
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


class RecordAside(msgspec.Struct):
    """A record that is set aside for a sink, since when, after how many tries, and the last error."""

    sink: str
    since: float
    tries: int
    error: str
    record: Event


class Aside(msgspec.Struct):
    """All that is set aside, oldest first."""

    set_aside: list[RecordAside]


class Chosen(msgspec.Struct, forbid_unknown_fields=True):
    """Which of the records that are set aside; without ids all of them."""

    sink: Annotated[str | None, Meta(description="Only those of this sink.")] = None
    ids: Annotated[list[str], Meta(description="Only records of these ids.")] = []


class Count(msgspec.Struct):
    """How many records it were."""

    records: int


async def list_aside(request: web.Request) -> web.Response:
    """All that is set aside, oldest first."""
    found = [
        {"sink": one.sink, "since": one.since, "tries": one.tries, "error": one.error,
         "record": record.content()}
        for one, record in await request.app[SERVICE].set_aside()
    ]  # fmt: skip
    return answer({"set_aside": found})


async def send_again(request: web.Request) -> web.Response:
    """They wait for their sinks again."""
    return answer(Count(await request.app[SERVICE].send_again(await _chosen(request))))


async def drop_aside(request: web.Request) -> web.Response:
    """They are forgotten."""
    return answer(Count(await request.app[SERVICE].drop_aside(await _chosen(request))))


async def _chosen(request: web.Request) -> list[tuple[str, str]]:
    given = await parse_body(request, Chosen)
    there = await request.app[SERVICE].set_aside()
    found = [(one.sink, one.id) for one, _ in there if given.sink in (None, one.sink)]
    if unknown := set(given.ids) - {id for _, id in found}:
        raise Problem(404, f"not set aside: {', '.join(sorted(unknown))}")
    return [pair for pair in found if not given.ids or pair[1] in given.ids]
