"""A burst through every source: nothing is lost, memory stays bounded, the backlog is gone soon after (T11).

One source after the other, as fast as each sender and the daemon together can go. There are fewer one-sample
MQTT messages: a Python client takes in some ten thousand in a second, and the broker keeps the rest.
"""

from __future__ import annotations

import http.client
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import redis

from tests import servers
from tests.connectors.running import Servers
from tests.detector import rig
from tests.detector.faults.burst_rig import (
    MEMORY,
    NODES,
    PER_MESSAGE,
    SAMPLES,
    TICKS,
    configured,
    counts,
    largest,
    lines,
)  # fmt: skip

MESSAGES = SAMPLES // 20  # of MQTT
KEPT = 500  # messages: the mock cluster forgets what exceeds 5 MB of a partition
QUEUED = 50_000  # messages: the broker of the tests keeps 100,000 for a client that is slower
BACKLOG_S = 240.0


def test_standard_input(through_stdin: tuple[Path, int]) -> None:
    state, memory = through_stdin
    found = counts(state)
    assert found["received"] == found["accepted"] == TICKS * len(NODES)
    assert 2**26 < memory < MEMORY


def by_http(service: rig.Service, first: int) -> None:
    """Batches of a client that tries again when it is told to."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
    body: list[bytes] = []
    for number, tick in enumerate(lines(first, TICKS), 1):
        body += tick
        if len(body) < 5000 and number < TICKS:
            continue
        status = 429
        while status == 429:
            connection.request("POST", "/ingest", b"".join(body), {"Idempotency-Key": str(number)})
            answer = connection.getresponse()
            answer.read()
            status = answer.status
        assert status == 200
        body.clear()
    connection.close()


def arrays(first: int) -> Iterator[bytes]:
    """Messages of many samples."""
    for tick in lines(first, TICKS):
        for begin in range(0, len(tick), PER_MESSAGE):
            yield b"[" + b",".join(line.rstrip() for line in tick[begin : begin + PER_MESSAGE]) + b"]"


def test_listener_and_brokers(tmp_path: Path, through_stdin: tuple[Path, int], running: Servers) -> None:
    """Four sources of one daemon that watches: each sample is taken exactly once."""
    shutil.copytree(through_stdin[0], tmp_path / "state")
    before = counts(tmp_path / "state")
    streams, mqtt, kafka = (
        servers.redis(tmp_path / "redis"),
        servers.mosquitto(tmp_path / "mqtt"),
        running.kafka(),
    )
    kafka.create("burst", partitions=1)
    sources = {
        "push": {"type": "http"},
        "redis": {"type": "redis", "port": streams.port, "streams": ["samples"]},
        "kafka": {"type": "kafka", "brokers": [kafka.address], "topics": ["burst"]},
        "mqtt": {"type": "mqtt", "host": "127.0.0.1", "port": mqtt.port, "topics": ["samples"]},
    }
    try:
        with rig.Service(configured(tmp_path, sources=sources)) as service:
            service.wait_ready()
            rig.wait_for(lambda: service.ask("/readyz")[0] == 200)
            first = TICKS

            def gone(name: str, count: int) -> None:
                """The backlog of that source, in time."""
                rig.wait_for(
                    lambda: service.metric("samples_received_total", source=name) >= count
                    and service.metric("queue_samples") == 0,
                    timeout=BACKLOG_S, what=f"{name}: the end of the backlog",
                )  # fmt: skip
                assert service.metric("samples_received_total", source=name) == count
                assert service.metric("samples_rejected_total", source=name) == 0

            by_http(service, first)
            gone("push", SAMPLES)
            with redis.Redis(port=streams.port) as client, client.pipeline(transaction=False) as pipe:
                for number, message in enumerate(arrays(first + TICKS)):
                    pipe.xadd("samples", {"data": message})
                    if number % 100 == 99:
                        pipe.execute()
                pipe.execute()
            gone("redis", SAMPLES)
            messages = list(arrays(first + 2 * TICKS))
            for begin in range(0, len(messages), KEPT):
                kafka.send("burst", messages[begin : begin + KEPT])
                gone("kafka", min(begin + KEPT, len(messages)) * PER_MESSAGE)
            command = [servers.program("mosquitto_pub"), "-p", str(mqtt.port)]
            command += ["-q", "1", "-l", "-t", "samples"]
            single = [one for tick in lines(first + 3 * TICKS, MESSAGES // len(NODES)) for one in tick]
            for begin in range(0, len(single), QUEUED):
                subprocess.run(command, input=b"".join(single[begin : begin + QUEUED]), check=True)
                gone("mqtt", min(begin + QUEUED, len(single)))
            assert largest(service.process.pid) < MEMORY
            assert service.stop() == 0
    finally:
        streams.stop()
        mqtt.stop()
    after = counts(tmp_path / "state")
    assert after["received"] - before["received"] == 3 * SAMPLES + MESSAGES
    assert after["late"] == after["duplicate"] == after["future"] == 0
    records = rig.records(tmp_path / "out.jsonl")
    assert not [record for record in records if record["event"].startswith("node")]
