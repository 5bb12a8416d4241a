"""Records through the daemon's own sink task into a real sink, until nothing waits any more."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from connectors.base import Sink
from detector.runtime.delivery.outbox import Outbox
from detector.runtime.delivery.sink_task import SinkTask
from detector.runtime.metrics import Metrics
from detector.storage.records import Record
from tests.detector.rig import total


def record(number: int, incidents: int = 40, pad: int = 0) -> Record:
    """One of a course of records that belong to some incidents in turn."""
    incident = f"i{number % incidents}"
    content = {
        "id": f"{incident}-{number // incidents}", "incident": incident, "event": "incident.updated",
        "time": float(number), "value": number + 0.5, "summary": "x" * pad or f"värde {number}",
    }  # fmt: skip
    body = json.dumps(content).encode()
    return Record(str(content["id"]), incident, "incident.updated", float(number), body)


@dataclass
class Course:
    """What came of it, as the daemon's state would hear it."""

    metrics: Metrics = field(default_factory=Metrics)
    done: list[str] = field(default_factory=list)
    set_aside: dict[str, str] = field(default_factory=dict)

    def delivered(self, ids: Sequence[str]) -> None:
        self.done.extend(ids)

    def outcome(self, name: str) -> float:
        return total(self.metrics.page().decode(), "deliveries_total", sink="s", outcome=name)


async def deliver(
    sink: Sink, records: Sequence[Record], patience: float, tries: int = 8, course: Course | None = None
) -> Course:
    course = course or Course()
    outbox = Outbox(10_000, 2**26, "drop_oldest")
    task = SinkTask("s", sink.name, sink, outbox, course.metrics, tries)
    task.delivered = lambda _, ids: course.delivered(ids)
    task.set_aside = lambda _, record, tries, error: course.set_aside.update({record.id: error})
    task.add(records)
    task.start([])
    logging.getLogger("detector.sink").setLevel(logging.CRITICAL)
    try:
        assert await task.finish(patience), f"{len(outbox)} of {len(records)} wait: {task.describe()}"
    finally:
        await task.close()
        logging.getLogger("detector.sink").setLevel(logging.NOTSET)
    return course


def repeats(ids: Sequence[str]) -> int:
    return len(ids) - len(set(ids))


def assert_in_order(ids: Sequence[str]) -> None:
    """The records of each incident arrived in the order in which they were made, repeats aside."""
    latest: dict[str, int] = {}
    for id in dict.fromkeys(ids):
        incident, _, number = id.rpartition("-")
        assert int(number) > latest.get(incident, -1), f"{id} came after {incident}-{latest[incident]}"
        latest[incident] = int(number)


def counted(ids: Sequence[str]) -> Counter[str]:
    return Counter(ids)


def told(given: Any) -> str:
    return str(given["id"])
