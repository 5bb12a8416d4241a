"""Comments on incidents, and the audit trail: who did what, and when."""

from __future__ import annotations

import time
from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import Meta

from detector.http.answers import Problem, answer, parse_body, parse_query
from detector.http.auth import VISITOR
from detector.http.service import SERVICE
from detector.storage.console import remarks
from detector.storage.console.remarks import Comment, Deed


class NewComment(msgspec.Struct, forbid_unknown_fields=True):
    """What to write down about an incident."""

    text: Annotated[str, Meta(min_length=1, max_length=4000, description="The comment.")]


class Comments(msgspec.Struct):
    """All comments on an incident, oldest first."""

    comments: list[Comment]


class AuditQuery(msgspec.Struct):
    """Which part of the audit trail."""

    subject: Annotated[str | None, Meta(description="Only of this incident, silence or setting.")] = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="Largest number of results.")] = 200


class AuditTrail(msgspec.Struct):
    """What people did, newest first."""

    audit: list[Deed]


async def list_comments(request: web.Request) -> web.Response:
    incident = await _known(request)
    found = await request.app[SERVICE].read(remarks.comments, incident)
    return answer(Comments(found))


async def comment(request: web.Request) -> web.Response:
    incident = await _known(request)
    text = (await parse_body(request, NewComment)).text.strip()
    if not text:
        raise Problem(400, "the comment is empty")
    who = request[VISITOR].name
    service = request.app[SERVICE]
    await service.write(remarks.add_comment, incident, time.time(), who, text)
    await note(request, "comment", incident, {"text": text[:200]})
    return answer(Comments(await service.read(remarks.comments, incident)))


async def audit(request: web.Request) -> web.Response:
    query = parse_query(request, AuditQuery)
    return answer(AuditTrail(await request.app[SERVICE].read(remarks.deeds, query.limit, query.subject)))


async def note(request: web.Request, action: str, subject: str, details: dict[str, Any]) -> None:
    """Write into the audit trail who has just done what."""
    who = request[VISITOR].name
    await request.app[SERVICE].write(remarks.add_deed, time.time(), who, action, subject, details)


async def _known(request: web.Request) -> str:
    incident = request.match_info["incident"]
    if not await request.app[SERVICE].incident(incident):
        raise Problem(404, f"there is no incident {incident!r}")
    return incident
