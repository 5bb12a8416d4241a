"""`/api/v1`: incidents to look at and to answer, nodes, status. JSON in, JSON out.

Incidents are read from the database, so that ended ones are found, too.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from aiohttp import web
from msgspec import Meta

from detector.events.label import Label, parse_label
from detector.events.model import Event
from detector.http.answers import Problem, answer, parse_body, parse_query
from detector.http.console.remarks import note
from detector.http.service import SERVICE

COMMAND_S = 30.0  # a command waits behind batches, and perhaps behind a calibration
MAX_LIMIT = 1000


class IncidentQuery(msgspec.Struct):
    """Which incidents to list."""

    state: Annotated[Literal["all", "open", "ended"], Meta(description="State of the incidents.")] = "all"
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Largest number of results.")] = 100


class NoArguments(msgspec.Struct, forbid_unknown_fields=True):
    """An empty object, or no body at all."""


class IncidentList(msgspec.Struct):
    """The latest record of each incident, and the findings about them."""

    incidents: list[Event]
    findings: list[Event]
    silenced: list[str]  # ids of those whose opening was sent to nobody


class IncidentRecords(msgspec.Struct):
    """Everything stored about one incident."""

    incident: str
    open: bool
    records: list[Event]


class Records(msgspec.Struct):
    """The records that a command led to."""

    records: list[Event]


class NodeStatistic(msgspec.Struct):
    """One node."""

    name: str
    statistic: float | None


class NodeList(msgspec.Struct):
    """All nodes, in the order of the network."""

    nodes: list[NodeStatistic]


async def status(request: web.Request) -> web.Response:
    return answer(request.app[SERVICE].status())


async def list_incidents(request: web.Request) -> web.Response:
    """The latest record of each incident, newest first, and the findings about them."""
    service, query = request.app[SERVICE], parse_query(request, IncidentQuery)
    stored = await service.incidents(MAX_LIMIT if query.state != "all" else query.limit)
    if query.state != "all":
        still_open = service.view.open_incidents
        stored = [one for one in stored if (one.incident in still_open) == (query.state == "open")]
    stored = stored[: query.limit]
    findings = await service.findings([str(one.incident) for one in stored])
    listed = [one.content() for one in stored]
    return answer({
        "incidents": listed, "findings": [one.content() for one in findings],
        "silenced": [one["incident"] for one in listed if service.routing.silenced(one)],
    })  # fmt: skip


async def show_incident(request: web.Request) -> web.Response:
    """All stored records of one incident, oldest first."""
    service, incident = request.app[SERVICE], request.match_info["incident"]
    stored = await service.incident(incident)
    records = [record.content() for record in stored if record.event.startswith("incident.")]
    if not records:
        raise Problem(404, f"there is no incident {incident!r}")
    return answer({"incident": incident, "open": incident in service.view.open_incidents, "records": records})


async def accept(request: web.Request) -> web.Response:
    await parse_body(request, NoArguments)
    return await _command(request, "accept", {})


async def clear(request: web.Request) -> web.Response:
    await parse_body(request, NoArguments)
    return await _command(request, "clear", {})


async def label(request: web.Request) -> web.Response:
    given = (await parse_body(request, Label)).given()
    try:
        parse_label(given)
    except ValueError as failure:
        raise Problem(400, str(failure)) from None
    return await _command(request, "label", given)


async def _command(request: web.Request, name: str, given: dict[str, Any]) -> web.Response:
    arguments = {"incident": request.match_info["incident"], **given}
    try:
        async with asyncio.timeout(COMMAND_S):
            events = await request.app[SERVICE].command(name, arguments)
    except ValueError as failure:
        raise Problem(404 if "not known" in str(failure) else 409, str(failure)) from None
    except (TimeoutError, asyncio.CancelledError):
        raise Problem(503, "busy or stopping; the command was not carried out in time") from None
    await note(request, name, request.match_info["incident"], given)
    return answer({"records": [event.record() for event in events]})


async def list_nodes(request: web.Request) -> web.Response:
    view = request.app[SERVICE].view
    numbers = np.round(view.statistic, 4).tolist()  # the encoder writes null for NaN
    return answer(NodeList([NodeStatistic(*row) for row in zip(view.names, numbers, strict=True)]))


async def show_node(request: web.Request) -> web.Response:
    service, name = request.app[SERVICE], request.match_info["name"]
    if name not in service.view.network.node_index.index:
        raise Problem(404, "there is no such node")
    return answer(await service.node(name))
