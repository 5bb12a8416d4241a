"""One rig per sink: how to configure it, and what its receiver got."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from connectors import sink
from connectors.base import Sink
from tests import servers


class Rig:
    type_name = ""

    def __init__(self, running: Any, folder: Path) -> None:
        self.running = running
        self.folder = folder
        self.unique = uuid.uuid4().hex[:8]

    def config(self) -> dict[str, Any]:
        raise NotImplementedError

    def dead_config(self) -> dict[str, Any]:
        raise NotImplementedError

    def make(self, config: dict[str, Any] | None = None) -> Sink:
        kind = sink(self.type_name)
        return kind(kind.Config.model_validate(self.config() if config is None else config))  # type: ignore[call-arg]

    async def prepare(self) -> None:
        """Before the sink is opened."""

    async def received(self) -> list[tuple[str, dict[str, Any]]]:
        """All records that arrived, each with the idempotency key (or id) it came with."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Let go of the receiver."""


class StdoutRig(Rig):
    type_name = "stdout"

    def __init__(self, running: Any, folder: Path) -> None:
        super().__init__(running, folder)
        self.out, self.into = os.pipe()

    def config(self) -> dict[str, Any]:
        return {"descriptor": self.into}

    def dead_config(self) -> dict[str, Any]:
        out, into = os.pipe()
        os.close(out)
        return {"descriptor": into}

    async def received(self) -> list[tuple[str, dict[str, Any]]]:
        os.close(self.into)
        text = b""
        while chunk := os.read(self.out, 65536):
            text += chunk
        records = [json.loads(line) for line in text.splitlines()]
        return [(record["id"], record) for record in records]


class FileRig(Rig):
    type_name = "file"

    def config(self) -> dict[str, Any]:
        return {"path": str(self.folder / "incidents.jsonl")}

    def dead_config(self) -> dict[str, Any]:
        return {"path": str(self.folder / "no such folder" / "incidents.jsonl")}

    async def received(self) -> list[tuple[str, dict[str, Any]]]:
        lines = (self.folder / "incidents.jsonl").read_text().splitlines()
        return [(json.loads(line)["id"], json.loads(line)) for line in lines]


class WebhookRig(Rig):
    type_name = "webhook"

    def __init__(self, running: Any, folder: Path) -> None:
        super().__init__(running, folder)
        self.port = servers.free_port()
        self.got: list[tuple[str, dict[str, Any]]] = []
        self.requests: list[web.Request] = []

    def config(self) -> dict[str, Any]:
        return {"url": f"http://127.0.0.1:{self.port}/hook", "timeout": "3s"}

    def dead_config(self) -> dict[str, Any]:
        return {"url": f"http://127.0.0.1:{servers.free_port()}/hook", "timeout": "2s"}

    async def prepare(self) -> None:
        async def hook(request: web.Request) -> web.Response:
            body = await request.json()
            self.requests.append(request)
            for record in body if isinstance(body, list) else [body]:
                self.got.append((request.headers["Idempotency-Key"], record))
            return web.Response()

        app = web.Application()
        app.router.add_post("/hook", hook)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.port).start()

    async def received(self) -> list[tuple[str, dict[str, Any]]]:
        return self.got

    async def stop(self) -> None:
        if hasattr(self, "runner"):
            await self.runner.cleanup()


class AlertmanagerRig(Rig):
    """Here the id is the label `incident`, and the record stands in the annotations."""

    type_name = "alertmanager"

    def config(self) -> dict[str, Any]:
        return {
            "url": f"http://127.0.0.1:{self.running.alertmanager().port}", "labels": {"test": self.unique},
            "resend": "1s",
        }  # fmt: skip

    def dead_config(self) -> dict[str, Any]:
        return {"url": f"http://127.0.0.1:{servers.free_port()}", "timeout": "2s"}

    async def alerts(self) -> list[dict[str, Any]]:
        port = self.running.alertmanager().port
        async with (
            aiohttp.ClientSession() as session,
            session.get(
                f"http://127.0.0.1:{port}/api/v2/alerts", params={"filter": f'test="{self.unique}"'}
            ) as found,
        ):
            return list(await found.json())

    async def received(self) -> list[tuple[str, dict[str, Any]]]:
        return [
            (
                alert["labels"]["incident"],
                {**alert["annotations"], "value": float(alert["annotations"]["value"])},
            )
            for alert in await self.alerts()
        ]


