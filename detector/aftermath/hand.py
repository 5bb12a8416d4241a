"""A thread of low priority for work that may take long, or hang: then it is left behind for a new one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

NICE = 10
LEFT_BEHIND = 2  # threads that may hang before no more work is taken on

Result = TypeVar("Result")
Job = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...]]


class Overloaded(Exception):
    """Too much of the earlier work never ended."""


class Hand:
    """Used on the event loop. One piece of work after the other."""

    def __init__(self) -> None:
        self._left: list[threading.Thread] = []
        self._thread: threading.Thread | None = None
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()

    async def run(self, limit: float | None, work: Callable[..., Result], *arguments: Any) -> Result:
        """TimeoutError after ``limit`` seconds: the work may go on, but nobody waits for it."""
        self._left = [thread for thread in self._left if thread.is_alive()]
        if len(self._left) >= LEFT_BEHIND:
            raise Overloaded(f"{len(self._left)} earlier examinations still run")
        if self._thread is None:
            # Of the daemon kind: one that hangs must not keep the process from ending.
            self._thread = threading.Thread(target=_work, args=(self._jobs,), name="aftermath", daemon=True)
            self._thread.start()
        future: Future[Result] = Future()
        self._jobs.put((future, work, arguments))
        try:
            async with asyncio.timeout(limit):
                return await asyncio.wrap_future(future)
        except (TimeoutError, asyncio.CancelledError):
            self._leave(future)
            raise

    def _leave(self, future: Future[Any]) -> None:
        if future.done() and not future.cancelled():
            return
        assert self._thread is not None
        self._left.append(self._thread)
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
