"""The description of the HTTP interface in OpenAPI 3.1, made from the table of routes."""

from __future__ import annotations

import contextlib
import importlib.metadata
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from connectors.registry import PluginError
from detector.diagnosis.registry import ANALYZERS, load
from detector.events.schema import schema

if TYPE_CHECKING:
    from detector.http.routes import Route

JSON = "application/json"
ACTION_PATH = "/api/v1/diagnosis/{kind}/{action}"
NAMES = {
    "incident": "Id of the incident.",
    "name": "Name of the node.",
    "silence": "Id of the silence.",
    "file": "Name of the file.",
    "number": "Number of the action.",
    "kind": "Name of the analyzer.",
    "action": "What to do.",
}
REASONS = {
    202: "It takes longer: ask /api/v1/diagnosis/actions/ with the number in `action`.",
    400: "The request is invalid.",
    401: "A token is needed.",
    403: "The token's role does not allow it.",
    404: "What the path names does not exist.",
    408: "The body took too long.",
    409: "It conflicts with the present state.",
    503: "Busy, stopping, failing, or the state cannot be used.",
}


class Error(msgspec.Struct):
    """Why a request was not carried out."""

    error: str


def document(routes: Sequence[Route]) -> dict[str, Any]:
    actions: dict[str, Any] = {}
    for kind in ANALYZERS:
        with contextlib.suppress(PluginError):  # one that cannot be loaded has no actions
            for name, action in load(kind).ACTIONS.items():
                actions[ACTION_PATH.format(kind=kind, action=name)] = action
    types: list[Any] = [Error]
    types += [route.answer for route in routes]
    types += [route.body for route in routes if route.body is not None]
    types += [action.arguments for action in actions.values()]
    made, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schemas = dict(zip(map(_key, types), made, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    general = next(route for route in routes if route.path == ACTION_PATH)
    for path, action in actions.items():
        operation = _operation(general, schemas) | {"summary": action.help, "parameters": []}
        operation["requestBody"] = _content(schemas[_key(action.arguments)])
        paths[path] = {"post": operation}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "detector",
            "version": importlib.metadata.version("detectord"),
            "description": "Incidents of a sensor network, and the health of the daemon that finds them.",
        },
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            # Those of records with what their fields mean.
            "schemas": components | _moved(schema()["$defs"]),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    good = _content(schemas[_key(route.answer)]) if route.media == JSON else {"content": {route.media: {}}}
    described: dict[str, Any] = {
        "summary": route.summary,
        "parameters": [*_path_parameters(route.path), *_query_parameters(route)],
        "responses": {"200": {"description": "Good.", **good}},
    }
    for status in route.also:
        described["responses"][str(status)] = {"description": REASONS[status], **good}
    errors = (
        *route.errors,
        *((401,) if route.needs_token else ()),
        *((403,) if route.role != "view" else ()),
    )
    for status in sorted(errors):
        failed = {"description": REASONS[status], **_content(schemas[_key(Error)])}
        described["responses"][str(status)] = failed
    if route.body is not None:
        described["requestBody"] = _content(schemas[_key(route.body)])
    if not route.needs_token:
        described["security"] = []
    if route.successor is not None:
        described |= {"deprecated": True, "description": f"Use {route.successor}."}
    return described


def _key(kind: Any) -> str:
    return f"{getattr(kind, '__module__', '')}.{kind}"


def _content(kind: Any) -> dict[str, Any]:
    return {"content": {JSON: {"schema": kind}}}


def _path_parameters(path: str) -> Iterable[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", path):
        yield {
            "name": name, "in": "path", "required": True, "description": NAMES[name],
            "schema": {"type": "string"},
        }  # fmt: skip


def _query_parameters(route: Route) -> Iterable[dict[str, Any]]:
    if route.query is None:
        return
    fields = msgspec.json.schema(route.query)["$defs"][route.query.__name__]["properties"]
    for name, given in fields.items():
        kind = {key: value for key, value in given.items() if key != "description"}
        described = given.get("description", "")
        yield {"name": name, "in": "query", "required": False, "description": described, "schema": kind}


def _moved(value: Any) -> Any:
    """References point to the place of schemas in this document."""
    if isinstance(value, dict):
        return {
            key: one.replace("#/$defs/", "#/components/schemas/") if key == "$ref" else _moved(one)
            for key, one in value.items()
        }
    return [_moved(one) for one in value] if isinstance(value, list) else value
