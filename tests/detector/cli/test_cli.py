"""Every command: what it prints, how it ends."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

import connectors
from detector.cli.client import incident_path
from detector.cli.incidents import print_incidents
from detector.cli.main import cli
from detector.cli.notify.send_test_alert import made_up_incident
from detector.storage.records import Record
from detector.storage.store import Bundle, Store
from tests import servers

CANARY = "canary-9f3a7"
CONFIG = """\
graph: {edges: [[a, b], [b, c], [c, d]]}
sources: {log: {type: file, path: samples.jsonl}}
align: {step: 1s}
windows: {reference: 50, tests: [5, 10]}
estimator: {name: page-hinkley}
alarm: {learn: 300, budget: 1 per 1h}
sinks: {archive: {type: file, path: incidents.jsonl}}
state: {directory: state}
http: {enabled: false}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration and a recording: four nodes, two of which change."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DETECTOR_CONFIG", raising=False)
    (tmp_path / "config.yaml").write_text(CONFIG)
    X = np.random.default_rng(3).standard_normal((700, 4))
    X[500:, 1:3] += 6.0
    rows = [f"{1.7e9 + t:.0f}," + ",".join(f"{value:.4f}" for value in x) for t, x in enumerate(X)]
    (tmp_path / "wide.csv").write_text("time,a,b,c,d\n" + "\n".join(rows) + "\n")
    return tmp_path


def run(*arguments: str | Path, code: int = 0, env: dict[str, str] | None = None) -> Result:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments], env=env)
    assert result.exit_code == code, (result.output, result.exception)
    assert "Traceback" not in result.output
    return result


def error_of(result: Result) -> str:
    """The one line on standard error."""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    return str(lines[0])


# ------------------------------------------------------------------------------------------ the whole


def all_commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from all_commands(command, (*path, name))
        else:
            yield (*path, name)


@pytest.mark.parametrize("path", list(all_commands(cli)), ids=" ".join)
def test_every_command_and_option_has_words(path: tuple[str, ...]) -> None:
    assert "Usage: " in run(*path, "--help").stdout
    command: Any = cli
    for name in path:
        command = command.commands[name]
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def test_version_and_usage() -> None:
    assert re.fullmatch(r"detector, version [0-9.]+\n", run("--version").stdout)
    assert "No such command" in run("bogus", code=2).stderr
    assert "No such option" in run("run", "--bogus", code=2).stderr


@pytest.mark.parametrize(
    ("begun", "offered"),
    [("fo", ["footprint"]), ("re", ["replay", "regime"]), ("ad", ["adapt"]), ("--d", ["--debug"])],
)
def test_completion_offers_kinds_by_their_names(begun: str, offered: list[str]) -> None:
    """Once begun: `detector <Tab>` lists the commands alone, and loads none of them."""
    context = click.Context(cli)
    assert [item.value for item in cli.shell_complete(context, begun)] == offered
    assert "footprint" not in {item.value for item in cli.shell_complete(context, "")}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    text = run("completion", shell).stdout
    assert "_DETECTOR_COMPLETE" in text
    assert "detector" in text


