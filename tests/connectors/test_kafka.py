"""Kafka: partitions, pauses, rebalances, and with a real broker TLS and passwords."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connectors import Batch, ConnectorError
from connectors.base import join_position
from connectors.kafka import KafkaSink, KafkaSource
from tests.connectors.source_rigs import KafkaRig, message
from tests.kafka_server import PASSWORD, USER, Kafka

SECONDS = 30.0
RECORD = {"id": "i", "event": "opened"}


async def take_until(sources: list[Any], done: Callable[[Batch], bool]) -> Batch:
    """What all of them give, until it is enough; committed as it comes."""
    total = Batch()

    async def take(source: Any) -> None:
        while not done(total):
            try:
                async with asyncio.timeout(0.5):
                    batch = await source.read()
            except TimeoutError:
                continue
            total.merge(batch)
            total.position = join_position(total.position, batch)
            await source.commit(batch.position)

    async with asyncio.timeout(SECONDS):
        await asyncio.gather(*map(take, sources))
    return total


def numbers(batch: Batch) -> list[int]:
    return sorted(int(sample.values[0]) for sample in batch.samples)


def test_batches_are_of_one_partition_and_pauses_hold(running: Any) -> None:
    """What is paused gives nothing; afterwards it gives everything, once."""

    async def main() -> None:
        rig = KafkaRig(running, Path())
        await rig.prepare()
        source = rig.make()
        await source.open(None)
        assert source.partitions == ()
        keys = [str(i % 16).encode() for i in range(300)]
        await asyncio.to_thread(running.kafka().send, rig.unique, [message(i) for i in range(300)], keys)
        first = await take_until([source], lambda total: total.received == 300)
        assert numbers(first) == list(range(300))
        assert sorted(source.partitions) == sorted(first.position) == [f"{rig.unique}/{i}" for i in range(3)]
        paused = source.partitions[0]
        source.pause([paused])
        await asyncio.sleep(0.5)
        await asyncio.to_thread(running.kafka().send, rig.unique, [message(i) for i in range(300, 600)], keys)
        end = time.monotonic() + 2.0
        some = await take_until([source], lambda total: time.monotonic() > end)
        assert paused not in some.position
        assert 0 < some.received < 300
        source.pause([])
        rest = await take_until([source], lambda total: total.received + some.received >= 300)
        assert sorted(numbers(some) + numbers(rest)) == list(range(300, 600))
        await source.close()

    asyncio.run(main())


def test_a_second_member_takes_over_some_partitions(running: Any) -> None:
    """A rebalance: both together read everything; when one leaves, the other has all partitions again."""

    async def main() -> None:
        rig = KafkaRig(running, Path())
        await rig.prepare()
        one, two = rig.make(), rig.make()
        await one.open(None)
        await rig.send([message(i) for i in range(50)])
        await take_until([one], lambda total: total.received == 50)
        await two.open(None)
        await take_until([one, two], lambda total: len(one.partitions) + len(two.partitions) == 3
                         and bool(one.partitions) and bool(two.partitions))  # fmt: skip
        keys = [str(i % 16).encode() for i in range(200)]
        await asyncio.to_thread(running.kafka().send, rig.unique, [message(i) for i in range(200)], keys)
        both = await take_until([one, two], lambda total: len(set(numbers(total))) == 200)
        assert numbers(both) == list(range(200))
        await two.close()
        await take_until([one], lambda total: len(one.partitions) == 3)
        await rig.send([message(i) for i in range(40)])
        rest = await take_until([one], lambda total: total.received >= 40)
        assert numbers(rest) == list(range(40))
        await one.close()

    asyncio.run(main())


@pytest.fixture
def broker(running: Any) -> Kafka:
    found = running.kafka()
    if not isinstance(found, Kafka):
        pytest.skip("the mock cluster has neither TLS nor passwords nor a disk")
    return found


@pytest.mark.parametrize("connector", [KafkaSource, KafkaSink])
def test_tls_and_passwords(
    connector: Any, broker: Kafka, running: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The right ones are accepted; an unknown authority and a wrong password are refused, and not told."""
    topic = f"tls-{connector.__name__.lower()}"
    broker.create(topic, partitions=1)
    monkeypatch.setenv("RIGHT", PASSWORD)
    monkeypatch.setenv("WRONG", "canary-wrong-secret")

    async def attempt(port: int, **more: Any) -> None:
        named = {"topics": [topic], "group": topic} if connector is KafkaSource else {"topic": topic}
        config = {"brokers": [f"127.0.0.1:{port}"], "timeout": "6s", **named, **more}
        made = connector(connector.Config.model_validate(config))
        try:
            await (made.open(None) if connector is KafkaSource else made.open())
            if connector is KafkaSink:
                await made.write([RECORD])
        finally:
            await made.close()

    trusted = {"ca_file": str(running.authority.file)}
    user = {"username": USER, "mechanism": "SCRAM-SHA-512"}
    asyncio.run(attempt(broker.ports["SSL"], tls=trusted))
    asyncio.run(attempt(broker.ports["SASL_SSL"], tls=trusted, **user, password="${RIGHT}"))
    with pytest.raises(ConnectorError, match="certificate"):
        asyncio.run(attempt(broker.ports["SSL"], tls={}, timeout="3s"))
    with pytest.raises(ConnectorError) as caught:
        asyncio.run(attempt(broker.ports["SASL_SSL"], tls=trusted, **user, password="${WRONG}", timeout="3s"))
    assert "canary" not in str(caught.value)
    assert "uthentication" in str(caught.value)
