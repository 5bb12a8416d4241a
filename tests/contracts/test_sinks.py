"""The contract of sinks, crossed with every sink, against real receivers."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from connectors import SINKS, ConnectorError, sink
from tests.connectors.sink_rigs import RIGS, Rig

RECORDS = [
    {"id": f"incident-{i}", "event": "opened", "value": i + 0.5, "summary": f"värde {i}"} for i in range(20)
]


def run(name: str, running: Any, folder: Path, test: Callable[[Rig], Awaitable[None]]) -> None:
    async def main() -> None:
        rig = RIGS[name](running, folder)
        try:
            async with asyncio.timeout(30):
                await test(rig)
        finally:
            await rig.stop()

    asyncio.run(main())


def test_every_sink_has_a_rig() -> None:
    assert set(RIGS) == set(SINKS)


@pytest.mark.parametrize("name", SINKS)
def test_says_what_it_takes(name: str) -> None:
    kind = sink(name)
    assert kind.name == name
    for field, facts in kind.Config.model_fields.items():
        assert facts.description, f"{name}.{field} has no description"
    assert kind.Config.model_config["extra"] == "forbid"


@pytest.mark.parametrize("name", SINKS)
def test_all_records_arrive_with_their_ids(name: str, running: Any, tmp_path: Path) -> None:
    """Three writes, one of them empty: everything is there, once, with the id as key."""

    async def test(rig: Rig) -> None:
        await rig.prepare()
        connector = rig.make()
        await connector.open()
        await connector.write(RECORDS[:15])
        await connector.write([])
        await connector.write(RECORDS[15:])
        found = dict(await rig.received())
        await connector.close()
        await connector.close()
        assert set(found) == {record["id"] for record in RECORDS}
        for record in RECORDS:
            got = found[record["id"]]
            assert got["id"] == record["id"]
            assert got["value"] == record["value"]
            assert got["summary"] == record["summary"]

    run(name, running, tmp_path, test)


@pytest.mark.parametrize("name", ["file", "nats", "alertmanager"])
def test_a_repeat_is_one_record(name: str, running: Any, tmp_path: Path) -> None:
    """After a crash the same records are written again by a new process: one copy of each remains."""

    async def test(rig: Rig) -> None:
        await rig.prepare()
        for _ in range(2):
            connector = rig.make()
            await connector.open()
            await connector.write(RECORDS)
            await connector.close()
        assert len(await rig.received()) == len(RECORDS)

    run(name, running, tmp_path, test)


@pytest.mark.parametrize("name", SINKS)
def test_a_dead_peer_is_an_error_worth_a_retry(name: str, running: Any, tmp_path: Path) -> None:
    """Nobody there: opening says so in time, and nothing is claimed to be delivered."""

    async def test(rig: Rig) -> None:
        connector = rig.make(rig.dead_config())
        began = time.monotonic()
        if name == "stdout":  # a pipe without a reader is only noticed by writing
            await connector.open()
        else:
            with pytest.raises(ConnectorError) as caught:
                await connector.open()
            assert caught.value.retry
        with pytest.raises(ConnectorError):
            await connector.write(RECORDS)
        assert time.monotonic() - began < 30
        await connector.close()

    run(name, running, tmp_path, test)


@pytest.mark.parametrize("name", SINKS)
def test_constructor_connects_to_nothing(
    name: str, running: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(rig: Rig) -> None:
        config = rig.dead_config()

        def refuse(*arguments: Any, **more: Any) -> None:
            raise AssertionError("a constructor opened a socket")

        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "connect", refuse)
            patch.setattr(socket, "getaddrinfo", refuse)
            connector = rig.make(config)
            assert connector.missing(connector.config) is None
        await connector.close()

    run(name, running, tmp_path, test)
