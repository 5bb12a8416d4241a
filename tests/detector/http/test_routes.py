"""Every route of the table: guarded, documented, answering by its own schema, on a real daemon."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from detector.events.label import FIELDS, Label
from detector.http.openapi import document
from detector.http.routes import ROUTES, STREAM, Route
from detector.settings.renamed import ANALYZERS
from tests.detector import rig

TOKEN = {"Authorization": "Bearer swordfish"}
OPEN = {  # hold no data; a route that is opened must be added here, too
    "/", "/page/{file}", "/healthz", "/incidents", "/incidents/{incident}", "/nodes/{name}", "/silences",
    "/budget", "/audit",
}  # fmt: skip
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
PLACES = {
    "file": "main.js",
    "name": "n3",
    "kind": "footprint",
    "action": "show",
    "number": "0",
    "silence": "none",
}
IDS = [f"{route.method} {route.path}" for route in ROUTES]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, learnt_state: Path) -> Iterator[rig.Service]:
    folder = tmp_path_factory.mktemp("routes")
    rig.copy_state(learnt_state, folder)
    (folder / "token").write_text("swordfish\n")
    (folder / "in.jsonl").write_text("\n".join(rig.lines(rig.LEARN + 60, 700, every=60)) + "\n")
    config = rig.write_config(folder, http={"port": 0, "token_file": str(folder / "token")})
    with rig.Service(config) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.ask("/api/v1/incidents", headers=TOKEN)[1]["incidents"])
        yield service


@pytest.fixture(scope="module")
def incident(service: rig.Service) -> str:
    return str(service.ask("/api/v1/incidents", headers=TOKEN)[1]["incidents"][0]["incident"])


def ask(
    service: rig.Service, method: str, path: str, headers: dict[str, str], body: str | None = None
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    stream = answer.headers.get("Content-Type", "").startswith(STREAM)
    read = b"" if stream else answer.read()
    connection.close()
    return answer, read


def act(service: rig.Service, path: str) -> tuple[http.client.HTTPResponse, int, bytes]:
    """The answer of an action, and the status and body of its outcome, however busy the machine is."""
    answer, body = ask(service, "POST", path, TOKEN, "{}")
    ended, told = answer, body
    while ended.status == 202:
        ended, told = ask(service, "GET", f"/api/v1/diagnosis/actions/{json.loads(body)['action']}", TOKEN)
    return answer, ended.status, told


def real(path: str, incident: str = "none") -> str:
    return path.format_map({**PLACES, "incident": incident})


def fits(template: str, path: str) -> bool:
    return re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), path) is not None


def test_what_is_open_is_declared() -> None:
    assert {route.path for route in ROUTES if not route.needs_token} == OPEN


@pytest.mark.parametrize("route", ROUTES, ids=IDS)
@pytest.mark.parametrize("given", [{}, {"Authorization": "Bearer wrong"}], ids=["without", "wrong"])
def test_token(service: rig.Service, route: Route, given: dict[str, str]) -> None:
    """Without the token a route is refused, unless it is declared open; nothing is given away."""
    answer, body = ask(service, route.method, real(route.path), given, "{}" if route.body else None)
    if route.needs_token:
        assert answer.status == 401
        assert json.loads(body) == {"error": "a token is needed: Authorization: Bearer TOKEN"}
        assert answer.headers["WWW-Authenticate"]
    else:
        assert answer.status == 200


@pytest.mark.parametrize("path", sorted({route.path for route in ROUTES}))
def test_wrong_methods(service: rig.Service, path: str) -> None:
    """405 with what is allowed."""
    right = {route.method for route in ROUTES if fits(route.path, real(path))}
    for method in METHODS:
        if method not in right:
            answer, body = ask(service, method, real(path), TOKEN)
            assert (answer.status, json.loads(body)) == (405, {"error": "Method Not Allowed"}), method
            assert right <= {one.strip() for one in answer.headers["Allow"].split(",")}


@pytest.mark.parametrize("path", ["/api", "/api/v1", "/api/v2/status", "/api/v1/status/", "/metrics/x", "/x"])
def test_unknown_paths(service: rig.Service, path: str) -> None:
    for method in ("GET", "POST"):
        answer, body = ask(service, method, path, TOKEN)
        assert (answer.status, json.loads(body)) == (404, {"error": "there is nothing here"})
        assert ask(service, method, path, {})[0].status == 401


@pytest.mark.parametrize("route", ROUTES, ids=IDS)
def test_answers_are_as_described(service: rig.Service, incident: str, route: Route) -> None:
    """Status and content are among those of the description, security headers are there, versions are not."""
    described = document(ROUTES)
    operation = described["paths"][route.path][route.method.lower()]
    assert operation["summary"]
    body = "{}" if route.body else None
    answer, content = ask(service, route.method, real(route.path, incident), TOKEN, body)
    assert str(answer.status) in operation["responses"], content
    assert answer.headers["Server"] == "detector"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert ("Deprecation" in answer.headers) == (route.successor is not None)
    media = operation["responses"][str(answer.status)]["content"]
    if "application/json" in media:
        schema = {**media["application/json"]["schema"], "components": described["components"]}
        jsonschema.validate(json.loads(content), schema, cls=jsonschema.Draft202012Validator)


def test_former_paths_name_their_successors(service: rig.Service) -> None:
    answer, body = ask(service, "GET", "/api/v1/aftermath", TOKEN)
    assert answer.status == 200
    assert body == ask(service, "GET", "/api/v1/diagnosis", TOKEN)[1]
    assert re.fullmatch(r"@\d{10}", answer.headers["Deprecation"])
    assert answer.headers["Link"] == '</api/v1/diagnosis>; rel="successor-version"'
    answer, _ = ask(service, "POST", "/api/v1/aftermath/a%2Fb/show", TOKEN, "{}")
    assert answer.headers["Link"] == '</api/v1/diagnosis/a%2Fb/show>; rel="successor-version"'
    answer, _ = ask(service, "POST", "/api/v1/incidents/x/examine", TOKEN)
    assert answer.headers["Link"] == '</api/v1/incidents/x/analyze>; rel="successor-version"'


@pytest.mark.parametrize("root", ["aftermath", "diagnosis"])
@pytest.mark.parametrize(("former", "present"), sorted(ANALYZERS.items()))
def test_former_names_of_analyzers(service: rig.Service, root: str, former: str, present: str) -> None:
    """Answered as the present name is, in paths of both releases."""
    answer, *outcome = act(service, f"/api/v1/{root}/{former}/show")
    same, *expected = act(service, f"/api/v1/diagnosis/{present}/show")
    assert outcome == expected
    assert "Deprecation" in answer.headers
    assert "Deprecation" not in same.headers
    assert answer.headers["Link"] == f'</api/v1/diagnosis/{present}/show>; rel="successor-version"'


def test_the_description_is_valid() -> None:
    """References lead somewhere, schemas are schemas, and every path's names are parameters."""
    described = document(ROUTES)
    text = json.dumps(described)
    names = set(described["components"]["schemas"])
    assert {one.rsplit("/", 1)[1] for one in re.findall(r'"#/components/schemas/[^"]+(?=")', text)} <= names
    for schema in described["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for path, operations in described["paths"].items():
        for operation in operations.values():
            given = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
            assert given == set(re.findall(r"{(\w+)}", path))
    actions = [path for path in described["paths"] if path.startswith("/api/v1/diagnosis/footprint/")]
    assert actions


def test_a_label_is_defined_once() -> None:
    """HTTP, OpenAPI, command line and records have the fields of the struct."""
    from detector.cli.incidents import label
    from detector.events.model import Labels

    schema: dict[str, Any] = document(ROUTES)["components"]["schemas"]["Label"]
    assert tuple(schema["properties"]) == FIELDS == Label.__struct_fields__
    assert all(field["description"] and field["title"] for field in schema["properties"].values())
    assert {option.name for option in label.params} - {"incident", "config_path"} == set(FIELDS)
    assert set(Labels.__struct_fields__) - {"time"} == set(FIELDS)


def test_errors_of_the_server_itself_name_no_versions(service: rig.Service) -> None:
    import socket

    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as client:
        client.sendall(b"\x00\x01\r\n\r\n")
        said = client.recv(4096)
    assert b" 400 " in said.split(b"\r\n")[0]
    assert b"Server: detector\r\n" in said
    assert b"aiohttp" not in said
    assert b"Python" not in said
