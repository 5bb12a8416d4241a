"""The daemon as its HTTP interface sees it: `detector.http.service.Service`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from detector.diagnosis.service import DiagnosisService
from detector.events.model import Event
from detector.http.service import SourceRoute
from detector.notify.routing import Routing
from detector.notify.silences import Silence
from detector.pipeline.signal_capture import Block
from detector.pipeline.status_view import StatusView
from detector.runtime.metrics import Metrics
from detector.settings.budget import Budget
from detector.settings.service import HttpSettings
from detector.storage.console.overrides import BudgetOverride
from detector.storage.records import Record, SetAside

if TYPE_CHECKING:
    from detector.daemon.daemon import Daemon

Result = TypeVar("Result")


class HttpService:
    """Looks at the daemon as it is at each call: a reload may have changed its parts."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    @property
    def metrics(self) -> Metrics:
        return self._daemon.metrics

    @property
    def settings(self) -> HttpSettings:
        return self._daemon.config.http

    @property
    def diagnosis(self) -> DiagnosisService:
        return self._daemon.diagnosis

    @property
    def healthy(self) -> bool:
        return self._daemon.pulse.healthy

    @property
    def view(self) -> StatusView:
        return self._daemon.worker.view

    @property
    def stage(self) -> tuple[str, float] | None:
        return self._daemon.worker.stage

    @property
    def queue(self) -> float:
        queue = self._daemon.ingest_queue
        return queue.samples / max(queue.capacity, 1)

    @property
    def step(self) -> float:
        return self._daemon.worker.plan.settings.align.step

    @property
    def routing(self) -> Routing:
        return self._daemon.recorder.routing

    async def put_silence(self, silence: Silence) -> None:
        await self._daemon.put_silence(silence)

    @property
    def configured_budget(self) -> Budget:
        return self._daemon.budget.configured

    @property
    def budget_override(self) -> BudgetOverride | None:
        return self._daemon.budget.override

    async def choose_budget(self, budget: Budget | None, who: str) -> None:
        await self._daemon.budget.choose(budget, who)

    def readiness(self) -> tuple[bool, dict[str, Any]]:
        return self._daemon.status.readiness()

    def status(self) -> dict[str, Any]:
        return self._daemon.status.status()

    def metrics_page(self) -> bytes:
        self._daemon.status.refresh()
        return self._daemon.metrics.page()

    def source_routes(self) -> Sequence[SourceRoute]:
        made = (getattr(reader.source, "routes", None) for reader in self._daemon.readers.values())
        return [route for routes in made if routes is not None for route in routes()]

    def listen(self, listener: Callable[[Sequence[Record]], None]) -> None:
        self._daemon.listeners.append(listener)

    async def node(self, name: str) -> dict[str, Any]:
        worker = self._daemon.worker
        return await worker.run(worker.node_view, name)

    async def signals(self, names: Sequence[str]) -> list[Block]:
        worker = self._daemon.worker
        under_way = await worker.run(worker.signals, names)
        waiting = [block.of(names) for block in self._daemon.recorder.blocks]
        return [*waiting, *under_way]

    async def read(self, question: Callable[..., Result], *arguments: Any) -> Result:
        recorder = self._daemon.recorder
        return await recorder.ask(recorder.store.read, question, *arguments)

    async def write(self, change: Callable[..., Result], *arguments: Any) -> Result:
        recorder = self._daemon.recorder
        return await recorder.ask(recorder.store.write, change, *arguments)

    async def command(self, name: str, arguments: Mapping[str, Any]) -> list[Event]:
        return await self._daemon.command(name, arguments)

    async def incidents(self, limit: int) -> list[Record]:
        recorder = self._daemon.recorder
        return await recorder.ask(recorder.store.incidents, limit)

    async def incident(self, incident: str) -> list[Record]:
        recorder = self._daemon.recorder
        return await recorder.ask(recorder.store.incident, incident)

    async def findings(self, incidents: Sequence[str]) -> list[Record]:
        recorder = self._daemon.recorder
        return await recorder.ask(recorder.store.findings, incidents)

    async def set_aside(self) -> list[tuple[SetAside, Record]]:
        recorder = self._daemon.recorder
        return await recorder.ask(recorder.store.list_set_aside)

    async def send_again(self, chosen: Sequence[tuple[str, str]]) -> int:
        return await self._daemon.send_again(chosen)

    async def drop_aside(self, chosen: Sequence[tuple[str, str]]) -> int:
        recorder = self._daemon.recorder
        return await recorder.ask(recorder.store.drop, chosen)

    async def records_after(self, id: str, limit: int) -> list[Record]:
        recorder = self._daemon.recorder
        return await recorder.ask(recorder.store.records_after, id, limit)
