"""The feeds as the measurements of the service use them: a real server, a sender, and a bare client.

A *bare client* receives the same messages with the same library, acknowledges as the library's own examples
do, and does nothing else: it is the limit for that feed. Each runs in a process of its own on the daemon's
core. Kafka is a real broker where scripts/install-kafka could fetch one, else librdkafka's mock cluster.
"""

from __future__ import annotations

import asyncio
import http.client
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.service import Daemon, cores
from connectors import Batch
from connectors.codec.decoder import Decode, Decoder
from tests import kafka_server, servers

Rate = tuple[float, float]  # messages a second of wall time, and of CPU time
CHUNK = 2**18


class Feed(ABC):
    """One protocol. `stores`: what is sent before anybody reads is kept, so a backlog can be worked off."""

    name: ClassVar[str]
    stores: ClassVar[bool] = False
    most: ClassVar[int] = 10**9  # messages that fit

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder

    @abstractmethod
    def source(self) -> dict[str, Any]:
        """For `config.yaml`."""

    def stdin(self) -> Any:
        """What the daemon gets as standard input."""
        return subprocess.DEVNULL

    def begin(self, daemon: Daemon | None) -> None:
        """Before the first `send`; the daemon is there unless the feed stores."""
        return

    @abstractmethod
    def send(self, messages: Sequence[bytes]) -> None:
        """Hand these to the server, or to the daemon."""

    def end(self) -> None:
        """After the last `send`."""
        return

    @abstractmethod
    def bare(self, messages: Sequence[bytes]) -> Rate:
        """How fast a bare client takes these."""

    def close(self) -> None:
        return


