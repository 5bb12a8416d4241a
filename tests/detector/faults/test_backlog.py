"""A backlog over several streams, partitions, connections, sources and files is not late (T25)."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import nats
import pytest
import redis

from tests import servers
from tests.connectors.running import NATS_TOKEN, REDIS_PASSWORD, Servers
from tests.detector import rig

LIVE, END = rig.LEARN + 100, rig.LEARN + 1100  # ticks: of the first life, of all that is compared
LEFT, RIGHT = rig.NODES[:4], rig.NODES[4:]
SECRETS = {"REDIS_PASSWORD": REDIS_PASSWORD, "NATS_TOKEN": NATS_TOKEN}
AT = len(rig.NODES) * (LIVE - rig.LEARN - 60)  # samples of the first life
KILLS = int(os.environ.get("DETECTOR_BACKLOG_KILLS", "4"))  # at night: 50
TAIL = 20  # ticks that push the watermark beyond all that is compared


class Feed:
    """Somewhere to send the samples of two halves of the network, in the order of time."""

    repeats = False  # whether what was not acknowledged comes again after a stop, although it was used

    def __init__(self, running: Servers, folder: Path) -> None:
        self.running, self.folder = running, folder
        self.name = folder.name

    def prepare(self) -> None:
        """Before the daemon starts."""

    def sources(self) -> dict[str, Any]:
        raise NotImplementedError

    def send_all(self, lines: Sequence[str]) -> None:
        """One half after the other: what comes in orders of their own."""
        for half, part in enumerate(halves(lines)):
            self.send(half, part)

    def send(self, half: int, lines: Sequence[str]) -> None:
        raise NotImplementedError


class RedisStreams(Feed):
    """One source, two streams."""

    def sources(self) -> dict[str, Any]:
        streams = [f"{self.name}:0", f"{self.name}:1"]
        port = self.running.redis().port
        return {"in": {"type": "redis", "port": port, "password": "${REDIS_PASSWORD}", "streams": streams}}

    def send(self, half: int, lines: Sequence[str]) -> None:
        with (
            redis.Redis(port=self.running.redis().port, password=REDIS_PASSWORD) as client,
            client.pipeline(transaction=False) as pipe,
        ):
            for line in lines:
                pipe.xadd(f"{self.name}:{half}", {"data": line})
            pipe.execute()


class RedisAndNats(RedisStreams):
    """Two sources of different brokers."""

    def sources(self) -> dict[str, Any]:
        address = f"nats://127.0.0.1:{self.running.nats().port}"
        second = {"type": "nats", "servers": [address], "token": "${NATS_TOKEN}", "stream": self.name}
        first = super().sources()["in"]
        return {"one": {**first, "streams": [f"{self.name}:0"]}, "two": second}

    def prepare(self) -> None:
        asyncio.run(self._nats(create=True))

    def send(self, half: int, lines: Sequence[str]) -> None:
        if half == 0:
            super().send(half, lines)
        else:
            asyncio.run(self._nats(lines))

    async def _nats(self, lines: Sequence[str] = (), create: bool = False) -> None:
        client = await nats.connect(f"nats://127.0.0.1:{self.running.nats().port}", token=NATS_TOKEN)
        stream = client.jetstream()
        if create:
            await stream.add_stream(name=self.name, subjects=[self.name])
        for begin in range(0, len(lines), 500):
            part = lines[begin : begin + 500]
            await asyncio.gather(*(stream.publish(self.name, line.encode()) for line in part))
        await client.close()


class Mqtt(Feed):
    """One persistent session."""

    repeats = True
    more: ClassVar[dict[str, Any]] = {}

    def send_all(self, lines: Sequence[str]) -> None:
        self.send(0, lines)

    def sources(self) -> dict[str, Any]:
        source = {"type": "mqtt", "host": "127.0.0.1", "port": self.running.mosquitto().port,
                  "topics": [f"{self.name}/#"], "client_id": self.name, **self.more}  # fmt: skip
        return {"in": source}

    def send(self, half: int, lines: Sequence[str]) -> None:
        command = [
            servers.program("mosquitto_pub"),
            "-p",
            str(self.running.mosquitto().port),
            "-q",
            "1",
            "-l",
        ]
        text = "".join(line + "\n" for line in lines)
        subprocess.run([*command, "-t", f"{self.name}/{half}"], input=text.encode(), check=True)


class TwoMqtt(Mqtt):
    """Two sources, each with a persistent session."""

    def send_all(self, lines: Sequence[str]) -> None:
        Feed.send_all(self, lines)

    def sources(self) -> dict[str, Any]:
        both = {}
        for half in range(2):
            one = super().sources()["in"]
            name = f"{self.name}-{half}"
            both[name] = {**one, "client_id": name, "topics": [f"{self.name}/{half}"]}
        return both


class SharedMqtt(Mqtt):
    """A shared subscription of two connections, each with its own queue at the broker."""

    more: ClassVar[dict[str, Any]] = {"shared": "group", "connections": 2}


class Files(Feed):
    """Two files that grow."""

    def sources(self) -> dict[str, Any]:
        return {
            f"file{half}": {"type": "file", "path": str(self.folder / f"{half}.jsonl"), "mode": "tail",
                            "poll": "20ms"}
            for half in range(2)
        }  # fmt: skip

    def send(self, half: int, lines: Sequence[str]) -> None:
        with (self.folder / f"{half}.jsonl").open("a") as file:
            file.writelines(line + "\n" for line in lines)


class Kafka(Feed):
    """One topic, three partitions; both halves in all of them, by node."""

    def prepare(self) -> None:
        self.running.kafka().create(self.name, partitions=3)

    def sources(self) -> dict[str, Any]:
        source = {"type": "kafka", "brokers": [self.running.kafka().address], "topics": [self.name],
                  "group": self.name, "options": {"group.instance.id": self.name}}  # fmt: skip
        return {"in": source}

    def send(self, half: int, lines: Sequence[str]) -> None:
        nodes = [json.loads(line)["node"].encode() for line in lines]
        self.running.kafka().send(self.name, [line.encode() for line in lines], nodes)

    def send_all(self, lines: Sequence[str]) -> None:
        self.send(0, lines)


FEEDS = (RedisStreams, RedisAndNats, Mqtt, TwoMqtt, SharedMqtt, Files, Kafka)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, learnt_state: Path) -> list[dict[str, Any]]:
    """What one undisturbed run over a single file says."""
    folder = tmp_path_factory.mktemp("reference")
    rig.copy_state(learnt_state, folder)
    (folder / "in.jsonl").write_text("\n".join(rig.lines(rig.LEARN + 60, END + TAIL, every=60)) + "\n")
    with rig.Service(rig.write_config(folder, diagnosis=rig.only()), "--once") as service:
        assert service.process.wait(rig.PATIENCE_S) == 0, service.said()
    return rig.records(folder / "out.jsonl")


def halves(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    names = {node: 0 if node in LEFT else 1 for node in rig.NODES}
    parts: tuple[list[str], list[str]] = ([], [])
    for line in lines:
        parts[names[json.loads(line)["node"]]].append(line)
    return parts


def sorted_out(written: list[str], expected: list[dict[str, Any]]) -> None:
    """Nothing twice, nothing invented."""
    found = rig.without_findings(written)
    assert len(found) == len(set(found))
    assert set(found) <= {one["id"] for one in expected}


def first_life(config: Path, feed: Feed, lines: Sequence[str]) -> None:
    """Sessions and groups are made, and some ticks are seen live."""
    with rig.Service(config, environment=SECRETS) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.ask("/readyz")[0] == 200)
        feed.send_all(lines)
        rig.wait_for(lambda: service.metric("samples_received_total") >= len(lines), what="live samples")
        assert service.stop() == 0


@pytest.mark.parametrize("kind", FEEDS)
def test_a_backlog_gives_the_alerts_of_an_undisturbed_run(
    kind: type[Feed], running: Servers, tmp_path: Path, learnt_state: Path, expected: list[dict[str, Any]]
) -> None:
    """Some live ticks, a stop, 1000 ticks of backlog, as far as can be one half after the other, a start."""
    rig.copy_state(learnt_state, tmp_path)
    feed = kind(running, tmp_path)
    feed.prepare()
    config = rig.write_config(tmp_path, sources=feed.sources(), diagnosis=rig.only())
    lines = list(rig.lines(rig.LEARN + 60, END + TAIL, every=60))
    first_life(config, feed, lines[:AT])
    feed.send_all(lines[AT:])
    due = {one["id"] for one in expected if one["time"] < rig.START + END}
    assert len(due) > 30
    out = tmp_path / "out.jsonl"
    with rig.Service(config, environment=SECRETS) as service:
        service.wait_ready()

        def late() -> float:
            return service.metric("samples_discarded_total", reason="late")

        rig.wait_for(lambda: due <= set(rig.ids(out)) or (late() > 0 and not feed.repeats), what="all alerts")
        assert feed.repeats or late() == 0
        assert service.stop() == 0
    sorted_out(rig.ids(out), expected)


@pytest.mark.parametrize("kind", [RedisStreams, RedisAndNats, TwoMqtt, Kafka])
def test_killed_again_and_again_within_a_backlog(
    kind: type[Feed], running: Servers, tmp_path: Path, learnt_state: Path, expected: list[dict[str, Any]]
) -> None:
    """`kill -9` while samples are held, moved, committed, acknowledged: the same ids."""
    rig.copy_state(learnt_state, tmp_path)
    feed = kind(running, tmp_path)
    feed.prepare()
    state = {"directory": str(tmp_path / "state"), "commit_every": "50ms", "commit_samples": 500,
             "snapshot_every": "300ms"}  # fmt: skip
    config = rig.write_config(tmp_path, sources=feed.sources(), diagnosis=rig.only(), state=state)
    lines = list(rig.lines(rig.LEARN + 60, END + TAIL, every=60))
    first_life(config, feed, lines[:AT])
    feed.send_all(lines[AT:])
    due = {one["id"] for one in expected if one["time"] < rig.START + END}
    out = tmp_path / "out.jsonl"
    rng = random.Random(7)
    for _ in range(KILLS):
        with rig.Service(config, environment=SECRETS) as service:
            service.wait_ready()
            time.sleep(rng.uniform(0.1, 1.2))
            service.kill()
    with rig.Service(config, environment=SECRETS) as service:
        service.wait_ready()
        rig.wait_for(lambda: due <= set(rig.ids(out)), what="all alerts")
        assert service.stop() == 0
    sorted_out(rig.ids(out), expected)
