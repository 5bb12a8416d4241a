"""Stopping: drain, save, acknowledge, send, close. With a second signal only save and close."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detector.daemon.daemon import Daemon

log = logging.getLogger("detector")
STOP_S = 9.0  # from the signal to the end
ONCE_S = 30.0  # the same with --once, where the sinks are to take the last records
DRAIN_S = 4.0
SINKS_S, SINKS_ONCE_S = 2.0, 20.0
SNAPSHOT_S = 5.0
LOOK_S = 0.05


async def stop(daemon: Daemon) -> None:
    daemon.ready = False
    daemon.notifier.stopping()
    if not hasattr(daemon, "worker"):
        return
    deadline = time.monotonic() + (ONCE_S if daemon.once else STOP_S)

    def left(most: float) -> float:
        return max(0.1, min(most, deadline - time.monotonic()))

    readers, deliveries = daemon.readers.values(), daemon.deliveries.values()
    await asyncio.gather(*(reader.stop_reading() for reader in readers))
    if daemon.work_task is not None:
        await _drain(daemon, daemon.work_task, left(DRAIN_S))
        await _save(daemon, daemon.work_task)
        await daemon.backups.finish()
        if daemon.once and daemon.failure is None:
            begun = time.monotonic()
            await _unless_hurried(daemon, _analyze(daemon))
            deadline += time.monotonic() - begun
    await _stop_diagnosis(daemon)
    await asyncio.gather(*(reader.close(left(2.0)) for reader in readers))
    if not daemon.signals.now.is_set() and daemon.failure is None:
        patience = left(SINKS_ONCE_S if daemon.once else SINKS_S)
        await _unless_hurried(daemon, asyncio.gather(*(one.finish(patience) for one in deliveries)))
    await asyncio.gather(*(delivery.close(left(1.0)) for delivery in deliveries))
    if daemon.work_task is not None:
        daemon.unsaved = not await daemon.recorder.commit()  # what the sinks have taken meanwhile
    if daemon.http is not None:
        await daemon.http.stop()
    tasks = list(daemon.tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    daemon.worker.shutdown()
    daemon.recorder.close()
    log.info("stopped")


async def _drain(daemon: Daemon, work: asyncio.Task[None], timeout: float) -> None:
    """Let the pipeline work off what has arrived; what it cannot is given up, and read again later."""
    daemon.ingest_queue.order("stop", {})
    if daemon.worker.stage is None:  # a calibration under way is not waited for
        await _unless_hurried(daemon, asyncio.wait([work], timeout=timeout))
    if not work.done():
        daemon.worker.stopping = True
        daemon.ingest_queue.clear()
        daemon.ingest_queue.order("stop", {})
        await asyncio.wait([work], timeout=2.0)


async def _save(daemon: Daemon, work: asyncio.Task[None]) -> None:
    """A last snapshot, so that the next start has nothing to repeat."""
    if daemon.failure is None and work.done() and not daemon.worker.interrupted:
        try:
            async with asyncio.timeout(SNAPSHOT_S):
                await daemon.snapshot()
        except TimeoutError:
            log.error("no time for a last snapshot; the journal has everything")
    if not await daemon.recorder.commit():
        log.error("the last commit failed: what came after the one before will be read again")


async def _analyze(daemon: Daemon) -> None:
    """With --once, all case files, as long as diagnosis makes progress; else they wait for the next start."""
    while not daemon.diagnosis.at_rest and not daemon.diagnosis.stuck():
        await asyncio.sleep(LOOK_S)


async def _stop_diagnosis(daemon: Daemon) -> None:
    """No finding comes after the sinks were given their last records; the rest waits for the next start."""
    if daemon.diagnosis_task is not None:
        daemon.diagnosis_task.cancel()
        await asyncio.gather(daemon.diagnosis_task, return_exceptions=True)
        await daemon.recorder.commit()


async def _unless_hurried(daemon: Daemon, work: Awaitable[Any]) -> None:
    """Wait for something, but not beyond a second signal."""
    hurry = asyncio.create_task(daemon.signals.now.wait())
    task = asyncio.ensure_future(work)
    await asyncio.wait([hurry, task], return_when=asyncio.FIRST_COMPLETED)
    for one in (hurry, task):
        one.cancel()
    await asyncio.gather(hurry, task, return_exceptions=True)
