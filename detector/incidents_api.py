"""`/api/v1`: incidents to look at and to answer, nodes, status. JSON in, JSON out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np
from aiohttp import web

from detector.database import StateError
from detector.openapi import document

if TYPE_CHECKING:
    from detector.daemon import Daemon

LIMIT = 100
MAX_LIMIT = 1000
COMMAND_S = 30.0  # a command waits behind batches, and perhaps behind a calibration

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class LabelBody(msgspec.Struct, forbid_unknown_fields=True):
    """What people may say about an incident."""

    alarm: Literal["true", "false"] | None = None
    type: Text | None = None
    nodes: Annotated[list[Text], msgspec.Meta(max_length=10_000)] | None = None
    note: Text | None = None


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """The body of accept and clear: an empty object, or nothing at all."""


class IncidentsApi:
    """The handlers; reading is done from the database, so that ended incidents are found, too."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/v1/status", self.status),
            web.get("/api/v1/incidents", self.list),
            web.get("/api/v1/incidents/{incident}", self.show),
            web.post("/api/v1/incidents/{incident}/accept", self.accept),
            web.post("/api/v1/incidents/{incident}/clear", self.clear),
            web.post("/api/v1/incidents/{incident}/label", self.label),
            web.get("/api/v1/nodes", self.nodes),
            web.get("/api/v1/nodes/{name}", self.node),
            web.get("/api/v1/openapi.json", self.openapi),
        ]

    async def status(self, request: web.Request) -> web.Response:
        return answer(self._daemon.gauges.status())

    async def list(self, request: web.Request) -> web.Response:
        """The latest record of each incident, newest first, and what was found out about them."""
        wanted = request.query.get("state", "all")
        if wanted not in ("all", "open", "ended"):
            return error(400, "state must be all, open or ended")
        try:
            limit = int(request.query.get("limit", str(LIMIT)))
        except ValueError:
            limit = 0
        if not 1 <= limit <= MAX_LIMIT:
            return error(400, f"limit must be 1 to {MAX_LIMIT}")
        recorder = self._daemon.recorder
        try:
            stored = await recorder.ask(recorder.store.incidents, MAX_LIMIT if wanted != "all" else limit)
        except StateError as failure:
            return error(503, str(failure))
        still_open = self._daemon.worker.picture.open_incidents
        if wanted != "all":
            stored = [one for one in stored if (one.incident in still_open) == (wanted == "open")]
        stored = stored[:limit]
        try:
            findings = await recorder.ask(recorder.store.findings, [str(one.incident) for one in stored])
        except StateError as failure:
            return error(503, str(failure))
        return answer({
            "incidents": [one.content() for one in stored], "findings": [one.content() for one in findings],
        })  # fmt: skip

    async def show(self, request: web.Request) -> web.Response:
        """All stored records of one incident, oldest first."""
        incident = request.match_info["incident"]
        recorder = self._daemon.recorder
        try:
            stored = await recorder.ask(recorder.store.incident, incident)
        except StateError as failure:
            return error(503, str(failure))
        records = [record.content() for record in stored if record.event.startswith("incident.")]
        if not records:
            return error(404, f"there is no incident {incident!r}")
        still_open = incident in self._daemon.worker.picture.open_incidents
        return answer({"incident": incident, "open": still_open, "records": records})

    async def accept(self, request: web.Request) -> web.Response:
        return await self._command(request, "accept", Nothing)

    async def clear(self, request: web.Request) -> web.Response:
        return await self._command(request, "clear", Nothing)

    async def label(self, request: web.Request) -> web.Response:
        return await self._command(request, "label", LabelBody)

    async def _command(self, request: web.Request, name: str, form: type[msgspec.Struct]) -> web.Response:
        try:
            async with asyncio.timeout(self._daemon.config.http.body_timeout):
                body = await request.read()
        except TimeoutError:
            return error(408, "the body took too long")
        try:
            said = msgspec.json.decode(body or b"{}", type=form)
        except (msgspec.MsgspecError, RecursionError, ValueError) as failure:
            return error(400, str(failure))
        given = {key: value for key, value in msgspec.to_builtins(said).items() if value is not None}
        if name == "label" and not given:
            return error(400, "say at least one of alarm, type, nodes, note")
        arguments = {"incident": request.match_info["incident"], **given}
        try:
            async with asyncio.timeout(COMMAND_S):
                events = await self._daemon.command(name, arguments)
        except ValueError as failure:
            return error(404 if "not known" in str(failure) else 409, str(failure))
        except (TimeoutError, asyncio.CancelledError):
            return error(503, "busy or stopping; the command was not carried out in time")
        return answer({"records": [event.record() for event in events]})

    async def nodes(self, request: web.Request) -> web.Response:
        """All nodes with their statistic."""
        picture = self._daemon.worker.picture
        numbers = np.round(picture.statistic, 4).tolist()
        rows = zip(picture.names, numbers, strict=True)
        return answer({"nodes": [{"name": name, "statistic": _null(value)} for name, value in rows]})

    async def node(self, request: web.Request) -> web.Response:
        worker = self._daemon.worker
        name = request.match_info["name"]
        if name not in worker.picture.names:
            return error(404, "there is no such node")
        return answer(await worker.run(worker.node_view, name))

    async def openapi(self, request: web.Request) -> web.Response:
        return answer(document())


def answer(content: Any, status: int = 200) -> web.Response:
    body = msgspec.json.encode(content, enc_hook=_plain)
    return web.Response(body=body, status=status, content_type="application/json")


def error(status: int, text: str) -> web.Response:
    return answer({"error": text}, status)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value)} is not JSON")


def _null(value: float) -> float | None:
    return value if value == value else None