class MqttRig(Rig):
    type_name = "mqtt"

    def broker(self) -> servers.Server:
        return self.running.mosquitto()

    def config(self) -> dict[str, Any]:
        port = self.broker().port
        return {"host": "127.0.0.1", "port": port, "topic": f"out/{self.unique}", "timeout": "3s"}

    def dead_config(self) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": servers.free_port(), "timeout": "2s"}

    async def prepare(self) -> None:
        command = [servers.program("mosquitto_sub"), "-p", str(self.broker().port), "-q", "1"]
        self.heard = self.folder / f"{self.unique}.jsonl"
        with self.heard.open("wb") as heard:
            self.listener = await asyncio.create_subprocess_exec(
                *command, "-c", "-i", self.unique, "-t", f"out/{self.unique}", stdout=heard
            )
        await asyncio.sleep(0.3)

    async def received(self) -> list[tuple[str, dict[str, Any]]]:
        size = -1
        while size != (size := self.heard.stat().st_size):  # until nothing more comes
            await asyncio.sleep(0.3)
        self.listener.terminate()
        await self.listener.wait()
        return [(json.loads(line)["id"], json.loads(line)) for line in self.heard.read_bytes().splitlines()]


class KafkaRig(Rig):
    type_name = "kafka"

    def config(self) -> dict[str, Any]:
        return {"brokers": [self.running.kafka().address], "topic": self.unique, "timeout": "5s"}

    def dead_config(self) -> dict[str, Any]:
        return {"brokers": [f"127.0.0.1:{servers.free_port()}"], "timeout": "1s"}

    async def prepare(self) -> None:
        self.running.kafka().create(self.unique, partitions=1)

    async def received(self) -> list[tuple[str, dict[str, Any]]]:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.running.kafka().address, "group.id": self.unique})
        consumer.assign([TopicPartition(self.unique, 0, 0)])
        found = []
        while (got := await asyncio.to_thread(consumer.poll, 1.0)) is not None:
            assert got.error() is None
            found.append((dict(got.headers())["id"].decode(), json.loads(got.value())))
        consumer.close()
        return found


class RedisRig(Rig):
    type_name = "redis"

    def config(self) -> dict[str, Any]:
        port = self.running.redis().port
        return {"port": port, "password": "${REDIS_PASSWORD}", "stream": self.unique, "timeout": "3s"}

    def dead_config(self) -> dict[str, Any]:
        return {"port": servers.free_port(), "timeout": "2s"}

    async def received(self) -> list[tuple[str, dict[str, Any]]]:
        from redis.asyncio import Redis

        from tests.connectors.running import REDIS_PASSWORD

        async with Redis(port=self.running.redis().port, password=REDIS_PASSWORD) as client:
            entries = await client.xrange(self.unique)
        return [(fields[b"id"].decode(), json.loads(fields[b"record"])) for _, fields in entries]


class NatsRig(Rig):
    type_name = "nats"

    def config(self) -> dict[str, Any]:
        address = f"nats://127.0.0.1:{self.running.nats().port}"
        return {
            "servers": [address],
            "token": "${NATS_TOKEN}",
            "subject": f"out.{self.unique}",
            "timeout": "3s",
        }

    def dead_config(self) -> dict[str, Any]:
        return {"servers": [f"nats://127.0.0.1:{servers.free_port()}"], "timeout": "2s"}

    async def _client(self) -> Any:
        import nats

        from tests.connectors.running import NATS_TOKEN

        return await nats.connect(f"nats://127.0.0.1:{self.running.nats().port}", token=NATS_TOKEN)

    async def prepare(self) -> None:
        client = await self._client()
        await client.jetstream().add_stream(name=self.unique, subjects=[f"out.{self.unique}"])
        await client.close()

    async def received(self) -> list[tuple[str, dict[str, Any]]]:
        client = await self._client()
        reader = await client.jetstream().pull_subscribe(f"out.{self.unique}", "reader")
        messages = await reader.fetch(1000, timeout=1)
        found = [(message.headers["Nats-Msg-Id"], json.loads(message.data)) for message in messages]
        await client.close()
        return found


RIGS = {
    rig.type_name: rig
    for rig in (StdoutRig, FileRig, WebhookRig, AlertmanagerRig, MqttRig, KafkaRig, RedisRig, NatsRig)
}
