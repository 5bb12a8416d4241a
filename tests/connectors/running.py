"""Servers are started once per session, on first use, and shared: tests keep apart by names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import kafka_server, servers
from tests.certificates import Authority

REDIS_PASSWORD = "canary-redis-password"
NATS_TOKEN = "canary-nats-token"


class Servers:
    """Starts each server when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: dict[str, Any] = {}
        self.authority = Authority(folder / "certificates")
        self.certificate = self.authority.issue("broker")

    def _once(self, name: str, start: Callable[[], Any]) -> Any:
        if name not in self._started:
            self._started[name] = start()
        return self._started[name]

    def mosquitto(self) -> servers.Server:
        return self._once("mosquitto", lambda: servers.mosquitto(self.folder / "mosquitto"))

    def redis(self) -> servers.Server:
        return self._once("redis", lambda: servers.redis(self.folder / "redis", REDIS_PASSWORD))

    def nats(self) -> servers.Server:
        return self._once("nats", lambda: servers.nats(self.folder / "nats", NATS_TOKEN))

    def alertmanager(self) -> servers.Server:
        return self._once("alertmanager", lambda: servers.alertmanager(self.folder / "alertmanager"))

    def kafka(self) -> kafka_server.Kafka | kafka_server.MockKafka:
        return self._once("kafka", lambda: kafka_server.kafka(self.folder / "kafka", self.certificate))

    def stop(self) -> None:
        for server in self._started.values():
            server.stop()


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    found = Servers(tmp_path_factory.mktemp("servers"))
    yield found
    found.stop()


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_PASSWORD", REDIS_PASSWORD)
    monkeypatch.setenv("NATS_TOKEN", NATS_TOKEN)
