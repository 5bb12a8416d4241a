"""Servers are started once per session, on first use, and shared: tests keep apart by names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests import servers

REDIS_PASSWORD = "canary-redis-password"
NATS_TOKEN = "canary-nats-token"


class Servers:
    """Starts each server when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: dict[str, Any] = {}

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

    def kafka(self) -> servers.MockKafka:
        return self._once("kafka", servers.MockKafka)

    def stop(self) -> None:
        for server in self._started.values():
            server.stop()


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    found = Servers(tmp_path_factory.mktemp("servers"))
    yield found
    found.stop()


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_PASSWORD", REDIS_PASSWORD)
    monkeypatch.setenv("NATS_TOKEN", NATS_TOKEN)
