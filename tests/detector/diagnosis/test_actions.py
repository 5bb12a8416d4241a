"""Actions of analyzers: over HTTP with a real diagnosis service, and on the command line without one."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from click.testing import CliRunner

from detector.cli.diagnosis import diagnosis
from detector.cli.main import cli
from detector.diagnosis.actions import Action, ActionError, Arguments, NotThere
from detector.diagnosis.jobs import MAX_WAITING
from detector.diagnosis.repository import Repository
from detector.http import diagnosis as api
from detector.http import openapi
from detector.http.routes import ROUTES, mount
from detector.http.server import answered
from detector.http.service import SERVICE
from detector.storage.store import Bundle, Store
from tests.detector import rig
from tests.detector.diagnosis.test_service import Rig, size
from tests.detector.storage.test_cases import case, label


def words(text: str) -> Any:
    return msgspec.Meta(description=text)


class Enrol(Arguments):
    """Every type of argument that there is."""

    name: Annotated[str, words("Name of the model.")]
    incidents: Annotated[list[str], words("An incident to learn from.")] = msgspec.field(default_factory=list)
    weight: Annotated[float | None, words("How much it counts.")] = None
    times: Annotated[int, msgspec.Meta(ge=1, description="How often.")] = 1
    mode: Annotated[Literal["new", "again"], words("What to do.")] = "new"
    quick: Annotated[bool, words("Whether to hurry.")] = False
    file: Annotated[bytes, words("What another site gave.")] = b""


def enrol(repository: Repository, arguments: Enrol) -> dict[str, Any]:
    if arguments.weight == 0:
        raise ActionError("a weight of 0 teaches nothing")
    cases = [one.incident for one, _ in repository.labelled_cases("early")]
    version = repository.save_model("site", arguments.name, msgspec.to_builtins(arguments) | {"cases": cases})
    return {"version": version, "cases": cases, "rows": [{"a": 1, "b": None}, {"a": 2.5}]}


class Named(Arguments):
    """One model."""

    name: Annotated[str, words("Name of the model.")]


def export(repository: Repository, arguments: Named) -> dict[str, Any]:
    model = repository.model("site", arguments.name)
    if model is None:
        raise NotThere(f"there is no model {arguments.name!r}")
    return {"file": msgspec.json.encode(model.meta), "version": model.version}


HELD = threading.Event()


def hold(repository: Repository, arguments: Arguments) -> dict[str, Any]:
    HELD.wait(20)
    return {"held": True}


def crash(repository: Repository, arguments: Arguments) -> dict[str, Any]:
    raise RuntimeError("of the test")


ACTIONS = {
    "enrol": Action("Learn a model.", enrol, Enrol),
    "export": Action("Write a model to a file.", export, Named, file=True),
    "hold": Action("Take long.", hold),
    "crash": Action("Fail.", crash),
}
KIND = {"analyze": size, "actions": ACTIONS}


def over_http(rig: Rig, monkeypatch: pytest.MonkeyPatch, talk: Any) -> Any:
    """A real server with a real diagnosis service; ``talk`` gets a function that posts JSON."""
    monkeypatch.setattr(api, "WAIT_S", 0.3)

    async def life(diagnosis: Any) -> Any:
        app = web.Application(middlewares=[answered])
        app[SERVICE] = SimpleNamespace(diagnosis=diagnosis, settings=SimpleNamespace(body_timeout=5.0))
        mount(app)
        async with TestClient(TestServer(app)) as client:

            async def ask(path: str, body: Any = None) -> tuple[int, Any]:
                url = f"/api/v1{path}"
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                answer = await (client.get(url) if body is None else client.post(url, data=data))
                return answer.status, await answer.json()

            return await talk(ask)

    return rig.run(case("i1"), then=life)


def test_actions_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Done, refused and broken ones answer as they should, and what they learn is there."""

    async def talk(ask: Any) -> None:
        body = {"name": "a", "weight": 2, "file": base64.b64encode(b"\x00\xff").decode()}
        status, answer = await ask("/diagnosis/site/enrol", body)
        assert (status, answer["version"]) == (200, 1)
        for wrong in (b"[", b"", {"name": 1}, {"name": "a", "x": 2}, {"name": "a", "times": 0}):
            status, answer = await ask("/diagnosis/site/enrol", wrong)
            assert (status, bool(answer["error"])) == (400, True)
        assert await ask("/diagnosis/site/enrol", {"name": "a", "weight": 0}) == (
            409, {"error": "a weight of 0 teaches nothing"},
        )  # fmt: skip
        status, answer = await ask("/diagnosis/site/export", {"name": "a"})
        assert json.loads(base64.b64decode(answer["file"]))["file"] == base64.b64encode(b"\x00\xff").decode()
        assert (await ask("/diagnosis/site/export", {"name": "b"}))[0] == 404
        assert (await ask("/diagnosis/sight/enrol", {}))[1]["error"].startswith(
            "there is no analyzer 'sight'; known:"
        )
        assert (await ask("/diagnosis/site/unroll", {}))[0] == 404
        assert await ask("/diagnosis/site/crash", {}) == (500, {"error": "RuntimeError: of the test"})
        status, answer = await ask("/diagnosis")
        assert answer["analyzers"] == {"site": {"active": True}}
        assert [(one["name"], one["version"]) for one in answer["models"]] == [("a", 1)]
        assert [one["state"] for one in answer["actions"]] == ["done", "failed", "done", "failed", "failed"]

    rig = Rig(tmp_path, monkeypatch, site=KIND)
    over_http(rig, monkeypatch, talk)
    assert rig.count("diagnosis_failures_total", kind="site", reason="error") == 1


