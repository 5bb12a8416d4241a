"""The queue of actions that people asked for: bounded, worked off in order, results kept for some time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_WAITING = 20
REMEMBERED = 100  # finished jobs whose results can still be asked for


class Busy(Exception):
    """Too many jobs wait already."""


@dataclass(frozen=True, eq=False)
class Job:
    """``work`` runs in the diagnosis thread; ``done`` holds its result, or its error."""

    number: int
    kind: str
    name: str
    work: Callable[[], dict[str, Any]]
    done: asyncio.Future[dict[str, Any]]


class JobQueue:
    """Used on the event loop only."""

    def __init__(self) -> None:
        self._all: dict[int, Job] = {}
        self._waiting: list[Job] = []
        self._number = 0

    def add(self, kind: str, name: str, work: Callable[[], dict[str, Any]]) -> Job:
        if len(self._waiting) >= MAX_WAITING:
            raise Busy(f"{len(self._waiting)} jobs wait already")
        self._number += 1
        done: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        done.add_done_callback(lambda one: one.cancelled() or one.exception())  # nobody may ask for it
        job = Job(self._number, kind, name, work, done)
        self._all[job.number] = job
        self._waiting.append(job)
        for number in [number for number, old in self._all.items() if old.done.done()][:-REMEMBERED]:
            del self._all[number]
        return job

    def find(self, number: str) -> Job | None:
        return self._all.get(int(number)) if number.isascii() and number.isdigit() else None

    def waits(self, kind: str, name: str) -> bool:
        return any((job.kind, job.name) == (kind, name) for job in self._waiting)

    def next(self) -> Job | None:
        return self._waiting.pop(0) if self._waiting else None

    def __len__(self) -> int:
        return len(self._waiting)

    def describe(self) -> list[dict[str, Any]]:
        """The latest ones, JSON-ready."""
        return [
            {"number": job.number, "kind": job.kind, "action": job.name, "state": _state(job.done)}
            for job in self._all.values()
        ]


def _state(done: asyncio.Future[Any]) -> str:
    if not done.done():
        return "running"
    return "failed" if done.cancelled() or done.exception() is not None else "done"


def bare(error: Exception) -> Exception:
    """An error without the frames it came through: they hold all that the work had in its hands.

    A hundred jobs that failed are remembered, and each that learns from labels has read all labelled cases.
    """
    found: list[BaseException] = [error]
    for one in found:
        found += [other for other in (one.__cause__, one.__context__) if other not in (None, *found)]  # type: ignore[misc]
        one.__traceback__ = None
    return error
