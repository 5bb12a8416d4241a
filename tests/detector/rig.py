"""Real daemons for the tests: data with known changes, a quick configuration, processes to start and kill."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from detector.diagnosis.registry import diagnosis_model
from detector.settings.diagnosis import DiagnosisSettings

NODES = [f"n{i}" for i in range(8)]
EDGES = [[NODES[i], NODES[(i + 1) % 8]] for i in range(8)]
START = 1_700_000_000
LEARN = 400


def lines(
    first: int, last: int, every: int = 0, lasts: int = 10, seed: int = 1, pad: int = 0, size: float = 6.0
) -> Iterator[str]:
    """JSON lines of ticks first..last; each `every` ticks one node jumps for `lasts` ticks."""
    rng = random.Random(seed * 1_000_003 + first)
    padding = "x" * pad
    for tick in range(first, last):
        changed = NODES[(tick // every * 3) % 8] if every and 0 < tick % every <= lasts else None
        for node in NODES:
            value = rng.gauss(0.0, 1.0) + (size if node == changed else 0.0)
            sample = {"time": START + tick, "node": node, "value": round(value, 5)}
            yield json.dumps({**sample, "pad": padding} if pad else sample)


def settings(folder: Path, **groups: Any) -> dict[str, Any]:
    """A small, quick configuration; `groups` replace or add top-level keys."""
    base: dict[str, Any] = {
        "graph": {"edges": EDGES},
        "sources": {"in": {"type": "file", "path": str(folder / "in.jsonl")}},
        "align": {"step": "1s", "lateness": "1s"},
        "windows": {"reference": 40, "tests": [5, 10]},
        "estimator": {"sigma": 1.0, "coupling": 0.5, "ridge": 0.1, "rank": 6, "atoms": 16},
        "alarm": {"learn": LEARN, "budget": "1 per 500 ticks"},
        "incidents": {"clear_after": 5, "cool_down": "5s"},
        "sinks": {"out": {"type": "file", "path": str(folder / "out.jsonl")}},
        "state": {"directory": str(folder / "state")},
        "http": {"port": 0},
    }
    return {**base, **groups}


def only(*kinds: str) -> dict[str, Any]:
    """The group `diagnosis` with these analyzers: for hundreds of incidents, or none at all."""
    names = diagnosis_model().model_fields.keys() - DiagnosisSettings.model_fields.keys()
    return {name: {"enabled": name in kinds} for name in sorted(names)}


def write_config(folder: Path, **groups: Any) -> Path:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(settings(folder, **groups)))
    return path


def records(path: Path) -> list[dict[str, Any]]:
    """Those that are complete: the last line may be half written."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def ids(path: Path) -> list[str]:
    return [record["id"] for record in records(path)]


def without_findings(given: list[str]) -> list[str]:
    """The ids of what the pipeline itself said: findings come some time later, perhaps in the next life."""
    return [one for one in given if not one.endswith(("-early", "-settled"))]


PATIENCE_S = 480.0  # machines are shared: no test fails because another program is busy


def wait_for(condition: Callable[[], Any], timeout: float = PATIENCE_S, what: str = "") -> Any:
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {timeout} s in vain for {what or condition}"
        time.sleep(0.02)
    return found


PRELOADED = ["detector.cli.main", "detector.daemon.daemon", *(f"connectors.{name}" for name in (
    "files.source", "files.sink", "webhook", "http", "simulation.source"))]  # fmt: skip


def _life(arguments: list[str], log: str, environment: dict[str, str]) -> None:
    """What a process of `Service` does: be `detector run`."""
    os.environ.update(environment)
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.argv = ["detector", *arguments]
    from detector.cli.main import main

    main()


class Life:
    """A process forked from one that has imported everything: real, and there in no time."""

    def __init__(self, arguments: list[str], log: Path, environment: dict[str, str]) -> None:
        context: Any = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self._process = context.Process(target=_life, args=(arguments, str(log), environment))
        self._process.start()
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode  # type: ignore[no-any-return]

    poll = returncode.fget  # type: ignore[assignment]

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        assert self.returncode is not None, f"still running after {timeout} s"
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()