def test_actions_that_take_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are asked for again by number; too many at once are turned away."""
    HELD.clear()

    async def talk(ask: Any) -> None:
        status, answer = await ask("/diagnosis/site/hold", {})
        assert (status, answer["state"]) == (202, "running")
        assert (await ask(f"/diagnosis/actions/{answer['action']}"))[0] == 202
        crowd = [asyncio.create_task(ask("/diagnosis/site/hold", {})) for _ in range(MAX_WAITING + 1)]
        assert sorted(status for status, _ in await asyncio.gather(*crowd)) == [202] * MAX_WAITING + [503]
        HELD.set()
        while (await ask(f"/diagnosis/actions/{answer['action']}")) != (200, {"held": True}):
            pass
        for number in ("99", "x", "-1", "²"):
            assert (await ask(f"/diagnosis/actions/{number}"))[0] == 404

    over_http(Rig(tmp_path, monkeypatch, site=KIND), monkeypatch, talk)


def test_an_incident_is_analyzed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk(ask: Any) -> None:
        status, answer = await ask("/incidents/i1/analyze", {})
        assert status == 200
        assert [one["id"] for one in answer["findings"]] == ["i1-size-early"]
        assert (await ask("/incidents/i2/analyze", {}))[0] == 404

    made = Rig(tmp_path, monkeypatch, size=size)
    over_http(made, monkeypatch, talk)
    assert [event.id for event in made.events] == ["i1-size-early"]  # of the first time


def test_actions_are_described(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In OpenAPI, each with the schema of its arguments."""
    Rig(tmp_path, monkeypatch, site=KIND)
    document = openapi.document(ROUTES)
    post = document["paths"]["/api/v1/diagnosis/site/enrol"]["post"]
    assert post["summary"] == "Learn a model."
    schema = document["components"]["schemas"]["Enrol"]
    assert post["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/Enrol")
    assert schema["properties"]["times"]["description"] == "How often."
    assert schema["required"] == ["name"]


