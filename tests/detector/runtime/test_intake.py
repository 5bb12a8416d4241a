"""What is held is not acknowledged, and what was released in part is not given twice (T25)."""

from __future__ import annotations

import asyncio
from typing import Any

from connectors.base import Batch, Sample
from detector.runtime.ingest_queue import Arrival, IngestQueue
from detector.runtime.intake import Intake
from detector.runtime.merge import LEAST
from detector.settings.alignment import AlignSettings

SETTINGS = AlignSettings(step=1.0, lateness=2.0, idle_after=600.0)


def batch(first: int, last: int, node: str, partition: str | None = None) -> Batch:
    samples = [Sample(float(i), node, (0.0,)) for i in range(first, last)]
    position: Any = {"after": last} if partition is None else {partition: last}
    return Batch(samples=samples, received=len(samples), position=position, partition=partition)


class Rig:
    """An intake with its task; `taken` is what has come through."""

    def __init__(self) -> None:
        self.queue = IngestQueue()
        self.intake = Intake(self.queue, SETTINGS, lambda: None)
        self.task = asyncio.create_task(self.intake.run())
        self.taken: list[Sample] = []
        self.positions: dict[str, Any] = {}

    async def settle(self) -> None:
        await asyncio.sleep(0.02)
        while not self.queue.empty:
            found = await self.queue.take(10**6)
            assert isinstance(found, list)
            for arrival in found:
                self.take(arrival)
            self.queue.finished(found)
            await asyncio.sleep(0.02)

    def take(self, arrival: Arrival) -> None:
        self.taken += arrival.batch.samples
        self.positions |= arrival.positions
        owners, owner_of = arrival.owned()
        assert len(owner_of) == len(arrival.batch.samples)
        named = [owners[i].source for i in owner_of.tolist()]
        assert all(
            sample.node.startswith(name) for sample, name in zip(arrival.batch.samples, named, strict=True)
        )


def test_a_position_goes_on_with_the_last_of_its_samples() -> None:
    async def main() -> None:
        rig = Rig()
        rig.intake.register("a", "file", True, None, {})
        rig.intake.register("b", "file", True, None, {})
        await rig.intake.put("a", batch(0, 10, "a"))
        await rig.settle()
        assert rig.taken == []
        assert rig.positions == {}
        await rig.intake.put("b", batch(0, 5, "b"))
        await rig.settle()
        assert [sample.time for sample in rig.taken] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
        assert rig.positions["b"] == {"type": "file", "position": {"after": 5}}
        assert rig.positions["a"] == {"type": "file", "position": None, "skip": {"": 5}}
        await rig.intake.put("b", batch(5, 20, "b"))
        await rig.settle()
        assert rig.positions["a"] == {"type": "file", "position": {"after": 10}}
        rig.task.cancel()

    asyncio.run(main())


def test_what_had_gone_on_before_a_stop_is_left_out() -> None:
    """The skipped samples may come in batches that are cut in another way."""

    async def main() -> None:
        rig = Rig()
        rig.intake.register("a", "redis", True, {"x": 100, "y": 7}, {"x": 5})
        rig.intake.expect("a", ["x", "y"])
        await rig.intake.put("a", batch(100, 103, "a", "x"))
        await rig.intake.put("a", batch(100, 104, "a", "y"))
        await rig.settle()
        assert [sample.time for sample in rig.taken] == [100, 101, 102]
        stored = {"type": "redis", "position": {"x": 103, "y": 7}, "skip": {"x": 2, "y": 3}}
        assert rig.positions["a"] == stored
        await rig.intake.put("a", batch(103, 110, "a", "x"))
        await rig.settle()
        assert [sample.time for sample in rig.taken] == [100, 101, 102, 103]
        assert rig.positions["a"] == {"type": "redis", "position": {"x": 103, "y": 104}, "skip": {"x": 2}}
        await rig.intake.put("a", batch(104, 107, "a", "y"))
        await rig.settle()
        assert [sample.time for sample in rig.taken[4:]] == [104, 105, 105, 106, 106]
        assert rig.positions["a"] == {"type": "redis", "position": {"x": 103, "y": 107}, "skip": {"x": 4}}
        rig.task.cancel()

    asyncio.run(main())


def test_a_single_partition_passes_at_once() -> None:
    async def main() -> None:
        rig = Rig()
        rig.intake.register("a", "file", True, {"after": 3}, {"": 2})
        await rig.intake.put("a", batch(3, 9, "a"))
        assert not rig.queue.empty
        await rig.settle()
        assert [sample.time for sample in rig.taken] == [5, 6, 7, 8]
        assert rig.positions["a"] == {"type": "file", "position": {"after": 9}}
        rig.task.cancel()

    asyncio.run(main())


def test_a_full_partition_is_not_read() -> None:
    async def main() -> None:
        rig = Rig()
        rig.intake.register("a", "file", True, None, {})
        rig.intake.register("b", "file", True, None, {})
        rig.intake.merge.capacity = 2 * LEAST
        await rig.intake.put("a", batch(0, LEAST, "a"))
        waiting = asyncio.create_task(rig.intake.room("a"))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        await rig.intake.put("b", batch(0, LEAST, "b"))
        await rig.settle()
        assert await waiting == set()
        rig.task.cancel()

    asyncio.run(main())
