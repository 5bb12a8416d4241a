"""How many samples a second each door takes in, beside the bare client of the same protocol.

One sample a message (the worst case) from real servers on loopback; decoding, counting, positions and
commits included in the door's figure, nothing but receiving in the bare one. Kafka is librdkafka's mock
cluster. Rates on a shared machine are lower bounds.

    python benchmarks/doors.py [--quick] [--only NAME ...] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from connectors import Batch, source
from connectors.decode import Decode, Decoder
from tests import servers

COMMIT_EVERY_S = 0.25


def message(i: int) -> bytes:
    return b'{"time":%d.5,"node":"node-%d","values":[%d.25]}' % (1_700_000_000 + i, i % 1000, i % 97)


def make(name: str, config: dict[str, Any]) -> Any:
    kind = source(name)
    return kind(kind.Config.model_validate(config))  # type: ignore[call-arg]


async def drain(door: Any, count: int) -> float:
    """Read and commit until `count` samples are in; samples a second from the first one on."""
    received, began, committed = 0, 0.0, time.monotonic()
    while received < count:
        batch = await asyncio.wait_for(door.read(), 30)
        if batch is None:
            break
        began = began or time.monotonic()
        received += batch.received
        if time.monotonic() - committed > COMMIT_EVERY_S:
            await door.commit(batch.position)
            committed = time.monotonic()
    await door.commit(batch.position)
    return received / (time.monotonic() - began)


async def bench_decode(folder: Path, count: int, bad: int = 0) -> tuple[float, float]:
    """Buffers of 1000 lines in memory, `bad` of them broken; bare: splitting the lines."""
    buffers = []
    for at in range(0, count, 1000):
        lines = [message(i) for i in range(at, at + 1000)]
        lines[:bad] = [b"{"] * bad
        buffers.append(b"\n".join(lines))
    decoder = Decoder(Decode())
    began = time.monotonic()
    for buffer in buffers:
        batch = Batch()
        decoder.lines(buffer, batch)
        assert batch.received == 1000
    rate = count / (time.monotonic() - began)
    began = time.monotonic()
    for buffer in buffers:
        buffer.split(b"\n")
    return rate, count / (time.monotonic() - began)


async def bench_stdin(folder: Path, count: int) -> tuple[float, float]:
    """A pipe; bare: reading its bytes."""

    path = folder / "samples.jsonl"
    path.write_bytes(b"".join(message(i) + b"\n" for i in range(count)))
    rates = []
    for bare in (False, True):
        out, into = os.pipe()
        feeder = subprocess.Popen(["cat", path], stdout=into)
        os.close(into)
        if bare:
            lines, began = os.read(out, 2**18).count(b"\n"), time.monotonic()
            while chunk := os.read(out, 2**18):
                lines += chunk.count(b"\n")
            rates.append(lines / (time.monotonic() - began))
        else:
            door = make("stdin", {"descriptor": out})
            await door.open(None)
            rates.append(await drain(door, count))
            await door.close()
        feeder.wait()
        os.close(out)
    return rates[0], rates[1]


async def bench_file(folder: Path, count: int) -> tuple[float, float]:
    path = folder / "samples.jsonl"
    with path.open("wb") as file:
        file.writelines(message(i) + b"\n" for i in range(count))
    door = make("file", {"path": str(path)})
    await door.open(None)
    rate = await drain(door, count)
    await door.close()
    began = time.monotonic()
    lines = path.read_bytes().count(b"\n")
    return rate, lines / (time.monotonic() - began)


async def bench_mqtt(folder: Path, count: int, qos: int) -> tuple[float, float]:
    import paho.mqtt.client as paho
    from paho.mqtt.enums import CallbackAPIVersion

    server = servers.mosquitto(folder / f"mosquitto{qos}")
    text = b"".join(message(i) + b"\n" for i in range(count))
    command = [servers.program("mosquitto_pub"), "-p", str(server.port), "-q", str(qos), "-t", "s/x", "-l"]

    def publish() -> None:
        subprocess.run(command, input=text, check=True)

    try:
        config = {
            "host": "127.0.0.1",
            "port": server.port,
            "topics": ["s/#"],
            "qos": qos,
            "client_id": "bench",
        }
        door = make("mqtt", config)
        await door.open(None)
        sender = asyncio.create_task(asyncio.to_thread(publish))
        rate = await drain(door, count)
        await sender
        await door.close()
        got, done, began = 0, threading.Event(), [0.0]

        def receive(client: Any, data: Any, found: Any) -> None:
            nonlocal got
            began[0] = began[0] or time.monotonic()
            got += 1
            if got == count:
                done.set()

        client = paho.Client(CallbackAPIVersion.VERSION2, client_id="bare", protocol=paho.MQTTv5)
        client.on_message = receive
        client.connect("127.0.0.1", server.port)
        client.subscribe("s/#", qos)
        client.loop_start()
        await asyncio.sleep(0.3)
        sender = asyncio.create_task(asyncio.to_thread(publish))
        await asyncio.to_thread(done.wait, 60)
        bare = got / (time.monotonic() - began[0])
        await sender
        client.disconnect()
        client.loop_stop()
        return rate, bare
    finally:
        server.stop()


async def bench_redis(folder: Path, count: int) -> tuple[float, float]:
    from redis.asyncio import Redis

    server = servers.redis(folder / "redis")
    try:
        async with Redis(port=server.port) as client:
            for name in ("a", "b"):
                for at in range(0, count, 1000):
                    async with client.pipeline(transaction=False) as pipe:
                        for i in range(at, min(count, at + 1000)):
                            pipe.xadd(name, {"data": message(i)})
                        await pipe.execute()
            door = make("redis", {"port": server.port, "streams": ["a"]})
            await door.open(None)
            rate = await drain(door, count)
            await door.close()
            await client.xgroup_create("b", "g", "0")
            got, began = 0, time.monotonic()
            while got < count:
                answer = await client.xreadgroup("g", "c", {"b": ">"}, count=2000)
                pairs = list(answer.items() if isinstance(answer, dict) else answer)
                entries = pairs[0][1]
                entries = entries[0] if isinstance(entries[0], list) else entries
                got += len(entries)
                await client.xack("b", "g", *[entry for entry, _ in entries])
            return rate, got / (time.monotonic() - began)
    finally:
        server.stop()


async def bench_nats(folder: Path, count: int) -> tuple[float, float]:
    """Bare: the client library's own pull subscription, one acknowledgement a message."""
    import nats

    server = servers.nats(folder / "nats")
    try:
        client = await nats.connect(f"nats://127.0.0.1:{server.port}")
        stream = client.jetstream()
        await stream.add_stream(name="S", subjects=["s.>"])
        for at in range(0, count, 500):
            await asyncio.gather(
                *[stream.publish("s.x", message(i)) for i in range(at, min(count, at + 500))]
            )
        door = make("nats", {"servers": [f"nats://127.0.0.1:{server.port}"], "stream": "S"})
        await door.open(None)
        rate = await drain(door, count)
        await door.close()
        reader = await stream.pull_subscribe("s.>", "bare")
        got, began = 0, time.monotonic()
        while got < count:
            for found in await reader.fetch(500, timeout=5):
                await found.ack()
                got += 1
        bare = got / (time.monotonic() - began)
        await client.close()
        return rate, bare
    finally:
        server.stop()


