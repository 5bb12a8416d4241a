"""`/api/v1/outbox`: records that a sink would not take, to look at, to send again or to drop."""

from __future__ import annotations

from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta

from detector.events.model import Event
from detector.http.answers import Problem, answer, parse_body
from detector.http.service import SERVICE


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


async def send(request: web.Request) -> web.Response:
    """They wait for their sinks again."""
    return answer(Count(await request.app[SERVICE].send_again(await _chosen(request))))


async def drop(request: web.Request) -> web.Response:
    """They are forgotten."""
    return answer(Count(await request.app[SERVICE].drop_aside(await _chosen(request))))


async def _chosen(request: web.Request) -> list[tuple[str, str]]:
    given = await parse_body(request, Chosen)
    there = await request.app[SERVICE].set_aside()
    found = [(one.sink, one.id) for one, _ in there if given.sink in (None, one.sink)]
    if unknown := set(given.ids) - {id for _, id in found}:
        raise Problem(404, f"not set aside: {', '.join(sorted(unknown))}")
    return [pair for pair in found if not given.ids or pair[1] in given.ids]
