"""Brokers that die and come back, passwords that are wrong, clients that are too slow."""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from connectors import Batch, ConnectorError, backoff, source
from connectors.base import InFlight
from connectors.mqtt import MAX_HELD, MqttSource
from tests import servers
from tests.connectors.source_rigs import KafkaRig, MqttRig, NatsRig, RedisRig, Rig, message
from tests.contracts.test_sources import expected, in_order, take


class Own:
    """Servers of one test alone, which it may kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._server: Any = None

    def _once(self, start: Any, *arguments: Any) -> Any:
        if self._server is None:
            self._server = start(self.folder, *arguments)
        return self._server

    def mosquitto(self) -> servers.Server:
        return self._once(servers.mosquitto)

    def redis(self) -> servers.Server:
        return self._once(servers.redis, "canary-redis-password")

    def nats(self) -> servers.Server:
        return self._once(servers.nats, "canary-nats-token")

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop()


@pytest.mark.parametrize("kind", [RedisRig, NatsRig])
def test_a_killed_broker_comes_back_and_nothing_is_lost(kind: type[Rig], tmp_path: Path) -> None:
    """kill -9 under a waiting read: it raises soon; reopening goes on after what was read."""

    async def main() -> None:
        own = Own(tmp_path / "server")
        rig = kind(own, tmp_path)
        await rig.prepare()
        connector = rig.make()
        await connector.open(None)
        await rig.send([message(i) for i in range(10)])
        first = await take(connector, 10)
        reading = asyncio.create_task(connector.read())
        await asyncio.sleep(0.2)
        await asyncio.to_thread(own.kill)
        began = time.monotonic()
        with pytest.raises(ConnectorError) as caught:
            await asyncio.wait_for(reading, 30)
        assert caught.value.retry
        assert time.monotonic() - began < 30
        await connector.close()
        await asyncio.to_thread(own.start)
        await connector.open(first.position)
        await rig.send([message(i) for i in range(10, 20)])
        rest = await take(connector, 10)
        assert in_order(rest.samples) == expected(range(10, 20))
        await connector.commit(rest.position)
        await connector.close()
        own.stop()

    asyncio.run(main())


def test_a_killed_mqtt_broker_is_noticed(tmp_path: Path) -> None:
    async def main() -> None:
        own = Own(tmp_path / "server")
        rig = MqttRig(own, tmp_path)
        connector = rig.make()
        await connector.open(None)
        reading = asyncio.create_task(connector.read())
        await asyncio.sleep(0.1)
        await asyncio.to_thread(own.kill)
        with pytest.raises(ConnectorError) as caught:
            await asyncio.wait_for(reading, 30)
        assert caught.value.retry
        await connector.commit({"session": "of another time", "delivery": 9})
        await connector.close()
        await asyncio.to_thread(own.start)
        await connector.open(None)
        await rig.send([message(1)])
        assert (await take(connector, 1)).samples == expected(range(1, 2))
        await connector.close()
        own.stop()

    asyncio.run(main())


def test_kafka_down_and_up_again(running: Any) -> None:
    """An outage is reported; after it the same position gives exactly the rest."""

    async def main() -> None:
        cluster = running.kafka()
        rig = KafkaRig(running, Path())
        await rig.prepare()
        connector = rig.make()
        await connector.open(None)
        await rig.send([message(i) for i in range(10)])
        first = await take(connector, 10)
        await connector.commit(first.position)
        await asyncio.to_thread(cluster.down)
        with pytest.raises(ConnectorError) as caught:
            await asyncio.wait_for(read_all(connector), 15)
        assert caught.value.retry
        await connector.close()
        await asyncio.to_thread(cluster.up)
        await rig.send([message(i) for i in range(10, 20)])
        await connector.open(first.position)
        rest = await take(connector, 10)
        assert in_order(rest.samples) == expected(range(10, 20))
        await connector.close()

    async def read_all(connector: Any) -> None:
        while True:
            await connector.read()

    asyncio.run(main())


@pytest.mark.parametrize(("kind", "field"), [(RedisRig, "password"), (NatsRig, "token")])
def test_a_wrong_password_is_refused_and_not_told(
    kind: type[Rig], field: str, running: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG", "canary-wrong-secret")

    async def main() -> None:
        rig = kind(running, tmp_path)
        await rig.prepare()
        connector = rig.make({**rig.config(), field: "${WRONG}"})
        with pytest.raises(ConnectorError) as caught:
            await asyncio.wait_for(connector.open(None), 10)
        assert "canary" not in str(caught.value)
        await connector.close()

    asyncio.run(main())


def test_mqtt_password_and_wrong_password(tmp_path: Path) -> None:
    server = servers.mosquitto(tmp_path / "server", password=("user", "right"))
    secret = tmp_path / "secret"

    async def attempt(password: str) -> None:
        secret.write_text(password)
        config = {"host": "127.0.0.1", "port": server.port, "topics": ["a"], "timeout": "3s",
                  "username": "user", "password_file": str(secret)}  # fmt: skip
        connector = MqttSource(MqttSource.Config.model_validate(config))
        try:
            await connector.open(None)
        finally:
            await connector.close()

    try:
        asyncio.run(attempt("right"))
        with pytest.raises(ConnectorError, match="refused") as caught:
            asyncio.run(attempt("wrong"))
        assert caught.value.retry
    finally:
        server.stop()


def test_mqtt_shared_subscription_over_several_connections(running: Any, tmp_path: Path) -> None:
    """Three connections share the work: every message once, all three used."""

    async def main() -> None:
        rig = MqttRig(running, tmp_path)
        connector = rig.make({**rig.config(), "shared": "g", "connections": 3})
        assert isinstance(connector, MqttSource)
        await connector.open(None)
        await rig.send([message(i) for i in range(300)])
        total = Batch()
        used = set()
        while total.received < 300:
            batch = await asyncio.wait_for(connector.read(), 30)
            assert batch is not None
            used.add(batch.partition)
            total.merge(batch)
            await connector.commit(batch.position)
        assert in_order(total.samples) == expected(range(300))
        assert len(used) == 3
        await connector.close()

    asyncio.run(main())


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_mqtt_unacknowledged_messages_are_bounded(version: str, running: Any, tmp_path: Path) -> None:
    """With nothing committed no more than receive_maximum messages are taken in (version 3.1.1: what
    the broker allows); all arrive once commits flow."""

    async def main() -> None:
        rig = MqttRig(running, tmp_path)
        connector = rig.make({**rig.config(), "receive_maximum": 10, "version": version})
        await connector.open(None)
        await rig.send([message(i) for i in range(100)])
        await asyncio.sleep(0.3)
        first = await take(connector, 10)
        total = first
        try:
            async with asyncio.timeout(0.5):
                while True:
                    batch = await connector.read()
                    assert batch is not None
                    total.merge(batch)
                    total.position = batch.position
        except TimeoutError:
            # With 3.1.1 the bound is Mosquitto's own max_inflight_messages.
            assert total.received == (10 if version == "5" else 20)
        while total.received < 100:
            await connector.commit(total.position)
            batch = await asyncio.wait_for(connector.read(), 30)
            assert batch is not None
            total.merge(batch)
            total.position = batch.position
        assert in_order(total.samples) == expected(range(100))
        await connector.close()

    asyncio.run(main())


def test_mqtt_qos_0_messages_are_held_by_bytes(running: Any, tmp_path: Path) -> None:
    """Large messages in a flood do not fill the memory: 32 MiB are held, the rest is counted."""

    async def main() -> None:
        rig = MqttRig(running, tmp_path)
        connector: Any = rig.make({**rig.config(), "qos": 0})
        await connector.open(None)
        command = [servers.program("mosquitto_pub"), "-p", str(running.mosquitto().port), "-l"]
        pad = b',"pad":"' + b"x" * 900_000 + b'"}'
        text = b"".join(message(i)[:-1] + pad + b"\n" for i in range(60))
        await asyncio.to_thread(subprocess.run, [*command, "-t", f"{rig.unique}/x"], input=text, check=True)
        (connection,) = connector._connections
        async with asyncio.timeout(60):
            while len(connection.messages) + connector._dropped < 60:
                await asyncio.sleep(0.02)
        total = await take(connector, 60)
        fits = MAX_HELD // 900_000 + 1
        assert (total.received, total.rejected) == (60, {"overflow": 60 - fits})
        assert connection.came == connection.went
        await connector.close()

    asyncio.run(main())


def test_mqtt_qos_0_overflow_is_counted(running: Any, tmp_path: Path) -> None:
    """Nobody reads: what does not fit is dropped, and received = accepted + rejected still holds."""

    async def main() -> None:
        rig = MqttRig(running, tmp_path)
        connector = rig.make({**rig.config(), "qos": 0, "max_pending": 50})
        await connector.open(None)
        command = [
            servers.program("mosquitto_pub"),
            "-p",
            str(running.mosquitto().port),
            "-l",
            "-t",
            f"{rig.unique}/x",
        ]
        text = b"".join(message(i) + b"\n" for i in range(200))
        await asyncio.to_thread(subprocess.run, command, input=text, check=True)
        await asyncio.sleep(0.5)
        total = await take(connector, 200)
        assert total.received == 200
        assert total.rejected == {"overflow": 150}
        await connector.close()

    asyncio.run(main())


def test_kafka_key_as_node(running: Any, tmp_path: Path) -> None:
    async def main() -> None:
        rig = KafkaRig(running, tmp_path)
        await rig.prepare()
        connector = rig.make({**rig.config(), "key_is_node": True})
        await connector.open(None)
        await asyncio.to_thread(running.kafka().send, rig.unique, [b'{"time":1,"value":2}'], [b"dev/7.a"])
        (sample,) = (await take(connector, 1)).samples
        assert sample.node == "dev/7.a"
        await connector.close()

    asyncio.run(main())


def test_redis_fields_as_sample(running: Any, tmp_path: Path) -> None:
    """`XADD s * node 007 value 21.5`: the entry's own time, the node's zeros kept."""

    async def main() -> None:
        from redis.asyncio import Redis

        rig = RedisRig(running, tmp_path)
        connector = rig.make({**rig.config(), "field": None})
        await connector.open(None)
        async with Redis(port=running.redis().port, password="canary-redis-password") as client:
            await client.xadd(rig.unique, {"node": "007", "value": "21.5"})
            await client.xadd(rig.unique, {"node": "8", "value": "nan"})
        batch = await take(connector, 2)
        assert [(s.node, s.values) for s in batch.samples] == [("007", (21.5,))]
        assert abs(batch.samples[0].time - time.time()) < 5
        assert batch.rejected == {"type": 1}
        assert connector.lag is not None
        await connector.close()

    asyncio.run(main())


def test_nats_goes_on_when_the_stream_was_made_anew(running: Any, tmp_path: Path) -> None:
    """A position beyond the stream's end means another stream: its messages are not skipped."""

    async def main() -> None:
        rig = NatsRig(running, tmp_path)
        await rig.prepare()
        connector = rig.make()
        await connector.open({"sequence": 1000})
        await rig.send([message(i) for i in range(3)])
        assert in_order((await take(connector, 3)).samples) == expected(range(3))
        await connector.close()

    asyncio.run(main())


def test_backoff_is_capped_jittered_and_seeded() -> None:
    rng = random.Random(1)
    waits = [[backoff(attempt, rng) for _ in range(200)] for attempt in range(40)]
    assert max(map(max, waits)) <= 5.0
    assert min(waits[0]) >= 0.05
    assert min(waits[20]) >= 2.5
    assert len(set(waits[20])) > 100
    assert backoff(10**6, random.Random(1)) == backoff(16, random.Random(1))


def test_an_operation_outlives_its_cancelled_waiter() -> None:
    async def main() -> None:
        flight: InFlight[int] = InFlight()
        started = 0

        async def work() -> int:
            nonlocal started
            started += 1
            await asyncio.sleep(0.1)
            return 7

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(flight.run(work), 0.02)
        assert await flight.run(work) == 7
        assert started == 1
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(flight.run(work), 0.02)
        await flight.stop()
        await flight.stop()

    asyncio.run(main())


def test_qos_2_is_refused_with_a_reason() -> None:
    assert "crash" in (source("mqtt").__doc__ or "")
    with pytest.raises(ValueError, match="qos"):
        source("mqtt").Config.model_validate({"host": "h", "topics": ["t"], "qos": 2})