# ------------------------------------------------------------------------------------ command line


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state with a labelled incident, no daemon, and the kind of the tests."""
    Rig(tmp_path, monkeypatch, site=KIND)
    monkeypatch.setattr(diagnosis, "_made", None)
    monkeypatch.chdir(tmp_path)
    rig.write_config(tmp_path)
    store = Store(tmp_path / "state")
    store.commit(Bundle(cases=[case("i1"), case("i2")], records=[label("i1", type="leak")]))
    store.close()
    return tmp_path


def run(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def test_actions_on_the_command_line(folder: Path) -> None:
    """Without a daemon they are done on the database itself; options are made from the arguments."""
    (folder / "given").write_bytes(b"\x01\x02")
    said = run("diagnosis", "site", "enrol", "--name", "a", "--incidents", "x", "--incidents", "y",
               "--weight", "2.5", "--times", "3", "--mode", "again", "--quick", "--file", "given",
               "--json")  # fmt: skip
    assert json.loads(said.stdout) == {
        "version": 1,
        "cases": ["i1"],
        "rows": [{"a": 1, "b": None}, {"a": 2.5}],
    }
    shown = run("diagnosis", "site", "enrol", "--name", "a").stdout
    assert "version\t2" in shown
    assert "2.5\t\n" in shown
    run("diagnosis", "site", "export", "--name", "a", "--output", "out.json")
    assert json.loads((folder / "out.json").read_text())["mode"] == "new"
    store = Store(folder / "state")
    first = Repository(store).model("site", "a")
    store.close()
    assert first is not None
    assert first.version == 2

    assert (
        "there is no model 'b'" in run("diagnosis", "site", "export", "--name", "b", "-o", "x", code=1).stderr
    )
    assert (
        "teaches nothing" in run("diagnosis", "site", "enrol", "--name", "a", "--weight", "0", code=1).stderr
    )
    assert "Missing option '--name'" in run("diagnosis", "site", "enrol", code=2).stderr
    assert "'--times'" in run("diagnosis", "site", "enrol", "--name", "a", "--times", "x", code=2).stderr
    assert "`int` >= 1" in run("diagnosis", "site", "enrol", "--name", "a", "--times", "0", code=1).stderr
    assert "How often." in run("diagnosis", "site", "enrol", "--help").stdout


def test_status_and_export_of_files(folder: Path) -> None:
    run("diagnosis", "site", "enrol", "--name", "../a b")
    said = json.loads(run("diagnosis", "status", "--json").stdout)
    assert (said["waiting"], said["models"][0]["name"]) == (2, "../a b")
    assert re.search(r"site\t../a b\t1\t20\d\d-\d\d-\d\dT", run("diagnosis", "status").stdout)
    assert "2 case files and 1 models" in run("state", "export", "--files", "files").stdout
    names = sorted(path.name for path in (folder / "files").rglob("*.*"))
    assert names == ["i1-early.json", "i1-early.npz", "i2-early.json", "i2-early.npz",
                     "site-..%2Fa b-1.json", "site-..%2Fa b-1.npz"]  # fmt: skip
    (folder / "taken").write_text("")
    refused = run("state", "export", "--files", "taken/files", code=74).stderr
    assert refused == "detector: taken/files/case_files: Not a directory\n"
    inspected = json.loads(run("state", "inspect", "--json").stdout)
    assert inspected["case_files"] | {"bytes": 0} == {"count": 2, "waiting": 2, "labelled": 1, "bytes": 0}


def test_a_state_that_is_not_there_or_taken(folder: Path) -> None:
    store = Store(folder / "state")
    assert "in use by another process" in run("diagnosis", "site", "enrol", "--name", "a", code=1).stderr
    store.close()
    rig.write_config(folder, state={"directory": str(folder / "none")})
    assert "there is no state in" in run("diagnosis", "site", "enrol", "--name", "a", code=1).stderr
    assert not (folder / "none").exists()


class Slow(BaseHTTPRequestHandler):
    """A daemon that answers an action only when it is asked again."""

    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(202, {"action": 7, "state": "running"})

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.answer(*((202, {"action": 7}) if len(self.asked) < 3 else (200, {"version": 9})))

    def answer(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


def test_the_command_waits_for_a_slow_daemon(folder: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        rig.write_config(folder, http={"port": server.server_address[1]})
        said = json.loads(run("diagnosis", "site", "enrol", "--name", "a", "--json").stdout)
        server.shutdown()
    assert said == {"version": 9}
    assert Slow.asked == ["/api/v1/diagnosis/actions/7"] * 3
