"""The console's real server and a real database, in front of a pipeline whose view the test makes up.

For states that a real daemon reaches rarely or slowly: overloaded, still, partly blind, ten thousand nodes.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from detector.events.model import Event
from detector.http.frames import FRAMES
from detector.http.server import HttpServer
from detector.network.network import Network
from detector.notify.routing import Routing
from detector.notify.settings import NotifySettings
from detector.pipeline.node_view import SHOWN
from detector.pipeline.pipeline import Pipeline
from detector.pipeline.signal_capture import Block
from detector.pipeline.status_view import StatusView
from detector.runtime.metrics import Metrics
from detector.settings.core import Settings
from detector.settings.service import HttpSettings
from detector.storage.records import Record
from detector.storage.store import Bundle, Store
from tests.detector import rig

NOW = 1_800_000_000.0
PER_S = 100  # samples accepted


class Scene:
    """What `HttpServer` asks of a daemon; change its fields, and the page shows it with the next frame."""

    def __init__(self, folder: Path, network: Network, notify: dict[str, Any] | None = None) -> None:
        self.metrics, self.settings = Metrics(), HttpSettings(port=0)
        self.routing = Routing(NotifySettings.model_validate(notify or {}))
        self.stage: tuple[str, float] | None = None
        self.queue, self.step = 0.0, 1.0
        self._stopped_at: int | None = None  # samples accepted, once no more come
        self.blocks: list[Block] = []
        self._listeners: list[Callable[[Sequence[Record]], None]] = []
        self._store = Store(folder)
        self._begun = time.monotonic()
        self._view = dataclasses.replace(
            StatusView.of(Pipeline(network, 1, Settings())),
            phase="watching", watermark=NOW, threshold=5.0, event_threshold=9.0, ticks=1000,
            statistic=np.linspace(0.0, 3.0, network.n_nodes), components=("temperature",),
        )  # fmt: skip
        self.states("watching")

    def __enter__(self) -> Scene:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._server = self._run(self._started())
        self.address = f"http://127.0.0.1:{self._server.port}/"
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._store.close()

    async def _started(self) -> HttpServer:
        server = HttpServer(self, self.settings)
        await server.start()
        return server

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    # ---------------------------------------------------------------------------------- for the test

    def states(self, state: str, count: int | None = None) -> None:
        """The first so many nodes, or all, are in this state; the others are watched."""
        shown = np.full(len(self._view.names), SHOWN.index("watching"), np.uint8)
        shown[:count] = SHOWN.index(state)
        self.change(shown_states=shown)

    def change(self, **fields: Any) -> None:
        self._view = dataclasses.replace(self._view, **fields)

    def stop_data(self, seconds_ago: float) -> None:
        """No more samples come, and the latest came so long ago."""

        async def stopped() -> None:
            found = self._server._app[FRAMES]
            self._stopped_at = self._accepted()
            found.sample()  # the last of them is seen before the clock goes on
            found.clock = lambda: time.monotonic() + seconds_ago

        self._run(stopped())

    def resume_data(self) -> None:
        self._stopped_at = None

    def metrics_now(self, name: str) -> float:
        return rig.total(self.metrics.page().decode(), name)

    def put(self, *events: Event) -> None:
        """Store these records, and let the page hear of them."""
        known = dict(self._view.open_incidents)
        for event in events:
            known[str(event.incident)] = event
        still = {name: event for name, event in known.items() if event.resolution is None}
        self.change(open_incidents=still)

        async def stored() -> None:
            made = [Record.of(event) for event in events]
            self._store.commit(Bundle(records=made))
            for listener in self._listeners:
                listener(made)

        self._run(stored())

    # --------------------------------------------------------------------------------- for the server

    def _accepted(self) -> int:
        return int(PER_S * (time.monotonic() - self._begun)) if self._stopped_at is None else self._stopped_at

    @property
    def view(self) -> StatusView:
        return dataclasses.replace(self._view, counts={"accepted": self._accepted()})

    def listen(self, listener: Callable[[Sequence[Record]], None]) -> None:
        self._listeners.append(listener)

    def source_routes(self) -> list[Any]:
        return []

    def status(self) -> dict[str, Any]:
        now = time.time()
        source = {"type": "http", "status": "up", "error": None, "lag": None, "last_batch": now}
        return {
            "time": now, "started": now - 60, "phase": self._view.phase, "ticks": self._view.ticks,
            "counts": {}, "promise": None, "promised_rate": None, "quiet_ratio": 1.0, "coverage": 1.0,
            "dictionary_size": 8, "queue": {"samples": 0, "capacity": 100}, "sources": {"push": source},
            "sinks": {},
            "state": {"failing": None, "snapshot": None, "journal_bytes": 0, "bytes": {}, "damages": []},
            "report": None, "dry_run": False,
        }  # fmt: skip

    async def node(self, name: str) -> dict[str, Any]:
        return {"name": name, "state": "watching", "neighbours": [], "learning": 1.0}

    async def signals(self, names: Sequence[str]) -> list[Block]:
        return [block.of(names) for block in self.blocks]

    async def read(self, question: Callable[..., Any], *arguments: Any) -> Any:
        return self._store.read(question, *arguments)

    async def write(self, change: Callable[..., Any], *arguments: Any) -> Any:
        return self._store.write(change, *arguments)

    async def incidents(self, limit: int) -> list[Record]:
        return self._store.incidents(limit)

    async def incident(self, incident: str) -> list[Record]:
        return self._store.incident(incident)

    async def findings(self, incidents: Sequence[str]) -> list[Record]:
        return self._store.findings(incidents)

    async def records_after(self, id: str, limit: int) -> list[Record]:
        return self._store.records_after(id, limit)
