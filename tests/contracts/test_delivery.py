"""Sinks make progress record by record: every sink, its receiver at its worst, the daemon's own task."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from connectors import SINKS
from tests.connectors.delivering import Course, assert_in_order, deliver, record, repeats
from tests.connectors.faulty import TROUBLES, OwnMqttRig, Scripted
from tests.connectors.sink_rigs import KafkaRig, NatsRig, RedisRig, Rig

MANY, DEATHS = 1000, (1, 150, 600)  # records; so many were delivered when the broker was killed
COUNT, TRIES = 200, 6  # so many that chance does not set a record aside


def test_every_sink_has_its_trouble() -> None:
    assert set(TROUBLES) == set(SINKS)


@pytest.mark.parametrize("name", SINKS)
def test_all_records_arrive_in_order_and_hardly_any_twice(name: str, running: Any, tmp_path: Path) -> None:
    """What one receiver never takes is set aside; all else arrives, repeated once per failure at most."""

    async def main() -> None:
        kind, rig = TROUBLES[name]
        trouble = kind(rig(running, tmp_path), seed=14)
        await trouble.start()
        try:
            records = [record(number) for number in range(COUNT)]
            never = set()
            if trouble.pad:
                records[100] = record(100, pad=trouble.pad)
                never = {records[100].id}
            elif isinstance(trouble, Scripted):
                never = {trouble.refused, trouble.poison, trouble.limited}
            sink = trouble.rig.make(trouble.config())
            course = await deliver(sink, records, trouble.patience, TRIES)
            wanted = [one.id for one in records if one.id not in never]
            got = await trouble.received()
        finally:
            await trouble.stop()
        # Of several records of an incident, Alertmanager hears the latest only: some it never sees.
        assert set(course.set_aside) == never or (name == "alertmanager" and set(course.set_aside) < never)
        wanted += never - set(course.set_aside)
        assert sorted(course.done) == sorted(wanted)
        assert_in_order(course.done)
        assert course.outcome("delivered") == len(wanted)
        assert course.outcome("set_aside") == len(course.set_aside)
        failures = course.outcome("failed")
        assert failures > 0
        if (
            name == "alertmanager"
        ):  # it hears of the latest record of each incident; of an earlier one by retries
            latest = {one.incident: one.id for one in records if one.id not in never}
            assert {id.rpartition("-")[0]: id for id in got} == latest
        else:
            assert_in_order(got)
            assert set(got) == set(wanted)
            assert repeats(got) <= failures

    asyncio.run(main())


class Deadly(Course):
    """Kills the broker at certain records, at once, and starts it again a little later."""

    def __init__(self, broker: Any) -> None:
        super().__init__()
        slow = hasattr(broker, "down")  # Kafka
        self.down, self.up = (broker.down, broker.up) if slow else (broker.kill, broker.start)
        self.left = list(DEATHS[1:2] if slow else DEATHS)
        self.starting: list[asyncio.Task[None]] = []

    def delivered(self, ids: Sequence[str]) -> None:
        super().delivered(ids)
        if self.left and len(self.done) >= self.left[0]:
            del self.left[0]
            self.down()
            self.starting.append(asyncio.create_task(self._start()))

    async def _start(self) -> None:
        await asyncio.sleep(0.3)
        await asyncio.to_thread(self.up)


@pytest.mark.parametrize("name", ["mqtt", "kafka", "redis", "nats"])
def test_a_broker_killed_while_records_go(name: str, running: Any, tmp_path: Path) -> None:
    """Its death, three times: every record arrives, in order, repeated once per failure at most.

    By `kill -9`, but for Mosquitto, which loses what it acknowledged and had not written yet.
    """

    async def main() -> None:
        kind: dict[str, type[Rig]] = {
            "mqtt": OwnMqttRig,
            "kafka": KafkaRig,
            "redis": RedisRig,
            "nats": NatsRig,
        }
        rig = kind[name](running, tmp_path)
        await rig.prepare()
        course = Deadly(rig.broker() if isinstance(rig, OwnMqttRig) else getattr(running, name)())
        if isinstance(rig, OwnMqttRig):
            course.down = rig.broker().stop
        try:
            records = [record(number, incidents=200) for number in range(MANY)]
            await deliver(rig.make(rig.config()), records, 120.0, TRIES, course)
            await asyncio.gather(*course.starting)
            got = [id for id, _ in await rig.received()]
        finally:
            await rig.stop()
        assert course.set_aside == {}
        assert course.outcome("failed") > 0
        assert set(got) == {one.id for one in records}
        if name != "mqtt":  # Mosquitto itself repeats to its subscriber
            assert repeats(got) <= course.outcome("failed")
        assert_in_order(got)
        assert_in_order(course.done)

    asyncio.run(main())
