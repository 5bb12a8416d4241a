"""`/api/v1/diagnosis`: what the analyzers have learnt, what waits, and the actions they offer."""

from __future__ import annotations

import asyncio

from aiohttp import web

from detector.diagnosis.actions import ActionError, NotThere, parse
from detector.diagnosis.executor import Overloaded
from detector.diagnosis.jobs import Busy, Job
from detector.diagnosis.registry import find_action
from detector.http.answers import Problem, answer, read_body
from detector.http.service import SERVICE
from detector.storage.database import StateError

WAIT_S = 5.0  # for an action; one that takes longer is asked for again by its number


async def overview(request: web.Request) -> web.Response:
    return answer(await request.app[SERVICE].diagnosis.overview())


async def act(request: web.Request) -> web.Response:
    """Do it, and wait some time for its end."""
    kind, name = request.match_info["kind"], request.match_info["action"]
    try:
        action = find_action(kind, name)
    except ActionError as failure:
        raise Problem(404, str(failure)) from None
    body = await read_body(request)
    try:
        arguments = parse(action, body)
    except ActionError as failure:
        raise Problem(400, str(failure)) from None
    try:
        job = request.app[SERVICE].diagnosis.act(kind, name, action, arguments)
    except Busy as failure:
        raise Problem(503, str(failure)) from None
    return await _outcome(job)


async def action(request: web.Request) -> web.Response:
    """The end of an action that took longer."""
    job = request.app[SERVICE].diagnosis.jobs.find(request.match_info["number"])
    if job is None:
        raise Problem(404, "there is no such action, or it was long ago")
    return await _outcome(job)


async def analyze(request: web.Request) -> web.Response:
    """Analyze the case files of an incident now, by what is known today."""
    try:
        job = request.app[SERVICE].diagnosis.again(request.match_info["incident"])
    except Busy as failure:
        raise Problem(503, str(failure)) from None
    return await _outcome(job)


async def _outcome(job: Job) -> web.Response:
    await asyncio.wait([job.done], timeout=WAIT_S)
    if not job.done.done():
        return answer({"action": job.number, "state": "running"}, 202)
    if job.done.cancelled():
        raise Problem(503, "stopping")
    failure = job.done.exception()
    if failure is None:
        return answer(job.done.result())
    if isinstance(failure, (StateError, Overloaded)):
        raise Problem(503, str(failure))
    if isinstance(failure, NotThere):
        raise Problem(404, str(failure))
    if isinstance(failure, ValueError):
        raise Problem(409, str(failure))
    raise Problem(500, f"{type(failure).__name__}: {failure}")
