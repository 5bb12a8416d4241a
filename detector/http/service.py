"""What the HTTP interface needs of the daemon; `http` knows nothing else of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from aiohttp import web

from detector.diagnosis.service import DiagnosisService
from detector.events.model import Event
from detector.notify.routing import Routing
from detector.notify.silences import Silence
from detector.pipeline.signal_capture import Block
from detector.pipeline.status_view import StatusView
from detector.runtime.metrics import Metrics
from detector.settings.budget import Budget
from detector.settings.service import HttpSettings
from detector.storage.console.overrides import BudgetOverride
from detector.storage.records import Record, SetAside

Result = TypeVar("Result")


class SourceRoute(Protocol):
    """A route that a source brings, for samples that are pushed."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def handler(self) -> Callable[[web.Request], Any]: ...


class Service(Protocol):
    """Everything that reads the database raises StateError where that cannot be used."""

    @property
    def metrics(self) -> Metrics: ...
    @property
    def settings(self) -> HttpSettings: ...
    @property
    def diagnosis(self) -> DiagnosisService: ...
    @property
    def healthy(self) -> bool:
        """Whether the pipeline's thread makes progress."""
        ...

    @property
    def view(self) -> StatusView:
        """The pipeline after its latest turn."""
        ...

    @property
    def stage(self) -> tuple[str, float] | None:
        """A long calculation under way, and the share that is done."""
        ...

    @property
    def queue(self) -> float:
        """How full the queue before the pipeline is, 0 to 1."""
        ...

    @property
    def step(self) -> float:
        """Seconds from one tick to the next."""
        ...

    @property
    def routing(self) -> Routing:
        """Which records go where, and the silences."""
        ...

    async def put_silence(self, silence: Silence) -> None:
        """Store it and let it count."""
        ...

    @property
    def configured_budget(self) -> Budget:
        """That of the configuration file."""
        ...

    @property
    def budget_override(self) -> BudgetOverride | None:
        """What somebody chose in its place, if that counts."""
        ...

    async def choose_budget(self, budget: Budget | None, who: str) -> None:
        """Take another budget, or that of the configuration; ValueError if it cannot be taken."""
        ...

    def readiness(self) -> tuple[bool, dict[str, Any]]: ...
    def status(self) -> dict[str, Any]: ...
    def metrics_page(self) -> bytes: ...
    def source_routes(self) -> Sequence[SourceRoute]: ...
    def listen(self, listener: Callable[[Sequence[Record]], None]) -> None:
        """Hear every record once it is stored."""
        ...

    async def node(self, name: str) -> dict[str, Any]: ...
    async def signals(self, names: Sequence[str]) -> list[Block]:
        """What is known of these nodes' signals and not stored yet."""
        ...

    async def command(self, name: str, arguments: Mapping[str, Any]) -> list[Event]: ...
    async def read(self, question: Callable[..., Result], *arguments: Any) -> Result:
        """Put a question of a table's module to the database; it takes the connection first."""
        ...

    async def write(self, change: Callable[..., Result], *arguments: Any) -> Result:
        """The same for a change, in a transaction of its own."""
        ...

    async def incidents(self, limit: int) -> list[Record]:
        """The latest record of each incident, newest first."""
        ...

    async def incident(self, incident: str) -> list[Record]:
        """All stored records of one incident, oldest first."""
        ...

    async def findings(self, incidents: Sequence[str]) -> list[Record]: ...
    async def set_aside(self) -> list[tuple[SetAside, Record]]:
        """Records that a sink did not accept, oldest first."""
        ...

    async def send_again(self, chosen: Sequence[tuple[str, str]]) -> int:
        """Those, by (sink, id), wait for their sinks again; how many."""
        ...

    async def drop_aside(self, chosen: Sequence[tuple[str, str]]) -> int:
        """Those, by (sink, id), are forgotten; how many."""
        ...

    async def records_after(self, id: str, limit: int) -> list[Record]: ...


SERVICE: web.AppKey[Service] = web.AppKey("service")
