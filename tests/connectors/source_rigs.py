"""One rig per source: how to configure it, how to send it messages, where nobody answers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from connectors import source
from connectors.base import Source
from tests import servers

GARBAGE = [
    b"{",
    b"\xff\xfe",
    b'{"time":1,"node":"a","values":[1e999]}',
    b'{"time":1,"node":"","value":1}',
    b"null",
]


def message(i: int) -> bytes:
    return b'{"time":%d.5,"node":"node-%d","values":[%d,0.25]}' % (1_700_000_000 + i, i % 7, i)


class Rig:
    """A source with somebody who sends to it. `sends` is False where the test cannot choose the data."""

    type_name = ""
    sends = True
    batch_ack = True  # whether what was read but not committed comes again after a crash
    garbage = GARBAGE

    def __init__(self, running: Any, folder: Path) -> None:
        self.running = running
        self.folder = folder
        self.unique = uuid.uuid4().hex[:8]
        self.tasks: list[asyncio.Task[Any]] = []

    def config(self) -> dict[str, Any]:
        raise NotImplementedError

    def dead_config(self) -> dict[str, Any] | None:
        """A configuration whose peer does not answer; None if the source has no peer."""
        return None

    def make(self, config: dict[str, Any] | None = None) -> Source:
        kind = source(self.type_name)
        return kind(kind.Config.model_validate(self.config() if config is None else config))  # type: ignore[call-arg]

    async def prepare(self) -> None:
        """Before anything is sent."""

    async def send(self, payloads: list[bytes]) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class SimulateRig(Rig):
    type_name = "simulate"
    sends = False

    def config(self) -> dict[str, Any]:
        return {"nodes": 7, "ticks": 300, "speed": 0, "start": 1e9, "changes": [{"at": "50s", "nodes": 3}]}


class StdinRig(Rig):
    type_name = "stdin"
    batch_ack = False

    def __init__(self, running: Any, folder: Path) -> None:
        super().__init__(running, folder)
        self.out, self.into = os.pipe()

    def config(self) -> dict[str, Any]:
        return {"descriptor": self.out}

    async def send(self, payloads: list[bytes]) -> None:
        await asyncio.to_thread(os.write, self.into, b"".join(payload + b"\n" for payload in payloads))

    async def stop(self) -> None:
        await super().stop()
        os.close(self.out)
        os.close(self.into)


class FileRig(Rig):
    type_name = "file"

    def config(self) -> dict[str, Any]:
        return {"path": str(self.folder / "samples.jsonl"), "mode": "tail", "poll": "20ms"}

    async def send(self, payloads: list[bytes]) -> None:
        with (self.folder / "samples.jsonl").open("ab") as file:
            file.writelines(payload + b"\n" for payload in payloads)


class HttpRig(Rig):
    """The daemon's part: an application with the routes mounted; clients retry until 2xx or 4xx."""

    type_name = "http"

    def __init__(self, running: Any, folder: Path) -> None:
        super().__init__(running, folder)
        self.port = servers.free_port()
        self.runner: web.AppRunner | None = None
        self.statuses: list[int] = []

    def config(self) -> dict[str, Any]:
        return {"prefix": "/plant", "max_pending": 1000, "commit_timeout": "20s"}

    def make(self, config: dict[str, Any] | None = None) -> Source:
        self.source = super().make(config)
        if self.runner is not None:  # a new daemon on the same port
            self.tasks.append(asyncio.ensure_future(self._serve()))
        return self.source

    async def prepare(self) -> None:
        await self._serve()

    async def _serve(self) -> None:
        if self.runner is not None:
            await self.runner.cleanup()
        app = web.Application()
        app.add_routes(self.source.routes())  # type: ignore[attr-defined]
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.port, reuse_address=True).start()

    async def send(self, payloads: list[bytes]) -> None:
        self.tasks += [asyncio.create_task(self._post(payload)) for payload in payloads]
        await asyncio.sleep(0.2)

    async def _post(self, payload: bytes) -> None:
        key = uuid.uuid4().hex
        async with aiohttp.ClientSession() as session:
            while True:
                try:
                    url = f"http://127.0.0.1:{self.port}/plant/ingest"
                    async with session.post(url, data=payload, headers={"Idempotency-Key": key}) as answer:
                        self.statuses.append(answer.status)
                        if answer.status < 500 and answer.status != 429:
                            return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        await super().stop()
        if self.runner is not None:
            await self.runner.cleanup()


