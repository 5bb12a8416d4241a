"""Partitions of all sources, merged by event time: what a backlog holds is not late because another is ahead.

Each partition has a progress of its own (`partition.py`); samples are released up to the least of them, in
the order of their keys. So a sample is late in the merged stream only if it was late in its own partition,
whichever partition was read first. Waited for is a partition that

- has not ended, and was not silent for ``idle_after``, or, before its source has connected for the first
  time, for the patience that it is given;
- is not more than ``max_skew`` behind what was released: that is late anyway, and the others go on, unless it
  only repeats what had gone on before a stop;
- if it is further behind the others than that, catches up: one that goes on at the pace of a clock (a wrong
  one) is given up after half a minute.

No clock: the caller says what time it is. What is released is what the pipeline gets and the journal holds,
so a replay needs none of this.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from connectors.base import Batch
from detector.runtime.partition import Partition, Slice
from detector.settings.alignment import AlignSettings

CAPACITY = 50_000  # samples held of all partitions together; beyond its share a partition is not read
LEAST = 200  # of one partition, however many there are
JUMPED_S = 60.0  # how long a partition whose time has jumped waits for the others to follow
PACE_S, PACE = 30.0, 2.0  # a partition behind must go on so much faster than time, after so many seconds
PLACEHOLDER = ""  # the partition of a source that has one, or does not know its partitions yet


@dataclass
class Release:
    """Slices of batches, and the order in which all their samples go on; None: as they are."""

    slices: list[tuple[Partition, Slice]] = field(default_factory=list)
    order: NDArray[np.intp] | None = None


class Merge:
    """All partitions of all sources; single-threaded."""

    def __init__(self, settings: AlignSettings, capacity: int = CAPACITY) -> None:
        self.settings, self.capacity = settings, capacity
        self.frontier = -math.inf  # the newest key released
        self._partitions: dict[tuple[str, str], Partition] = {}
        self._waiting_since: float | None = None

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def held(self) -> int:
        return sum(part.count for part in self._partitions.values())

    def of(self, source: str) -> list[Partition]:
        return [part for part in self._partitions.values() if part.source == source]

    def expect(self, source: str, names: Iterable[str], now: float, patience: float | None = None) -> None:
        """These are the partitions of a source now; those it has lost give what they hold, and no more."""
        wanted = {name: (source, name) for name in names}
        for part in self.of(source):
            part.ended = part.name not in wanted
        for name, key in wanted.items():
            if key not in self._partitions:
                self._partitions[key] = Partition(source, name, now)
                self._partitions[key].patience = patience
        self._clear()

    def connected(self, source: str, now: float) -> None:
        """From now on its silence says something."""
        for part in self.of(source):
            if part.empty and part.patience is not None:
                part.since, part.patience = now, None

    def end(self, source: str) -> None:
        """Nothing more comes from it."""
        self.expect(source, (), 0.0)

    def forget(self, source: str) -> None:
        """Give up what it holds: nothing of it was acknowledged."""
        for part in self.of(source):
            del self._partitions[source, part.name]

    def take(self, source: str, batch: Batch, now: float, first: int = 0) -> None:
        """A batch as it was read; what stands before ``first`` of it has gone on long since."""
        name = PLACEHOLDER if batch.partition is None else batch.partition
        part = self._partitions.get((source, name))
        if part is None:
            part = self._partitions[source, name] = Partition(source, name, now)
        part.take(batch, now, self.settings.seconds("max_ahead"), self.settings.confirm, first)

    def full(self, source: str) -> set[str]:
        """The partitions of a source that are not to be read for now."""
        share = max(LEAST, self.capacity / max(1, len(self._partitions)))
        return {part.name for part in self.of(source) if part.count >= share}

    def set_back(self, to: float) -> None:
        """The clock of the samples was set back: what was released before says nothing any more."""
        self.frontier = min(self.frontier, to)
        for part in self._partitions.values():
            part.progress = None if part.progress is None else min(part.progress, to)

    # ---------------------------------------------------------------------------------- releasing

    def release(self, now: float, most: int) -> Release:
        """What may go on: about ``most`` samples in the order of their keys."""
        upto, slowest = self._least(now)
        self._judge_pace(slowest, now)
        passing = [part for part in self._partitions.values() if self._passes(part, upto, now)]
        parts = passing or [part for part in self._partitions.values() if not part.empty]
        keys = [part.keys(math.inf if passing else upto, most) for part in parts]
        if sum(map(len, keys)) > most:
            bound = np.partition(np.concatenate(keys), most - 1)[most - 1]
            keys = [one[: int(np.searchsorted(one, bound, side="right"))] for one in keys]
        released = Release()
        filled = 0
        for part, mine in zip(parts, keys, strict=True):
            released.slices += [(part, one) for one in part.pop(len(mine), now)]
            filled += bool(len(mine))
            if len(mine) and not passing:  # a jump is for the pipeline to believe
                self.frontier = max(self.frontier, float(mine[-1]))
        if filled > 1:
            released.order = np.argsort(np.concatenate(keys), kind="stable")
        self._clear()
        return released

    def _least(self, now: float) -> tuple[float, Partition | None]:
        """Up to which key samples may go, and the partition by which it is bounded."""
        least, slowest = math.inf, None
        for part in self._partitions.values():
            if part.ended or self._idle(part, now) or self._given_up(part):
                continue
            progress = -math.inf if part.progress is None else part.progress
            if progress < least:
                least, slowest = progress, part
        return least, slowest

    def _idle(self, part: Partition, now: float) -> bool:
        patience = self.settings.seconds("idle_after") if part.patience is None else part.patience
        return part.empty and now - part.since >= patience

    def _given_up(self, part: Partition) -> bool:
        if part.lags or part.progress is None or part.repeats:
            return part.lags
        return part.progress < self.frontier - self.settings.seconds("max_skew")

    def _judge_pace(self, slowest: Partition | None, now: float) -> None:
        """Give up a partition for which the others, far ahead, have waited while it did not catch up."""
        waiting = slowest is not None and slowest.empty and slowest.progress is not None and self.held > 0
        passed = 0.0 if self._waiting_since is None else now - self._waiting_since
        self._waiting_since = now if waiting else None
        known = [part for part in self._partitions.values() if part.progress is not None]
        near = max((part.progress or 0.0 for part in known), default=0.0) - self.settings.seconds("max_skew")
        for part in known:
            progress = part.progress or 0.0
            if progress >= near:
                part.lags, part.waited = False, 0.0
            elif part is slowest and waiting:
                if not part.waited:
                    part.waited_from = progress
                part.waited += passed
                if part.waited >= PACE_S:
                    part.lags = progress - part.waited_from < PACE * part.waited
                    part.waited = 0.0

    def _passes(self, part: Partition, upto: float, now: float) -> bool:
        """Whether it has jumped so far that the others will not follow: its samples go on as they are."""
        if part.jumped is None or part.empty:
            return False
        first = part.keys(math.inf, 1)
        if not len(first) or first[0] <= upto + self.settings.seconds("max_ahead"):
            if part.progress is not None and part.progress <= upto:
                part.jumped = None
            return False
        return now - part.jumped >= JUMPED_S or part.name in self.full(part.source)

    def _clear(self) -> None:
        for key in [key for key, part in self._partitions.items() if part.ended and part.empty]:
            del self._partitions[key]

    def next_look(self, now: float) -> float:
        """In how many seconds somebody who is waited for may have been silent for long enough."""
        idle_after = self.settings.seconds("idle_after")
        ends = [
            part.since + (idle_after if part.patience is None else part.patience) - now
            for part in self._partitions.values()
            if part.empty and not part.ended
        ]
        return max(0.01, min([1.0, *(left for left in ends if left > 0.0)]))
