"""Delivering to one sink, in its own task and at its own pace: no sink can delay another, or detection."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import Any, Literal

from connectors.base import ConnectorError, Sink, backoff
from detector.runtime.metrics import Metrics
from detector.runtime.outbox import Outbox
from detector.storage.records import Record

log = logging.getLogger("detector.sink")
BATCH = 100  # records of one write

Status = Literal["idle", "up", "down", "failed"]


class SinkTask:
    """One sink, its outbox, and the task between them."""

    def __init__(
        self, name: str, kind: str, sink: Sink, outbox: Outbox, metrics: Metrics,
        delivered: Callable[[str, Sequence[str]], None],
    ) -> None:  # fmt: skip
        self.name, self.kind, self.sink, self.outbox = name, kind, sink, outbox
        self.status: Status = "idle"
        self.error: str | None = None
        self._metrics, self._delivered = metrics, delivered
        self._greeting: Sequence[Record] = ()
        self._rng = random.Random()
        self._task: asyncio.Task[None] | None = None
        self._single = False  # after a refusal: one by one, to find the record that is not wanted
        metrics.add_sink(name)

    def start(self, open_incidents: Sequence[Record]) -> None:
        if self.sink.wants_open_incidents:
            self._greeting = open_incidents
        self._task = asyncio.create_task(self._run(), name=f"sink {self.name}")

    def add(self, records: Sequence[Record]) -> None:
        dropped = self.outbox.add(records)
        if dropped:
            self._metrics.count("outbox_dropped_total", len(dropped), sink=self.name)
            self._delivered(self.name, [record.id for record in dropped])
            log.error(
                "sink %s: outbox is full, %d records given up", self.name, len(dropped),
                extra={"repeat": f"outbox {self.name}"},
            )  # fmt: skip
        self._metrics.set("outbox_records", len(self.outbox), sink=self.name)

    async def _run(self) -> None:
        attempt, opened = 0, False
        while True:
            if not self._greeting:
                await self.outbox.wait()
            try:
                if not opened:
                    await self.sink.open()
                    opened = True
                if self._greeting:
                    await self.sink.write([record.content() for record in self._greeting])
                    self._greeting = ()
                elif len(self.outbox):
                    await self._send()
                attempt = 0
                continue
            except ConnectorError as error:
                self._failed(str(error))
                if not error.retry and not opened:
                    self.status = "failed"
                    log.error("sink %s cannot be used: %s", self.name, error)
                    return
                if not error.retry:
                    self._refused(str(error))
                    continue
            except Exception:
                log.exception("sink %s: unexpected error", self.name, extra={"repeat": f"sink {self.name}"})
                self._failed("unexpected error, see the log")
            await asyncio.sleep(backoff(attempt, self._rng))
            attempt += 1

    async def _send(self) -> None:
        records = self.outbox.hold(1 if self._single else BATCH)
        taken = 0
        try:
            await self.sink.write([record.content() for record in records])
            taken = len(records)
        finally:
            self.outbox.release(taken)
        self._done(records, "delivered")
        self.status, self.error, self._single = "up", None, False
        self._metrics.set("sink_up", 1, sink=self.name)

    def _done(self, records: Sequence[Record], outcome: str) -> None:
        self._metrics.count("deliveries_total", len(records), sink=self.name, outcome=outcome)
        self._metrics.set("outbox_records", len(self.outbox), sink=self.name)
        self._delivered(self.name, [record.id for record in records])

    def _failed(self, error: str) -> None:
        self.status, self.error = "down", error
        self._metrics.set("sink_up", 0, sink=self.name)
        self._metrics.count("deliveries_total", sink=self.name, outcome="failed")
        log.warning("sink %s: %s", self.name, error, extra={"repeat": f"sink {self.name}"})

    def _refused(self, error: str) -> None:
        """The receiver has read something and does not want it: not now, not later."""
        if self._greeting:
            self._greeting = ()
        elif not self._single:
            self._single = True
        else:
            records = self.outbox.hold(1)
            self.outbox.release(len(records))
            self._done(records, "refused")
            self._single = False
            log.error("sink %s refused record %s: %s", self.name, [r.id for r in records], error)

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
