"""The contract of sources, crossed with every source, against real servers."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors import REASONS, SOURCES, Batch, ConnectorError, Sample, source
from connectors.base import join_position
from tests.connectors.source_rigs import RIGS, Rig, message

READ_S = 15.0
WITH_PEER = ["mqtt", "kafka", "redis", "nats", "prometheus"]
SENDING = [name for name, rig in RIGS.items() if rig.sends]
REPLAYABLE = [name for name in SOURCES if source(name).replayable]


def run(name: str, running: Any, folder: Path, test: Callable[[Rig], Awaitable[None]]) -> None:
    async def main() -> None:
        rig = RIGS[name](running, folder)
        try:
            await test(rig)
        finally:
            await rig.stop()

    asyncio.run(main())


async def take(connector: Any, received: int) -> Batch:
    """Read until so many items were received; every batch must add up."""
    total = Batch()
    async with asyncio.timeout(READ_S):
        while total.received < received:
            batch = await connector.read()
            assert batch is not None, f"the stream ended after {total.received} of {received}"
            assert batch.received == len(batch.samples) + sum(batch.rejected.values())
            assert set(batch.rejected) <= set(REASONS)
            total.merge(batch)
            total.position = join_position(total.position, batch)
            assert batch.partition is None or batch.partition in connector.partitions
    return total


async def nothing_more(connector: Any, seconds: float = 0.5) -> None:
    """Wait a moment: no sample may come."""
    try:
        async with asyncio.timeout(seconds):
            batch = await connector.read()
    except TimeoutError:
        return
    assert batch is None or not batch.received, f"{batch.received} items too many"


def expected(numbers: range) -> list[Sample]:
    return [Sample(1_700_000_000.5 + i, f"node-{i % 7}", (float(i), 0.25)) for i in numbers]


def in_order(samples: list[Sample]) -> list[Sample]:
    return sorted(samples, key=lambda sample: (sample.time, sample.node))


def test_every_source_has_a_rig() -> None:
    assert set(RIGS) == set(SOURCES)


@pytest.mark.parametrize("name", SOURCES)
def test_says_what_it_promises(name: str) -> None:
    """Name, guarantee, and a described, strict configuration."""
    kind = source(name)
    assert kind.name == name
    assert kind.guarantee.endswith(".")
    for field, facts in kind.Config.model_fields.items():
        assert facts.description, f"{name}.{field} has no description"
    assert kind.Config.model_config["extra"] == "forbid"
    assert kind.exclusive is None or kind.exclusive in kind.Config.model_fields


@pytest.mark.parametrize("name", SOURCES)
def test_what_it_says_of_itself_is_so(name: str, running: Any, tmp_path: Path) -> None:
    """`example` can be read, `raw` has a decoder to replace, `listens` has routes."""

    async def test(rig: Rig) -> None:
        reader = rig.make()
        example = dict(line.split(": ", 1) for line in reader.example)
        assert {key: yaml.safe_load(value) for key, value in example.items()}.keys() <= set(
            type(reader).Config.model_fields
        )
        assert hasattr(reader, "decoder") or not reader.raw
        assert bool(reader.routes()) == reader.listens
        await reader.close()

    run(name, running, tmp_path, test)


@pytest.mark.parametrize("name", SENDING)
def test_received_is_accepted_plus_rejected(name: str, running: Any, tmp_path: Path) -> None:
    """100 good messages among garbage: every good one once, every bad one counted."""

    async def test(rig: Rig) -> None:
        connector = rig.make()
        await rig.prepare()
        await connector.open(None)
        payloads = [message(i) for i in range(50)] + rig.garbage + [message(i) for i in range(50, 100)]
        await rig.send(payloads)
        total = await take(connector, len(payloads))
        assert total.received == len(payloads)
        assert sum(total.rejected.values()) == len(rig.garbage)
        assert in_order(total.samples) == expected(range(100))
        await connector.commit(total.position)
        await nothing_more(connector)
        await connector.close()
        await connector.close()

    run(name, running, tmp_path, test)


@pytest.mark.parametrize("name", [name for name in SENDING if RIGS[name].batch_ack])
def test_after_a_crash_the_uncommitted_comes_again(name: str, running: Any, tmp_path: Path) -> None:
    """Read 60, commit 30, vanish: a new process gets the other 30 and what came meanwhile, exactly."""

    async def test(rig: Rig) -> None:
        connector = rig.make()
        await rig.prepare()
        await connector.open(None)
        await rig.send([message(i) for i in range(30)])
        first = await take(connector, 30)
        await connector.commit(first.position)
        await rig.send([message(i) for i in range(30, 60)])
        lost = await take(connector, 30)
        assert in_order(lost.samples) == expected(range(30, 60))
        await connector.close()  # nothing of the second batch was committed
        await rig.send([message(i) for i in range(60, 70)])
        again = rig.make()
        await again.open(first.position)
        rest = await take(again, 40)
        assert in_order(rest.samples) == expected(range(30, 70))
        await again.commit(rest.position)
        await nothing_more(again)
        await again.close()

    run(name, running, tmp_path, test)


@pytest.mark.parametrize("name", [name for name in SENDING if name in REPLAYABLE])
def test_a_crash_between_our_commit_and_the_acknowledgement(name: str, running: Any, tmp_path: Path) -> None:
    """The position was stored but the broker never heard of it: nothing comes twice."""

    async def test(rig: Rig) -> None:
        connector = rig.make()
        await rig.prepare()
        await connector.open(None)
        await rig.send([message(i) for i in range(30)])
        first = await take(connector, 30)
        await connector.close()
        await rig.send([message(i) for i in range(30, 40)])
        again = rig.make()
        await again.open(first.position)
        rest = await take(again, 10)
        assert in_order(rest.samples) == expected(range(30, 40))
        await again.commit(rest.position)
        await again.close()
        last = rig.make()
        await last.open(rest.position)
        await nothing_more(last)
        await last.close()

    run(name, running, tmp_path, test)


@pytest.mark.parametrize("name", [name for name in SENDING if name in REPLAYABLE])
def test_reopening_at_what_was_read_repeats_nothing(name: str, running: Any, tmp_path: Path) -> None:
    """The connection broke, the process lives: it goes on after the last batch read, and if it then
    crashes, the stored earlier position still brings everything back."""

    async def test(rig: Rig) -> None:
        connector = rig.make()
        await rig.prepare()
        await connector.open(None)
        await rig.send([message(i) for i in range(10)])
        first = await take(connector, 10)
        await connector.commit(first.position)
        await rig.send([message(i) for i in range(10, 20)])
        second = await take(connector, 10)
        await connector.close()
        await connector.open(second.position)
        await rig.send([message(i) for i in range(20, 30)])
        third = await take(connector, 10)
        assert in_order(third.samples) == expected(range(20, 30))
        await connector.close()
        again = rig.make()
        await again.open(first.position)
        rest = await take(again, 20)
        assert in_order(rest.samples) == expected(range(10, 30))
        await again.close()

    run(name, running, tmp_path, test)


@pytest.mark.parametrize("name", ["simulate", "prometheus"])
def test_chosen_data_can_be_stopped_anywhere(name: str, running: Any, tmp_path: Path) -> None:
    """Sources that make or fetch their own history: every committed position gives the exact rest."""

    async def test(rig: Rig) -> None:
        total = 2100 if name == "simulate" else 360
        connector = rig.make()
        await connector.open(None)
        batches: list[Batch] = []
        async with asyncio.timeout(READ_S):
            while sum(batch.received for batch in batches) < total:
                batch = await connector.read()
                assert batch is not None
                batches.append(batch)
        everything = [sample for batch in batches for sample in batch.samples]
        rejected = sum(sum(batch.rejected.values()) for batch in batches)
        assert len(everything) + rejected == total
        assert rejected == (3 if name == "prometheus" else 0)
        assert len({(sample.time, sample.node) for sample in everything}) == len(everything)
        for i in range(0, len(batches), max(1, len(batches) // 3)):
            again = rig.make()
            position = None
            for batch in batches[: i + 1]:
                position = join_position(position, batch)
            await again.open(position)
            want = [sample for batch in batches[i + 1 :] for sample in batch.samples]
            got = []
            async with asyncio.timeout(READ_S):
                while len(got) < len(want):
                    batch = await again.read()
                    assert batch is not None
                    got += batch.samples
            assert got == want
            await again.close()
        await connector.close()

    run(name, running, tmp_path, test)


@pytest.mark.parametrize("name", SENDING)
def test_cancelling_a_read_loses_nothing(name: str, running: Any, tmp_path: Path) -> None:
    """Cancel many reads at odd moments while messages come: all arrive, once."""

    async def test(rig: Rig) -> None:
        connector = rig.make()
        await rig.prepare()
        await connector.open(None)
        got = Batch()
        sender = asyncio.create_task(send_slowly(rig))
        async with asyncio.timeout(READ_S):
            pause = 0.001
            while got.received < 60:
                try:
                    async with asyncio.timeout(pause):
                        batch = await connector.read()
                    assert batch is not None
                    got.merge(batch)
                except TimeoutError:
                    pause = min(0.3, pause * 1.3)
        await sender
        assert in_order(got.samples) == expected(range(60))
        await nothing_more(connector, 0.3)
        await connector.close()

    async def send_slowly(rig: Rig) -> None:
        for i in range(0, 60, 10):
            await rig.send([message(j) for j in range(i, i + 10)])
            await asyncio.sleep(0.05)

    run(name, running, tmp_path, test)


@pytest.mark.parametrize("name", SOURCES)
def test_constructor_connects_to_nothing(
    name: str, running: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No socket is opened by constructing, nor by asking what is missing."""

    async def test(rig: Rig) -> None:
        config = rig.dead_config() or rig.config()

        def refuse(*arguments: Any, **more: Any) -> None:
            raise AssertionError("a constructor opened a socket")

        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "connect", refuse)
            patch.setattr(socket, "getaddrinfo", refuse)
            connector = rig.make(config)
            assert connector.missing(connector.config) is None
        await connector.close()

    run(name, running, tmp_path, test)


@pytest.mark.parametrize("name", WITH_PEER)
def test_a_dead_peer_is_an_error_worth_a_retry(name: str, running: Any, tmp_path: Path) -> None:
    """Opening fails within its timeout, and closing while it tries does not wait for that."""

    async def test(rig: Rig) -> None:
        connector = rig.make(rig.dead_config())
        began = time.monotonic()
        with pytest.raises(ConnectorError) as caught:
            await asyncio.wait_for(connector.open(None), 30)
        assert caught.value.retry
        assert time.monotonic() - began < 30
        await connector.close()
        patient = rig.make(rig.dead_config() | {"timeout": "60s"})
        opening = asyncio.create_task(patient.open(None))
        await asyncio.sleep(0.3)
        opening.cancel()
        await asyncio.wait_for(patient.close(), 30)
        await asyncio.gather(opening, return_exceptions=True)

    run(name, running, tmp_path, test)
