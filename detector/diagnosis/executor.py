"""A thread of low priority for work that may take long, or hang: then it is abandoned for a new one.

What is limited is the thread's own CPU time. On a busy core it runs seldom, and half a second of work can
take half a minute by the clock, which is no reason to give it up. The clock finds what waits for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

NICE = 10
MAX_ABANDONED = 2  # threads that may hang before no more work is accepted
PATIENCE = 10.0  # by the clock, work may take so many times its limit
POLL_S = 0.05  # least time between two checks of the CPU time used

Result = TypeVar("Result")
Job = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...]]


class Overloaded(Exception):
    """Too many earlier pieces of work have not ended."""


class LowPriorityExecutor:
    """Used on the event loop. One piece of work after the other."""

    def __init__(self) -> None:
        self._abandoned: list[threading.Thread] = []
        self._thread: threading.Thread | None = None
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()

    async def run(self, limit: float | None, work: Callable[..., Result], *arguments: Any) -> Result:
        """TimeoutError after ``limit`` seconds of CPU time, or `PATIENCE` times as many by the clock.

        The work may go on then, but nobody waits for it.
        """
        self._abandoned = [thread for thread in self._abandoned if thread.is_alive()]
        if len(self._abandoned) >= MAX_ABANDONED:
            raise Overloaded(f"{len(self._abandoned)} earlier analyses still run")
        if self._thread is None:
            # A daemon thread: one that hangs must not keep the process from ending.
            self._thread = threading.Thread(target=_work, args=(self._jobs,), name="diagnosis", daemon=True)
            self._thread.start()
        future: Future[Result] = Future()
        before = self._used()
        self._jobs.put((future, work, arguments))
        done = asyncio.wrap_future(future)
        try:
            if limit is not None:
                await self._watch(done, limit, before)
            return await done
        except (TimeoutError, asyncio.CancelledError):
            done.cancel()
            self._abandon(future)
            raise

    async def _watch(self, done: asyncio.Future[Any], limit: float, before: float) -> None:
        latest = time.monotonic() + PATIENCE * limit
        while not done.done():
            # One thread uses no more CPU time than passes by the clock: no need to check sooner.
            left = min(limit - (self._used() - before), latest - time.monotonic())
            if left <= 0.0:
                raise TimeoutError
            await asyncio.wait([done], timeout=max(left, POLL_S))

    def _used(self) -> float:
        """CPU seconds of the thread so far; 0 on systems that do not measure it."""
        assert self._thread is not None  # and it lives: only `close` ends it
        assert self._thread.ident is not None
        try:
            return time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident))
        except (OSError, AttributeError):
            return 0.0

    def _abandon(self, future: Future[Any]) -> None:
        if future.done() and not future.cancelled():
            return
        assert self._thread is not None
        self._abandoned.append(self._thread)
        self.close()

    def close(self) -> None:
        """The thread ends after what it is doing."""
        self._jobs.put(None)
        self._thread, self._jobs = None, queue.SimpleQueue()


def _work(jobs: queue.SimpleQueue[Job | None]) -> None:
    with contextlib.suppress(OSError, AttributeError):  # on Linux a thread has a priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
    while (job := jobs.get()) is not None:
        future, work, arguments = job
        if not future.set_running_or_notify_cancel():
            continue
        try:
            future.set_result(work(*arguments))
        except BaseException as error:
            future.set_exception(error)
        del job, future, work, arguments  # a case file must not stay in memory until the next one
