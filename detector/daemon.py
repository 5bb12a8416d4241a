"""The long-running service: doors, pipeline, state and listener, from start to stop.

    source ─> Reader ─> Intake ─> Worker (one thread: the pipeline) ─> Recorder (one thread: SQLite)
                ^ acknowledge                                             │ after the commit
                └─────────────────────────────────────────────────────────┤
    sink <─ Delivery <─ Outbox <──────────────────────────────────────────┘

Everything but the two threads runs on one event loop, and every arrow is bounded.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from detector import logs, memory, startup
from detector.aftermath.desk import Desk
from detector.aftermath.tables import Key
from detector.config import Config
from detector.delivery import Delivery
from detector.events import Event
from detector.gauges import Gauges
from detector.http_server import HttpServer
from detector.intake import Arrival, Intake, Order
from detector.lifecycle import Pulse, Signals
from detector.metrics import Metrics
from detector.notify import Notifier
from detector.outbox import Outbox
from detector.pace import Pace
from detector.reading import Reader
from detector.recorder import Recorder
from detector.records import Record
from detector.reload import reload
from detector.shutdown import stop
from detector.startup import EXIT_FAILED, EXIT_IO, EXIT_OK, EXIT_UNAVAILABLE, Fatal
from detector.worker import COMMANDS, Interrupted, Outcome, Worker

log = logging.getLogger("detector")
TURN_SAMPLES = 20_000  # of one turn of the pipeline


class Daemon:
    """One run of the service."""

    def __init__(self, config: Config, *, once: bool = False, dry_run: bool = False) -> None:
        self.config, self.once, self.dry_run = config, once, dry_run
        self.started = time.time()
        self.metrics = Metrics()
        self.notifier = Notifier()
        self.intake = Intake()
        self.signals = Signals(self._reload_soon)
        self.readers: dict[str, Reader] = {}
        self.deliveries: dict[str, Delivery] = {}
        self.listeners: list[Callable[[Sequence[Record]], None]] = []  # hear every record: the event stream
        self.ready = False
        self.reload_error: str | None = None
        self.failure: Fatal | None = None
        self.unsaved = False  # the last commit failed
        self.worker: Worker
        self.recorder: Recorder
        self.desk: Desk
        self.gauges: Gauges
        self.pulse: Pulse
        self.http: HttpServer | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self._reloading: asyncio.Task[None] | None = None
        self._meeting: asyncio.Task[None] | None = None
        self.work_task: asyncio.Task[None] | None = None
        self.desk_task: asyncio.Task[None] | None = None

    # ---------------------------------------------------------------------------------- start

    async def run(self) -> int:
        """Until a signal, the end of the input with --once, or a failure; the exit code."""
        logs.hide(logs.secrets_of(self.config))
        self.signals.install()
        try:
            await self._start()
            await self.signals.stop.wait()
        except Fatal as fatal:
            self.failure = fatal
        except Interrupted as interrupted:
            log.info("stopped during %s", interrupted)
        if self.failure is not None:
            log.critical("%s", self.failure)
            self.notifier.status(f"failed: {self.failure}")
        try:
            await stop(self)
        finally:
            self.signals.remove()
            self.notifier.close()
        return self.failure.code if self.failure is not None else self._exit_code()

    async def _start(self) -> None:
        self.notifier.status("loading state")
        plan = await asyncio.to_thread(startup.plan, self.config)
        store = await startup.open_store(self.config)
        self.recorder = Recorder(store, self.config.state, self.metrics, self._told, self._committed)
        self.recorder.report_damage()
        self.worker = Worker(plan)
        self.gauges = Gauges(self)
        self.desk = Desk(self.recorder, self.metrics, self.config.aftermath, self._examined)
        self.recorder.filed = self.desk.wake
        self.meet_others()
        self.pulse = Pulse(self.notifier, self.worker, self.gauges.line)
        self._spawn(self.pulse.run(), "pulse")
        await startup.restore(self, store)
        await startup.open_outboxes(self)
        await startup.open_listener(self)
        self._spawn(self.recorder.run(), "recorder")
        self.work_task = self._spawn(self._work(), "work")
        self._spawn(self._housekeeping(), "housekeeping")
        self.desk_task = self._spawn(self.desk.run(), "aftermath")
        greeting = await startup.greeting(self)
        for delivery in self.deliveries.values():
            delivery.start(greeting)
        for name, source in self.config.source_objects().items():
            self.add_reader(name, source)
        for reader in self.readers.values():
            reader.start()
        memory.settle_collector()
        self.ready = True
        self.metrics.set("config_last_reload_timestamp_seconds", time.time())
        self.notifier.ready()
        log.info("ready: %s", self.gauges.line())

    def add_reader(self, name: str, source: Any) -> Reader:
        kind = str(self.config.sources[name].type)  # type: ignore[attr-defined]
        stored = self.recorder.positions.get(name)
        reader = Reader(name, kind, source, stored, self.intake, self.metrics, self.once, self._source_ended)
        self.readers[name] = reader
        return reader

    def add_delivery(self, name: str, sink: Any) -> Delivery:
        kind = str(self.config.sinks[name].type)  # type: ignore[attr-defined]
        settings = self.config.state
        outbox = Outbox(settings.outbox_records, settings.outbox_size, settings.outbox_full)
        delivery = Delivery(name, kind, sink, outbox, self.metrics, self.recorder.delivered)
        self.deliveries[name] = delivery
        self.recorder.sinks = tuple(self.deliveries)
        return delivery

    def meet_others(self) -> None:
        """Begin the exchange with other daemons, as the configuration has it now; end an earlier one."""
        if self._meeting is not None:
            self._meeting.cancel()
            self.tasks.remove(self._meeting)
            self._meeting = None
        doors = None if self.dry_run else self.config.exchange_doors()
        settings = self.config.aftermath.regime.exchange
        exchange = None
        if doors is not None and settings is not None:
            from detector.aftermath.exchange import Exchange  # with all of its numerics: only if wanted

            exchange = Exchange(settings, *doors, self.metrics)
            self._meeting = self._spawn(exchange.run(), "exchange")
        self.desk.meet(exchange)

    def _spawn(self, work: Any, name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        self.tasks.append(task)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """None of the inner tasks ends by itself: if one does, the process cannot go on."""
        if task.cancelled() or task.exception() is None:
            return
        error = task.exception()
        log.error("%s failed", task.get_name(), exc_info=error)
        self.failure = self.failure or Fatal(f"{task.get_name()} failed: {error}", EXIT_FAILED)
        self.signals.stop.set()

    # ---------------------------------------------------------------------------------- work

    def _source_ended(self) -> None:
        if self.once and all(reader.status in ("ended", "failed") for reader in self.readers.values()):
            self.intake.order("flush", {}).add_done_callback(lambda _: self.signals.stop.set())

    async def _work(self) -> None:
        """One turn after the other: batches or an order through the pipeline, then to the recorder."""
        while True:
            item = await self.intake.take(TURN_SAMPLES)
            await self.recorder.room()
            if not isinstance(item, Order):
                await self._digest(item)
                if self.worker.interrupted:
                    return
            elif item.name != "stop":
                await self._obey(item)
            else:
                return

    async def _digest(self, arrivals: list[Arrival]) -> None:
        outcome = await self.worker.run(self.worker.work, arrivals)
        now = time.monotonic()
        self.metrics.observe("update_duration_seconds", outcome.seconds)
        for arrival in arrivals[: outcome.done]:
            self.metrics.observe("latency_seconds", now - arrival.arrived)
        await self._take_over(outcome)
        self.intake.finished(arrivals)
        if any(self.readers[one.source].source.urgent for one in arrivals if one.source in self.readers):
            self.recorder.hurry()
        if any(event.event == "detector.calibrated" for event in outcome.events):
            await self.snapshot()  # what took long to learn is not to be learnt twice

    async def _take_over(self, outcome: Outcome) -> None:
        for event in await self.recorder.add(outcome.entries, outcome.events, None, outcome.cases):
            self.gauges.event(event)

    async def _examined(self, events: Sequence[Event], key: Key) -> None:
        for event in await self.recorder.add([], events, None, examined=[key]):
            self.gauges.event(event)

    async def _obey(self, order: Order) -> None:
        try:
            if order.name in COMMANDS:
                outcome = await self.worker.run(self.worker.command, order.name, order.arguments)
                await self._take_over(outcome)
                result: Any = outcome.events
            elif order.name == "flush":
                await self._take_over(await self.worker.run(self.worker.flush))
                result = None
            elif order.name == "set_back":
                await self._take_over(await self.worker.run(self.worker.set_back, order.arguments["to"]))
                result = None
            elif order.name == "rebuild":
                await self.worker.run(self.worker.rebuild, order.arguments["plan"])
                await self.snapshot()
                result = None
            elif order.name == "snapshot":
                await self.snapshot()
                result = None
            else:  # "pass": somebody waits for its turn only
                result = None
        except Exception as error:
            if not order.done.done():
                order.done.set_exception(error)
            if not isinstance(error, ValueError):
                raise
            return
        if not order.done.done():
            order.done.set_result(result)

    async def snapshot(self) -> None:
        await self.recorder.room()
        outcome = await self.worker.run(self.worker.snapshot)
        await self.recorder.add(outcome.entries, [], outcome.snapshot)

    async def _housekeeping(self) -> None:
        """Orders snapshots when they are due; keeps the gauges fresh; follows a clock that was set back."""
        ordered: asyncio.Future[Any] | None = None
        pace = Pace()
        while True:
            await asyncio.sleep(0.5)
            self.gauges.refresh()
            if self.recorder.snapshot_due and (ordered is None or ordered.done()):
                ordered = self.intake.order("snapshot", {})
            back = pace.look(self.worker.picture.behind, self.worker.plan.settings.align)
            if back is not None:
                self.intake.order("set_back", {"to": back})

    async def command(self, name: str, arguments: Mapping[str, Any]) -> list[Event]:
        """An operator's command, in its turn; what it led to, once that is on disk or refused by it."""
        events: list[Event] = await self.intake.order(name, arguments)
        await self.recorder.commit()
        if name == "label":
            self.desk.labelled()
        return events

    def _told(self, records: Sequence[Record]) -> None:
        if not records:
            return
        for delivery in self.deliveries.values():
            delivery.add(records)
        for listener in self.listeners:
            listener(records)

    def _committed(self, positions: Mapping[str, Any]) -> None:
        for name, position in positions.items():
            if name in self.readers:
                self.readers[name].acknowledge(position)

    def _reload_soon(self) -> None:
        if self._reloading is None or self._reloading.done():
            self._reloading = self._spawn(reload(self), "reload")

    def _exit_code(self) -> int:
        if self.unsaved:
            return EXIT_IO
        failed = [reader.name for reader in self.readers.values() if reader.status == "failed"]
        if self.once and failed:
            log.error("could not read: %s", ", ".join(failed))
            return EXIT_UNAVAILABLE
        return EXIT_OK


async def serve(config: Config, *, once: bool = False, dry_run: bool = False) -> int:
    """Run the service until it is told to stop; the exit code of the process."""
    return await Daemon(config, once=once, dry_run=dry_run).run()
