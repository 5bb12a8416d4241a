"""Learning on all cores: jobs that do not depend on each other, by this process and others beside it.

    results = processes.map(work, jobs, pulse)        as [work(job, pulse) for job in jobs], bit for bit

What all jobs read travels once, as a file that every process maps. New processes import this package and
nothing of the program that runs, so that scripts need no guard. They end with the one that started them;
where they cannot be started, or are killed, this process does what is left.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import wait as wait_for
from threading import Lock, Thread
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from detector.engines.runners.base import Job, Result, Work, Workers
from detector.engines.runners.free_memory import free_memory
from detector.engines.runners.mapped import Mapped
from detector.engines.runners.threads import cores
from detector.settings.core import Settings

log = logging.getLogger(__name__)

EACH = 120 << 20  # bytes of a process that has imported what it needs
UNFIT = (pickle.PicklingError, TypeError, AttributeError)  # what cannot be told to another process
PATIENCE = 0.2  # seconds between looks at what others tell


class Stopped(Exception):
    """Nobody waits for the results any more."""


class Processes:
    """``workers`` processes, this one among them; others are started when there is work for them."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None

    @classmethod
    def of(cls, settings: Settings, need: int) -> Self:
        """As many as `engine.workers` says, if memory allows; ``need``: bytes that a job takes."""
        wanted = settings.engine.workers
        room = max(int(0.8 * free_memory() - need) // (EACH + need), 0)
        return cls(min(cores() if wanted == "auto" else wanted, 1 + room))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._stop.set()
            self._pool.shutdown(wait=kind is None, cancel_futures=True)
            self._pool = None

    def map(
        self, work: Work[Job, Result], jobs: Sequence[Job], pulse: Callable[[int, float], None]
    ) -> list[Result]:
        """``work`` of each of ``jobs``, in their order; ``pulse`` is told the number and share of a job."""
        found: dict[int, Result] = {}
        waiting = iter(range(len(jobs)))  # its next number goes to whoever is free
        failed: list[Exception] = []
        helpers = min(self.workers, len(jobs)) - 1
        with ExitStack() as stack:
            if helpers > 0:
                try:
                    path = stack.enter_context(Mapped(work)).path
                except (OSError, *UNFIT) as error:
                    failed.append(error)
                    helpers = 0
            threads = stack.enter_context(ThreadPoolExecutor(max(helpers, 1), "learning"))

            def send() -> None:
                try:
                    pool = self._started()
                    for k in waiting:
                        with _nothing_of_main():
                            answer = pool.submit(_do, path, k, jobs[k])
                        found[k] = answer.result()
                except (OSError, BrokenProcessPool, *UNFIT) as error:
                    failed.append(error)

            others = [threads.submit(send) for _ in range(helpers)]
            try:
                self._alone(work, jobs, waiting, found, pulse)
                self._listen(others, pulse)
            except BaseException:
                self.__exit__(*sys.exc_info())
                raise
        for other in others:
            other.result()
        if failed:
            log.warning("learning: goes on in one process, since another could not help: %r", failed[0])
            self.__exit__(None, None, None)
            self.workers = 1
        self._alone(work, jobs, iter(k for k in range(len(jobs)) if k not in found), found, pulse)
        return [found[k] for k in range(len(jobs))]

    def _alone(
        self,
        work: Work[Job, Result],
        jobs: Sequence[Job],
        waiting: Iterator[int],
        found: dict[int, Result],
        pulse: Callable[[int, float], None],
    ) -> None:
        for k in waiting:

            def told(share: float, k: int = k) -> None:
                pulse(k, share)
                self._hear(pulse)

            found[k] = work(jobs[k], told)

    def _listen(self, others: Sequence[Future[None]], pulse: Callable[[int, float], None]) -> None:
        while wait(others, PATIENCE).not_done:
            self._hear(pulse)
        self._hear(pulse)  # nothing is left for the next jobs

    def _hear(self, pulse: Callable[[int, float], None]) -> None:
        while self._pool is not None and not self._told.empty():
            pulse(*self._told.get())

    def _started(self) -> ProcessPoolExecutor:
        with _starting:
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._told, self._stop = context.SimpleQueue(), context.Event()
                self._pool = ProcessPoolExecutor(
                    self.workers - 1, context, initializer=_begin, initargs=(self._told, self._stop)
                )
            return self._pool


if TYPE_CHECKING:
    _checked: type[Workers] = Processes

_starting = Lock()


@contextmanager
def _nothing_of_main() -> Iterator[None]:
    """A new process runs the file of ``__main__`` again, which programs need not be made for: hide it."""
    with _starting:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


# ------------------------------------------------------------------------------------ in other processes

_told: Any = None
_stop: Any = None
_read: tuple[str, Any] = ("", None)


def _begin(told: Any, stop: Any) -> None:
    global _told, _stop
    _told, _stop = told, stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process is interrupted too, and ends this one
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _do(path: str, k: int, job: Any) -> Any:
    global _read
    if _read[0] != path:
        _read = ("", None)  # what was read before may go first
        _read = (path, Mapped.read(path))

    def told(share: float) -> None:
        if _stop.is_set():
            raise Stopped
        _told.put((k, share))

    return _read[1](job, told)
