"""Delivering to one sink, in its own task and at its own pace: no sink can delay another, or detection.

Records go in batches. After a failure they go one by one, as many as there were in the batch: so it shows
which of them the receiver does not want.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

from connectors.base import BACKOFF_FIRST_S, ConnectorError, Sink, backoff
from detector.runtime.delivery.outbox import Outbox
from detector.runtime.delivery.retries import Retries
from detector.runtime.metrics import Metrics
from detector.storage.records import Record

log = logging.getLogger("detector.sink")
BATCH = 100  # records of one write
PAUSES = 4  # one after the other, after which the record that goes next may be the reason

Status = Literal["idle", "up", "paused", "down", "failed"]
Delivered = Callable[[str, Sequence[str]], None]  # sink, ids: need not be sent again
SetAside = Callable[[str, Record, int, str], None]  # sink, record, its tries, the last error


class SinkTask:
    """One sink, its outbox, and the task between them."""

    def __init__(
        self, name: str, kind: str, sink: Sink, outbox: Outbox, metrics: Metrics, tries: int
    ) -> None:
        self.name, self.kind, self.sink, self.outbox = name, kind, sink, outbox
        self.tries = tries
        self.status: Status = "idle"
        self.error: str | None = None
        self.delivered: Delivered = lambda sink, ids: None
        self.set_aside: SetAside = lambda sink, record, tries, error: None
        self.written: Callable[[], None] = lambda: None  # hears of the end of a write
        self._metrics = metrics
        self._retries = Retries()
        self._opened = False
        self._alone = 0  # so many records go one by one
        self._behind: Record | None = None  # the one behind this goes next
        self._failures = 0  # one after the other, without a record that was taken
        self._pauses = 0  # the same, for which the receiver asked
        self._rng = random.Random()
        self._task: asyncio.Task[None] | None = None
        metrics.add_sink(name)

    def start(self, open_incidents: Sequence[Record]) -> None:
        if self.sink.wants_open_incidents:
            self.add(open_incidents)
        self._task = asyncio.create_task(self._run(), name=f"sink {self.name}")

    def add(self, records: Sequence[Record]) -> None:
        dropped = self.outbox.add(records)
        if dropped:
            for record in dropped:
                self._retries.forget(record)
            self._metrics.count("outbox_dropped_total", len(dropped), sink=self.name)
            self.delivered(self.name, [record.id for record in dropped])
            log.error(
                "sink %s: outbox is full, %d records given up", self.name, len(dropped),
                extra={"repeat": f"outbox {self.name}"},
            )  # fmt: skip
        self._metrics.set("outbox_records", len(self.outbox), sink=self.name)

    # ---------------------------------------------------------------------------------- sending

    async def _run(self) -> None:
        while self.status != "failed":
            records = await self._choose()
            try:
                if not self._opened:
                    await self.sink.open()
                    self._opened = True
                await self._write(records)
                self._failures = 0
                continue
            except ConnectorError as error:
                pause = self._failed(records, error)
            except Exception:
                log.exception("sink %s: unexpected error", self.name, extra={"repeat": f"sink {self.name}"})
                pause = self._failed(records, ConnectorError("unexpected error, see the log", retry=True))
            finally:
                self.outbox.release()
            await asyncio.sleep(pause)

    async def _choose(self) -> list[Record]:
        """What goes next: first what does not rest, then what has rested longest."""
        behind, self._behind = self._behind, None
        if behind is not None and (records := self.outbox.hold_behind(behind)):
            return records
        while True:
            self.outbox.wait_for_more()
            now = time.monotonic()
            resting = self._retries.resting(now)
            records = self.outbox.hold(1 if self._alone else BATCH, resting)
            if records:
                return records
            rested = self._retries.next()
            if rested is not None and rested[1] <= now:
                return self.outbox.hold(1, resting - {rested[0]})
            try:
                async with asyncio.timeout(None if rested is None else rested[1] - now):
                    await self.outbox.filled()
            except TimeoutError:
                continue

    async def _write(self, records: Sequence[Record]) -> None:
        try:
            await self.sink.write([record.content() for record in records], self._accepted)
            for record in records:
                self._accepted(record.id)
        finally:
            self.written()

    def _accepted(self, id: str) -> None:
        record = self.outbox.take(id)
        if record is None:
            return
        suspect = self._retries.trial(record)
        self._retries.took(record)
        self._alone = max(0, self._alone - 1)
        self._failures = self._pauses = 0
        self.status, self.error = "up", None
        self._metrics.set("sink_up", 1, sink=self.name)
        self._settled("delivered")
        self.delivered(self.name, [id])
        if suspect is not None and suspect.record.id != id:
            self._give_up(suspect.record, suspect.failures, suspect.error)

    def _settled(self, outcome: str) -> None:
        self._metrics.count("deliveries_total", sink=self.name, outcome=outcome)
        self._metrics.set("outbox_records", len(self.outbox), sink=self.name)

    # ---------------------------------------------------------------------------------- failures

    def _failed(self, records: Sequence[Record], error: ConnectorError) -> float:
        """Seconds to wait after it."""
        self.error = str(error)
        if error.after is not None:
            return self._paused(records, error, max(BACKOFF_FIRST_S, error.after))
        self.status = "down"
        self._metrics.set("sink_up", 0, sink=self.name)
        self._metrics.count("deliveries_total", sink=self.name, outcome="failed")
        if not error.retry and not self._opened:
            self.status = "failed"
            log.error("sink %s cannot be used: %s", self.name, error)
            return 0.0
        log.warning("sink %s: %s", self.name, error, extra={"repeat": f"sink {self.name}"})
        if self._opened:
            self._blame(records, error)
        if not error.retry:  # it has read something and does not want it: not now, not later
            return 0.0
        self._failures += 1
        return 0.0 if self._behind is not None else backoff(self._failures - 1, self._rng)

    def _paused(self, records: Sequence[Record], error: ConnectorError, pause: float) -> float:
        """Reaching a limit is no record's fault, unless it is the same record that reaches it every time."""
        self.status, self.error = "paused", f"{error}; paused for {pause:g} s, as it asks"
        self._metrics.count("deliveries_total", sink=self.name, outcome="paused")
        log.info("sink %s: %s", self.name, self.error, extra={"repeat": f"pause {self.name}"})
        self._pauses += 1
        if self._pauses >= PAUSES or any(self._retries.trial(record) for record in records):
            self._blame(records, error)
        return pause

    def _blame(self, records: Sequence[Record], error: ConnectorError) -> None:
        """Find out which record it is that is not taken."""
        if len(records) == 1:
            record = records[0]
            trial = self._retries.failed(record, str(error), time.monotonic())
            if not error.retry:
                self._give_up(record, trial.failures if trial.record is record else 1, str(error))
            elif trial.tries >= self.tries:
                self._give_up(record, trial.failures, trial.error)
            elif trial.record is record and trial.failures >= self.tries:
                self._behind = record
        elif records:
            self._alone = len([record for record in records if record.id in self.outbox])

    def _give_up(self, record: Record, tries: int, error: str) -> None:
        self.outbox.take(record.id)
        self._retries.forget(record)
        self._alone = max(0, self._alone - 1)
        self._settled("set_aside")
        self.set_aside(self.name, record, tries, error)
        log.error(
            "sink %s: record %s is set aside after %d tries: %s; see `detector outbox list`",
            self.name, record.id, tries, error,
        )  # fmt: skip

    # ---------------------------------------------------------------------------------- end

    async def finish(self, timeout: float) -> bool:
        """Give the sink so long to take what is left; False if something stays for the next start."""
        try:
            async with asyncio.timeout(timeout):
                while len(self.outbox) and self.status != "failed":
                    await asyncio.sleep(0.02)
        except TimeoutError:
            return False
        return not len(self.outbox)

    async def close(self, timeout: float = 2.0) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=timeout)
        try:
            async with asyncio.timeout(timeout):
                await self.sink.close()
        except TimeoutError:
            log.warning("sink %s did not close in time", self.name)
        except Exception:
            log.exception("sink %s: error while closing", self.name)

    def describe(self) -> dict[str, Any]:
        """For pages, JSON-ready."""
        return {
            "type": self.kind, "status": self.status, "error": self.error, "waiting": len(self.outbox),
            "waiting_bytes": self.outbox.bytes,
        }  # fmt: skip
