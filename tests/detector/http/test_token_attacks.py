"""Attacks on the token, and attacks by somebody who has one: refused, and nobody else notices (T30)."""

from __future__ import annotations

import base64
import http.client
import json
import os
import pickle
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detector.http.openapi import document
from detector.http.routes import ROUTES
from tests.detector import rig

TOKEN = "correct horse battery staple"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
GUESSES = 1500
NASTY = (
    "../../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%00", "a" * 4000, "%F0%9F%92%A9", "$(id)",
    "';DROP%20TABLE%20records;--", "%0d%0aX-Injected:%20yes", "{{7*7}}", "-1", "NaN",
)  # fmt: skip


class Planted:
    """Runs if anybody unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch planted",)


def hostile(schema: dict[str, Any]) -> Iterator[bytes]:
    """Bodies for a form: broken ones, and ones that name its own fields with values that nobody expects."""
    yield from (
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 50_000,
        b'{"a":' * 50_000,
        b'{"x": 1e999}',
        b"1" * 5000,
    )
    packed = base64.b64encode(pickle.dumps(Planted())).decode()
    values: tuple[Any, ...] = (
        "../../etc/passwd", "x" * 200_000, -1, 10**400, [], ["x"] * 20_000, {"a": {"b": None}}, None, True,
        packed, "\u0000", "<script>window.hacked=1</script>",
    )  # fmt: skip
    for value in values:
        yield json.dumps(dict.fromkeys(schema.get("properties", {}), value)).encode()
    yield json.dumps({**dict.fromkeys(schema.get("properties", {}), "x"), "__class__": "os.system"}).encode()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, learnt_state: Path) -> Iterator[rig.Service]:
    folder = tmp_path_factory.mktemp("attacks")
    rig.copy_state(learnt_state, folder)
    (folder / "token").write_text(TOKEN)
    (folder / "in.jsonl").write_text("\n".join(rig.lines(rig.LEARN + 60, 700, every=60)) + "\n")
    sources = {"in": {"type": "file", "path": str(folder / "in.jsonl")}, "push": {"type": "http"}}
    config = rig.write_config(folder, sources=sources, http={"port": 0, "token_file": str(folder / "token")})
    with rig.Service(config) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.ask("/api/v1/incidents", headers=RIGHT)[1]["incidents"])
        yield service


def test_guessing(service: rig.Service) -> None:
    """Every guess is refused and counted, the rightful one is served meanwhile, the log does not grow."""
    refused = rig.total(service.ask("/metrics", headers=RIGHT)[1], "http_refused_total", reason="token")
    said = len(service.said())
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
    for number in range(GUESSES):
        guess = TOKEN[: number % len(TOKEN)] + f"{number:x}"
        connection.request("GET", "/api/v1/status", headers={"Authorization": f"Bearer {guess}"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 401
        if number % 100 == 0:
            assert service.ask("/api/v1/status", headers=RIGHT)[0] == 200
    connection.close()
    page = service.ask("/metrics", headers=RIGHT)[1]
    assert rig.total(page, "http_refused_total", reason="token") == refused + GUESSES
    assert len(service.said()) - said < 2000
    assert TOKEN not in service.said()


@pytest.mark.parametrize(
    "header",
    [
        f"Authorization: {TOKEN}", f"Authorization: Basic {base64.b64encode(TOKEN.encode()).decode()}",
        "Authorization: Bearer", f"Authorization: Bearer {TOKEN}\x00",
        f"Authorization: Bearer {TOKEN}, Bearer x",
        f"Authorization: Bearer x {TOKEN}", f"Authorization: Bearer {TOKEN.upper()}",
        f"Authorization: Bearer x\r\nAuthorization: Bearer {TOKEN}", "Authorization: Bearer " + "é" * 50,
        "Authorization: Bearer " + "x" * 7000, f"Cookie: token={TOKEN}", f"X-Token: {TOKEN}",
    ],
    ids=lambda header: header[:30] + str(len(header)),
)  # fmt: skip
def test_other_ways_to_say_it(service: rig.Service, header: str) -> None:
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as client:
        query = f"/api/v1/status?token={TOKEN.replace(' ', '+')}"
        client.sendall(f"GET {query} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n".encode())
        assert int(client.recv(200).split()[1]) in (400, 401)


def memory(service: rig.Service) -> int:
    text = Path(f"/proc/{service.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")) * 1024


def test_by_somebody_who_has_it(service: rig.Service) -> None:
    """Every route, with bodies and names that nobody expects: no error of ours, no file, no growth."""
    described = document(ROUTES)
    before, answered = memory(service), 0
    incident = service.ask("/api/v1/incidents", headers=RIGHT)[1]["incidents"][0]["incident"]
    files = set(service.log.parent.rglob("*"))
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            if method == "get" or "shutdown" in path:
                continue
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            schema = content.get("schema", {})
            if "$ref" in schema:
                schema = described["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
            names = [one["name"] for one in operation["parameters"] if one["in"] == "path"]
            for body in hostile(schema):
                nasty = dict.fromkeys(names, NASTY[answered % len(NASTY)])
                for places in (nasty, {**nasty, "incident": incident}) if "incident" in names else (nasty,):
                    status, answer = service.ask(path.format_map(places), method.upper(), body, RIGHT)
                    assert status < 500 or status == 503, (path, body[:80], answer)
                    answered += 1
    for path in described["paths"]:
        for nasty in NASTY:
            filled = path
            for part in path.split("/"):
                if part.startswith("{"):
                    filled = filled.replace(part, nasty)
            if filled != path:
                status, answer = service.ask(filled, headers=RIGHT)
                assert status < 500, (filled, answer)
                assert "root:" not in str(answer)
    assert answered > 300
    assert service.ask("/healthz")[0] == 200
    assert service.ask("/api/v1/status", headers=RIGHT)[1]["phase"] == "watching"
    assert memory(service) - before < 64 * 2**20
    made = {path for path in set(service.log.parent.rglob("*")) - files if "state" not in path.parts}
    assert not made
    assert not Path("planted").exists()
    ours = [line for line in service.said().splitlines() if "aiohttp.server" not in line]  # what it refused
    assert not [line for line in ours if "Traceback" in line]
