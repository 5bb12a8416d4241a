"""History for other programs: incidents as CSV or JSON lines, and the signal of one node as CSV."""

from __future__ import annotations

import csv
import io
from typing import Annotated, Any, Literal

import msgspec
from aiohttp import hdrs, web
from msgspec import Meta

from detector.events.model import iso
from detector.events.wording import split_nodes
from detector.http.answers import parse_query
from detector.http.console.signals import HistoryQuery, history
from detector.http.service import SERVICE

MOST = 10_000  # incidents
ROWS = 1_000_000  # of a node: all that is stored
COLUMNS = (
    "incident", "state", "severity", "onset", "opened", "ended", "resolution", "nodes", "possibly", "peak",
    "threshold", "summary", "alarm", "type", "note",
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


async def node(request: web.Request) -> web.Response:
    service, name = request.app[SERVICE], request.match_info["name"]
    found = await history(service, name, parse_query(request, HistoryQuery).span, ROWS)
    names = [component or "value" for component in found.components]
    parts = [("", found.mean), *((" lowest", found.low), (" highest", found.high))]
    kept = [(ending, columns) for ending, columns in parts if columns]
    header = [f"{component}{ending}" for ending, _ in kept for component in names]
    columns = [column for _, part in kept for column in part]
    written = io.StringIO()
    rows = csv.writer(written)
    rows.writerow(["time", *map(_plain, header), "statistic", "event statistic"])
    for values in zip(map(iso, found.times), *columns, found.statistic, found.event_statistic, strict=True):
        rows.writerow(values)
    return _file(written.getvalue().encode(), "text/csv", "history.csv")


def _row(one: dict[str, Any]) -> list[Any]:
    said = one.get("labels") or {}
    ended = one["time"] if one.get("resolution") else None
    return [
        one["incident"], "ended" if one.get("resolution") else "open", one["severity"],
        *(iso(time) or time for time in (one.get("onset"), one.get("opened"), ended)), one.get("resolution"),
        *map(" ".join, split_nodes(one["nodes"])), one.get("peak"), one.get("threshold"), one["summary"],
        said.get("alarm"), said.get("type"), said.get("note"),
    ]  # fmt: skip


def _plain(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula is none: names come from outside."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value


def _file(body: bytes, kind: str, name: str) -> web.Response:
    headers = {hdrs.CONTENT_DISPOSITION: f'attachment; filename="{name}"'}
    return web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)
