"""Reading one source: connect, read, hand over, connect again; acknowledge what is durable."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Collection
from typing import Any, Literal

from connectors.base import Batch, ConnectorError, Source, backoff, join_position
from detector.runtime.intake import Intake
from detector.runtime.metrics import Metrics
from detector.runtime.usefulness import Usefulness

log = logging.getLogger("detector.source")
ACKNOWLEDGE_S = 5.0
IDLE_S = 3.0  # with --once, a source without end counts as drained after so long without data

Status = Literal["connecting", "up", "down", "ended", "failed"]


class SourceTask:
    """One source and its two tasks. `position` is that of the last batch read."""

    def __init__(
        self, name: str, kind: str, source: Source, stored: Any, intake: Intake, metrics: Metrics,
        once: bool = False, ended: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.name, self.kind, self.source = name, kind, source
        self.status: Status = "connecting"
        self.error: str | None = None
        self.last_batch: float | None = None  # unix time
        self.position = self._position(stored)
        self._intake, self._metrics, self._ended = intake, metrics, ended
        self._partitions: tuple[str, ...] = ("",)
        self._paused: Collection[str] = ()
        # Some sources have no end of their own; with --once silence is taken for it.
        self._idle = IDLE_S if once and source.replayable and not source.ends else None
        self._rng = random.Random()
        self._pending: Any = None  # the newest position to acknowledge
        self._understood = self._refused = 0  # samples, and refused ones of batches without any
        self._withheld = 0  # messages after the position that was handed on last
        self._owed = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()
        self._tasks: list[asyncio.Task[None]] = []
        metrics.add_source(name)
        self.usefulness = Usefulness(name, metrics, time.monotonic())
        skip = stored.get("skip", {}) if self.position is not None else {}
        intake.register(name, kind, source.replayable, self.position, skip)

    def _position(self, stored: Any) -> Any:
        """A position is only good for the type of source that gave it."""
        if not isinstance(stored, dict) or stored.get("type") != self.kind:
            return None
        return stored.get("position")

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._run(), name=f"source {self.name}"),
            asyncio.create_task(self._acknowledging(), name=f"acknowledge {self.name}"),
        ]

    async def _run(self) -> None:
        attempt = 0
        while True:
            try:
                await self.source.open(self.position)
                self._up()
                self._tell_partitions()
                if self.source.partitions:
                    self._intake.connected(self.name)
                while True:
                    self._pause(await self._intake.room(self.name))
                    batch = await self._read()
                    self._tell_partitions()
                    if batch is None:
                        self._end()
                        return
                    attempt = 0
                    await self._hand_over(batch)
            except ConnectorError as error:
                self._down(str(error))
                if not error.retry:
                    self.status = "failed"
                    self._intake.end(self.name)
                    self._ended()
                    return
            except Exception:
                log.exception(
                    "source %s: unexpected error", self.name, extra={"repeat": f"source {self.name}"}
                )
                self._down("unexpected error, see the log")
            await self._close_quietly()
            await asyncio.sleep(backoff(attempt, self._rng))
            attempt += 1

    async def _read(self) -> Batch | None:
        if self._idle is None:
            return await self.source.read()
        while True:
            try:
                async with asyncio.timeout(self._idle):
                    return await self.source.read()
            except TimeoutError:
                if not self._paused:
                    return None
            self._pause(await self._intake.room(self.name))

    def _pause(self, partitions: Collection[str]) -> None:
        if partitions != self._paused:
            self._paused = partitions
            self.source.pause(partitions)

    def _tell_partitions(self) -> None:
        partitions = tuple(self.source.partitions)
        if partitions != self._partitions:
            self._partitions = partitions
            self._intake.expect(self.name, partitions)

    async def _hand_over(self, batch: Batch) -> None:
        self.last_batch = time.time()
        self.position = join_position(self.position, batch)
        self.usefulness.received(batch.received, batch.rejected, self.source.problem)
        self._metrics.count("samples_received_total", batch.received, source=self.name)
        for reason, count in batch.rejected.items():
            self._metrics.count("samples_rejected_total", count, source=self.name, reason=reason)
        self._understood += len(batch.samples)
        if batch.rejected and not batch.samples:
            self._not_understood(batch)
        if self.source.lag is not None:
            self._metrics.set("source_lag_seconds", self.source.lag, source=self.name)
        if batch.samples:
            self._withheld = 0
        if batch.samples or (batch.position is not None and not self._withheld):
            await self._intake.put(self.name, batch)

    def _not_understood(self, batch: Batch) -> None:
        """Nothing of a batch can be used: its position is not handed on, if it can be read again later."""
        reasons = ", ".join(f"{count} {reason}" for reason, count in batch.rejected.items())
        log.warning(
            "source %s: nothing of this can be used: %s; see its decode settings; the first: %s", self.name,
            reasons, self.source.problem, extra={"repeat": f"refused {self.name}"},
        )  # fmt: skip
        self._refused += sum(batch.rejected.values())
        self._withheld += batch.received
        if self._withheld > self.source.withholds:
            self._withheld = 0

    def _up(self) -> None:
        if self.status == "down":
            log.info("source %s is back", self.name)
        self.status, self.error = "up", None
        self._metrics.set("source_up", 1, source=self.name)

    def _down(self, error: str) -> None:
        self.status, self.error = "down", error
        self._metrics.set("source_up", 0, source=self.name)
        self._metrics.count("source_failures_total", source=self.name)
        log.warning("source %s: %s", self.name, error, extra={"repeat": f"source {self.name}"})

    def _end(self) -> None:
        if self._refused and not self._understood:
            self.status = "failed"
            self.error = (
                f"not one of {self._refused} samples can be decoded; the first: {self.source.problem}"
            )
            log.error("source %s: %s", self.name, self.error)
        else:
            log.info("source %s has ended", self.name)
            self.status = "ended"
        self._metrics.set("source_up", 0, source=self.name)
        self._intake.end(self.name)
        self._ended()

    async def _close_quietly(self) -> None:
        try:
            await self.source.close()
        except Exception:
            log.exception("source %s: error while closing", self.name, extra={"repeat": f"close {self.name}"})

    # ---------------------------------------------------------------------------------- acknowledging

    def acknowledge(self, stored: Any) -> None:
        """Everything up to here is durable; told to the source when it listens, newest position only."""
        if isinstance(stored, dict) and stored.get("type") == self.kind:
            self._pending = stored.get("position")
            self._settled.clear()
            self._owed.set()

    async def _acknowledging(self) -> None:
        while True:
            await self._owed.wait()
            self._owed.clear()
            try:
                async with asyncio.timeout(ACKNOWLEDGE_S):
                    await self.source.commit(self._pending)
            except (ConnectorError, TimeoutError) as error:
                # The next commit says it again; until then the source only repeats itself.
                log.warning(
                    "source %s: cannot acknowledge: %s", self.name, error,
                    extra={"repeat": f"acknowledge {self.name}"},
                )  # fmt: skip
            except Exception:
                log.exception(
                    "source %s: error while acknowledging", self.name,
                    extra={"repeat": f"acknowledge {self.name}"},
                )  # fmt: skip
            if not self._owed.is_set():
                self._settled.set()

    async def stop_reading(self) -> None:
        """No more batches; the connection stays, so that the last ones can be acknowledged."""
        await _cancel(self._tasks[:1])

    async def close(self, timeout: float) -> None:
        """Wait for the last acknowledgement, then let go."""
        try:
            async with asyncio.timeout(timeout):
                await self._settled.wait()
                await self._close_quietly()
        except TimeoutError:
            log.warning("source %s did not close in time", self.name)
        await _cancel(self._tasks)
        self._metrics.set("source_up", 0, source=self.name)

    def describe(self) -> dict[str, Any]:
        """For pages, JSON-ready."""
        return {
            "type": self.kind, "status": self.status, "error": self.error, "last_batch": self.last_batch,
            "lag": self.source.lag, "guarantee": self.source.guarantee,
            "trouble": list(self.usefulness.trouble.values()),
            "partitions": self._intake.describe(self.name),
        }  # fmt: skip


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