def total(page: str, name: str, **labels: str) -> float:
    """The sum over the series of a page of metrics with these labels."""
    found = []
    for line in page.splitlines():
        head, _, value = line.rpartition(" ")
        if head.split("{")[0] == f"detector_{name}" and all(f'{k}="{v}"' in head for k, v in labels.items()):
            found.append(float(value))
    assert found, f"no metric {name} {labels}"
    return sum(found)


class Service:
    """`detector run` as a process of its own; with `fork=False` started from the command line."""

    def __init__(
        self, config: Path, *options: str, environment: dict[str, str] | None = None, fork: bool = True
    ) -> None:
        self.log = config.with_name(f"log-{time.monotonic_ns()}")
        arguments = ["run", "--config", str(config), *options]
        self.process: Life | subprocess.Popen[bytes]
        if fork:
            self.log.touch()
            self.process = Life(arguments, self.log, environment or {})
        else:
            with self.log.open("wb") as log:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "detector", *arguments],
                    stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})},
                )  # fmt: skip
        self._port: int | None = None

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def port(self) -> int:
        if self._port is None:
            found = wait_for(lambda: re.search(r"listening on \w+://\S*:(\d+)", self.said()) or self._died())
            self._port = int(found[1])
        return self._port

    def _died(self) -> None:
        assert self.process.poll() is None, f"exit {self.process.returncode}: {self.said()}"

    def wait_ready(self) -> Service:
        wait_for(lambda: " ready: " in self.said() or self._died(), what="ready")
        return self

    def ask(
        self, path: str, method: str = "GET", body: Any = None, headers: dict[str, str] | None = None,
        timeout: float = 120.0,
    ) -> tuple[int, Any]:  # fmt: skip
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            data = body if isinstance(body, (bytes, str, type(None))) else json.dumps(body)
            connection.request(method, path, data, headers or {})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(text) if text else None
        except ValueError:
            return answer.status, text.decode(errors="replace")

    def metric(self, name: str, **labels: str) -> float:
        """The sum over the series with these labels."""
        return total(self.ask("/metrics")[1], name, **labels)

    def stop(self, timeout: float = 120.0) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


class Receiver:
    """An HTTP receiver that notes the records it is sent; `delay` and `status` make it slow or broken.

    `refuses` may say more of a record: the status that it is answered with, or None.
    """

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.delay, self.status = 0.0, 204
        self.refuses: Callable[[dict[str, Any]], int | None] = lambda record: None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if outer.delay:
                    time.sleep(outer.delay)
                record = json.loads(body)
                status = outer.refuses(record) or outer.status
                if status < 300:
                    outer.records.append(record)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def ids(self) -> list[str]:
        return [record["id"] for record in self.records]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class NotifySocket:
    """What systemd would hear."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.settimeout(0.2)
        self.heard: list[tuple[float, str]] = []
        self._open = True
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while self._open:
            try:
                message = self._socket.recv(65536).decode()
            except TimeoutError:
                continue
            except OSError:
                return
            self.heard += [(time.monotonic(), line) for line in message.split("\n")]

    @property
    def lines(self) -> list[str]:
        return [line for _, line in self.heard]

    def close(self) -> None:
        self._open = False
        self._socket.close()


def learnt(folder: Path) -> Path:
    """A state folder that has learnt, made by a real run; copy it to start where watching begins."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "in.jsonl").write_text("\n".join(lines(0, LEARN + 60)) + "\n")
    with Service(write_config(folder), "--once") as service:
        assert service.process.wait(270) == 0, service.said()
    assert any("calibrated" in line for line in (folder / "out.jsonl").read_text().splitlines())
    return folder / "state"


def copy_state(state: Path, folder: Path) -> None:
    shutil.copytree(state, folder / "state")
