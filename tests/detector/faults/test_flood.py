"""A flood: ten times what the daemon can take, for minutes, by senders that do not wait (T29).

How much that is, is measured first. Over HTTP whoever is refused throws the samples away, as a small
sensor does; over MQTT nobody is told anything at QoS 0.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.detector import rig
from tests.detector.faults.burst_rig import MEMORY, NODES, PER_MESSAGE, TICKS, configured, largest, lines

FLOOD_S = float(os.environ.get("DETECTOR_FLOOD_S", "4"))  # of both protocols together; at night: 300
TIMES = 10  # what it can take
CLIENTS = 6  # whose requests are taken at a time; in the flood there are five times as many


class Sender:
    """Whole ticks of all nodes from prepared lines, as fast as wanted: only times are put in."""

    def __init__(self, first: int) -> None:
        drawn = itertools.islice(lines(0, 40), 40)
        self._forms = [
            [re.sub(rb'"time":\d+', b'"time":@', line.rstrip()) for line in tick] for tick in drawn
        ]
        self._joined = {
            size: [
                b"[" + b",".join(tick[at : at + size]) + b"]"
                for tick in self._forms for at in range(0, len(tick), size)
            ]
            for size in (PER_MESSAGE, len(NODES))
        }  # fmt: skip
        self.tick = first

    def bodies(self, ticks: int) -> bytes:
        """JSON lines of arrays: so many ticks in one request."""
        forms = self._joined[len(NODES)]
        found = [forms[t % len(forms)].replace(b"@", b"%d" % (rig.START + t))[1:-1].replace(b"},{", b"}\n{")
                 for t in range(self.tick, self.tick + ticks)]  # fmt: skip
        self.tick += ticks
        return b"\n".join(found)

    def messages(self) -> Iterator[bytes]:
        """One array after the other, for ever."""
        forms = self._joined[PER_MESSAGE]
        parts = len(NODES) // PER_MESSAGE
        for number in itertools.count():
            if number % parts == 0:
                self.tick += 1
            yield forms[number % len(forms)].replace(b"@", b"%d" % (rig.START + self.tick))


class Clients:
    """Clients over HTTP that share a sender; whoever is refused throws the samples away."""

    def __init__(
        self, service: rig.Service, sender: Sender, clients: int, rate: float | None, seconds: float
    ) -> None:
        self.answers: dict[int, int] = {}  # samples by status
        self._lock, self._rate = threading.Lock(), rate
        self._begun = time.monotonic()
        self._until = self._begun + seconds
        self._sent = 0
        self._service, self._sender = service, sender
        threads = [threading.Thread(target=self._run) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.seconds = time.monotonic() - self._begun

    def _next(self) -> bytes | None:
        """The next body, when it is due."""
        with self._lock:
            now = time.monotonic()
            if self._rate is not None:
                due = self._begun + self._sent / self._rate
                time.sleep(max(0.0, due - now))
            self._sent += 25 * len(NODES)
            return self._sender.bodies(25) if now < self._until else None

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._service.port, timeout=60)
        while (body := self._next()) is not None:
            try:
                connection.request("POST", "/ingest", body)
                answer = connection.getresponse()
                answer.read()
                status = answer.status
            except (OSError, http.client.HTTPException):  # refused before it was read
                connection.close()
                status = 0
            with self._lock:
                self.answers[status] = self.answers.get(status, 0) + 25 * len(NODES)
        connection.close()


def change(service: rig.Service, first: int, node: str, size: float) -> None:
    """A quiet stretch, a change of one node for forty ticks, and what moves the watermark beyond it."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=120)
    body: list[bytes] = []
    for number, tick in enumerate(lines(first, 300)):
        moved = 60 <= number < 100
        for line in tick:
            sample = json.loads(line)
            sample["value"] += size if moved and sample["node"] == node else 0.0
            body.append(json.dumps(sample).encode())
        if number % 25 == 24:
            connection.request("POST", "/ingest", b"\n".join(body))
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
            body.clear()
    connection.close()