class MqttRig(Rig):
    type_name = "mqtt"

    def config(self) -> dict[str, Any]:
        return {
            "host": "127.0.0.1", "port": self.running.mosquitto().port, "topics": [f"{self.unique}/#"],
            "client_id": self.unique, "timeout": "3s",
        }  # fmt: skip

    def dead_config(self) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": servers.free_port(), "topics": ["a"], "timeout": "2s"}

    async def prepare(self) -> None:
        first = self.make()  # the broker keeps messages only for a session it knows
        await first.open(None)
        await first.close()

    async def send(self, payloads: list[bytes]) -> None:
        command = [
            servers.program("mosquitto_pub"),
            "-p",
            str(self.running.mosquitto().port),
            "-q",
            "1",
            "-l",
        ]
        command += ["-t", f"{self.unique}/x"]
        text = b"".join(payload + b"\n" for payload in payloads)
        await asyncio.to_thread(subprocess.run, command, input=text, check=True)


class KafkaRig(Rig):
    type_name = "kafka"

    def config(self) -> dict[str, Any]:
        return {
            "brokers": [self.running.kafka().address], "topics": [self.unique], "group": self.unique,
            "timeout": "3s", "options": {"session.timeout.ms": 1000, "heartbeat.interval.ms": 100},
        }  # fmt: skip

    def dead_config(self) -> dict[str, Any]:
        return {"brokers": [f"127.0.0.1:{servers.free_port()}"], "topics": ["a"], "timeout": "1s"}

    async def prepare(self) -> None:
        self.running.kafka().create(self.unique)

    async def send(self, payloads: list[bytes]) -> None:
        await asyncio.to_thread(self.running.kafka().send, self.unique, payloads)


class RedisRig(Rig):
    type_name = "redis"

    def config(self) -> dict[str, Any]:
        port = self.running.redis().port
        return {"port": port, "password": "${REDIS_PASSWORD}", "streams": [self.unique], "timeout": "3s"}

    def dead_config(self) -> dict[str, Any]:
        return {"port": servers.free_port(), "streams": ["a"], "timeout": "2s"}

    async def send(self, payloads: list[bytes]) -> None:
        from redis.asyncio import Redis

        from tests.connectors.running import REDIS_PASSWORD

        async with Redis(port=self.running.redis().port, password=REDIS_PASSWORD) as client:
            for payload in payloads:
                await client.xadd(self.unique, {"data": payload})


class NatsRig(Rig):
    type_name = "nats"

    def config(self) -> dict[str, Any]:
        address = f"nats://127.0.0.1:{self.running.nats().port}"
        return {"servers": [address], "token": "${NATS_TOKEN}", "stream": self.unique, "timeout": "3s"}

    def dead_config(self) -> dict[str, Any]:
        return {"servers": [f"nats://127.0.0.1:{servers.free_port()}"], "stream": "a", "timeout": "2s"}

    async def _client(self) -> Any:
        import nats

        from tests.connectors.running import NATS_TOKEN

        return await nats.connect(f"nats://127.0.0.1:{self.running.nats().port}", token=NATS_TOKEN)

    async def prepare(self) -> None:
        client = await self._client()
        await client.jetstream().add_stream(name=self.unique, subjects=[f"{self.unique}.>"])
        await client.close()

    async def send(self, payloads: list[bytes]) -> None:
        client = await self._client()
        for payload in payloads:
            await client.jetstream().publish(f"{self.unique}.x", payload)
        await client.close()


class PrometheusRig(Rig):
    """A server filled beforehand with one sample a second; values that are no numbers are garbage."""

    type_name = "prometheus"
    sends = False
    seconds = 120

    def __init__(self, running: Any, folder: Path) -> None:
        super().__init__(running, folder)
        self.end = int(time.time()) - 5
        lines = ["# TYPE temperature gauge"]
        lines += [
            f'temperature{{instance="node-{node}"}} {value} {self.end - self.seconds + i}'
            for node in range(3)
            for i in range(self.seconds)
            for value in ["NaN" if i == 50 else i + node / 8]
        ]
        text = "\n".join([*lines, "# EOF", ""])
        self.server = servers.prometheus(
            folder / "prometheus", text, arguments=["--query.lookback-delta=500ms"]
        )

    def config(self) -> dict[str, Any]:
        return {
            "url": f"http://127.0.0.1:{self.server.port}", "queries": [{"query": "temperature"}],
            "step": "1s", "delay": "2s", "history": 300, "max_points": 37, "overlap": "10s",
        }  # fmt: skip

    def dead_config(self) -> dict[str, Any]:
        return {**self.config(), "url": f"http://127.0.0.1:{servers.free_port()}", "timeout": "2s"}

    async def stop(self) -> None:
        await super().stop()
        self.server.stop()


RIGS = {
    rig.type_name: rig
    for rig in (SimulateRig, StdinRig, FileRig, HttpRig, MqttRig, KafkaRig, RedisRig, NatsRig, PrometheusRig)
}
