"""The task of one sink: who waits for whom, and what is said meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from connectors.base import Accepted, ConnectorError, Settings, Sink, unheard
from detector.runtime.delivery.outbox import Outbox
from detector.runtime.delivery.sink_task import PAUSES, SinkTask
from detector.runtime.metrics import Metrics
from tests.connectors.delivering import record


class Limited(Sink):
    """Asks for a pause whenever a certain record comes; takes the others one by one."""

    name = "limited"

    def __init__(self, limited: str, pause: float) -> None:
        super().__init__(Settings())
        self.limited, self.pause = limited, pause
        self.taken: list[str] = []

    async def open(self) -> None: ...

    async def write(self, records: Sequence[Mapping[str, Any]], accepted: Accepted = unheard) -> None:
        for one in records:
            if one["id"] == self.limited:
                raise ConnectorError("HTTP 429", retry=True, after=self.pause)
            self.taken.append(str(one["id"]))
            accepted(str(one["id"]))

    async def close(self) -> None: ...


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "detector.sink")


def task_of(sink: Sink) -> SinkTask:
    return SinkTask("s", "limited", sink, Outbox(100, 2**20, "drop_oldest"), Metrics(), 3)


def test_a_record_that_always_meets_the_limit_holds_up_nobody_else() -> None:
    """The first of all; those of its incident wait for it, until it is set aside."""

    async def main() -> None:
        sink = Limited("i0-0", 0.0)
        task = task_of(sink)
        aside: list[str] = []
        task.set_aside = lambda _, record, tries, error: aside.append(record.id)
        task.add([record(number, incidents=3) for number in range(9)])
        task.start([])
        assert await task.finish(30.0)
        await task.close()
        assert aside == ["i0-0"]
        assert sorted(sink.taken) == [f"i{i}-{k}" for i in range(3) for k in range(3) if (i, k) != (0, 0)]
        assert sink.taken.index("i1-0") < sink.taken.index("i0-1")

    asyncio.run(main())


def test_a_pause_is_told() -> None:
    """However long it is: that nothing is sent, and why."""

    async def main() -> None:
        task = task_of(Limited("i0-0", 3600.0))
        task.add([record(0)])
        task.start([])
        async with asyncio.timeout(30):
            while task.status != "paused":
                await asyncio.sleep(0.01)
        assert task.describe()["error"] == "HTTP 429; paused for 3600 s, as it asks"
        await task.close()

    asyncio.run(main())


def test_a_limit_that_holds_for_all_is_no_fault_of_a_record() -> None:
    """Many pauses in a row, then all are taken: none is set aside."""

    async def main() -> None:
        sink = Limited("i0-0", 0.0)
        task = task_of(sink)
        task.add([record(0)])
        task.start([])
        async with asyncio.timeout(30):
            while task._pauses < 2 * PAUSES:
                await asyncio.sleep(0.01)
        sink.limited = ""
        assert await task.finish(30.0)
        await task.close()
        assert sink.taken == ["i0-0"]
        assert task.status == "up"

    asyncio.run(main())


def test_an_open_incident_that_is_not_taken_holds_up_nobody_else() -> None:
    """What a sink is told of at the start is tried and given up as everything else is."""

    class Repeating(Limited):
        wants_open_incidents = True

    async def main() -> None:
        sink = Repeating("i0-0", 0.0)
        task = task_of(sink)
        task.add([record(number, incidents=3) for number in range(3, 6)])
        task.start([record(0, incidents=3), record(1, incidents=3)])
        async with asyncio.timeout(30):
            while len(sink.taken) < 4:
                await asyncio.sleep(0.01)
        await task.close()
        assert sorted(sink.taken) == ["i0-1", "i1-0", "i1-1", "i2-1"]

    asyncio.run(main())
