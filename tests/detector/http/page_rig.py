"""A daemon for tests of what people look at: sensors with hostile names, fed by the test itself."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.detector import rig

# Names come from outside: each of these breaks a page that writes them as anything but text.
NODES = [
    "<img src=x onerror=window.hacked=1>", '"><script>window.hacked=1</script>', "a/b?c#d", "__proto__",
    "ünï 気温", "javascript:window.hacked=1", "long " + "x" * 120, "n7",
]  # fmt: skip
LEARN = 300


def settings(folder: Path, **groups: Any) -> Path:
    """The configuration file of the daemon."""
    edges = [[NODES[i], NODES[(i + 1) % 8]] for i in range(8)]
    http = {"push": {"type": "http"}}
    alarm = {"learn": LEARN, "budget": "1 per 500 ticks"}
    return rig.write_config(folder, **{"graph": {"edges": edges}, "sources": http, "alarm": alarm, **groups})


class Feed:
    """Samples of the network, tick by tick."""

    def __init__(self, service: rig.Service, headers: dict[str, str] | None = None) -> None:
        self.service, self.tick, self._headers = service, 0, headers or {}
        self._rng = random.Random(5)

    def push(self, ticks: int, changed: tuple[str, ...] = (), size: float = 4.0) -> None:
        """So many ticks, in which the ``changed`` nodes are ``size`` spreads higher."""
        lines = []
        for tick in range(self.tick, self.tick + ticks):
            for node in NODES:
                value = self._rng.gauss(20.0, 2.0) + (2.0 * size if node in changed else 0.0)
                lines.append(json.dumps({"time": rig.START + tick, "node": node, "value": round(value, 4)}))
        self.tick += ticks
        for _ in range(5):  # a busy machine may not commit in time: the same batch again, as senders do
            status, answer = self.service.ask("/ingest", "POST", "\n".join(lines), self._headers)
            if status != 503:
                break
        assert status < 300, answer

    def learn(self) -> None:
        """Until it watches; calibration takes a few seconds."""
        self.push(LEARN + 5)
        rig.wait_for(lambda: self.status()["phase"] == "watching", 60.0, "watching")
        self.push(30)

    def status(self) -> dict[str, Any]:
        status, answer = self.service.ask("/api/v1/status", headers=self._headers)
        assert status == 200, answer
        found: dict[str, Any] = answer
        return found

    def incident(self, *nodes: str) -> dict[str, Any]:
        """Make the nodes jump until an incident is open; its record."""
        for _ in range(12):
            self.push(4, nodes)
            open_ones: list[dict[str, Any]] = self.status()["incidents_open"]
            if open_ones:
                return open_ones[0]
        raise AssertionError("the change was not found")