def test_a_fault_of_ours_is_one_line_unless_debugging(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("inside")

    monkeypatch.setattr("detector.config.config.Config.load", broken)
    assert "KeyError: 'inside' (detector --debug shows where)" in error_of(run("check", code=1))
    result = CliRunner().invoke(cli, ["--debug", "check"])
    assert isinstance(result.exception, KeyError)


# ------------------------------------------------------------------------------------------ configuration


def test_check(folder: Path) -> None:
    text = run("check").stdout
    assert text.startswith("config.yaml: fine: 4 nodes, 3 links; sources: log; sinks: archive\n")
    assert "waiting times:" in text
    assert json.loads(run("check", "--json").stdout) == {
        "ok": True,
        "problems": [],
        "warnings": [],
        "connectors": {},
    }


def test_check_lists_everything_that_is_wrong(folder: Path) -> None:
    (folder / "config.yaml").write_text(CONFIG.replace("learn:", "lern:").replace("windows:", "window:"))
    result = run("check", code=78)
    assert result.stderr == (
        "detector: config.yaml:4:1: window: unknown key; did you mean windows?\n"
        "detector: config.yaml:6:9: alarm.lern: unknown key; did you mean learn? (got 300)\n"
    )
    said = json.loads(run("check", "--json", code=78).stdout)
    assert [(p["line"], p["column"], p["key"]) for p in said["problems"]] == [
        (4, 1, "window"),
        (6, 9, "alarm.lern"),
    ]


def test_check_doubts_what_may_not_be_meant(folder: Path) -> None:
    text = re.sub("sinks: .*", "", CONFIG.replace("{enabled: false}", "{host: 0.0.0.0, token_file: absent}"))
    (folder / "config.yaml").write_text(text)
    said = run("check").stderr.splitlines()
    assert said[0] == "warning: config.yaml:1:1: sinks: there are none: incidents are only kept and shown"
    assert said[1].endswith(f"http.token_file: {folder / 'absent'} cannot be read by this user")
    assert "a token without TLS can be overheard" in said[2]


def test_check_warns_of_workers_that_have_nothing_to_do(folder: Path) -> None:
    (folder / "config.yaml").write_text(CONFIG + "engine: {type: threads, workers: 8, parts: 2}\n")
    assert "engine.workers: the network has 2 parts, so that 6 of 8 workers have" in run("check").stderr


def test_check_warns_of_a_state_that_was_learnt_otherwise(folder: Path) -> None:
    run("learn", "wide.csv", "--until", str(1.7e9 + 400))
    (folder / "config.yaml").write_text(CONFIG.replace("1 per 1h", "2 per week"))
    assert not run("check").stderr
    (folder / "config.yaml").write_text(CONFIG.replace("tests: [5, 10]", "tests: [5, 20]"))
    said = error_of(run("check"))
    assert said.startswith("warning: config.yaml:4:26: windows.tests: the state in ")
    assert said.endswith("was learnt with [5, 10]; `detector run` will refuse it")


def test_check_reads_the_files_of_the_graph(folder: Path) -> None:
    (folder / "config.yaml").write_text(CONFIG.replace("[[a, b], [b, c], [c, d]]", "edges.csv"))
    assert "config.yaml:1:9: graph.edges: " in error_of(run("check", code=78))
    (folder / "edges.csv").write_text("a,b\n")
    assert "2 nodes, 1 links" in run("check").stdout


def test_a_missing_configuration(folder: Path) -> None:
    said = error_of(run("check", "--config", "absent.yaml", code=78))
    assert said == "detector: absent.yaml: No such file or directory; `detector init` writes one"
    assert run("check", env={"DETECTOR_CONFIG": "other.yaml"}, code=78).stderr.startswith(
        "detector: other.yaml:"
    )


def test_check_names_the_line_that_installs_a_missing_library(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("init", "mqtt.yaml", "--source", "mqtt")
    run("check", "--config", "mqtt.yaml")
    for module in connectors.source("mqtt").modules:
        monkeypatch.setitem(sys.modules, module, None)
    said = error_of(run("check", "--config", "mqtt.yaml", code=69))
    assert re.search(r"mqtt.yaml:\d+:\d+: sources.my-mqtt.type: .*pip install 'paho-mqtt<3,>=2.1'", said)


def test_check_names_what_a_cluster_needs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "config.yaml").write_text(CONFIG + "engine: {type: ray, address: '10.0.0.1:6379'}\n")
    assert "storage: needed with an address" in error_of(run("check", code=78))
    (folder / "config.yaml").write_text(CONFIG + "engine: {type: ray, parts: 2}\n")
    monkeypatch.setitem(sys.modules, "ray", None)
    said = error_of(run("check", code=69))
    assert re.search(r"engine.type: ray is not installed: run  pip install 'ray<\d+,>=[\d.]+'", said)


def test_check_tries_the_connectors(folder: Path) -> None:
    said = run("check", "--connect", code=69)
    assert "sources.log: cannot open" in said.stderr
    (folder / "samples.jsonl").write_text("")
    assert (
        "sources.log: ok, but there is nothing to read\nsinks.archive: ok\n"
        in run("check", "--connect").stdout
    )
    tried = json.loads(run("check", "--connect", "--json").stdout)["connectors"]
    assert tried == {"sources.log": "ok, but there is nothing to read", "sinks.archive": "ok"}
    assert not (folder / "state").exists()


def test_check_does_not_take_the_place_of_a_running_daemon(folder: Path) -> None:
    store = Store(folder / "state")
    try:
        assert "in use by another process" in error_of(run("check", "--connect", code=75))
    finally:
        store.close()


def test_ids_of_records_lead_to_their_incident() -> None:
    """Commands take what `--json` prints as `id`; anything else stays as it is."""
    for id in ("20261118-2f168a7b4d90", "t1250-123456789012"):
        for given in (id, f"{id}-3", f"{id}-value_ranges-settled"):
            assert incident_path(given) == f"/api/v1/incidents/{id}"
    assert incident_path("a/b-3", "clear") == "/api/v1/incidents/a%2Fb-3/clear"


def test_init_never_overwrites_by_itself(folder: Path) -> None:
    assert "config.yaml exists" in error_of(run("init", code=74))
    assert (folder / "config.yaml").read_text() == CONFIG
    run("init", "--force")
    assert "fine: 30 nodes" in run("check").stdout


@pytest.mark.parametrize(("source", "sink"), list(itertools.product(connectors.SOURCES, connectors.SINKS)))
def test_what_init_writes_passes_check(source: str, sink: str, tmp_path: Path) -> None:
    path = tmp_path / "new.yaml"
    run("init", path, "--source", source, "--sink", sink)
    assert "new.yaml: fine" in run("check", "--config", path).stdout


def test_schema_is_the_one_shipped() -> None:
    from detector.config.reference import shipped_schema

    assert json.loads(run("schema").stdout) == shipped_schema()


def test_graph(folder: Path) -> None:
    assert '  "a" -- "b";\n' in run("graph").stdout
    assert json.loads(run("graph", "--format", "json").stdout)["nodes"] == ["a", "b", "c", "d"]
    run("graph", "-o", "network.png")
    assert (folder / "network.png").read_bytes()[:4] == b"\x89PNG"
    run("graph", "-o", "network.json")
    assert json.loads((folder / "network.json").read_text())["edges"][0]["to"] == "b"
    assert "needs a file" in run("graph", "--format", "png", code=2).stderr
    learnt = CONFIG.replace("edges: [[a, b], [b, c], [c, d]]", "learn: true, nodes: [a]")
    (folder / "config.yaml").write_text(learnt)
    assert "still to be learnt" in error_of(run("graph", code=1))


def test_names_in_a_graph_are_quoted(folder: Path) -> None:
    hostile = "graph: {complete: true, nodes: ['a\"; x', 'b\\', '../../etc/passwd']}"
    (folder / "config.yaml").write_text(CONFIG.replace("graph: {edges: [[a, b], [b, c], [c, d]]}", hostile))
    assert '  "a\\"; x" -- "b\\\\";\n' in run("graph").stdout


# ------------------------------------------------------------------------------------------ data


def test_replay_prints_what_a_live_run_would(folder: Path) -> None:
    result = run("replay", "wide.csv")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    kinds = [record["event"] for record in records]
    assert kinds[:2] == ["detector.learning", "detector.calibrated"]
    assert "incident.opened" in kinds
    found = [r for r in records if {"b", "c"} <= {node["name"] for node in r["nodes"]}]
    assert 500 <= found[0]["time"] - 1.7e9 <= 540
    assert "2800 samples, 700 ticks" in result.stderr
    assert "incidents: " in result.stderr
    assert run("replay", "wide.csv").stdout == result.stdout, "the same data, the same events"
    assert not (folder / "state").exists()


def test_run_reads_what_replay_reads(folder: Path) -> None:
    """A wide table, whose columns are the nodes: the same incidents, with the same ids."""
    told = [json.loads(line) for line in run("replay", "wide.csv").stdout.splitlines()]
    (folder / "config.yaml").write_text(CONFIG.replace("samples.jsonl", "wide.csv"))
    done = subprocess.run(
        [sys.executable, "-m", "detector", "run", "--once"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    sent = [json.loads(line) for line in (folder / "incidents.jsonl").read_text().splitlines()]

    def opened(records: list[Any]) -> list[str]:
        return [record["incident"] for record in records if record["event"] == "incident.opened"]

    assert opened(sent) == opened(told)
    assert opened(sent)


def test_replay_learns_from_as_much_as_it_is_told(folder: Path) -> None:
    lines = run("replay", "wide.csv", "--learn", "400").stdout.splitlines()
    assert json.loads(lines[1])["time"] == 1.7e9 + 400
    assert "still learning: " in run("replay", "wide.csv", "--learn", "5000").stderr
    told = run("replay", "wide.csv", "--until", "2023-11-14T22:20:00Z").stdout
    assert json.loads(told.splitlines()[0])["time"] > 1.7e9 + 400
    assert "at most one" in run("replay", "wide.csv", "--learn", "300", "--until", "5", code=2).stderr
    for wrong in ("soon", "nan"):
        assert f"'{wrong}' is no time" in run("replay", "wide.csv", "--until", wrong, code=2).stderr


def test_learn_saves_what_replay_and_run_go_on_from(folder: Path) -> None:
    assert "there is no state in" in error_of(run("replay", "wide.csv", "--from-state", code=74))
    report = run("learn", "wide.csv", "--until", str(1.7e9 + 400))
    assert "saved in" in report.stderr
    assert report.stdout.strip()
    inspected = json.loads(run("state", "inspect", "--json").stdout)
    assert len(inspected["snapshots"]) == 1
    assert "snapshots\t" in run("state", "inspect").stdout
    again = run("replay", "wide.csv", "--from-state").stdout.splitlines()
    kinds = [json.loads(line)["event"] for line in again]
    assert "detector.learning" not in kinds
    assert "incident.opened" in kinds
    assert "--force replaces it" in error_of(run("learn", "wide.csv", code=1))
    record = json.loads(run("calibrate", "wide.csv", "--until", str(1.7e9 + 400), "--force", "--json").stdout)
    assert record["ticks"] == 400


def test_columns_that_do_not_fit_are_told(folder: Path) -> None:
    text = (folder / "wide.csv").read_text()
    (folder / "wide.csv").write_text(text.replace("time,a,b,c,d", "time,a,b,c,e", 1))
    said = run("replay", "wide.csv").stderr
    assert said.startswith("wide.csv: columns of no node: e\nwide.csv: nodes without a column: d\n")


def test_learn_can_save_nothing(folder: Path) -> None:
    run("learn", "wide.csv", "--dry-run")
    assert not (folder / "state").exists()


def test_data_that_cannot_be_read(folder: Path) -> None:
    (folder / "strange.csv").write_text("time,x\n1,2\n")
    assert "no column for 'a'" in error_of(run("replay", "strange.csv", code=1))
    assert "does not exist" in run("replay", "absent.csv", code=2).stderr
    told = run("replay", "wide.csv", "--source", "x", code=2).stderr
    assert "'x' is none of the sources that decode: log" in told
    (folder / "strange.csv").write_text("time,a,b,c,d\n1,,,,\n")
    assert "strange.csv: no sample of a node" in error_of(run("learn", "strange.csv", code=1))


# ------------------------------------------------------------------------------------------ sinks


def test_a_test_alert_goes_through_the_real_sinks(folder: Path) -> None:
    assert "archive: sent" in run("send-test-alert").stderr
    records = [json.loads(line) for line in (folder / "incidents.jsonl").read_text().splitlines()]
    assert [record["event"] for record in records] == ["incident.opened", "incident.resolved"]
    assert all(record["details"] == {"test": True} for record in records)
    assert json.loads(run("send-test-alert", "--sink", "archive", "--json").stdout) == {"archive": "sent"}
    assert "'x' is none of archive" in run("send-test-alert", "--sink", "x", code=2).stderr


def test_a_test_alert_stays_open_where_people_are_notified_late(folder: Path) -> None:
    """Alertmanager waits before it notifies: the alert is active until its end is sent."""
    at = servers.alertmanager(folder / "am")
    try:
        url = f"http://127.0.0.1:{at.port}"
        more = f"sinks: {{pager: {{type: alertmanager, url: '{url}', console_url: 'http://x'}}}}"
        (folder / "config.yaml").write_text(re.sub("sinks: .*", more, CONFIG))
        seen = []
        sending = Thread(target=lambda: run("send-test-alert", "--open-for", "3s", "--severity", "critical"))
        sending.start()
        while sending.is_alive():
            with urllib.request.urlopen(f"{url}/api/v2/alerts?active=true") as answer:
                seen += json.load(answer)
            time.sleep(0.2)
        sending.join()
        assert {alert["labels"]["severity"] for alert in seen} == {"critical"}
        assert seen[0]["generatorURL"].startswith("http://x/incidents/test-")
        with urllib.request.urlopen(f"{url}/api/v2/alerts?active=true") as answer:
            assert json.load(answer) == []
    finally:
        at.stop()


def test_a_sink_that_fails_is_named(folder: Path) -> None:
    more = "sinks: {archive: {type: file, path: incidents.jsonl}, hook: {type: webhook, url: 'http://127.0.0.1:9/'}}"
    (folder / "config.yaml").write_text(re.sub("sinks: .*", more, CONFIG))
    result = run("send-test-alert", code=69)
    assert "archive: sent" in result.stderr
    assert "1 of 2 sinks failed: hook" in result.stderr


# ------------------------------------------------------------------------------------------ the daemon

STATUS = {
    "summary": "watching, 1 incidents open", "nodes": {"count": 4, "states": {"watching": 3, "alarmed": 1}},
    "event_threshold": 4.5, "event_statistic_max": 9.25, "promised_rate": 1 / 86400, "observed_rate": None,
    "sources": {"log": {"type": "file", "status": "up", "lag": 0.5}}, "sinks": {"archive": {"type": "file"}},
}  # fmt: skip
READY = {"ready": True, "status": "ready", "parts": {"state": {"status": "ok"}},
         "sources": {"log": {"status": "up"}}, "sinks": {"archive": {"status": "up"}}}  # fmt: skip


class Answers(BaseHTTPRequestHandler):
    """A daemon that says what the tests want."""

    ready: ClassVar[dict[str, Any]] = READY
    told: ClassVar[list[tuple[str, Any]]] = []

    def do_GET(self) -> None:
        opened, resolved = made_up_incident(1.7e9)
        path = self.path.split("?")[0]
        if self.headers.get("Authorization") != f"Bearer {CANARY}":
            self.answer(401, {"error": "who are you?"})
        elif path == "/readyz":
            self.answer(200 if self.ready["ready"] else 503, self.ready)
        elif path == "/api/v1/status":
            self.answer(200, {**STATUS, "incidents_open": [opened]})
        elif path == "/api/v1/incidents":
            self.answer(200, {"incidents": [opened, {**resolved, "incident": "older"}]})
        elif path == f"/api/v1/incidents/{opened['incident']}":
            self.answer(200, {"incident": opened["incident"], "open": False, "records": [opened, resolved]})
        else:
            self.answer(404, {"error": "there is no such incident"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.told.append((self.path, body))
        self.answer(200, {"records": []})

    def answer(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        return


@pytest.fixture
def daemon(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Answers]]:
    """A pretended daemon at the address of the configuration."""
    monkeypatch.setenv("DETECTOR_TEST_TOKEN", CANARY)
    monkeypatch.setattr(Answers, "told", [])
    monkeypatch.setattr(Answers, "ready", READY)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        http = f"http: {{port: {server.server_address[1]}, token: '${{DETECTOR_TEST_TOKEN}}'}}"
        (folder / "config.yaml").write_text(CONFIG.replace("http: {enabled: false}", http))
        yield Answers
        server.shutdown()


INCIDENT = str(made_up_incident(1.7e9)[0]["incident"])


def test_status(daemon: type[Answers]) -> None:
    text = run("status").stdout
    assert "service\tready\twatching, 1 incidents open\n" in text
    assert "sources.log\tup\ttype file, lag 0.5\n" in text
    assert "nodes\t4\t3 watching, 1 alarmed\n" in text
    assert INCIDENT in text
    assert json.loads(run("status", "--json").stdout)["ready"] is True
    daemon.ready = {**READY, "ready": False, "status": "unready"}
    assert "not ready" in run("status", code=69).stderr


def test_incidents_are_listed_and_answered(daemon: type[Answers]) -> None:
    assert [r["incident"] for r in json.loads(run("incidents", "list", "--json").stdout)] == [INCIDENT]
    everything = json.loads(run("incidents", "list", "--all", "--json").stdout)
    assert [record["incident"] for record in everything] == [INCIDENT, "older"]
    assert INCIDENT in run("incidents", "show", INCIDENT).stdout
    assert len(json.loads(run("incidents", "show", INCIDENT, "--json").stdout)) == 2
    told = run("explain", INCIDENT).stdout
    assert "state      resolved, cleared; severity info" in told
    assert "history" in told
    assert run("incidents", "accept", INCIDENT).stdout == f"{INCIDENT}: accepted\n"
    run("incidents", "clear", INCIDENT)
    run("incidents", "label", INCIDENT, "--alarm", "false", "--node", "a", "--node", "b", "--note", "test")
    path = f"/api/v1/incidents/{INCIDENT}"
    assert daemon.told == [
        (f"{path}/accept", {}),
        (f"{path}/clear", {}),
        (f"{path}/label", {"alarm": "false", "nodes": ["a", "b"], "note": "test"}),
    ]
    assert "at least one of" in run("incidents", "label", INCIDENT, code=2).stderr
    assert error_of(run("incidents", "show", "absent", code=1)) == "detector: there is no such incident"


def test_a_list_counts_nodes_as_the_summary_does(capsys: pytest.CaptureFixture[str]) -> None:
    record = made_up_incident(1.7e9)[0]
    record["nodes"] = [{"name": "a", "state": "recovered", "changed": True}]
    record["nodes"] += [{"name": name, "state": "suspected", "changed": False} for name in "bc"]
    print_incidents([record])
    assert "1 changed, 2 possibly" in capsys.readouterr().out


def test_ids_are_no_paths(daemon: type[Answers]) -> None:
    run("incidents", "accept", "../../metrics?x=1\r\nX: y")
    assert daemon.told == [("/api/v1/incidents/..%2F..%2Fmetrics%3Fx%3D1%0D%0AX%3A%20y/accept", {})]


def test_a_wrong_token_is_told_and_not_shown(daemon: type[Answers]) -> None:
    result = run("incidents", "list", code=1, env={"DETECTOR_TEST_TOKEN": "canary-other"})
    assert "refuses the token" in error_of(result)
    assert "canary" not in result.output


def test_the_database_answers_when_the_daemon_does_not(folder: Path) -> None:
    assert "there is no state in" in error_of(run("incidents", "list", code=74))
    opened, resolved = made_up_incident(1.7e9)
    records = [
        Record(r["id"], r["incident"], r["event"], r["time"], json.dumps(r).encode())
        for r in (opened, resolved)
    ]
    store = Store(folder / "state")
    store.commit(Bundle(records=records))
    store.close()
    assert run("incidents", "list").stdout == "no incidents\n"
    assert INCIDENT in run("incidents", "list", "--all").stdout
    assert "nothing has changed" in run("explain", INCIDENT).stdout
    assert "no incident 'absent'" in error_of(run("incidents", "show", "absent", code=1))
    lines = run("state", "export").stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [opened["id"], resolved["id"]]
    run("state", "export", "-o", "out.jsonl")
    assert (folder / "out.jsonl").read_text().splitlines() == lines
    for command in (["status"], ["incidents", "accept", INCIDENT]):
        assert "no daemon answers" in error_of(run(*command, code=69))


def test_secrets_are_in_no_output(daemon: type[Answers], folder: Path) -> None:
    """Whatever is asked, and also when something is wrong."""
    broken = (folder / "config.yaml").read_text().replace("alarm:", "alram:")
    (folder / "broken.yaml").write_text(broken)
    for arguments in (["status"], ["check"], ["incidents", "list"], ["graph"], ["state", "inspect"],
                      ["check", "--config", "broken.yaml"], ["--debug", "status"]):  # fmt: skip
        result = CliRunner().invoke(cli, arguments)
        assert CANARY not in result.output + repr(result.exception)


def test_control_characters_of_names_do_not_reach_the_terminal(
    daemon: type[Answers], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(STATUS, "summary", "evil \x1b]0;title\x07 name\nline")
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", run("status").stdout)
