"""Every route, once: from this table come the application, its OpenAPI, authorisation and their test.

Routes of http sources are not here: sources come and go with a reload, so they are looked up at each request,
and always need the token.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from aiohttp import hdrs, web

from detector.diagnosis.registry import present_name
from detector.events.label import Label
from detector.http import diagnosis, health, incidents, status_page, streams
from detector.http.answers import answer
from detector.http.console import budget, export, remarks, signals, silences
from detector.http.openapi import document
from detector.settings.service import Role

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
JSON, TEXT, HTML, STREAM = "application/json", "text/plain", "text/html", "text/event-stream"
RENAMED = "@1794960000"  # 2026-11-18: since when former paths are deprecated (RFC 9745)


@dataclass(frozen=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    handler: Handler
    summary: str
    answer: Any = dict[str, Any]  # type of the content, if that is JSON
    media: str = JSON
    body: Any = None  # type of the body, if it has one
    query: type[msgspec.Struct] | None = None
    also: tuple[int, ...] = ()  # statuses besides 200 that come with the same content
    errors: tuple[int, ...] = ()  # statuses that come with an error
    needs_token: bool = True
    role: Role = "view"  # that a token needs to have
    former: str | None = None  # its path in the previous release, answered for one more
    successor: str | None = None  # of a former path: the one to use instead

    @property
    def is_stream(self) -> bool:
        return self.media == STREAM


async def openapi(request: web.Request) -> web.Response:
    return web.Response(body=_openapi(), content_type=JSON)


@cache
def _openapi() -> bytes:
    body: bytes = answer(document(ROUTES)).body  # type: ignore[assignment]
    return body


_COMMAND: dict[str, Any] = {
    "answer": incidents.Records, "errors": (400, 404, 408, 409, 503), "role": "operate",
}  # fmt: skip
_ACTION: dict[str, Any] = {"also": (202,), "errors": (404, 409, 503)}
# Addresses of the console's views: each is the same page, which looks at its address.
_VIEWS = ("/incidents", "/incidents/{incident}", "/nodes/{name}", "/silences", "/budget", "/audit")

_CURRENT = (
    Route("GET", "/", status_page.index, "The console; the page holds no data.", media=HTML,
          needs_token=False),
    *(Route("GET", path, status_page.index, "The console at one of its addresses.", media=HTML,
            needs_token=False) for path in _VIEWS),
    Route("GET", "/page/{file}", status_page.file, "Scripts and styles of the console.", media=TEXT,
          errors=(404,), needs_token=False),
    Route("GET", "/healthz", health.healthz, "Liveness: whether the pipeline makes progress.", media=TEXT,
          errors=(503,), needs_token=False),
    Route("GET", "/readyz", health.readyz,
          "Readiness of configuration, pipeline, state, sources and sinks; 503 if a required one fails.",
          answer=health.Readiness, also=(503,)),
    Route("GET", "/metrics", health.metrics, "Metrics in the Prometheus text format.", media=TEXT),
    Route("GET", "/api/v1/status", incidents.status, "Status of the daemon, as shown by the console."),
    Route("GET", "/api/v1/incidents", incidents.list_incidents,
          "The latest record of each incident, newest first, and the findings about them.",
          query=incidents.IncidentQuery, answer=incidents.IncidentList, errors=(400, 503)),
    Route("GET", "/api/v1/incidents/{incident}", incidents.show_incident,
          "All stored records of one incident, oldest first.", answer=incidents.IncidentRecords,
          errors=(404, 503)),
    Route("GET", "/api/v1/export", export.incidents,
          "The latest record of each incident as CSV or JSON lines.", media=TEXT,
          query=export.ExportQuery, errors=(400, 503)),
    Route("POST", "/api/v1/incidents/{incident}/accept", incidents.accept,
          "Accept the change as the new baseline, and close the incident.", body=incidents.NoArguments,
          **_COMMAND),
    Route("POST", "/api/v1/incidents/{incident}/clear", incidents.clear,
          "Close the incident and keep the earlier baseline.", body=incidents.NoArguments, **_COMMAND),
    Route("POST", "/api/v1/incidents/{incident}/label", incidents.label,
          "Label an incident; labels are kept permanently.", body=Label, **_COMMAND),
    Route("POST", "/api/v1/incidents/{incident}/analyze", diagnosis.analyze,
          "Analyze an incident again now; the result is not recorded.", **_ACTION,
          role="operate",
          former="/api/v1/incidents/{incident}/examine"),
    Route("GET", "/api/v1/outbox", health.list_aside, "Records that a sink did not accept, oldest first.",
          answer=health.Aside, errors=(503,)),
    Route("POST", "/api/v1/outbox/send", health.send_again, "Send records that are set aside again.",
          body=health.Chosen, answer=health.Count, errors=(400, 404, 408, 503), role="operate"),
    Route("POST", "/api/v1/outbox/drop", health.drop_aside, "Drop records that are set aside.",
          body=health.Chosen, answer=health.Count, errors=(400, 404, 408, 503), role="operate"),
    Route("GET", "/api/v1/incidents/{incident}/signals", signals.of_incident,
          "Signals of its nodes before, during and after it, and the distributions of their values.",
          answer=signals.IncidentSignals, errors=(404, 503)),
    Route("GET", "/api/v1/incidents/{incident}/comments", remarks.list_comments, "Comments on an incident.",
          answer=remarks.Comments, errors=(404, 503)),
    Route("POST", "/api/v1/incidents/{incident}/comments", remarks.comment, "Add a comment.",
          body=remarks.NewComment, answer=remarks.Comments, errors=(400, 404, 408, 503), role="operate"),
    Route("GET", "/api/v1/silences", silences.list_silences, "Silences and maintenance windows.",
          answer=silences.Silences),
    Route("POST", "/api/v1/silences", silences.add, "Add a silence: incidents of these nodes are not sent.",
          body=silences.NewSilence, answer=silences.ShownSilence, errors=(400, 408, 409, 503),
          role="operate"),
    Route("POST", "/api/v1/silences/{silence}/end", silences.end, "End a silence early.",
          answer=silences.ShownSilence, errors=(404, 409, 503), role="operate"),
    Route("GET", "/api/v1/budget", budget.show,
          "The budget, and other budgets on the stored past.",
          query=budget.BudgetQuery, answer=budget.BudgetView, errors=(400, 503)),
    Route("POST", "/api/v1/budget", budget.choose, "Choose another budget, or the one of the configuration.",
          body=budget.NewBudget, answer=budget.BudgetView, errors=(400, 409, 503), role="admin"),
    Route("GET", "/api/v1/audit", remarks.audit, "Audit trail, newest first.", query=remarks.AuditQuery,
          answer=remarks.AuditTrail, errors=(400, 503)),
    Route("GET", "/api/v1/diagnosis", diagnosis.overview,
          "Analyzers, models, waiting case files, the latest actions.", errors=(503,),
          former="/api/v1/aftermath"),
    Route("GET", "/api/v1/diagnosis/actions/{number}", diagnosis.action,
          "Result of a long action; waits a few seconds for it to finish.", **_ACTION,
          former="/api/v1/aftermath/actions/{number}"),
    Route("POST", "/api/v1/diagnosis/{kind}/{action}", diagnosis.act,
          "Run an action of an analyzer; each is described separately.", body=dict[str, Any],
          also=(202,), errors=(400, 404, 408, 409, 503), role="operate",
          former="/api/v1/aftermath/{kind}/{action}"),
    Route("GET", "/api/v1/nodes", incidents.list_nodes, "All nodes and their statistics.",
          answer=incidents.NodeList),
    Route("GET", "/api/v1/nodes/{name}", incidents.show_node,
          "One node: signal, windows, scores, neighbours.", errors=(404,)),
    Route("GET", "/api/v1/network", status_page.network,
          "Names of the nodes, places in a unit square, links as pairs of node numbers.",
          answer=status_page.NetworkDrawing),
    Route("GET", "/api/v1/nodes/{name}/history", signals.of_node,
          "Signal and statistics of a node over hours or days, with its incidents.",
          query=signals.HistoryQuery, answer=signals.NodeHistory, errors=(400, 404, 503),
          former="/api/v1/history/{name}"),
    Route("GET", "/api/v1/nodes/{name}/export", export.node,
          "The same history as CSV: mean, lowest and highest value of each row, and both statistics.",
          media=TEXT, query=signals.HistoryQuery, errors=(400, 404, 503)),
    Route("GET", "/api/v1/events", streams.events,
          "All records as server-sent events; Last-Event-ID resumes.", media=STREAM,
          errors=(503,)),
    Route("GET", "/api/v1/live", streams.live,
          "As /api/v1/events, and each second a `frame` with the state of every node.", media=STREAM,
          errors=(503,)),
    Route("GET", "/api/v1/openapi.json", openapi, "This description."),
)  # fmt: skip

ROUTES: tuple[Route, ...] = (
    *_CURRENT,
    *(
        dataclasses.replace(route, path=route.former, former=None, successor=route.path)
        for route in _CURRENT
        if route.former is not None
    ),
)
_BY_PATH = {(route.method, route.path): route for route in ROUTES}


def mount(app: web.Application) -> None:
    for route in ROUTES:
        if route.method == hdrs.METH_GET:
            app.router.add_get(route.path, route.handler, allow_head=not route.is_stream)
        else:
            app.router.add_route(route.method, route.path, route.handler)


def route_of(request: web.Request) -> Route | None:
    """The line of the table that a request was matched with; None for others."""
    resource = request.match_info.route.resource
    method = hdrs.METH_GET if request.method == hdrs.METH_HEAD else request.method
    return None if resource is None else _BY_PATH.get((method, resource.canonical))


def deprecation(request: web.Request, route: Route) -> dict[str, str]:
    """Headers that say what to use instead of a former path or a former name of an analyzer."""
    given = {name: request.rel_url.raw_parts[k] for k, name in _places(route.path).items()}
    present = given | ({"kind": present_name(given["kind"])} if "kind" in given else {})
    if route.successor is None and present == given:
        return {}
    successor = (route.successor or route.path).format_map(present)
    return {"Deprecation": RENAMED, "Link": f'<{successor}>; rel="successor-version"'}


def _places(path: str) -> dict[int, str]:
    """The names in a path, by the number of their part."""
    return {k: part[1:-1] for k, part in enumerate(path.split("/")) if part.startswith("{")}
