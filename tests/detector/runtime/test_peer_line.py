"""Daemons talk over every broker: large messages arrive as they were, and a line comes back by itself."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import nats
import pytest

import connectors
from connectors.base import Sink, Source
from detector.config.model import Side, connector_model
from detector.runtime.peer_line import PeerLine
from tests import servers

MAX_BYTES = 2**20
LIMIT_S = 60.0


def pair(kind: str, port: int) -> tuple[Source, Sink]:
    """What an operator sets aside."""
    given: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "mqtt": (
            {"host": "127.0.0.1", "port": port, "topics": ["edge/a"], "qos": 0},
            {"host": "127.0.0.1", "port": port, "topic": "edge/a"},
        ),
        "redis": (
            {"port": port, "streams": ["edge-a"], "group": "b", "field": "record"},
            {"port": port, "stream": "edge-a", "max_length": 100},
        ),
        "nats": (
            {"servers": [f"nats://127.0.0.1:{port}"], "stream": "edge", "subjects": ["edge.a"]},
            {"servers": [f"nats://127.0.0.1:{port}"], "subject": "edge.a"},
        ),
    }

    def made(side: Side, settings: dict[str, Any]) -> Any:
        config = connector_model(side, kind).model_validate({"type": kind, **settings})
        return (connectors.source if side == "source" else connectors.sink)(kind)(config)  # type: ignore[operator]

    source, sink = given[kind]
    return made("source", source), made("sink", sink)


async def until(condition: Any) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("kind", ["mqtt", "redis", "nats"])
def test_messages_arrive_as_they_were(kind: str, tmp_path: Path) -> None:
    start = {"mqtt": servers.mosquitto, "redis": servers.redis, "nats": servers.nats}[kind]
    server = start(tmp_path)

    async def talk() -> None:
        if kind == "nats":
            client = await nats.connect(f"nats://127.0.0.1:{server.port}")
            await client.jetstream().add_stream(name="edge", subjects=["edge.a"])
            await client.close()
        line = PeerLine("edge", *pair(kind, server.port), MAX_BYTES, LIMIT_S)
        heard: list[bytes] = []

        async def hear(body: bytes) -> None:
            heard.append(body)

        listening = asyncio.create_task(line.listen(hear, lambda count: None))
        await until(lambda: line.error is None)
        sent = [{"id": f"a-{k}", "event": "edge.boundary", "body": os.urandom(size).hex()}
                for k, size in enumerate((10, 400_000))]  # fmt: skip
        for record in sent:
            assert await line.send(record) is None
        await until(lambda: len(heard) == len(sent))
        assert [json.loads(body) for body in heard] == sent
        server.kill()
        await until(lambda: line.error is not None)
        assert await line.send(sent[0]) is not None
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        assert line.error == "stopped"

    try:
        asyncio.run(talk())
    finally:
        server.stop()