async def bench_kafka(folder: Path, count: int) -> tuple[float, float]:
    from confluent_kafka import Consumer

    cluster = servers.MockKafka()  # it keeps 5 MB a partition: no more than 50,000 messages
    try:
        cluster.create("s", 1)
        for at in range(0, count, 50_000):
            cluster.send("s", [message(i) for i in range(at, min(count, at + 50_000))])
        door = make("kafka", {"brokers": [cluster.address], "topics": ["s"]})
        await door.open(None)
        rate = await drain(door, count)
        await door.close()
        options = {"bootstrap.servers": cluster.address, "group.id": "bare", "auto.offset.reset": "earliest"}
        consumer = Consumer(options)
        consumer.subscribe(["s"])
        got, began = 0, 0.0
        while got < count:
            found = consumer.consume(10_000, timeout=0.1)
            if found:
                began = began or time.monotonic()
            got += len(found)
        bare = got / (time.monotonic() - began)
        consumer.close()
        return rate, bare
    finally:
        cluster.stop()


BENCHES: dict[str, tuple[Callable[[Path, int], Awaitable[tuple[float, float]]], int]] = {
    "decode": (bench_decode, 400_000),
    "decode, 1 bad": (lambda folder, count: bench_decode(folder, count, 1), 400_000),
    "stdin": (bench_stdin, 400_000),
    "file": (bench_file, 400_000),
    "mqtt qos 0": (lambda folder, count: bench_mqtt(folder, count, 0), 50_000),
    "mqtt qos 1": (lambda folder, count: bench_mqtt(folder, count, 1), 50_000),
    "redis": (bench_redis, 100_000),
    "nats": (bench_nats, 50_000),
    "kafka (mock)": (bench_kafka, 50_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages")
    parser.add_argument("--only", nargs="*", default=list(BENCHES), help="some of: " + ", ".join(BENCHES))
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    options = parser.parse_args()
    figures = {}
    print(f"{'door':14} {'messages':>9} {'door /s':>12} {'bare /s':>12} {'share':>7}")
    for name in options.only:
        bench, count = BENCHES[name]
        count = count // 10 if options.quick else count
        with tempfile.TemporaryDirectory() as folder:
            rate, bare = asyncio.run(bench(Path(folder), count))  # type: ignore[arg-type]
        figures[name] = {"messages": count, "door_per_second": round(rate), "bare_per_second": round(bare)}
        print(f"{name:14} {count:9} {rate:12,.0f} {bare:12,.0f} {rate / bare:7.0%}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
