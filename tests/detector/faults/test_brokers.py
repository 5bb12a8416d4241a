"""Four brokers die at once and stay away, or the daemon is stopped until they give it up (T3, T28).

Dead brokers: unready at once, few words, back soon. Either way the same alerts.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import nats
import pytest
import redis

from tests import servers
from tests.connectors.running import Servers
from tests.detector import rig

OUTAGE_S = float(os.environ.get("DETECTOR_OUTAGE_S", "15"))  # at night: 600
STOPPED_S = float(os.environ.get("DETECTOR_STOPPED_S", "6"))  # at night: 60
NOTICED_S = 10.0
BACK_S = 10.0
SLACK_S = 5.0  # of a busy machine
PAUSE_S = 5.0  # longest back-off
ATTEMPT_S = 2.0  # longest wait for an answer
LOG_EVERY_S = 10.0
OF = {name: rig.NODES[2 * k : 2 * k + 2] for k, name in enumerate(("redis", "nats", "mqtt", "kafka"))}
END = 1100  # tick up to which alerts are compared
LATENESS = 400  # ticks: sources come back one after the other, and none is to be late for the others


class Brokers:
    """The four, each with a quarter of the nodes."""

    def __init__(self, folder: Path, running: Servers, keepalive: str = "30s") -> None:
        self._keepalive = keepalive
        self.redis = servers.redis(folder / "redis")
        self.nats = servers.nats(folder / "nats")
        self.mqtt = servers.mosquitto(folder / "mosquitto", persistent=True)
        self.kafka = running.kafka()
        self.topic = f"{folder.name}-{os.getpid()}"
        self.kafka.create(self.topic, partitions=2)
        asyncio.run(self._nats(create=True))

    def sources(self) -> dict[str, Any]:
        timeout = f"{ATTEMPT_S:g}s"
        return {
            "redis": {"type": "redis", "port": self.redis.port, "streams": ["samples"], "timeout": timeout},
            "nats": {"type": "nats", "servers": [f"nats://127.0.0.1:{self.nats.port}"], "stream": "samples",
                     "timeout": timeout},
            "mqtt": {"type": "mqtt", "host": "127.0.0.1", "port": self.mqtt.port, "topics": ["samples"],
                     "timeout": timeout, "keepalive": self._keepalive},
            "kafka": {"type": "kafka", "brokers": [self.kafka.address], "topics": [self.topic],
                      "timeout": timeout,
                      "options": {"session.timeout.ms": 1000, "heartbeat.interval.ms": 100}},
        }  # fmt: skip

    def send(self, lines: list[str]) -> None:
        mine = {
            name: [line.encode() for line in lines if json.loads(line)["node"] in OF[name]] for name in OF
        }
        with redis.Redis(port=self.redis.port) as client, client.pipeline() as pipe:
            for line in mine["redis"]:
                pipe.xadd("samples", {"data": line})
            pipe.execute()
        command = [
            servers.program("mosquitto_pub"),
            "-p",
            str(self.mqtt.port),
            "-q",
            "1",
            "-l",
            "-t",
            "samples",
        ]
        subprocess.run(command, input=b"".join(line + b"\n" for line in mine["mqtt"]), check=True)
        self.kafka.send(
            self.topic, mine["kafka"], [json.loads(line)["node"].encode() for line in mine["kafka"]]
        )
        asyncio.run(self._nats(mine["nats"]))

    async def _nats(self, lines: Sequence[bytes] = (), create: bool = False) -> None:
        client = await nats.connect(f"nats://127.0.0.1:{self.nats.port}")
        if create:
            await client.jetstream().add_stream(name="samples", subjects=["samples"])
        for line in lines:
            await client.jetstream().publish("samples", line)
        await client.close()

    def kill(self) -> None:
        for server in (self.redis, self.nats, self.mqtt):
            server.kill()
        self.kafka.down()

    def start(self) -> None:
        for server in (self.redis, self.nats, self.mqtt):
            server.start()
        self.kafka.up()

    def stop(self) -> None:
        for server in (self.redis, self.nats, self.mqtt):
            server.stop()


class Watch:
    """Looks at the daemon again and again: when was what seen first, and how long did nothing happen."""

    def __init__(self, service: rig.Service) -> None:
        self._service = service
        self.failures: dict[str, list[float]] = {name: [] for name in OF}
        self._open = True
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        known = {name: self._service.metric("source_failures_total", source=name) for name in OF}
        while self._open:
            for name in OF:
                now = self._service.metric("source_failures_total", source=name)
                if now > known[name]:
                    self.failures[name].append(time.monotonic())
                    known[name] = now
            time.sleep(0.2)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._thread.join()


def within(limit: float, condition: Callable[[], bool], what: str) -> None:
    begun = time.monotonic()
    rig.wait_for(condition, what=what)
    assert time.monotonic() - begun < limit + SLACK_S, what


def memory(service: rig.Service) -> int:
    """Resident, in bytes."""
    text = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", text)[0]) * 1024


ALIGN = {"step": "1s", "lateness": f"{LATENESS}s"}
PARTS = [list(rig.lines(a, b, every=60)) for a, b in ((rig.LEARN + 60, 700), (700, 900), (900, END))]
CLOSING = list(rig.lines(END, END + LATENESS + 1))  # moves the watermark beyond all that counts


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory, learnt_state: Path) -> list[dict[str, Any]]:
    """What an undisturbed run over a file says."""
    folder = tmp_path_factory.mktemp("reference")
    rig.copy_state(learnt_state, folder)
    lines = [line for part in (*PARTS, CLOSING) for line in part]
    (folder / "in.jsonl").write_text("\n".join(lines) + "\n")
    with rig.Service(rig.write_config(folder, align=ALIGN), "--once") as service:
        assert service.process.wait(rig.PATIENCE_S) == 0, service.said()
    return rig.records(folder / "out.jsonl")


def due_of(records: list[dict[str, Any]]) -> set[str]:
    """Ids that must come."""
    due = {
        one["id"] for one in records if one["time"] < rig.START + END and one["event"] != "incident.analyzed"
    }
    assert len(due) > 20
    return due


def received(service: rig.Service, name: str) -> float:
    return service.metric("samples_received_total", source=name)


def wait_for_all(service: rig.Service, *sent: list[str]) -> None:
    """Only then may more be sent: a tick does not wait for ever for a source that is slower."""
    count = sum(map(len, sent)) / len(OF)
    rig.wait_for(lambda: all(received(service, name) >= count for name in OF), what="all samples")


def taken_once(service: rig.Service) -> bool:
    """Whether every sample of the closed ticks was taken; brokers may repeat some."""
    accepted = service.ask("/api/v1/status")[1]["counts"]["accepted"]
    return bool(accepted == len(rig.NODES) * END)


def only_known(written: list[str], records: list[dict[str, Any]]) -> None:
    """Nothing twice, nothing invented."""
    assert len(written) == len(set(written))
    assert set(written) <= {one["id"] for one in records}


@pytest.mark.timeout(240 + 2 * OUTAGE_S)
def test_brokers_killed_and_back(
    tmp_path: Path, learnt_state: Path, running: Servers, records: list[dict[str, Any]]
) -> None:
    due = due_of(records)
    rig.copy_state(learnt_state, tmp_path)
    brokers = Brokers(tmp_path, running)
    try:
        with rig.Service(rig.write_config(tmp_path, align=ALIGN, sources=brokers.sources())) as service:
            service.wait_ready()
            rig.wait_for(lambda: service.ask("/readyz")[0] == 200)

            def statuses() -> set[str]:
                return {source["status"] for source in service.ask("/readyz")[1]["sources"].values()}

            brokers.send(PARTS[0])
            wait_for_all(service, PARTS[0])
            rig.wait_for(lambda: service.metric("queue_samples") == 0)
            time.sleep(2.5)  # until all is acknowledged and the broker's session is on disk
            size, said = memory(service), len(service.said())
            with Watch(service) as watch:
                brokers.kill()
                begun = time.monotonic()
                within(NOTICED_S, lambda: service.ask("/readyz")[0] == 503, "unready")
                within(NOTICED_S, lambda: statuses() == {"down"}, "all down")
                time.sleep(max(0.0, begun + OUTAGE_S - time.monotonic()))
                assert statuses() == {"down"}
                outage = service.said()[said:]
                grown = memory(service) - size
            brokers.start()
            brokers.send(PARTS[1])  # most of it before we are connected again
            for name in OF:
                within(
                    BACK_S, lambda name=name: received(service, name) > len(PARTS[0]) / 4, f"{name} to go on"
                )
            within(BACK_S, lambda: service.ask("/readyz")[0] == 200, "ready again")
            wait_for_all(service, *PARTS[:2])
            brokers.send(PARTS[2])
            wait_for_all(service, *PARTS)
            brokers.send(CLOSING)
            out = tmp_path / "out.jsonl"
            rig.wait_for(lambda: due <= set(rig.ids(out)), what="all alerts")
            rig.wait_for(lambda: taken_once(service), what="every sample once")
            assert service.stop() == 0
    finally:
        brokers.stop()

    written = rig.without_findings(rig.ids(out))
    only_known(written, records)
    assert grown < 0.1 * size + 2**24
    for name in OF:
        moments = [begun, *watch.failures[name], begun + OUTAGE_S]
        assert max(later - earlier for earlier, later in pairwise(moments)) < PAUSE_S + ATTEMPT_S + SLACK_S, (
            name
        )
        told = [line for line in outage.splitlines() if f"source {name}" in line and "warning" in line]
        assert 1 <= len(told) <= OUTAGE_S / LOG_EVERY_S + 1, told


@pytest.mark.timeout(300 + 2 * STOPPED_S)
def test_stopped_until_the_brokers_give_it_up(
    tmp_path: Path, learnt_state: Path, running: Servers, records: list[dict[str, Any]]
) -> None:
    """SIGSTOP, as by a hypervisor or a debugger; sessions and groups expire; SIGCONT: all comes, once."""
    rig.copy_state(learnt_state, tmp_path)
    brokers = Brokers(tmp_path, running, keepalive="1s")  # the broker gives up after one and a half
    try:
        config = rig.write_config(tmp_path, align=ALIGN, sources=brokers.sources(), diagnosis=rig.only())
        with rig.Service(config) as service:
            service.wait_ready()
            rig.wait_for(lambda: service.ask("/readyz")[0] == 200)
            brokers.send(PARTS[0])
            wait_for_all(service, PARTS[0])
            brokers.send(PARTS[1][: len(PARTS[1]) // 2])  # it is stopped at work
            service.process.send_signal(signal.SIGSTOP)
            brokers.send(PARTS[1][len(PARTS[1]) // 2 :])
            time.sleep(STOPPED_S)
            service.process.send_signal(signal.SIGCONT)
            rig.wait_for(lambda: service.ask("/readyz")[0] == 200, what="ready again")
            wait_for_all(service, *PARTS[:2])
            brokers.send(PARTS[2])
            wait_for_all(service, *PARTS)
            brokers.send(CLOSING)
            out = tmp_path / "out.jsonl"
            rig.wait_for(lambda: due_of(records) <= set(rig.ids(out)), what="all alerts")
            rig.wait_for(lambda: taken_once(service), what="every sample once")
            assert service.stop() == 0
    finally:
        brokers.stop()
    only_known(rig.without_findings(rig.ids(out)), records)
