"""The description of the HTTP interface in OpenAPI 3.1, for people and for generators of clients."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from detector.aftermath.openapi import AFTERMATH, action_paths
from detector.schema import schema

JSON = "application/json"


def document() -> dict[str, Any]:
    events = schema()
    schemas = _moved(events.pop("$defs"))
    schemas |= {
        "Error": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]},
        "Label": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "alarm": {"enum": ["true", "false"], "description": "whether there really was an event"},
                "type": {"type": "string", "description": "kind of event, in your own words"},
                "nodes": {"type": "array", "items": {"type": "string"}, "description": "nodes concerned"},
                "note": {"type": "string"},
            },
        },
        "Ready": {
            "type": "object",
            "properties": {
                "ready": {"type": "boolean"},
                "status": {"enum": ["ready", "degraded", "unready"]},
                "parts": {"type": "object"},
                "sources": {"type": "object"},
                "sinks": {"type": "object"},
            },
        },
    }
    actions, arguments = action_paths()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "detector",
            "version": importlib.metadata.version("detector"),
            "description": "Incidents of a sensor network, and the health of the daemon that finds them.",
        },
        "security": [{}, {"token": []}],
        "paths": PATHS | actions,
        "components": {
            "schemas": schemas | arguments,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _moved(value: Any) -> Any:
    """References point to the place of schemas in this document."""
    if isinstance(value, dict):
        return {
            key: one.replace("#/$defs/", "#/components/schemas/") if key == "$ref" else _moved(one)
            for key, one in value.items()
        }
    return [_moved(one) for one in value] if isinstance(value, list) else value


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _content(kind: Any, description: str = "Good.") -> dict[str, Any]:
    return {"description": description, "content": {JSON: {"schema": kind}}}


def _list(key: str) -> dict[str, Any]:
    return {"type": "object", "properties": {key: {"type": "array", "items": _ref("Event")}}}


def _parameter(name: str, place: str, description: str, kind: Any = None) -> dict[str, Any]:
    return {
        "name": name, "in": place, "required": place == "path", "description": description,
        "schema": kind or {"type": "string"},
    }  # fmt: skip


def _command(summary: str, body: Any = None) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": summary,
        "parameters": [_parameter("incident", "path", "Id of the incident.")],
        "responses": {
            "200": _content(_list("records"), "Done; the records it led to."),
            "400": _content(_ref("Error"), "The body is not understood."),
            "404": _content(_ref("Error"), "There is no such incident."),
            "409": _content(_ref("Error"), "The incident has ended already, or a node is not known."),
            "503": _content(_ref("Error"), "Busy or stopping."),
        },
    }
    if body is not None:
        described["requestBody"] = {"content": {JSON: {"schema": body}}}
    return {"post": described}


PATHS: dict[str, Any] = {
    "/healthz": {
        "get": {
            "summary": "Whether the pipeline's thread makes progress. Needs no token.",
            "responses": {"200": {"description": "It does."}, "503": {"description": "It hangs."}},
        }
    },
    "/readyz": {
        "get": {
            "summary": "How each part is: configuration, pipeline, state, sources, sinks.",
            "responses": {"200": _content(_ref("Ready")), "503": _content(_ref("Ready"), "A part fails.")},
        }
    },
    "/metrics": {
        "get": {
            "summary": "Metrics in Prometheus' text format.",
            "responses": {"200": {"description": "Good.", "content": {"text/plain": {}}}},
        }
    },
    "/api/v1/status": {
        "get": {
            "summary": "Everything that the status page shows.",
            "responses": {"200": _content({"type": "object"})},
        }
    },
    "/api/v1/incidents": {
        "get": {
            "summary": "The latest record of each incident, newest first, and what was found out about them.",
            "parameters": [
                _parameter("state", "query", "Which ones.", {"enum": ["all", "open", "ended"]}),
                _parameter("limit", "query", "At most so many.", {"type": "integer", "maximum": 1000}),
            ],
            "responses": {
                "200": _content(
                    {
                        "type": "object",
                        "properties": {
                            "incidents": {"type": "array", "items": _ref("Event")},
                            "findings": {"type": "array", "items": _ref("Event")},
                        },
                    }
                ),
                "400": _content(_ref("Error"), "A parameter is not understood."),
            },
        }
    },
    "/api/v1/incidents/{incident}": {
        "get": {
            "summary": "All stored records of one incident, oldest first.",
            "parameters": [_parameter("incident", "path", "Id of the incident.")],
            "responses": {
                "200": _content(_list("records")),
                "404": _content(_ref("Error"), "There is no such incident."),
            },
        }
    },
    "/api/v1/incidents/{incident}/accept": _command("This is the new normal: learn it, end the incident."),
    "/api/v1/incidents/{incident}/clear": _command("It is over: end the incident, learn nothing from it."),
    "/api/v1/incidents/{incident}/label": _command(
        "Note what people know about it; kept for ever.", _ref("Label")
    ),
    **AFTERMATH,
    "/api/v1/nodes": {
        "get": {
            "summary": "All nodes with their statistic.",
            "responses": {"200": _content({"type": "object"})},
        }
    },
    "/api/v1/nodes/{name}": {
        "get": {
            "summary": "What is known of one node: signal, windows, scores, neighbours.",
            "parameters": [_parameter("name", "path", "Name of the node.")],
            "responses": {
                "200": _content({"type": "object"}),
                "404": _content(_ref("Error"), "There is no such node."),
            },
        }
    },
    "/api/v1/network": {
        "get": {
            "summary": "Names of the nodes, places in a unit square, links as pairs of node numbers.",
            "responses": {"200": _content({"type": "object"})},
        }
    },
    "/api/v1/history/{name}": {
        "get": {
            "summary": "The latest course of a node's statistics, about one value a second.",
            "parameters": [_parameter("name", "path", "Name of the node.")],
            "responses": {
                "200": _content({"type": "object"}),
                "404": _content(_ref("Error"), "There is no such node."),
            },
        }
    },
    "/api/v1/live": {
        "get": {
            "summary": "What the status page follows, as server-sent events: a frame with the state of every "
            "node each second, and every record.",
            "responses": {"200": {"description": "A stream.", "content": {"text/event-stream": {}}}},
        }
    },
    "/api/v1/events": {
        "get": {
            "summary": "Every record as it is made, as server-sent events; Last-Event-ID resumes.",
            "responses": {"200": {"description": "A stream.", "content": {"text/event-stream": {}}}},
        }
    },
    "/api/v1/openapi.json": {
        "get": {
            "summary": "This description.",
            "responses": {"200": _content({"type": "object"})},
        }
    },
}
