"""The hub of server-sent events: one limit, fair at it, bounded per reader, nothing twice, nothing missed."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from detector.http.server import application
from detector.http.streams import BACKLOG
from detector.network.network import Network
from detector.pipeline.pipeline import Pipeline
from detector.pipeline.status_view import StatusView
from detector.runtime.metrics import Metrics
from detector.settings.core import Settings
from detector.settings.service import HttpSettings
from detector.storage.records import Record
from tests.browser import chromium, until
from tests.detector import rig

LIMIT = 4


@pytest.fixture
def service(tmp_path: Path, learnt_state: Path) -> Iterator[rig.Service]:
    rig.copy_state(learnt_state, tmp_path)
    (tmp_path / "in.jsonl").write_text("\n".join(rig.lines(rig.LEARN + 60, 600, every=60)) + "\n")
    with rig.Service(rig.write_config(tmp_path, http={"port": 0, "max_event_clients": LIMIT})) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.metric("events_total", event="incident.resolved") >= 1)
        yield service


class Stream:
    """A reader, message by message."""

    def __init__(self, service: rig.Service, path: str, source: str = "127.0.0.1", **headers: str) -> None:
        self._connection = http.client.HTTPConnection(
            "127.0.0.1", service.port, timeout=20, source_address=(source, 0)
        )
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request("GET", path, headers=given)
        self.answer = self._connection.getresponse()

    def message(self) -> dict[str, str]:
        """The next one that is no comment; empty at the end of the stream."""
        fields: dict[str, str] = {}
        while line := self.answer.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if not line.strip() and fields:
                return fields
            if name:
                fields[name] = value
        return {}

    def close(self) -> None:
        self._connection.close()


def label(service: rig.Service, note: str) -> str:
    incident = service.ask("/api/v1/incidents")[1]["incidents"][0]["incident"]
    status, answer = service.ask(f"/api/v1/incidents/{incident}/label", "POST", {"note": note})
    assert status == 200, answer
    return str(answer["records"][0]["id"])


def until_note(stream: Stream, note: str) -> list[dict[str, str]]:
    """Records up to the label with that note."""
    seen = []
    while message := stream.message():
        if message["event"] != "frame":
            seen.append(message)
            labels = json.loads(message["data"])["labels"]
            if labels and labels["note"] == note:
                return seen
    raise AssertionError("the stream ended")


def all_of(stream: Stream) -> list[dict[str, str]]:
    """Messages up to the end of the stream."""
    seen = []
    while message := stream.message():
        seen.append(message)
    return seen


def test_one_limit_for_both_streams_and_the_oldest_of_the_largest_client_makes_room(
    service: rig.Service,
) -> None:
    streams = [Stream(service, path) for path in ("/api/v1/events", "/api/v1/live") * 2]
    assert service.metric("event_clients") == LIMIT
    other = Stream(service, "/api/v1/live", "127.0.0.2")
    assert other.message()["event"] == "frame"
    assert service.metric("event_clients") == LIMIT
    assert service.metric("event_clients_dropped_total", reason="replaced") == 1
    assert all_of(streams[0])[-1]["event"] == "replaced"
    again = Stream(service, "/api/v1/events")  # of the largest client itself: its oldest goes
    assert all_of(streams[1])[-1]["event"] == "replaced"
    label(service, "for all")
    for stream in (streams[2], streams[3], other, again):
        until_note(stream, "for all")
        stream.close()
    rig.wait_for(lambda: service.metric("event_clients") == 0)


def test_clients_with_one_stream_each_are_not_replaced(service: rig.Service) -> None:
    streams = [Stream(service, "/api/v1/events", f"127.0.0.{k + 2}") for k in range(LIMIT)]
    refused = Stream(service, "/api/v1/live", "127.0.0.99")
    assert refused.answer.status == 503
    assert json.loads(refused.answer.read()) == {"error": "too many readers (http.max_event_clients)"}
    label(service, "still here")
    for stream in streams:
        until_note(stream, "still here")
        stream.close()


def test_records_of_both_streams_are_the_same_and_resume(service: rig.Service) -> None:
    """Each record once, with its id; after coming back what was missed, and nothing twice."""
    both = [Stream(service, "/api/v1/events"), Stream(service, "/api/v1/live")]
    first = label(service, "first")
    seen = [until_note(stream, "first")[-1] for stream in both]
    assert seen[0] == seen[1]
    assert seen[0]["id"] == first
    for stream in both:
        stream.close()
    ids = [first, *(label(service, f"missed {k}") for k in range(3))]
    for path in ("/api/v1/events", "/api/v1/live"):
        back = Stream(service, path, Last_Event_ID=first)
        ids.append(label(service, f"last of {path}"))
        seen = until_note(back, f"last of {path}")  # findings come meanwhile, too
        assert [one["id"] for one in seen if one["event"] == "incident.labelled"] == ids[1:]
        assert len({one["id"] for one in seen}) == len(seen)
        back.close()


def test_a_reader_that_does_not_read_is_cut_off_and_counted() -> None:
    """Of both streams; somebody who reads misses nothing."""

    async def life(path: str) -> None:
        metrics, listeners = Metrics(), []
        view = StatusView.of(Pipeline(Network.complete(["a", "b"]), 1, Settings()))
        service = SimpleNamespace(
            metrics=metrics,
            view=view,
            stage=None,
            queue=0.0,
            step=1.0,
            settings=HttpSettings(),
            listen=listeners.append,
        )
        async with TestServer(application(service)) as server, TestClient(server) as client:
            stuck = socket.socket()
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stuck.connect((server.host, server.port))
            stuck.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            healthy = await client.get(path)
            assert healthy.status == 200
            while rig.total(metrics.page().decode(), "event_clients") < 2:
                await asyncio.sleep(0.01)
            for k in range(2 * BACKLOG):  # what the kernel keeps for a reader comes on top
                for listener in listeners:
                    listener([Record(f"r{k}", None, "detector.warning", 0.0, b"x" * 20_000)])
                seen = b""
                while f"id: r{k}\n".encode() not in seen or not seen.endswith(b"\n\n"):
                    seen += await healthy.content.readany()
            page = metrics.page().decode()
            assert rig.total(page, "event_clients_dropped_total", reason="slow") == 1
            assert rig.total(page, "event_clients") == 1
            stuck.close()
            healthy.close()

    for path in ("/api/v1/events", "/api/v1/live"):
        asyncio.run(life(path))


def test_idle_streams_do_not_lock_out_the_page(service: rig.Service, tmp_path: Path) -> None:
    """64 streams that nobody reads from, then a browser."""
    idle = []
    for _ in range(64):
        client = socket.create_connection(("127.0.0.1", service.port), timeout=20)
        client.sendall(b"GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" in client.recv(100)
        idle.append(client)
    with chromium(tmp_path / "profile") as browser:
        browser.get(f"http://127.0.0.1:{service.port}/")
        until(browser, "document.getElementById('connection').textContent === 'live'")
        until(browser, "document.getElementById('phase').textContent.startsWith('watching')")
        assert _streams(browser) == 1
    for client in idle:
        client.close()


def _streams(browser: Any) -> int:
    """How many streams the page has asked for."""
    script = "return performance.getEntriesByType('resource').map((one) => one.name)"
    asked: list[str] = browser.execute_script(script)
    return max(1, sum(name.endswith(("/api/v1/live", "/api/v1/events")) for name in asked))
