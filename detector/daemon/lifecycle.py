"""Signals, the watchdog and the status line: how the process is told, and how it tells how it is."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Callable

from detector.runtime.pipeline_thread import PipelineThread
from detector.runtime.sd_notify import Notifier

log = logging.getLogger("detector")
STATUS_S = 5.0
HUNG_S = 30.0  # without a watchdog: how long the pipeline's thread may be silent before we call it hung


class Signals:
    """SIGTERM and SIGINT stop, the second time at once; SIGHUP reloads."""

    def __init__(self, reload: Callable[[], None]) -> None:
        self.stop = asyncio.Event()
        self.now = asyncio.Event()
        self._reload = reload

    def install(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.request_stop, number.name)
        loop.add_signal_handler(signal.SIGHUP, self._reload)

    def remove(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with contextlib.suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(number)

    def request_stop(self, reason: str) -> None:
        if self.stop.is_set():
            log.warning("%s again: stopping at once", reason)
            self.now.set()
        else:
            log.info("%s: stopping", reason)
            self.stop.set()


class Pulse:
    """Feeds systemd's watchdog from the progress of the pipeline's thread, and keeps the status line."""

    def __init__(self, notifier: Notifier, worker: PipelineThread, status: Callable[[], str]) -> None:
        self.healthy = True
        self._notifier, self._worker, self._status = notifier, worker, status

    async def run(self) -> None:
        limit = self._notifier.watchdog_s or HUNG_S
        while True:
            # Asked three times per period: one late answer must not be taken for death.
            answered = await self._worker.alive(limit / 3)
            if answered:
                self._notifier.alive()
            silent = time.monotonic() - self._worker.beat
            self.healthy = answered or silent < limit
            if not self.healthy:
                log.critical("the pipeline made no progress for %.0f s", silent, extra={"repeat": "pulse"})
            self._notifier.status(self._status())
            await asyncio.sleep(min(limit / 3, STATUS_S))
