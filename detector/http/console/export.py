"""History for other programs: the latest record of each incident as CSV or as JSON lines."""

from __future__ import annotations

import csv
import io
from typing import Annotated, Any, Literal

import msgspec
from aiohttp import hdrs, web
from msgspec import Meta

from detector.events.model import iso
from detector.http.answers import parse_query
from detector.http.service import SERVICE

MOST = 10_000  # incidents
COLUMNS = (
    "incident", "state", "severity", "onset", "opened", "ended", "resolution", "nodes", "peak", "threshold",
    "summary", "alarm", "type", "note",
)  # fmt: skip


class ExportQuery(msgspec.Struct):
    """How to write it."""

    format: Annotated[Literal["csv", "json"], Meta(description="CSV, or JSON lines.")] = "csv"


async def incidents(request: web.Request) -> web.Response:
    service, query = request.app[SERVICE], parse_query(request, ExportQuery)
    found = [record.content() for record in await service.incidents(MOST)]
    if query.format == "json":
        body = b"".join(msgspec.json.encode(one) + b"\n" for one in found)
        return _file(body, "application/x-ndjson", "incidents.jsonl")
    written = io.StringIO()
    rows = csv.writer(written)
    rows.writerow(COLUMNS)
    rows.writerows([_plain(value) for value in _row(one)] for one in found)
    return _file(written.getvalue().encode(), "text/csv", "incidents.csv")


def _row(one: dict[str, Any]) -> list[Any]:
    said = one.get("labels") or {}
    ended = one["time"] if one.get("resolution") else None
    return [
        one["incident"], "ended" if one.get("resolution") else "open", one["severity"],
        *(iso(time) or time for time in (one.get("onset"), one.get("opened"), ended)), one.get("resolution"),
        " ".join(node["name"] for node in one["nodes"]), one.get("peak"), one.get("threshold"),
        one["summary"],
        said.get("alarm"), said.get("type"), said.get("note"),
    ]  # fmt: skip


def _plain(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula is none: names come from outside."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value


def _file(body: bytes, kind: str, name: str) -> web.Response:
    headers = {hdrs.CONTENT_DISPOSITION: f'attachment; filename="{name}"'}
    return web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)
