"""Real brokers between boxes, and what an operator writes for each: the lines of docs/edge.md."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats

from tests import kafka_server, servers

Group = dict[str, Any]


def started(kind: str, folder: Path) -> Any:
    """A server with what an administrator makes: the stream of NATS, the topics of Kafka."""
    if kind == "kafka":
        cluster = kafka_server.kafka(folder)
        for box in ("north", "south"):
            cluster.create(f"edge-{box}", partitions=1)
        return cluster
    starts: dict[str, Callable[[Path], servers.Server]] = {
        "mqtt": servers.mosquitto,
        "redis": servers.redis,
        "nats": servers.nats,
    }
    server = starts[kind](folder)
    if kind == "nats":
        asyncio.run(_stream(server.port))
    return server


async def _stream(port: int) -> None:
    client = await nats.connect(f"nats://127.0.0.1:{port}")
    await client.jetstream().add_stream(name="edge", subjects=["edge.*"])
    await client.close()


def near(kind: str, server: Any, box: str, other: str) -> tuple[Group, Group]:
    """The source and the sink that ``box`` sets aside."""
    if kind == "kafka":
        source: Group = {"topics": [f"edge-{other}"], "group": f"{box}-edge"}  # from the earliest:
        # nobody says when Kafka has assigned the topic, and the first message must not come before
        sink: Group = {"topic": f"edge-{box}"}
        for side in (source, sink):
            side |= {"type": "kafka", "brokers": server.address.split(",")}
        return source, sink
    if kind == "redis":
        source = {"streams": [f"edge-{other}"], "group": f"{box}-edge", "field": "record", "start": "$"}
        place: Group = {"type": "redis", "port": server.port}
        return {**place, **source}, {**place, "stream": f"edge-{box}", "max_length": 1000}
    if kind == "nats":
        source = {"stream": "edge", "subjects": [f"edge.{other}"], "durable": f"{box}-edge", "start": "new"}
        sink = {"subject": f"edge.{box}"}
        for side in (source, sink):
            side |= {"type": "nats", "servers": [f"nats://127.0.0.1:{server.port}"]}
        return source, sink
    port = 1 if server is None else server.port  # None: nobody is going to ask it
    place = {"type": "mqtt", "host": "127.0.0.1", "port": port, "timeout": "2s"}
    return (
        {**place, "topics": [f"edge/{other}"], "qos": 0, "client_id": f"{box}-in"},
        {**place, "topic": f"edge/{box}", "client_id": f"{box}-out"},
    )
