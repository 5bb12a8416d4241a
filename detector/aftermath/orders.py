"""What people asked the desk to do: bounded in number, done in turn, remembered for some time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_WAITING = 20
REMEMBERED = 100  # with their results, for those who come back and ask


class Busy(Exception):
    """Too much waits already."""


@dataclass(frozen=True, eq=False)
class Order:
    """``work`` runs in the desk's thread; ``done`` holds what it gave, or its error."""

    number: int
    kind: str
    name: str
    work: Callable[[], dict[str, Any]]
    done: asyncio.Future[dict[str, Any]]


class Orders:
    """Used on the event loop only."""

    def __init__(self) -> None:
        self._all: dict[int, Order] = {}
        self._waiting: list[Order] = []
        self._number = 0

    def add(self, kind: str, name: str, work: Callable[[], dict[str, Any]]) -> Order:
        if len(self._waiting) >= MAX_WAITING:
            raise Busy(f"{len(self._waiting)} orders wait already")
        self._number += 1
        done: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        done.add_done_callback(lambda one: one.cancelled() or one.exception())  # perhaps nobody comes back
        order = Order(self._number, kind, name, work, done)
        self._all[order.number] = order
        self._waiting.append(order)
        for number in [number for number, old in self._all.items() if old.done.done()][:-REMEMBERED]:
            del self._all[number]
        return order

    def find(self, number: str) -> Order | None:
        return self._all.get(int(number)) if number.isascii() and number.isdigit() else None

    def waits(self, kind: str, name: str) -> bool:
        return any((order.kind, order.name) == (kind, name) for order in self._waiting)

    def next(self) -> Order | None:
        return self._waiting.pop(0) if self._waiting else None

    def __len__(self) -> int:
        return len(self._waiting)

    def describe(self) -> list[dict[str, Any]]:
        """The latest ones, JSON-ready."""
        return [
            {"number": order.number, "kind": order.kind, "action": order.name, "state": _state(order.done)}
            for order in self._all.values()
        ]


def _state(done: asyncio.Future[Any]) -> str:
    if not done.done():
        return "running"
    return "failed" if done.cancelled() or done.exception() is not None else "done"
