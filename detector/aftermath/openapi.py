"""The part of the interface's description that belongs to the aftermath."""

from __future__ import annotations

from typing import Any

import msgspec

from detector.aftermath.kinds import KINDS, kind_module

JSON = "application/json"
_ERROR = {"$ref": "#/components/schemas/Error"}


def _answer(words: str, schema: Any = None) -> dict[str, Any]:
    return {"description": words, "content": {JSON: {"schema": schema or {"type": "object"}}}}


def _parameter(name: str, words: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": words, "schema": {"type": "string"}}


_DONE = {
    "200": _answer("Done; what it gave."),
    "202": _answer("It takes longer: ask /api/v1/aftermath/actions/ with the number in `action`."),
    "404": _answer("What it names is not there.", _ERROR),
    "409": _answer("It makes no sense as asked.", _ERROR),
    "503": _answer("Busy, stopping, or the state cannot be used.", _ERROR),
}

AFTERMATH: dict[str, Any] = {
    "/api/v1/aftermath": {
        "get": {
            "summary": "Kinds of findings, models, case files that wait, the latest actions.",
            "responses": {"200": _answer("Good.")},
        }
    },
    "/api/v1/aftermath/actions/{number}": {
        "get": {
            "summary": "What came of an action that took longer; waits a few seconds for its end.",
            "parameters": [_parameter("number", "Number of the action.")],
            "responses": _DONE,
        }
    },
    "/api/v1/aftermath/{kind}/{action}": {
        "post": {
            "summary": "Have something done with a kind of finding: each is described by itself.",
            "parameters": [_parameter("kind", "Kind of finding."), _parameter("action", "What to do.")],
            "requestBody": {"content": {JSON: {"schema": {"type": "object"}}}},
            "responses": {**_DONE, "400": _answer("The arguments are not understood.", _ERROR)},
        }
    },
    "/api/v1/incidents/{incident}/examine": {
        "post": {
            "summary": "Examine an incident now, by what is known today; nothing of it is recorded.",
            "parameters": [_parameter("incident", "Id of the incident.")],
            "responses": _DONE,
        }
    },
}


def action_paths() -> tuple[dict[str, Any], dict[str, Any]]:
    """One path for each action there is, and the schemas of their arguments."""
    actions = {(kind, name): action for kind in KINDS for name, action in kind_module(kind).ACTIONS.items()}
    described, schemas = msgspec.json.schema_components(
        [action.arguments for action in actions.values()], ref_template="#/components/schemas/{name}"
    )
    paths = {
        f"/api/v1/aftermath/{kind}/{name}": {
            "post": {
                "summary": action.help,
                "requestBody": {"content": {JSON: {"schema": schema}}},
                "responses": {**_DONE, "400": _answer("The arguments are not understood.", _ERROR)},
            }
        }
        for ((kind, name), action), schema in zip(actions.items(), described, strict=True)
    }
    return paths, schemas
