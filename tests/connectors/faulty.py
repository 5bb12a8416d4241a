"""Receivers at their worst: they fail at random, are slow, limit their rate, refuse a record, do not answer.

`TROUBLES` has one per sink, over the rig of that sink: a real receiver, and something between it and us.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import random
import resource
from typing import Any

from aiohttp import web

from tests import servers
from tests.connectors.sink_rigs import (
    AlertmanagerRig,
    FileRig,
    KafkaRig,
    MqttRig,
    NatsRig,
    RedisRig,
    Rig,
    StdoutRig,
    WebhookRig,
)

LARGE = 3 * 2**20  # bytes of a record that brokers refuse


class Trouble:
    """Between a sink and its receiver; `pad` is the size of a record that this receiver never takes."""

    pad = 0
    patience = 45.0

    def __init__(self, rig: Rig, seed: int) -> None:
        self.rig, self.rng = rig, random.Random(seed)

    async def start(self) -> None:
        await self.rig.prepare()

    def config(self) -> dict[str, Any]:
        return self.rig.config()

    async def received(self) -> list[str]:
        """Ids, as they arrived, repeats included."""
        return [record["id"] for _, record in await self.rig.received()]

    async def stop(self) -> None:
        await self.rig.stop()


class Cuts(Trouble):
    """A relay that is slow and cuts its connections at random, before or after the last bytes went on."""

    pad = LARGE
    cuts = 6  # then it behaves
    key = "port"

    async def start(self) -> None:
        await super().start()
        self.port = servers.free_port()
        self._links: set[asyncio.Task[Any]] = set()
        self._server = await asyncio.start_server(self._link, "127.0.0.1", self.port)

    def config(self) -> dict[str, Any]:
        return {**self.rig.config(), "port": self.port, "timeout": "3s"}

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to = await asyncio.open_connection("127.0.0.1", self.target())
        left = [self.rng.randrange(1000, 30_000) if self.cuts > 0 else 10**12]

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, counts: bool) -> None:
            while data := await source.read(65536):
                await asyncio.sleep(0.002 if len(data) < 10_000 else 0)
                left[0] -= len(data) * counts
                if left[0] < 0 and counts and self.rng.random() < 0.5:
                    return
                sink.write(data)
                await sink.drain()
                if left[0] < 0 and counts:
                    await asyncio.sleep(0.02)
                    return

        pumps = [asyncio.create_task(pump(reader, to, True)), asyncio.create_task(pump(there, writer, False))]
        self._links.update(pumps)
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        self.cuts -= left[0] < 0
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        for end in (to, writer):
            end.transport.abort()

    def target(self) -> int:
        raise NotImplementedError

    async def stop(self) -> None:
        self._server.close()
        for task in self._links:
            task.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)
        await super().stop()


class RedisCuts(Cuts):
    def target(self) -> int:
        return int(self.rig.running.redis().port)

    async def start(self) -> None:
        await super().start()
        from redis.asyncio import Redis

        from tests.connectors.running import REDIS_PASSWORD

        async with Redis(port=self.target(), password=REDIS_PASSWORD) as client:
            await client.config_set("proto-max-bulk-len", LARGE // 2)  # it hangs up on anything larger


class NatsCuts(Cuts):
    def target(self) -> int:
        return int(self.rig.running.nats().port)

    def config(self) -> dict[str, Any]:
        config = super().config()
        del config["port"]
        return {**config, "servers": [f"nats://127.0.0.1:{self.port}"]}


class OwnMqttRig(MqttRig):
    """With a broker of its own, which takes no large packets and keeps sessions over its death."""

    def broker(self) -> servers.Server:
        if not hasattr(self, "_broker"):
            limit = f"max_packet_size {LARGE // 2}"
            self._broker = servers.mosquitto(self.folder / "broker", persistent=True, more=[limit])
        return self._broker

    async def stop(self) -> None:
        await super().stop()
        self.broker().stop()


class MqttCuts(Cuts):
    rig: OwnMqttRig

    def target(self) -> int:
        return int(self.rig.broker().port)


class Impatient(Trouble):
    """Kafka names its own address, so that nothing can stand between: we wait too short for it instead."""

    pad = LARGE

    def config(self) -> dict[str, Any]:
        return {**self.rig.config(), "timeout": "0.15s"}


class Scripted(Trouble):
    """An HTTP receiver that errs in every way, before and after it took a record, and limits the rate."""

    pad = 0
    refused = "i7-2"
    poison = "i9-1"
    limited = "i3-1"  # the limit is always reached when this one comes

    async def start(self) -> None:
        self.port, self.got, self.answers = servers.free_port(), [], []  # type: list[str], list[int]
        self._window, self._left = 0.0, 0
        app = web.Application(client_max_size=2**24)
        app.router.add_post("/{path:.*}", self._hook)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    def config(self) -> dict[str, Any]:
        return {"url": f"http://127.0.0.1:{self.port}/hook", "timeout": "2s"}

    async def _hook(self, request: web.Request) -> web.Response:
        ids = self.ids(await request.json())
        status, headers = self._status(ids)
        self.answers.append(status)
        if status == 200 or (status == 502 and self.rng.random() < 0.5):
            self.got += ids
        await asyncio.sleep(self.rng.random() * 0.01)
        return web.Response(status=status, headers=headers)

    def _status(self, ids: list[str]) -> tuple[int, dict[str, str]]:
        now = asyncio.get_running_loop().time()
        if now > self._window + 0.5:
            self._window, self._left = now, 40
        self._left -= 1
        if self._left < 0:
            return self.rng.choice((429, 503)), {"Retry-After": "1"}
        if self.refused in ids:
            return 422, {}
        if self.limited in ids:
            return self.rng.choice((429, 503)), {"Retry-After": "0"}
        if self.poison in ids:
            return 500, {}
        return (502 if self.rng.random() < 0.15 else 200), {}

    @staticmethod
    def ids(body: Any) -> list[str]:
        return [record["id"] for record in (body if isinstance(body, list) else [body])]

    async def received(self) -> list[str]:
        return self.got

    async def stop(self) -> None:
        await self._runner.cleanup()


class ScriptedAlerts(Scripted):
    """The same as an Alertmanager: the id is in the annotations."""

    def config(self) -> dict[str, Any]:
        return {"url": f"http://127.0.0.1:{self.port}", "timeout": "2s", "resend": "1h"}

    @staticmethod
    def ids(body: Any) -> list[str]:
        return [alert["annotations"]["id"] for alert in body]


class FullPipe(Trouble):
    """Standard output without patience: a full pipe is an error, in the middle of a line as like as not."""

    rig: StdoutRig

    async def start(self) -> None:
        await super().start()
        flags = fcntl.fcntl(self.rig.into, fcntl.F_GETFL)
        fcntl.fcntl(self.rig.into, fcntl.F_SETFL, flags | os.O_NONBLOCK)
        fcntl.fcntl(self.rig.into, fcntl.F_SETPIPE_SZ, 4096)
        self.text = b""
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        os.set_blocking(self.rig.out, False)
        while True:
            await asyncio.sleep(self.rng.random() * 0.05)
            with contextlib.suppress(BlockingIOError):
                self.text += os.read(self.rig.out, self.rng.randrange(1, 8000))

    async def received(self) -> list[str]:
        self._reading.cancel()
        os.close(self.rig.into)
        os.set_blocking(self.rig.out, True)
        while chunk := os.read(self.rig.out, 65536):
            self.text += chunk
        return [json.loads(line)["id"] for line in self.text.splitlines()]


class FullDisk(Trouble):
    """Files may not grow, now and then: as on a full disk, some of a batch is written before the error."""

    rig: FileRig

    async def start(self) -> None:
        await super().start()
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, self._before[1]))
        self._limiting = asyncio.create_task(self._limit())

    async def _limit(self) -> None:
        path = self.rig.folder / "incidents.jsonl"
        while True:
            await asyncio.sleep(0.05)
            resource.setrlimit(resource.RLIMIT_FSIZE, self._before)
            await asyncio.sleep(self.rng.random() * 0.05)
            size = path.stat().st_size if path.exists() else 0
            soft = size + self.rng.randrange(200)
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, self._before[1]))

    async def stop(self) -> None:
        self._limiting.cancel()
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)
        await super().stop()


TROUBLES: dict[str, tuple[type[Trouble], type[Rig]]] = {
    "stdout": (FullPipe, StdoutRig),
    "file": (FullDisk, FileRig),
    "webhook": (Scripted, WebhookRig),
    "alertmanager": (ScriptedAlerts, AlertmanagerRig),
    "mqtt": (MqttCuts, OwnMqttRig),
    "kafka": (Impatient, KafkaRig),
    "redis": (RedisCuts, RedisRig),
    "nats": (NatsCuts, NatsRig),
}
