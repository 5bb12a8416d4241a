"""The listener: health, API, event stream, ingest, tokens, TLS (T19)."""

from __future__ import annotations

import gzip
import http.client
import json
import signal
import socket
import ssl
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from detector.config.config import Config, ConfigError
from tests import servers
from tests.certificates import Authority
from tests.detector import rig

TOKEN = "canary-http-token"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, learnt_state: Path) -> Iterator[rig.Service]:
    folder = tmp_path_factory.mktemp("http")
    rig.copy_state(learnt_state, folder)
    (folder / "in.jsonl").write_text("\n".join(rig.lines(rig.LEARN + 60, 700, every=60)) + "\n")
    sources = {
        "in": {"type": "file", "path": str(folder / "in.jsonl")},
        "push": {"type": "http", "commit_timeout": "20s"},
    }
    with rig.Service(rig.write_config(folder, sources=sources)) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.metric("events_total", event="incident.resolved") >= 2)
        yield service


def test_metrics_of_a_real_run(service: rig.Service) -> None:
    """The page of a daemon at work is clean by promtool, and small."""
    status, page = service.ask("/metrics")
    assert status == 200
    done = subprocess.run(
        [servers.program("promtool"), "check", "metrics"], input=page.encode(), capture_output=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(page) < 100_000
    assert service.metric("samples_received_total", source="in") == 240 * 8
    rig.wait_for(lambda: service.metric("samples_accepted_total") > 1900)
    assert service.metric("threshold", level="event") > 0
    assert service.metric("nodes") == 8
    assert "process_resident_memory_bytes" in page


def test_incidents_are_listed_and_shown(service: rig.Service) -> None:
    """Newest first, by state, each with all its records."""
    status, listed = service.ask("/api/v1/incidents")
    assert status == 200
    opened = [one["opened"] for one in listed["incidents"]]
    assert len(opened) >= 2
    first = listed["incidents"][0]
    _, shown = service.ask(f"/api/v1/incidents/{first['incident']}")
    assert shown["records"][0]["event"] == "incident.opened"
    assert [record["sequence"] for record in shown["records"]] == list(range(1, len(shown["records"]) + 1))
    ended = service.ask("/api/v1/incidents?state=ended")[1]["incidents"]
    assert all(one["resolution"] for one in ended)
    assert len(service.ask("/api/v1/incidents?limit=1")[1]["incidents"]) == 1
    for bad in ("limit=0", "limit=x", "limit=10001", "state=half"):
        assert service.ask(f"/api/v1/incidents?{bad}")[0] == 400
    assert service.ask("/api/v1/incidents/no-such") == (404, {"error": "there is no incident 'no-such'"})


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'{"alarm": true}',
        b'{"alarm": "maybe"}',
        b'{"what": 1}',
        b"{}",
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_bad_labels_are_refused(service: rig.Service, body: bytes) -> None:
    """Unknown fields, wrong types and garbage are 400, with a reason."""
    incident = service.ask("/api/v1/incidents")[1]["incidents"][0]["incident"]
    status, answer = service.ask(f"/api/v1/incidents/{incident}/label", "POST", body)
    assert status == 400
    assert answer["error"]


def test_nodes_and_status(service: rig.Service) -> None:
    """What the pages show, JSON without NaN."""
    status, all_nodes = service.ask("/api/v1/nodes")
    assert status == 200
    assert [node["name"] for node in all_nodes["nodes"]] == rig.NODES
    status, node = service.ask("/api/v1/nodes/n3")
    assert (status, node["name"]) == (200, "n3")
    assert service.ask("/api/v1/nodes/none")[0] == 404
    _, status_page = service.ask("/api/v1/status")
    assert status_page["phase"] == "watching"
    assert status_page["report"]
    assert status_page["sources"]["push"]["guarantee"]


def test_pushed_samples_are_answered_after_the_commit(service: rig.Service) -> None:
    """JSON, gzip, line protocol; a repeat with the same key is taken once."""
    before = service.metric("samples_received_total", source="push")
    body = json.dumps([{"time": rig.START + 710 + i, "node": "n0", "value": 0.5} for i in range(10)])
    headers = {"Content-Type": "application/json", "Idempotency-Key": "one"}
    answers = [service.ask("/ingest", "POST", body, headers)[0] for _ in range(3)]
    assert answers == [200, 204, 204]  # repeats: taken already
    assert service.metric("samples_received_total", source="push") == before + 10
    packed = gzip.compress(body.replace("710", "711").encode())
    assert service.ask("/ingest", "POST", packed, {"Content-Encoding": "gzip"})[0] == 200
    line = f"n0 value=0.25 {(rig.START + 730) * 10**9}"
    status, _ = service.ask("/api/v2/write?precision=ns", "POST", line)
    # Which of them depends on the mapping of measurement to node, which is not under test here.
    assert status in (200, 204, 400, 422)
    assert service.ask("/ingest", "POST", b"nonsense")[0] == 400


def test_events_are_streamed(service: rig.Service) -> None:
    """A reader gets each record once, and after coming back what it missed."""
    records = service.ask("/api/v1/incidents?state=ended")[1]["incidents"]
    incident = service.ask(f"/api/v1/incidents/{records[0]['incident']}")[1]["records"]
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
    connection.request("GET", "/api/v1/events", headers={"Last-Event-ID": incident[0]["id"]})
    answer = connection.getresponse()
    assert answer.headers["Content-Type"] == "text/event-stream"
    seen = b""
    while incident[-1]["id"].encode() not in seen:
        seen += answer.read1(4096)
    service.ask(f"/api/v1/incidents/{incident[0]['incident']}/label", "POST", {"alarm": "true"})
    while not (told := [part for part in seen.split(b"\n\n")[:-1] if b"event: incident.labelled" in part]):
        seen += answer.read1(4096)
    data = json.loads(told[-1].split(b"\ndata: ")[1])
    assert data["labels"]["alarm"] == "true"
    connection.close()


def test_token_is_needed_and_checked(tmp_path: Path) -> None:
    """401 without or with a wrong token; Telegraf's spelling works; health needs none; it never shows."""
    (tmp_path / "token").write_text(TOKEN + "\n")
    config = rig.write_config(
        tmp_path, sources={"push": {"type": "http"}}, http={"port": 0, "token_file": str(tmp_path / "token")}
    )
    with rig.Service(config) as service:
        service.wait_ready()
        assert service.ask("/healthz")[0] == 200
        right = {"Authorization": f"Bearer {TOKEN}"}
        wrong = ["Bearer wrong", TOKEN, "Basic x", f"Bearer {TOKEN}x", "Bearer "]
        paths = [("/metrics", "GET"), ("/readyz", "GET"), ("/api/v1/status", "GET"), ("/ingest", "POST")]
        for headers in ({}, *({"Authorization": text} for text in wrong)):
            for path, method in paths:
                status, answer = service.ask(path, method, headers=headers)
                assert status == 401
                assert TOKEN not in str(answer)
        assert service.ask("/metrics", headers=right)[0] == 200
        body = [{"time": rig.START, "node": "n0", "value": 1.0}]
        assert service.ask("/ingest", "POST", body, {"Authorization": f"Token {TOKEN}"})[0] == 200
        (tmp_path / "token").write_text("another-token")  # rotated without restart
        assert service.ask("/metrics", headers=right)[0] == 401
        assert service.ask("/metrics", headers={"Authorization": "Bearer another-token"})[0] == 200
        assert TOKEN not in service.said()


def test_tls(tmp_path: Path) -> None:
    """TLS 1.2 at least; a client that trusts another authority, or speaks plain text, gets nothing."""
    authority = Authority(tmp_path / "ca")
    pair = authority.issue("server")
    other = Authority(tmp_path / "other")
    tls = {
        "cert_file": str(pair.certificate),
        "key_file": str(pair.key),
        "client_ca_file": str(authority.file),
    }
    config = rig.write_config(tmp_path, sources={"push": {"type": "http"}}, http={"port": 0, "tls": tls})

    def ask(context: ssl.SSLContext) -> int:
        connection = http.client.HTTPSConnection("127.0.0.1", service.port, timeout=10, context=context)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status
        finally:
            connection.close()

    def trusting(authority: Authority, client: str | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(authority.file))
        if client is not None:
            mine = authority.issue(client)
            context.load_cert_chain(mine.certificate, mine.key)
        return context

    with rig.Service(config) as service:
        service.wait_ready()
        assert ask(trusting(authority, "client")) == 200
        with pytest.raises(ssl.SSLError):
            ask(trusting(other, "client"))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask(trusting(authority, None))
        old = trusting(authority, "client")
        with warnings.catch_warnings(action="ignore"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask(old)
        with pytest.raises((http.client.HTTPException, OSError)):
            service.ask("/healthz")


def test_open_address_needs_authentication(tmp_path: Path) -> None:
    """Listening beyond this machine without token is refused by the configuration, unless forced."""
    with pytest.raises(ConfigError, match="allow_unauthenticated"):
        Config.of(rig.settings(tmp_path, http={"host": "0.0.0.0"}))
    Config.of(rig.settings(tmp_path, http={"host": "0.0.0.0", "allow_unauthenticated": True}))


def test_reload_moves_the_listener(tmp_path: Path) -> None:
    """A new token counts at once; a taken port refuses the whole reload."""
    (tmp_path / "token").write_text(TOKEN)
    port = servers.free_port()
    config = rig.write_config(tmp_path, sources={"push": {"type": "http"}}, http={"port": port})
    with rig.Service(config) as service:
        service.wait_ready()
        settings = yaml.safe_load(config.read_text())
        settings["http"] = {"port": port, "token_file": str(tmp_path / "token")}
        config.write_text(yaml.safe_dump(settings))
        service.process.send_signal(signal.SIGHUP)
        rig.wait_for(lambda: service.ask("/metrics")[0] == 401)
        with _taken() as taken:
            settings["http"] = {"port": taken}
            config.write_text(yaml.safe_dump(settings))
            service.process.send_signal(signal.SIGHUP)
            rig.wait_for(lambda: "configuration refused" in service.said())
        assert service.ask("/metrics")[0] == 401
        settings["http"] = {"port": servers.free_port()}
        config.write_text(yaml.safe_dump(settings))
        service.process.send_signal(signal.SIGHUP)
        rig.wait_for(lambda: service.said().count("listening on") == 2)
        service._port = settings["http"]["port"]
        rig.wait_for(lambda: service.ask("/metrics")[0] == 200)


class _taken:
    """A port that somebody else listens on."""

    def __enter__(self) -> int:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen()
        return int(self._socket.getsockname()[1])

    def __exit__(self, *_: object) -> None:
        self._socket.close()
