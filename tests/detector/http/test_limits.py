"""Hostile and slow HTTP clients against the real listener, on loopback (T14, T15)."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.detector import rig

HEADER_S = 2.0
POST = b"POST /ingest HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rig.Service]:
    folder = tmp_path_factory.mktemp("http")
    (folder / "in.jsonl").write_text("\n".join(rig.lines(0, 20)) + "\n")
    config = rig.write_config(
        folder,
        sources={"push": {"type": "http", "body_timeout": "1s"}},
        http={"port": 0, "header_timeout": f"{HEADER_S}s", "body_timeout": "2s", "request_timeout": "4s",
              "max_connections": 300},
    )  # fmt: skip
    with rig.Service(config) as service:
        yield service.wait_ready()


def connect(service: rig.Service, text: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", service.port), timeout=20)
    client.sendall(text)
    return client


def answer(client: socket.socket) -> bytes:
    """Everything until the server closes."""
    got = b""
    try:
        while part := client.recv(65536):
            got += part
    except OSError:
        pass
    return got


def memory(service: rig.Service) -> int:
    for line in Path(f"/proc/{service.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise AssertionError


def threads(service: rig.Service) -> int:
    return len(os.listdir(f"/proc/{service.process.pid}/task"))


def test_half_open_headers_are_closed_and_lock_nobody_out(service: rig.Service) -> None:
    """500 connections with unfinished headers: a healthy client is served, all are closed by the deadline."""
    before = threads(service)
    slow = [connect(service, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ") for _ in range(500)]
    taken = []
    for _ in range(20):
        begun = time.monotonic()
        assert service.ask("/healthz")[0] == 200
        taken.append(time.monotonic() - begun)
    assert sorted(taken)[-2] < 0.5
    assert service.metric("http_connections") <= 301
    deadline = time.monotonic() + HEADER_S + 5
    for client in slow:
        client.settimeout(max(0.1, deadline - time.monotonic()))
        assert answer(client) == b""
        assert time.monotonic() < deadline
        client.close()
    assert threads(service) <= before + 4
    assert service.metric("http_refused_total", reason="connections") >= 200
    assert service.metric("http_refused_total", reason="header_slow") >= 200


def test_idle_and_dripping_clients_are_closed(service: rig.Service) -> None:
    """Neither silence, nor a byte now and then, nor a body that never ends keeps a connection."""
    silent = connect(service)
    dripping = connect(service)
    body = connect(service, b"POST /ingest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n[")
    begun = time.monotonic()
    for letter in b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: abcdefghijkl":
        try:
            dripping.sendall(bytes([letter]))
        except OSError:
            break
        time.sleep(0.08)
    assert answer(dripping) == b""
    assert answer(silent) == b""
    assert b"HTTP/1.1 408" in answer(body)
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    ("request_text", "statuses"),
    [
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, 414, 431)),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 2_000_000 + b"\r\n\r\n", (400, 431)),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 10_000 + b"\r\n", (400, 431)),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 200 + b"\r\n", (400, 431)),
        (POST + b"Content-Length: 200000000\r\n\r\n", (413,)),
        (b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, 404, 405)),
        (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", (404, 405)),
        (b"GET /ingest HTTP/1.1\r\nHost: localhost\r\n\r\n", (405,)),
        (b"\x00\x01\x02\x03\r\n\r\n", (400,)),
        (POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", (400,)),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", (400,)),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", (403,)),
        (POST + b"Origin: http://evil.example\r\nContent-Length: 2\r\n\r\n[]", (403,)),
    ],
    ids=["long line", "long field", "many fields", "too many for the parser", "large body", "method",
         "wrong method", "read of a write", "binary", "two framings", "two lengths", "rebinding",
         "other site"],
)  # fmt: skip
def test_hostile_requests(service: rig.Service, request_text: bytes, statuses: tuple[int, ...]) -> None:
    """Refused with the right code, and the next one is served."""
    client = connect(service)
    with contextlib.suppress(OSError):  # it may stop listening before we have said everything
        client.sendall(request_text)
    client.settimeout(10)
    first = b""
    with contextlib.suppress(OSError):
        first = client.recv(100)
    client.close()
    # A reset may overtake the answer where we go on sending into a closed connection.
    assert (first == b"" and len(request_text) > 40_000) or int(first.split()[1]) in statuses
    assert service.ask("/healthz")[0] == 200


def test_a_body_that_nobody_reads_is_no_header(service: rig.Service) -> None:
    """Refused before its body was read, a client that goes on sending it is served afterwards: no 431."""
    size = 300_000
    with connect(
        service, b"POST /nobody HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size
    ) as client:
        client.sendall(b"x" * 10_000)
        assert client.recv(4096).startswith(b"HTTP/1.1 404")
        client.sendall(b"x" * (size - 10_000))
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert answer(client).startswith(b"HTTP/1.1 200")


def test_bodies_above_the_cap_cost_no_memory(service: rig.Service) -> None:
    """200 MB are refused after the first megabyte, chunked too."""
    before = memory(service)
    for chunked in (False, True):
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
        headers = {"Host": "localhost"} if chunked else {"Host": "localhost", "Content-Length": "200000000"}

        def parts() -> Iterator[bytes]:
            for _ in range(200):
                yield b"x" * 1_000_000

        try:
            connection.request("POST", "/ingest", parts(), headers, encode_chunked=chunked)
            assert connection.getresponse().status == 413
        except (ConnectionError, TimeoutError):
            pass
        finally:
            connection.close()
    assert memory(service) - before < 12 * 2**20
    assert service.metric("samples_rejected_total", reason="too_large") >= 1


def test_no_path_leads_to_a_file(service: rig.Service) -> None:
    """Traversal strings find nothing."""
    parts = ["..", "%2e%2e", "..%2f", "%2e%2e%5c", "....//", "..;", "%00", "..%c0%af", "%252e%252e"]
    for one in parts:
        for prefix in ("/", "/page/", "/api/v1/nodes/", "/api/v1/incidents/", "/ingest/"):
            for end in ("etc/passwd", "config.yaml"):
                status, text = service.ask(f"{prefix}{one}/{one}/{one}/{end}")
                assert status in (400, 404, 405)
                assert "root:" not in str(text)
