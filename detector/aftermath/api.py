"""`/api/v1/aftermath`: what was learnt, what waits, and what people want done with a kind of finding."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from detector.aftermath.actions import ActionError, NotThere, parse
from detector.aftermath.hand import Overloaded
from detector.aftermath.kinds import find_action
from detector.aftermath.orders import Busy, Order
from detector.database import StateError
from detector.incidents_api import answer, error

if TYPE_CHECKING:
    from detector.daemon import Daemon

WAIT_S = 5.0  # for an action; one that takes longer is asked for again by its number


class AftermathApi:
    """The handlers."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/v1/aftermath", self.overview),
            web.get("/api/v1/aftermath/actions/{number}", self.action),
            web.post("/api/v1/aftermath/{kind}/{action}", self.act),
            web.post("/api/v1/incidents/{incident}/examine", self.examine),
        ]

    async def overview(self, request: web.Request) -> web.Response:
        try:
            return answer(await self._daemon.desk.overview())
        except StateError as failure:
            return error(503, str(failure))

    async def act(self, request: web.Request) -> web.Response:
        """Do it, and wait some time for its end."""
        kind, name = request.match_info["kind"], request.match_info["action"]
        try:
            action = find_action(kind, name)
        except ActionError as failure:
            return error(404, str(failure))
        try:
            async with asyncio.timeout(self._daemon.config.http.body_timeout):
                body = await request.read()
        except TimeoutError:
            return error(408, "the body took too long")
        try:
            arguments = parse(action, body)
        except ActionError as failure:
            return error(400, str(failure))
        try:
            order = self._daemon.desk.act(kind, name, action, arguments)
        except Busy as failure:
            return error(503, str(failure))
        return await _outcome(order)

    async def action(self, request: web.Request) -> web.Response:
        """The end of an action that took longer."""
        order = self._daemon.desk.orders.find(request.match_info["number"])
        if order is None:
            return error(404, "there is no such action, or it was long ago")
        return await _outcome(order)

    async def examine(self, request: web.Request) -> web.Response:
        """Examine the case files of an incident now, by what is known today."""
        try:
            return await _outcome(self._daemon.desk.again(request.match_info["incident"]))
        except Busy as failure:
            return error(503, str(failure))


async def _outcome(order: Order) -> web.Response:
    await asyncio.wait([order.done], timeout=WAIT_S)
    if not order.done.done():
        return answer({"action": order.number, "state": "running"}, 202)
    if order.done.cancelled():
        return error(503, "stopping")
    failure = order.done.exception()
    if failure is None:
        return answer(order.done.result())
    if isinstance(failure, (StateError, Overloaded)):
        return error(503, str(failure))
    if isinstance(failure, NotThere):
        return error(404, str(failure))
    if isinstance(failure, ValueError):
        return error(409, str(failure))
    return error(500, f"{type(failure).__name__}: {failure}")
