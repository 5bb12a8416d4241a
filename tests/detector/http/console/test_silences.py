"""Silences with a real daemon: incidents are recorded and shown, and sent to nobody until it ends."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from detector.cli.main import cli
from tests.detector import rig
from tests.detector.http.page_rig import NODES, Feed, settings


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("silences")


@pytest.fixture(scope="module")
def feed(folder: Path) -> Iterator[Feed]:
    notify = {"groups": {"sevens": ["n7", "long*"]}, "maintenance": [
        {"start": "2001-01-01T00:00", "lasts": "1h", "nodes": ["n7"], "reason": "long ago"}]}  # fmt: skip
    with rig.Service(settings(folder, notify=notify)) as service:
        made = Feed(service.wait_ready())
        made.learn()
        yield made


def sent(folder: Path) -> list[dict[str, Any]]:
    path = folder / "out.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [one for one in map(json.loads, lines) if one["event"].startswith("incident.")]


def post(feed: Feed, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    answer: tuple[int, Any] = feed.service.ask(path, "POST", json.dumps(body))
    return answer


def test_recorded_but_not_sent_until_it_ends(feed: Feed, folder: Path) -> None:
    status, shown = post(feed, "/api/v1/silences", {"groups": ["sevens"], "lasts": 7200, "reason": "works"})
    assert (status, shown["state"], shown["silence"]["who"]) == (200, "active", "anonymous")
    incident = feed.incident("n7")["incident"]
    listed = feed.service.ask("/api/v1/incidents")[1]
    assert listed["silenced"] == [incident]
    feed.push(8, ("n7",))
    assert [one for one in sent(folder) if one["incident"] == incident] == []

    assert post(feed, f"/api/v1/silences/{shown['silence']['id']}/end", {})[0] == 200
    found = rig.wait_for(
        lambda: [one for one in sent(folder) if one["incident"] == incident], what="told now"
    )
    assert found[0]["event"] in ("incident.opened", "incident.updated")
    assert post(feed, f"/api/v1/incidents/{incident}/clear", {})[0] == 200
    rig.wait_for(lambda: sent(folder)[-1]["event"] == "incident.resolved")
    trail = feed.service.ask("/api/v1/audit")[1]["audit"]
    assert [one["action"] for one in trail] == ["clear", "end silence", "silence"]


def test_others_are_told(feed: Feed, folder: Path) -> None:
    """A silence of one node hides nothing of another."""
    _, shown = post(feed, "/api/v1/silences", {"nodes": ["n7"], "lasts": 7200})
    feed.push(60)
    incident = feed.incident(NODES[3])["incident"]
    rig.wait_for(lambda: any(one["incident"] == incident for one in sent(folder)))
    post(feed, f"/api/v1/incidents/{incident}/clear", {})
    post(feed, f"/api/v1/silences/{shown['silence']['id']}/end", {})


def test_export(feed: Feed) -> None:
    """Every incident is a row; a name that a spreadsheet would calculate with is a text."""
    from detector.http.console.export import COLUMNS, _plain

    listed = feed.service.ask("/api/v1/incidents")[1]["incidents"]
    _, text = feed.service.ask("/api/v1/export")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == COLUMNS
    assert [row["incident"] for row in rows] == [one["incident"] for one in listed]
    assert rows[-1]["opened"].startswith("2023-11-14T")
    for row, one in zip(rows, listed, strict=True):
        names = {node["name"]: node["changed"] for node in one["nodes"]}
        assert row["nodes"] == " ".join(name for name, changed in names.items() if changed)
        assert row["possibly"] == " ".join(name for name, changed in names.items() if not changed)
    _, text = feed.service.ask("/api/v1/export?format=json")
    lines = text.splitlines() if isinstance(text, str) else [json.dumps(text)]
    assert [json.loads(line)["incident"] for line in lines] == [one["incident"] for one in listed]
    assert _plain("=1+1") == "'=1+1"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"lasts": 5}, "name the nodes or groups"),
        ({"lasts": -5, "nodes": ["a"]}, "lasts"),
        ({"lasts": 5, "groups": ["none"]}, "there is no group 'none'"),
        ({"lasts": 5, "nodes": ["a"], "begin": "soon"}, "no date and time"),
        ({"lasts": 5, "nodes": ["a"], "zone": "Mars/Base"}, "there is no time zone 'Mars/Base'"),
        ({"lasts": 5, "nodes": ["a"], "zone": "../../etc/passwd"}, "there is no time zone"),
        ({"lasts": 86400, "nodes": ["a"], "every": "day"}, "as long as"),
    ],
)
def test_wrong_ones(feed: Feed, body: dict[str, Any], words: str) -> None:
    status, answer = post(feed, "/api/v1/silences", body)
    assert status == 400
    assert words in answer["error"]


def test_windows_of_the_configuration_are_shown_and_not_ended_here(feed: Feed) -> None:
    listed = feed.service.ask("/api/v1/silences")[1]
    window = next(one for one in listed["silences"] if one["silence"]["configured"])
    assert (window["state"], window["silence"]["reason"]) == ("over", "long ago")
    assert listed["groups"] == {"sevens": ["n7", "long*"]}
    assert post(feed, "/api/v1/silences/maintenance-1/end", {})[0] == 409
    assert post(feed, "/api/v1/silences/none/end", {})[0] == 404


def test_by_command(feed: Feed, folder: Path) -> None:
    here = settings(folder, http={"port": feed.service.port})

    def run(*arguments: str, code: int = 0) -> Any:
        result = CliRunner().invoke(cli, ["silence", *arguments, "--config", str(here)])
        assert result.exit_code == code, result.output
        return result

    id = run("add", "n7", "ü*", "--for", "2h", "--reason", "works").stdout.strip()
    assert id in run("list").stdout
    found = json.loads(run("list", "--json").stdout)["silences"]
    assert next(one for one in found if one["silence"]["id"] == id)["silence"]["nodes"] == ["n7", "ü*"]
    run("end", id)
    run("end", id, code=1)
    late = ("--from", "2030-07-01T02:00", "--zone", "Europe/Berlin", "--every", "day")
    shown = json.loads(run("add", "n7", "--for", "1h", *late, "--json").stdout)["silence"]
    assert (shown["begin"], shown["zone"]) == (1909094400.0, "Europe/Berlin"), "midnight UTC"
    assert "every day (Europe/Berlin)" in run("list").stdout
    run("end", shown["id"])
    run("add", "--for", "2h", code=2)
    run("add", "n7", "--for", "soon", code=2)
    run("add", "n7", "--group", "none", "--for", "1h", code=1)


def test_they_survive_a_restart(tmp_path: Path) -> None:
    with rig.Service(settings(tmp_path)) as service:
        service.wait_ready()
        status, shown = service.ask("/api/v1/silences", "POST", json.dumps({"nodes": ["n7"], "lasts": 3600}))
        assert status == 200
        service.stop()
    with rig.Service(settings(tmp_path)) as service:
        service.wait_ready()
        found = service.ask("/api/v1/silences")[1]["silences"]
        assert [one["silence"]["id"] for one in found] == [shown["silence"]["id"]]


def test_the_end_is_told_over_a_restart_whatever_is_silenced_by_then(tmp_path: Path) -> None:
    """The silence is added later but covers the opening, too: it was sent all the same, so the end is."""
    path = settings(tmp_path)
    with rig.Service(path) as service:
        feed = Feed(service.wait_ready())
        feed.learn()
        opened = feed.incident("n7")
        rig.wait_for(lambda: sent(tmp_path), what="the opening")
        since = {"nodes": ["*"], "begin": "2023-11-14T00:00", "lasts": 366 * 86400.0}
        assert post(feed, "/api/v1/silences", since)[0] == 200
        service.stop()
    with rig.Service(path) as service:
        feed.service = service.wait_ready()
        assert feed.service.ask("/api/v1/incidents")[1]["silenced"] == []
        assert post(feed, f"/api/v1/incidents/{opened['incident']}/clear", {})[0] == 200
        rig.wait_for(lambda: sent(tmp_path)[-1]["event"] == "incident.resolved", 30.0, "the end")