@pytest.mark.timeout(300 + 8 * FLOOD_S)
def test_flood(tmp_path: Path, through_stdin: tuple[Path, int]) -> None:
    """It stays alive and small, says what it did not take, and finds the next change as ever."""
    shutil.copytree(through_stdin[0], tmp_path / "state")
    mqtt = servers.mosquitto(tmp_path / "mqtt")
    config = configured(
        tmp_path, align={"step": "1s", "lateness": "150s", "idle_after": "1s"},
        sources={
            "push": {"type": "http", "max_pending": CLIENTS},
            "mqtt": {"type": "mqtt", "host": "127.0.0.1", "port": mqtt.port, "topics": ["samples"], "qos": 0},
        },
        state={"directory": str(tmp_path / "state"), "commit_every": "100ms"},
    )  # fmt: skip
    done = threading.Event()
    looked = 0

    def look() -> None:
        nonlocal looked
        while not done.wait(0.3):
            assert service.ask("/healthz")[0] == 200
            assert service.ask("/")[0] == 200
            looked += 1

    try:
        with rig.Service(config) as service:
            service.wait_ready()
            rig.wait_for(lambda: service.ask("/readyz")[0] == 200)
            sender = Sender(TICKS)
            calm = Clients(service, sender, CLIENTS, None, 3.0)
            assert set(calm.answers) == {200}
            capacity = calm.answers[200] / calm.seconds
            watching = threading.Thread(target=look)
            watching.start()
            try:
                flood = Clients(service, sender, 5 * CLIENTS, TIMES * capacity, FLOOD_S / 2)
                published = publish(mqtt.port, sender, TIMES * capacity, FLOOD_S / 2)
            finally:
                done.set()
                watching.join()
            rig.wait_for(lambda: service.metric("queue_samples") == 0, what="the end of the flood")
            received = {
                name: service.metric("samples_received_total", source=name) for name in ("push", "mqtt")
            }
            dropped = service.metric("samples_rejected_total", reason="overflow", source="mqtt")
            peak, offered = largest(service.process.pid), sum(flood.answers.values())
            print(
                f"capacity {capacity:.0f} samples/s; HTTP: {offered / flood.seconds:.0f}/s offered, answers "
                f"{flood.answers}; MQTT: {2 * published / FLOOD_S:.0f}/s, {published} offered, "
                f"{received['mqtt']:.0f} received, {dropped:.0f} messages dropped here; "
                f"{peak / 2**20:.0f} MiB, looked at {looked} times"
            )
            assert looked > 0
            assert flood.answers[429] > 0
            taken = calm.answers[200] + flood.answers.get(200, 0)
            # A client that is cut off while it sends does not see what became of its request.
            assert taken <= received["push"] <= taken + flood.answers.get(0, 0)
            assert 0 < received["mqtt"] <= published
            assert peak < MEMORY
            change(service, sender.tick + 1, "n003", 8.0)
            out = tmp_path / "out.jsonl"

            def found() -> bool:
                told = rig.records(out)
                opened = [one for one in told if one["event"] == "incident.opened"]
                return any(node["name"] == "n003" for one in opened for node in one["nodes"])

            rig.wait_for(found, what="the change after the flood")
            assert service.stop() == 0
    finally:
        mqtt.stop()


def publish(port: int, sender: Sender, rate: float, seconds: float) -> int:
    """Arrays by MQTT at QoS 0, so many samples a second; how many they were."""
    command = [servers.program("mosquitto_pub"), "-p", str(port), "-l", "-t", "samples"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert process.stdin is not None
    begun, published = time.monotonic(), 0
    with process.stdin as pipe:
        for message in sender.messages():
            pipe.write(message + b"\n")
            published += PER_MESSAGE
            ahead = published / rate - (time.monotonic() - begun)
            if ahead > 0.01:
                time.sleep(ahead)
            if time.monotonic() - begun > seconds:
                break
    assert process.wait(rig.PATIENCE_S) == 0
    return published
