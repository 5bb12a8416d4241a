"""The long-running service: sources, sinks, pipeline, state and listener, from start to stop.

    source ─> Reader ─> Intake ─> Queue ─> Worker (one thread: the pipeline) ─> Recorder (one thread: SQLite)
                ^ acknowledge                                             │ after the commit
                └─────────────────────────────────────────────────────────┤
    sink <─ Delivery <─ Outbox <──────────────────────────────────────────┘

Everything but the two threads runs on one event loop, and every arrow is bounded.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from detector.alignment.clock_reset import ClockPace
from detector.config.config import Config
from detector.daemon import startup
from detector.daemon.boundary_exchange import BoundaryExchange
from detector.daemon.budget import ChosenBudget
from detector.daemon.lifecycle import Pulse, Signals
from detector.daemon.reload import reload
from detector.daemon.shutdown import stop
from detector.daemon.startup import (
    EXIT_CONFIG,
    EXIT_FAILED,
    EXIT_IO,
    EXIT_OK,
    EXIT_UNAVAILABLE,
    Fatal,
)
from detector.daemon.status import Status
from detector.diagnosis.service import DiagnosisService
from detector.engines.base import EngineUnavailable
from detector.events.model import Event
from detector.http.server import HttpServer
from detector.notify import silences
from detector.notify.routing import Routing, stream_time, wanted
from detector.notify.silences import Silence
from detector.runtime import logs, memory
from detector.runtime.backups import Backups
from detector.runtime.committer import Committer
from detector.runtime.delivery.outbox import Outbox
from detector.runtime.delivery.sink_task import SinkTask
from detector.runtime.ingest_queue import Arrival, Command, IngestQueue
from detector.runtime.intake import Intake
from detector.runtime.metrics import Metrics
from detector.runtime.pipeline_thread import COMMANDS, Interrupted, Outcome, PipelineThread
from detector.runtime.sd_notify import Notifier
from detector.runtime.source_task import SourceTask
from detector.storage import records
from detector.storage.cases import Key
from detector.storage.console.overrides import read_budget
from detector.storage.database import StateError, StateRefused
from detector.storage.records import Record

log = logging.getLogger("detector")
TURN_SAMPLES = 20_000  # of one turn of the pipeline


class Daemon:
    """One run of the service."""

    def __init__(self, config: Config, *, once: bool = False, dry_run: bool = False) -> None:
        self.config, self.once, self.dry_run = config, once, dry_run
        self.started = time.time()
        self.metrics = Metrics()
        self.notifier = Notifier()
        self.ingest_queue = IngestQueue()
        self.signals = Signals(self._reload_soon)
        self.readers: dict[str, SourceTask] = {}
        self.deliveries: dict[str, SinkTask] = {}
        self.listeners: list[Callable[[Sequence[Record]], None]] = []  # hear every record: the event stream
        self.ready = False
        self.reload_error: str | None = None
        self.failure: Fatal | None = None
        self.unsaved = False  # the last commit failed
        self.worker: PipelineThread
        self.intake: Intake
        self.recorder: Committer
        self.budget: ChosenBudget
        self.backups: Backups
        self.diagnosis: DiagnosisService
        self.status: Status
        self.pulse: Pulse
        self.http: HttpServer | None = None
        self.tasks: set[asyncio.Task[None]] = set()  # that have not ended
        self._reloading: asyncio.Task[None] | None = None
        self._reload_wanted = False
        self._exchange_task: asyncio.Task[None] | None = None
        self.boundary: BoundaryExchange | None = None  # with boxes that watch other parts of the network
        self.work_task: asyncio.Task[None] | None = None
        self.diagnosis_task: asyncio.Task[None] | None = None

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
        startup.warn(self.config)
        plan = await asyncio.to_thread(startup.plan, self.config)
        store = await startup.open_store(self.config)
        self.recorder = Committer(store, self.config.state, self.metrics, self._told, self._committed)
        self.budget = ChosenBudget(self, await self.recorder.ask(store.read, read_budget))
        await self.budget.adopt(self.config)
        if (config := self.budget.of(self.config)) is not self.config:
            self.config, plan = config, dataclasses.replace(plan, settings=config.settings())
        self.recorder.given_up = self._given_up
        self.recorder.stream_time = self._stream_time
        self.recorder.routing = Routing(
            self.config.notify,
            await self.recorder.ask(store.read, silences.read),
            await self.recorder.ask(store.read, records.told),
        )
        self.backups = Backups(self.recorder, self.metrics)
        self.worker = PipelineThread(plan)
        self.status = Status(self)
        self.diagnosis = DiagnosisService(self.recorder, self.metrics, self.config.diagnosis, self._analyzed)
        self.recorder.filed = self.diagnosis.wake
        self.connect_peers()
        self.intake = Intake(self.ingest_queue, plan.settings.align, self.worker.newest)
        self.pulse = Pulse(self.notifier, self.worker, self.status.line)
        self._spawn(self.pulse.run(), "pulse")
        await startup.restore(self, store)
        self.boundary = startup.boundary_exchange(self)
        await startup.open_outboxes(self)
        await startup.open_listener(self)
        if self.boundary is not None:
            self._spawn(self.boundary.run(), "boundary exchange")
        self._spawn(self.recorder.run(), "recorder")
        self.work_task = self._spawn(self._work(), "work")
        self._spawn(self.intake.run(), "intake")
        self._spawn(self._housekeeping(), "housekeeping")
        self._spawn(self.backups.run(), "backups")
        self.diagnosis_task = self._spawn(self.diagnosis.run(), "diagnosis")
        greeting = await startup.greeting(self, {name: one.sink for name, one in self.deliveries.items()})
        for name, delivery in self.deliveries.items():
            delivery.start(wanted(greeting, name))
        for name, source in self.config.source_objects().items():
            self.add_reader(name, source)
        for reader in self.readers.values():
            reader.start()
        memory.settle_collector()
        self.ready = True
        self.metrics.set("config_last_reload_timestamp_seconds", time.time())
        self.notifier.ready()
        log.info("ready: %s", self.status.line())

    def add_reader(self, name: str, source: Any) -> SourceTask:
        kind = str(self.config.sources[name].type)  # type: ignore[attr-defined]
        source.expect(self.worker.plan.expected)
        stored = self.recorder.positions.get(name)
        reader = SourceTask(
            name, kind, source, stored, self.intake, self.metrics, self.once, self._source_ended
        )
        self.readers[name] = reader
        return reader

    def add_delivery(self, name: str, sink: Any) -> SinkTask:
        kind = str(self.config.sinks[name].type)  # type: ignore[attr-defined]
        settings = self.config.state
        outbox = Outbox(settings.outbox_records, settings.outbox_size, settings.outbox_full)
        delivery = SinkTask(name, kind, sink, outbox, self.metrics, settings.outbox_tries)
        delivery.delivered, delivery.set_aside = self.recorder.delivered, self.recorder.set_aside
        delivery.written = self.recorder.hurry
        self.deliveries[name] = delivery
        self.recorder.sinks = tuple(self.deliveries)
        return delivery

    def connect_peers(self) -> None:
        """Begin the exchange with other daemons, as the configuration has it now; end an earlier one."""
        if self._exchange_task is not None:
            self._exchange_task.cancel()
            self._exchange_task = None
        connectors = None if self.dry_run else self.config.exchange_connectors()
        settings = self.config.exchange
        exchange = None
        if connectors is not None and settings is not None:
            from detector.diagnosis.exchange.peers import (
                PeerExchange,  # with all of its numerics: only if wanted
            )

            exchange = PeerExchange(settings, *connectors, self.metrics)
            self._exchange_task = self._spawn(exchange.run(), "exchange")
        self.diagnosis.connect(exchange)

    def _spawn(self, work: Any, name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        self.tasks.add(task)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """None of the inner tasks ends by itself: if one does, the process cannot go on."""
        self.tasks.discard(task)
        if task.cancelled() or task.exception() is None:
            return
        error = task.exception()
        if isinstance(error, EngineUnavailable):  # told in one sentence; what it lacks is not in this program
            self.failure = self.failure or Fatal(str(error), EXIT_IO)
        else:
            log.error("%s failed", task.get_name(), exc_info=error)
            self.failure = self.failure or Fatal(f"{task.get_name()} failed: {error}", EXIT_FAILED)
        self.signals.stop.set()

    # ---------------------------------------------------------------------------------- work

    def _source_ended(self) -> None:
        if self.once and all(reader.status in ("ended", "failed") for reader in self.readers.values()):
            self._spawn(self._finish(), "finish")

    async def _finish(self) -> None:
        """With --once: all of it through the pipeline, then stop."""
        await self.intake.drained(self.readers)
        await self.ingest_queue.order("flush", {})
        self.signals.stop.set()

    async def _work(self) -> None:
        """One turn after the other: batches or an order through the pipeline, then to the recorder."""
        while True:
            item = await self.ingest_queue.take(TURN_SAMPLES)
            await self.recorder.wait_for_disk()
            if not isinstance(item, Command):
                await self._digest(item)
                if self.worker.interrupted:
                    return
            elif item.name != "stop":
                await self._obey(item)
            else:
                return

    async def _digest(self, arrivals: list[Arrival]) -> None:
        heard = self.boundary.take() if self.boundary is not None else []
        outcome = await self.worker.run(self.worker.work, arrivals, heard)
        now = time.monotonic()
        self.metrics.observe("update_duration_seconds", outcome.seconds)
        for arrival in arrivals[: outcome.done]:
            self.metrics.observe("latency_seconds", now - arrival.arrived)
        for (name, reason), some in outcome.discarded.items():
            if name in self.readers:
                self.readers[name].usefulness.discarded(reason, some.count, some.text)
        if self.boundary is not None:
            self.boundary.after(outcome.heard, outcome.told)
        await self._take_over(outcome)
        self.ingest_queue.finished(arrivals)
        names = {name for arrival in arrivals for name in arrival.positions if name in self.readers}
        if any(self.readers[name].source.urgent for name in names):
            self.recorder.hurry()
        if any(event.event == "detector.calibrated" for event in outcome.events):
            await self.snapshot()  # what took long to learn is not to be learnt twice
            self.backups.soon()

    async def _take_over(self, outcome: Outcome) -> None:
        fresh = await self.recorder.add(
            outcome.entries, outcome.events, None, outcome.cases, blocks=outcome.blocks
        )
        for event in fresh:
            self.status.event(event)

    async def _analyzed(self, events: Sequence[Event], key: Key) -> None:
        for event in await self.recorder.add([], events, None, analyzed=[key]):
            self.status.event(event)

    async def _obey(self, order: Command) -> None:
        try:
            if order.name in COMMANDS:
                outcome = await self.worker.run(self.worker.command, order.name, order.arguments)
                await self._take_over(outcome)
                result: Any = outcome.events
            elif order.name == "flush":
                await self._take_over(await self.worker.run(self.worker.flush))
                result = None
            elif order.name == "set_back":
                outcome = await self.worker.run(self.worker.set_back, order.arguments["to"])
                if outcome.entries:
                    self.intake.merge.set_back(order.arguments["to"])
                await self._take_over(outcome)
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
        await self.recorder.wait_for_disk()
        outcome = await self.worker.run(self.worker.snapshot)
        await self.recorder.add(outcome.entries, [], outcome.snapshot)

    async def _housekeeping(self) -> None:
        """Snapshots when they are due, fresh gauges, free memory given back, a clock that was set back."""
        ordered: asyncio.Future[Any] | None = None
        pace = ClockPace()
        tidied = time.monotonic()
        while True:
            await asyncio.sleep(0.5)
            self.status.refresh()
            if time.monotonic() - tidied >= memory.TIDY_S:
                await asyncio.to_thread(memory.tidy)
                tidied = time.monotonic()
            for reader in self.readers.values():
                reader.usefulness.look(time.monotonic())
            await self._release()
            if self.recorder.snapshot_due and (ordered is None or ordered.done()):
                ordered = self.ingest_queue.order("snapshot", {})
            late = pace.look(self.worker.view.behind, self.worker.plan.settings.align, time.monotonic())
            if late is not None and late.set_back_to is not None:
                self.ingest_queue.order("set_back", {"to": late.set_back_to})
            elif late is not None:
                log.warning(
                    "all samples are late: in %.0f s their time went on by %.0f s, so it is not a clock that "
                    "was set back", late.passed, late.went_on, extra={"repeat": "late"},
                )  # fmt: skip

    async def _release(self) -> None:
        """Tell of incidents that are still open when their silence has ended."""
        routing = self.recorder.routing
        for record in routing.released(stream_time(self.worker.view.watermark, time.time())):
            addressed = routing.address(record._replace(time=self._stream_time()), self.recorder.sinks)
            record = record._replace(to=addressed.to)
            try:
                await self.recorder.ask(self.recorder.store.write, records.address, record)
            except StateError as error:
                log.warning("state: %s", error, extra={"repeat": "release"})
            for name, delivery in self.deliveries.items():
                delivery.add(wanted([record], name))

    async def put_silence(self, silence: Silence) -> None:
        await self.recorder.ask(self.recorder.store.write, silences.put, silence)
        self.recorder.routing.silences[silence.id] = silence

    async def command(self, name: str, arguments: Mapping[str, Any]) -> list[Event]:
        """An operator's command, in its turn; what it led to, once that is on disk or refused by it."""
        events: list[Event] = await self.ingest_queue.order(name, arguments)
        await self.recorder.commit()
        if name == "label":
            self.diagnosis.labelled()
        return events

    async def send_again(self, chosen: Sequence[tuple[str, str]]) -> int:
        """Records that were set aside, by (sink, id), wait for their sinks again; how many."""
        count = 0
        for name, delivery in self.deliveries.items():
            own = [(sink, id) for sink, id in chosen if sink == name]
            records = await self.recorder.ask(self.recorder.store.send_again, own)
            delivery.add(records)
            count += len(records)
        return count

    def _told(self, told: Sequence[Record]) -> None:
        if not told:
            return
        for name, delivery in self.deliveries.items():
            delivery.add(wanted(told, name))
        for listener in self.listeners:
            listener(told)

    def _committed(self, positions: Mapping[str, Any]) -> None:
        for name, position in positions.items():
            if name in self.readers:
                self.readers[name].acknowledge(position)

    def _given_up(self, reason: StateRefused) -> None:
        """Somebody else has our state: two daemons on one state must not both run."""
        self.failure = self.failure or Fatal(str(reason), EXIT_CONFIG)
        self.signals.stop.set()

    def _stream_time(self) -> float:
        """The time of the stream, for records about ourselves; before there is one, that of the clock."""
        view = getattr(self.worker, "view", None)
        return time.time() if view is None or view.watermark is None else view.watermark

    def _reload_soon(self) -> None:
        """A signal during a reload means that the file has changed once more: another reload follows."""
        self._reload_wanted = True
        if self._reloading is None or self._reloading.done():
            self._reloading = self._spawn(self._reload(), "reload")

    async def reloaded(self) -> None:
        """Wait for the end of a reload that is under way."""
        while self._reloading is not None and not self._reloading.done():
            await asyncio.wait([self._reloading])

    async def _reload(self) -> None:
        while self._reload_wanted:
            self._reload_wanted = False
            await reload(self)
            await asyncio.to_thread(memory.settle_collector)

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
