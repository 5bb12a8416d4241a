"""Silences and maintenance windows: what there is, adding one, ending one."""

from __future__ import annotations

import secrets
import time
from typing import Annotated, Literal

import msgspec
from aiohttp import web
from msgspec import Meta

from detector.http.answers import Problem, answer, parse_body
from detector.http.auth import VISITOR
from detector.http.console.remarks import note
from detector.http.service import SERVICE, Service
from detector.notify.routing import stream_time
from detector.notify.settings import Every, moment, time_zone
from detector.notify.silences import PERIOD, Silence

MOST = 200  # that are not over
Name = Annotated[str, Meta(min_length=1, max_length=500)]


class NewSilence(msgspec.Struct, forbid_unknown_fields=True):
    """Nothing about these nodes is to be sent for some time."""

    lasts: Annotated[float, Meta(gt=0, le=366 * 86400.0, description="Duration in seconds.")]
    nodes: Annotated[list[Name], Meta(max_length=1000, description="Nodes; * and ? are wildcards.")] = []
    groups: Annotated[list[Name], Meta(max_length=100, description="Groups of notify.groups.")] = []
    begin: Annotated[
        str | None, Meta(description="Start, in ISO 8601; in `zone` unless it has an offset; null: now.")
    ] = None
    every: Annotated[Every, Meta(description="once, or every day or week at the same time in `zone`.")] = (
        "once"
    )
    zone: Annotated[str, Meta(max_length=100, description="Time zone, such as Europe/Berlin.")] = "UTC"
    reason: Annotated[str, Meta(max_length=500, description="Reason, shown to people.")] = ""


class ShownSilence(msgspec.Struct):
    """A silence, and how it is now."""

    silence: Silence
    state: Literal["active", "waiting", "over"]
    until: float | None  # end of the present occurrence


class Silences(msgspec.Struct):
    """All of them, and the groups of nodes that they may name."""

    now: float  # by what they are in force
    groups: dict[str, list[str]]
    silences: list[ShownSilence]


async def list_silences(request: web.Request) -> web.Response:
    return answer(_all(request.app[SERVICE]))


async def add(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    given = await parse_body(request, NewSilence)
    if not given.nodes and not given.groups:
        raise Problem(400, 'name the nodes or groups; nodes: ["*"] is all of them')
    for group in given.groups:
        if group not in service.routing.settings.groups:
            raise Problem(400, f"there is no group {group!r} in notify.groups")
    if given.lasts >= PERIOD.get(given.every, float("inf")):
        raise Problem(400, f"it lasts as long as the time between two of them, one {given.every}")
    now = _now(service)
    try:
        time_zone(given.zone)
    except ValueError as error:
        raise Problem(400, f"zone: {error}") from None
    try:
        begin = now if given.begin is None else moment(given.begin, given.zone)
    except ValueError:
        raise Problem(400, f"begin: {given.begin!r} is no date and time as in 2026-11-22T02:00") from None
    if sum(not one.over(now) for one in service.routing.silences.values()) >= MOST:
        raise Problem(409, f"there are {MOST} silences already; end some")
    silence = Silence(
        id=f"s-{secrets.token_hex(4)}", nodes=given.nodes, groups=given.groups, begin=begin,
        lasts=given.lasts, every=given.every, zone=given.zone, reason=given.reason, who=request[VISITOR].name,
        created=time.time(),
    )  # fmt: skip
    await service.put_silence(silence)
    await note(
        request, "silence", silence.id, {"nodes": given.nodes, "groups": given.groups, "reason": given.reason}
    )
    return answer(_shown(silence, now))


async def end(request: web.Request) -> web.Response:
    service, id = request.app[SERVICE], request.match_info["silence"]
    now = _now(service)
    silence = service.routing.silences.get(id)
    if silence is None:
        configured = any(window.id == id for window in service.routing.windows)
        raise (
            Problem(409, f"{id} is a maintenance window of the configuration")
            if configured
            else Problem(404, f"there is no silence {id!r}")
        )
    if silence.over(now):
        raise Problem(409, f"silence {id} is over already")
    ended = msgspec.structs.replace(silence, ended=now)
    await service.put_silence(ended)
    await note(request, "end silence", id, {})
    return answer(_shown(ended, now))


def _all(service: Service) -> Silences:
    now = _now(service)
    shown = [_shown(one, now) for one in service.routing.every()]
    order = {"active": 0, "waiting": 1, "over": 2}
    shown.sort(key=lambda one: (order[one.state], -one.silence.begin))
    return Silences(now, service.routing.settings.groups, shown)


def _shown(silence: Silence, now: float) -> ShownSilence:
    begun = silence.occurrence(now)
    if begun is not None:
        return ShownSilence(silence, "active", begun + silence.lasts)
    return ShownSilence(silence, "over" if silence.over(now) else "waiting", None)


def _now(service: Service) -> float:
    return stream_time(service.view.watermark, time.time())