def alone(receive: Any, *arguments: Any) -> tuple[multiprocessing.Process, Any]:
    """`receive(connection, *arguments)` in a process on the daemon's core, and our end of the connection."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_on_core, args=(receive, theirs, *arguments))
    process.start()
    assert ours.recv() == "ready"
    return process, ours  # type: ignore[return-value]


def _on_core(receive: Any, connection: Any, *arguments: Any) -> None:
    os.sched_setaffinity(0, {cores()[0]})
    receive(connection, *arguments)


class Meter:
    """From the end of the first message, or the first lot of them, on."""

    def __init__(self) -> None:
        self.count, self._first, self._wall, self._cpu = 0, 0, 0.0, 0.0

    def take(self, count: int) -> None:
        if not self.count:
            self._first, self._wall, self._cpu = count, time.monotonic(), time.process_time()
        self.count += count

    def rate(self) -> Rate:
        wall, cpu = time.monotonic() - self._wall, time.process_time() - self._cpu
        return (self.count - self._first) / wall, (self.count - self._first) / cpu


def lot(count: int) -> int:
    """Messages to ask for at once: the first lot is not counted."""
    return max(1, min(1000, count // 20))


# ------------------------------------------------------------------------------------------------ stdin


class Stdin(Feed):
    """JSON lines through a pipe; bare is `cat` and decode: bytes read from the pipe, and decoded."""

    name = "stdin"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._out, self._into = os.pipe()

    def source(self) -> dict[str, Any]:
        return {"type": "stdin"}

    def stdin(self) -> int:
        return self._out

    def send(self, messages: Sequence[bytes]) -> None:
        text = memoryview(b"\n".join(messages) + b"\n")
        while text:
            text = text[os.write(self._into, text[:CHUNK]) :]

    def bare(self, messages: Sequence[bytes]) -> Rate:
        path = self.folder / "lines.jsonl"
        path.write_bytes(b"\n".join(messages) + b"\n")
        process, pipe = alone(_cat_and_decode, path)
        rate: Rate = pipe.recv()
        process.join()
        return rate

    def close(self) -> None:
        os.close(self._out)
        os.close(self._into)


def _cat_and_decode(connection: Any, path: Path) -> None:
    connection.send("ready")
    cat = subprocess.Popen(["cat", path], stdout=subprocess.PIPE, preexec_fn=_elsewhere)
    assert cat.stdout is not None
    decoder, meter, rest = Decoder(Decode()), Meter(), b""
    while chunk := os.read(cat.stdout.fileno(), CHUNK):
        whole, _, rest = (rest + chunk).rpartition(b"\n")
        batch = Batch()
        decoder.lines(whole, batch)
        meter.take(batch.received)
    connection.send(meter.rate())


def _elsewhere() -> None:
    os.sched_setaffinity(0, {cores()[1]})


# ------------------------------------------------------------------------------------------------ http


class Http(Feed):
    """One POST a message, two connections; bare is an aiohttp server that reads the body."""

    name = "http"
    CONNECTIONS = 2

    def source(self) -> dict[str, Any]:
        return {"type": "http"}

    def begin(self, daemon: Daemon | None) -> None:
        assert daemon is not None
        self._port, self._path = int(daemon.url.rpartition(":")[2]), "/ingest"

    def send(self, messages: Sequence[bytes]) -> None:
        """Taking turns, so that at most one batch is out of order: the daemon's lateness must allow it."""
        share = [messages[i :: self.CONNECTIONS] for i in range(self.CONNECTIONS)]
        threads = [threading.Thread(target=self._post, args=(some,)) for some in share]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _post(self, messages: Sequence[bytes]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        for message in messages:
            connection.request("POST", self._path, message)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 204:
                raise RuntimeError(f"HTTP {answer.status}")
        connection.close()

    def bare(self, messages: Sequence[bytes]) -> Rate:
        self._port, self._path = servers.free_port(), "/"
        process, pipe = alone(_take_bodies, self._port, len(messages))
        self.send(messages)
        rate: Rate = pipe.recv()
        process.join()
        return rate


def _take_bodies(connection: Any, port: int, count: int) -> None:
    from aiohttp import web

    async def serve() -> None:
        meter, done = Meter(), asyncio.Event()

        async def take(request: web.Request) -> web.Response:
            await request.read()
            meter.take(1)
            if meter.count == count:
                done.set()
            return web.Response(status=204)

        application = web.Application(client_max_size=2**26)
        application.router.add_post("/", take)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        connection.send("ready")
        await done.wait()
        connection.send(meter.rate())
        await asyncio.sleep(0.2)
        await runner.cleanup()

    asyncio.run(serve())


# ------------------------------------------------------------------------------------------------ mqtt


class Mqtt(Feed):
    """`mosquitto_pub`, a C program, one message a line; QoS 1 unless said otherwise.

    It numbers messages with 16 bits, and at the end waits for the number of the last one: with more messages
    than numbers it leaves too soon.
    """

    name = "mqtt qos 1"
    qos: ClassVar[int] = 1
    most = 60_000

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.server = servers.mosquitto(folder / "mosquitto")
        self._publisher: subprocess.Popen[bytes] | None = None

    def source(self) -> dict[str, Any]:
        return {"type": "mqtt", "host": "127.0.0.1", "port": self.server.port, "topics": ["s/#"],
                "qos": self.qos}  # fmt: skip

    def begin(self, daemon: Daemon | None) -> None:
        command = [servers.program("mosquitto_pub"), "-p", str(self.server.port), "-q", str(self.qos)]
        self._publisher = subprocess.Popen([*command, "-t", "s/x", "-l"], stdin=subprocess.PIPE)

    def send(self, messages: Sequence[bytes]) -> None:
        assert self._publisher is not None
        assert self._publisher.stdin is not None
        self._publisher.stdin.write(b"\n".join(messages) + b"\n")
        self._publisher.stdin.flush()

    def end(self) -> None:
        assert self._publisher is not None
        assert self._publisher.stdin is not None
        self._publisher.stdin.close()
        self._publisher.wait()

    def bare(self, messages: Sequence[bytes]) -> Rate:
        process, pipe = alone(_subscribe, self.server.port, self.qos, len(messages))
        self.begin(None)
        self.send(messages)
        rate: Rate = pipe.recv()
        self.end()
        process.join()
        return rate

    def close(self) -> None:
        self.server.stop()


class Mqtt0(Mqtt):
    """QoS 0."""

    name = "mqtt qos 0"
    qos = 0


def _subscribe(connection: Any, port: int, qos: int, count: int) -> None:
    import paho.mqtt.client as paho
    from paho.mqtt.enums import CallbackAPIVersion

    meter, done, subscribed = Meter(), threading.Event(), threading.Event()

    def receive(client: Any, data: Any, message: Any) -> None:
        meter.take(1)
        if meter.count == count:
            done.set()

    client = paho.Client(CallbackAPIVersion.VERSION2, client_id="bare", protocol=paho.MQTTv5)
    client.on_message = receive
    client.on_subscribe = lambda *_: subscribed.set()
    client.connect("127.0.0.1", port)
    client.loop_start()
    client.subscribe("s/#", qos)
    subscribed.wait(10)
    connection.send("ready")
    done.wait(120)
    connection.send(meter.rate())
    client.disconnect()
    client.loop_stop()


# ------------------------------------------------------------------------------------------------ redis


class Redis(Feed):
    """A stream read by a group; bare reads and acknowledges up to 1000 at a time."""

    name = "redis"
    stores = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.server = servers.redis(folder / "redis", fsync="everysec")

    def source(self) -> dict[str, Any]:
        return {"type": "redis", "port": self.server.port, "streams": ["s"]}

    def send(self, messages: Sequence[bytes]) -> None:
        import redis

        with redis.Redis(port=self.server.port) as client:
            for at in range(0, len(messages), 1000):
                pipe = client.pipeline(transaction=False)
                for message in messages[at : at + 1000]:
                    pipe.xadd("s", {"data": message})
                pipe.execute()

    def bare(self, messages: Sequence[bytes]) -> Rate:
        self.send(messages)
        process, pipe = alone(_read_group, self.server.port, len(messages))
        rate: Rate = pipe.recv()
        process.join()
        return rate

    def close(self) -> None:
        self.server.stop()


def _read_group(connection: Any, port: int, count: int) -> None:
    import redis

    client = redis.Redis(port=port)
    client.xgroup_create("s", "bare", "0")
    connection.send("ready")
    meter = Meter()
    while meter.count < count:
        answer: Any = client.xreadgroup("bare", "one", {"s": ">"}, count=lot(count))
        entries = next(iter(answer.values()))[0] if isinstance(answer, dict) else answer[0][1]
        meter.take(len(entries))
        client.xack("s", "bare", *[entry for entry, _ in entries])
    connection.send(meter.rate())


# ------------------------------------------------------------------------------------------------ nats


class Nats(Feed):
    """A JetStream stream; bare is the library's pull subscription, one acknowledgement a message."""

    name = "nats"
    stores = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.server = servers.nats(folder / "nats")
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._connect())

    async def _connect(self) -> None:
        import nats

        self._client = await nats.connect(self._url)
        self._stream = self._client.jetstream()
        await self._stream.add_stream(name="S", subjects=["s.>"])

    @property
    def _url(self) -> str:
        return f"nats://127.0.0.1:{self.server.port}"

    def source(self) -> dict[str, Any]:
        return {"type": "nats", "servers": [self._url], "stream": "S"}

    def send(self, messages: Sequence[bytes]) -> None:
        self._loop.run_until_complete(self._publish(messages))

    async def _publish(self, messages: Sequence[bytes]) -> None:
        for at in range(0, len(messages), 500):
            some = messages[at : at + 500]
            await asyncio.gather(*(self._stream.publish("s.x", message) for message in some))

    def bare(self, messages: Sequence[bytes]) -> Rate:
        self.send(messages)
        process, pipe = alone(_pull, self._url, len(messages))
        rate: Rate = pipe.recv()
        process.join()
        return rate

    def close(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.close()
        self.server.stop()


def _pull(connection: Any, url: str, count: int) -> None:
    import nats

    async def pull() -> None:
        client = await nats.connect(url)
        reader = await client.jetstream().pull_subscribe("s.>", "bare")
        connection.send("ready")
        meter = Meter()
        while meter.count < count:
            found = await reader.fetch(min(100, lot(count)), timeout=5)
            meter.take(len(found))
            for message in found:
                await message.ack()
        connection.send(meter.rate())
        await client.close()

    asyncio.run(pull())


# ------------------------------------------------------------------------------------------------ kafka


class Kafka(Feed):
    """One partition. The mock cluster keeps 5 MB of it, so no more than `most` fits."""

    name = "kafka" if kafka_server.home() else "kafka (mock)"
    stores = True
    most = 10**9 if kafka_server.home() else 50_000

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._cluster = kafka_server.kafka(folder / "kafka", sync=False)  # as brokers are shipped
        self._cluster.create("s", 1)

    def source(self) -> dict[str, Any]:
        return {"type": "kafka", "brokers": [self._cluster.address], "topics": ["s"]}

    def send(self, messages: Sequence[bytes]) -> None:
        self._cluster.send("s", messages)

    def bare(self, messages: Sequence[bytes]) -> Rate:
        self.send(messages)
        process, pipe = alone(_consume, self._cluster.address, len(messages))
        rate: Rate = pipe.recv()
        process.join()
        return rate

    def close(self) -> None:
        self._cluster.stop()


def _consume(connection: Any, address: str, count: int) -> None:
    from confluent_kafka import Consumer

    options = {"bootstrap.servers": address, "group.id": "bare", "auto.offset.reset": "earliest"}
    consumer = Consumer(options)
    consumer.subscribe(["s"])
    connection.send("ready")
    meter = Meter()
    while meter.count < count:
        meter.take(len(consumer.consume(lot(count), timeout=0.1)))
    connection.send(meter.rate())
    consumer.close()


FEEDS: tuple[type[Feed], ...] = (Stdin, Http, Mqtt0, Mqtt, Redis, Nats, Kafka)
