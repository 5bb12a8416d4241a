"""From what the pipeline has done to what the disk holds, and only then to the sources and sinks.

One commit at a time: every second, or when enough has gathered, or at once when there is something to say.
If the disk refuses, detection and sending go on, sources hear nothing, and commits are tried again; what was
gathered is kept up to the size of a journal, after which a snapshot must stand for it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from detector.events.model import Event, detector_event
from detector.incidents.case import Case
from detector.pipeline.signal_capture import Block
from detector.runtime.metrics import Metrics
from detector.runtime.routing import Routing
from detector.settings.service import StateSettings
from detector.storage.cases import Key
from detector.storage.database import StateDamaged, StateError, StateRefused, StateUnavailable
from detector.storage.journal import Entry
from detector.storage.records import Record, SetAside
from detector.storage.recovery import Damage
from detector.storage.store import Bundle, Snapshot, Store

log = logging.getLogger("detector.state")
RETRY_S = 1.0
SHOWN = 10  # damages that the status shows
JOURNAL = 2  # times the size of a snapshot that a journal may have: not all writing is for snapshots
BACKLOG = 4  # times commit_samples gathered while a commit is under way, before the pipeline waits

Result = TypeVar("Result")


class Committer:
    """Owns the store and its thread. `told` hears of records, `committed` of positions that are durable."""

    def __init__(
        self,
        store: Store,
        settings: StateSettings,
        metrics: Metrics,
        told: Callable[[Sequence[Record]], None],
        committed: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self.store, self.settings, self.metrics = store, settings, metrics
        self.positions: dict[str, Any] = {}  # of everything that the pipeline has worked on
        self.failing: str | None = None  # why the disk refuses
        self.refused: StateRefused | None = None  # somebody else has the state: nothing is written any more
        self.damages: deque[Damage] = deque(maxlen=SHOWN)  # found since the start
        self.stream_time: Callable[[], float] = time.time
        self.sinks: tuple[str, ...] = ()
        self.routing = Routing()
        self.needs_snapshot = False
        self.filed: Callable[[], None] | None = None  # hears of case files that are durable
        self.given_up: Callable[[StateRefused], None] = lambda _: None  # hears that the state is not ours
        self._latest = time.monotonic()  # snapshot, or start
        self._told, self._committed = told, committed
        self._bundle = Bundle()
        self._writing: Sequence[Block] = ()  # of the bundle on its way to the disk
        self._heard = 0  # records of the bundle that the sinks have heard of already
        self._known: set[str] = set()  # ids in the bundle
        self._due = asyncio.Event()
        self._free = asyncio.Event()
        self._free.set()
        self._busy = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="state")

    async def ask(self, question: Callable[..., Result], *arguments: Any) -> Result:
        """Use the store, in its thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, question, *arguments)

    def ask_from_thread(self, question: Callable[..., Result], *arguments: Any) -> Result:
        """The same for other threads, which wait for the answer."""
        return self._thread.submit(question, *arguments).result()

    # ---------------------------------------------------------------------------------- gathering

    async def add(
        self, entries: Sequence[Entry], events: Sequence[Event], snapshot: Snapshot | None,
        cases: Sequence[Case] = (), analyzed: Sequence[Key] = (), blocks: Sequence[Block] = (),
    ) -> list[Event]:  # fmt: skip
        """Take what one turn of the pipeline gave; the events that are new."""
        fresh = await self._fresh(events)
        bundle = self._bundle
        if bundle.snapshot is not None and entries:
            # It is no longer the state after all entries. Only happens while the disk refuses.
            bundle.snapshot, self.needs_snapshot = None, True
        for entry in entries:
            if entry.source is not None:
                self.positions[entry.source] = entry.position
        bundle.entries.extend(entries)
        bundle.records.extend(self.routing.address(Record.of(event), self.sinks) for event in fresh)
        self._known.update(event.id for event in fresh)
        bundle.cases.extend(cases)
        bundle.analyzed.extend(analyzed)
        bundle.blocks.extend(blocks)
        if snapshot is not None:
            bundle.snapshot = dataclasses.replace(snapshot, positions=dict(self.positions))
            self.needs_snapshot = False
            if bundle.gap:
                bundle.entries.clear()
        self._shed()
        if (
            fresh
            or cases
            or analyzed
            or snapshot is not None
            or bundle.samples >= self.settings.commit_samples
        ):
            self._due.set()
        behind = bundle.samples >= BACKLOG * self.settings.commit_samples
        if (behind or snapshot is not None) and self.failing is None:
            self._free.clear()  # nothing may come between a snapshot and its commit
        return fresh

    async def _fresh(self, events: Sequence[Event]) -> list[Event]:
        """Without those that were said before: after a crash a source may give samples again."""
        if not events:
            return []
        ids = [event.id for event in events if event.id not in self._known]
        try:
            unknown = await self.ask(self.store.unknown, ids)
        except StateError:
            unknown = set(ids)
        return [event for event in events if event.id in unknown]

    def _shed(self) -> None:
        """While the disk refuses, memory stays bounded: give up the journal, a snapshot will stand for it."""
        bundle = self._bundle
        if self.failing is not None:
            bundle.shed_blocks(self.settings.journal_max)
            lost = bundle.shed_cases(self.settings.journal_max)
            self.metrics.count("diagnosis_failures_total", lost, kind="", reason="dropped")
        if self.failing is not None and bundle.snapshot is None and bundle.size > self.settings.journal_max:
            bundle.entries.clear()
            bundle.gap = True

    @property
    def blocks(self) -> list[Block]:
        """Signals that are not on disk yet."""
        return [*self._writing, *self._bundle.blocks]

    @property
    def snapshot_due(self) -> bool:
        """Whether it is time for one. Not while the disk refuses, unless a snapshot is what it waits for."""
        if self.failing is not None:
            return False
        if self.needs_snapshot:
            return True
        pending = self._bundle.size
        journal = self.store.journal_size + pending
        if journal >= max(self.settings.journal_max, JOURNAL * self.store.snapshot_size):
            return True
        # By the monotonic clock: a jump of the wall clock neither floods nor stops snapshots.
        return bool(journal) and time.monotonic() - self._latest >= self.settings.snapshot_every

    def hurry(self) -> None:
        """Somebody waits for the next commit."""
        self._due.set()

    async def wait_for_disk(self) -> None:
        """Waits while a slow disk is far behind."""
        await self._free.wait()

    def delivered(self, sink: str, ids: Sequence[str]) -> None:
        """These need not be sent again after a restart; to be on disk by the next commit."""
        self._bundle.delivered.extend((sink, id) for id in ids)

    def set_aside(self, sink: str, record: Record, tries: int, error: str) -> None:
        """The sink would not take this one."""
        self._bundle.set_aside.append(SetAside(sink, record.id, time.time(), tries, error))

    # ---------------------------------------------------------------------------------- committing

    async def run(self) -> None:
        """Commit again and again, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self.settings.commit_every):
                    await self._due.wait()
            except TimeoutError:
                pass
            await self.commit()
            if self.failing is not None:
                await asyncio.sleep(RETRY_S)

    async def commit(self) -> bool:
        """Bring what has gathered to disk, then tell the world. False if the disk refused."""
        async with self._busy:
            self._due.clear()
            if self.refused is not None:
                return False
            bundle, self._bundle = self._bundle, Bundle(sinks=self.sinks)
            self._writing = bundle.blocks
            known, self._known = self._known, set()
            heard, self._heard = self._heard, 0
            bundle.sinks = self.sinks
            self._free.set()
            if bundle.gap and bundle.snapshot is None:
                # What is in memory does not connect to what is on disk: wait for the pipeline's snapshot.
                return await self._probe(bundle, known, heard)
            if bundle.empty:
                quiet = self.failing is None and self.store.in_place
                return True if quiet else await self._probe(bundle, known, heard)
            # Taken now: later batches must not be acknowledged by this commit.
            positions = {entry.source: entry.position for entry in bundle.entries if entry.source is not None}
            if bundle.snapshot is not None:
                positions = dict(bundle.snapshot.positions)
            begun = time.monotonic()
            try:
                await self.ask(self.store.commit, bundle)
            except StateError as error:
                await self._refused(error, bundle, known, heard)
                return False
            self._succeeded(bundle, time.monotonic() - begun)
            self._told(bundle.records[heard:])
            self._committed(positions)
            if bundle.cases and self.filed is not None:
                self.filed()
            return True

    async def _probe(self, bundle: Bundle, known: set[str], heard: int) -> bool:
        """Whether the disk takes anything again."""
        try:
            await self.ask(self.store.probe)
        except StateError as error:
            await self._refused(error, bundle, known, heard)
            return False
        self._put_back(bundle, known, heard)
        self._recovered()
        self.needs_snapshot = self.needs_snapshot or self._bundle.gap
        return True

    async def _refused(self, error: StateError, bundle: Bundle, known: set[str], heard: int) -> None:
        self.metrics.count("state_failures_total")
        self.metrics.set("state_up", 0)
        self._told(bundle.records[heard:])  # an alert does not wait for a disk
        self._put_back(bundle, known, len(bundle.records))
        if isinstance(error, StateDamaged):
            try:
                await self.ask(self.store.repair, error)
            except StateRefused as taken:
                self.refused, self.failing = taken, str(taken)
                self._free.set()
                self.given_up(taken)
                return
            except StateError as again:
                error = again
            else:
                self.report_damage()
                self._bundle.gap = True
                self.failing = self.failing or str(error)
                return
        self.failing = str(error)
        log.error(
            "state cannot be saved: %s; detection goes on, sources are not acknowledged", error,
            extra={"repeat": "state"},
        )  # fmt: skip
        if not isinstance(error, StateUnavailable):
            log.error("state: %s", error, extra={"repeat": "state kind"})

    def _put_back(self, bundle: Bundle, known: set[str], heard: int) -> None:
        """In front of what has gathered meanwhile."""
        newer = self._bundle
        if newer.snapshot is not None and bundle.snapshot is None and bundle.gap:
            bundle.entries.clear()
        self._bundle = Bundle(
            bundle.entries + newer.entries,
            bundle.records + newer.records,
            self.sinks,
            bundle.delivered + newer.delivered,
            bundle.set_aside + newer.set_aside,
            newer.snapshot if newer.snapshot or newer.entries else bundle.snapshot,
            bundle.cases + newer.cases,
            bundle.analyzed + newer.analyzed,
            bundle.blocks + newer.blocks,
            bundle.gap or newer.gap,
        )
        if bundle.snapshot is not None and self._bundle.snapshot is None:
            self.needs_snapshot = True  # the one that failed is overtaken by newer entries
        self._known |= known
        self._heard = heard
        self._shed()

    def _succeeded(self, bundle: Bundle, seconds: float) -> None:
        metrics, store = self.metrics, self.store
        metrics.observe("commit_duration_seconds", seconds)
        metrics.set("journal_size_bytes", store.journal_size)
        if bundle.snapshot is not None:
            self._latest = time.monotonic()
            metrics.set("snapshot_timestamp_seconds", bundle.snapshot.created)
            metrics.set("snapshot_duration_seconds", seconds)
            metrics.set("snapshot_size_bytes", store.snapshot_size)
        self._recovered()

    def _recovered(self) -> None:
        self.metrics.set("state_up", 1)
        if self.failing is not None:
            log.warning("state is saved again")
            self.failing = None

    def report_damage(self) -> None:
        """Say loudly, once, what was found damaged and what it cost: in log, metrics, status and a record."""
        for damage in self.store.damages:
            log.critical("damaged state: %s", damage.text)
            self.metrics.count("state_damages_total")
            self.metrics.count("state_lost_entries_total", damage.entries)
            if damage.until is not None:
                self.metrics.set("state_lost_until_timestamp_seconds", damage.until)
            event = detector_event(
                "detector.warning", self.stream_time(), f"damaged state: {damage.text}", damage.details(),
                "critical",
            )  # fmt: skip
            self._bundle.records.append(Record.of(event))
            self._known.add(event.id)
            self.metrics.count("events_total", event=event.event)
            self.damages.append(damage)
            self._due.set()
        self.store.damages.clear()

    def close(self) -> None:
        self._thread.submit(self.store.close)
        self._thread.shutdown(wait=True)
