"""Stream time that wild time stamps cannot move.

The newest believed time drives the watermark, so a single sample dated next year would make every other
one late. A time is *ahead* when it is more than ``max_ahead`` beyond the newest believed one; a sample that
is not ahead is believed at once. One that is ahead is set aside, and

- **refuted** (rejected as ``future``, with all others set aside) by the next sample that lies within
  ``max_ahead`` of the newest believed time: the stream still is where it was;
- **believed**, together with those set aside within ``max_ahead`` of their median time, once these are at
  least ``confirm`` samples, come from at least as many nodes as the others set aside, and either come from
  more than half of the nodes heard in the last ``silent_after`` seconds, or span ``silent_after`` seconds
  (at most ``max_ahead``) by their own time while nobody refuted them. The others are rejected.

So broken clocks of a minority of nodes, in whatever order they report, do not move the stream; a network
that was silent for a day resumes without losing a sample, all of it quickly, a part of it after
``silent_after``. A stream begins by the same rule, with all nodes counted as heard; one that ends before
takes what agrees with its median time.

What is set aside is looked at again whenever it has grown by an eighth, and bounded: beyond four samples per
node the oldest are rejected. ``max_ahead`` infinite believes everything.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

from detector.alignment.samples import MAX_TIME, Columns
from detector.stateful import Arrays, Meta, Rows, places, take_rows
from estimators.core.types import Floats

NEVER = -10.0 * MAX_TIME  # the newest time of a stream that has not begun
BLOCK = 4096  # samples of which one doubtful one makes all be looked at singly
PER_NODE = 4  # samples set aside
LEAST_ASIDE = 1000  # but at least


class EventTime:
    """Passes on believed samples in the order in which they become believed."""

    def __init__(
        self, n_nodes: int, dim: int, *, max_ahead: float, confirm: int, silent_after: float
    ) -> None:
        self.max_ahead, self.confirm, self.silent_after = max_ahead, confirm, silent_after
        self.limit = max(LEAST_ASIDE, PER_NODE * n_nodes, confirm)
        self.newest = NEVER
        self.heard: Floats = np.full(n_nodes, NEVER)  # time of each node's last believed sample
        self.aside = Columns.empty(dim)
        self.run = 0  # samples set aside since the last one refuted or believed
        self.look_at = confirm  # the run at which to look next

    def believe(self, batch: Columns) -> tuple[Columns, int]:
        """The samples believed by now, and how many were rejected as ``future``."""
        if math.isinf(self.max_ahead):
            if len(self.aside):  # of a state saved under another setting
                batch, self.aside = Columns.join([self.aside, batch]), batch.take(slice(0, 0))
            self.newest = max(self.newest, float(batch.times.max(initial=NEVER)))
            return batch, 0
        n_aside = len(self.aside)
        pool = Columns.join([self.aside, batch]) if n_aside else batch
        aside = deque(range(n_aside))  # positions in the pool
        order: list[NDArray[np.intp]] = []
        rejected = 0
        for first in range(n_aside, len(pool), BLOCK):
            last = min(first + BLOCK, len(pool))
            if not aside and self._ordinary(pool.times[first:last]):
                taken = np.arange(first, last)
                self.heard[pool.nodes[taken]] = pool.times[taken]
                order.append(taken)
            else:
                rejected += self._doubt(pool, first, last, aside, order)
        self.aside = pool.take(list(aside))
        if not order:
            return pool.take(slice(0, 0)), rejected
        believed = np.concatenate(order)
        if len(believed) == len(batch) and not n_aside and (believed[1:] > believed[:-1]).all():
            return batch, 0
        return pool.take(believed), rejected

    def _ordinary(self, times: Floats) -> bool:
        """Whether none of the samples is ahead; then they are believed."""
        newest = np.maximum(np.maximum.accumulate(times), self.newest)
        if times[0] > self.newest + self.max_ahead or (times[1:] > newest[:-1] + self.max_ahead).any():
            return False
        self.newest = float(newest[-1])
        return True

    def _doubt(self, pool: Columns, first: int, last: int, aside: deque[int],
               order: list[NDArray[np.intp]]) -> int:  # fmt: skip
        """Samples of the pool one by one. Returns the number rejected."""
        rejected = 0
        taken: list[int] = []

        def settle() -> None:
            positions = np.array(taken, np.intp)
            self.heard[pool.nodes[positions]] = pool.times[positions]
            order.append(positions)
            taken.clear()

        for at, time in enumerate(pool.times[first:last].tolist(), first):
            if time <= self.newest + self.max_ahead:
                if aside and time >= self.newest - self.max_ahead:
                    rejected += len(aside)
                    self._forget(aside)
                if time > self.newest:
                    self.newest = time
                taken.append(at)
                continue
            aside.append(at)
            self.run += 1
            if len(aside) > self.limit:
                aside.popleft()
                rejected += 1
            if self.run < self.look_at:
                continue
            self.look_at = self.run + max(1, self.run // 8)
            settle()
            positions = np.array(aside, np.intp)
            agree = self._agreeing(pool.nodes[positions], pool.times[positions])
            if agree is not None:
                taken.extend(positions[agree].tolist())
                self.newest = float(pool.times[positions[agree]].max())
                rejected += int(np.count_nonzero(~agree))
                self._forget(aside)
        settle()
        return rejected

    def _forget(self, aside: deque[int]) -> None:
        aside.clear()
        self.run, self.look_at = 0, self.confirm

    def _agreeing(self, nodes: NDArray[np.int32], times: Floats) -> NDArray[np.bool_] | None:
        """Which of those set aside are to be believed, None if it is too early."""
        agree = np.abs(times - _median(times)) <= self.max_ahead
        n_agree, n_other = len(np.unique(nodes[agree])), len(np.unique(nodes[~agree]))
        if np.count_nonzero(agree) < self.confirm or n_agree < n_other:
            return None
        lately = np.count_nonzero(self.heard >= self.newest - self.silent_after)  # all, before the beginning
        span = float(np.ptp(times[agree]))
        if n_agree <= lately / 2 and span < min(self.silent_after, self.max_ahead):
            return None
        return agree

    def finish(self) -> tuple[Columns, int]:
        """The stream ends: what may still be believed, and how many were rejected."""
        left, n = self.aside, len(self.aside)
        self.aside = left.take(slice(0, 0))
        self._forget(deque())
        if not n or self.newest > NEVER:
            return self.aside, n
        believed = left.take(np.abs(left.times - _median(left.times)) <= self.max_ahead)
        self.heard[believed.nodes] = believed.times
        self.newest = float(believed.times.max())
        return believed, n - len(believed)

    def state(self) -> tuple[Arrays, Meta]:
        """Arrays and JSON from which `restore` continues exactly."""
        arrays: Arrays = {
            "aside_nodes": self.aside.nodes.copy(),
            "aside_times": self.aside.times.copy(),
            "aside_values": self.aside.values.copy(),
            "heard": self.heard.copy(),
        }
        return arrays, {"newest": self.newest, "run": self.run, "look_at": self.look_at}

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        """What was set aside for nodes that are gone has node -1: it is for the caller to refuse."""
        take_rows(self, ("heard",), arrays, rows)
        nodes = places(rows, len(arrays["heard"]))[arrays["aside_nodes"]]
        self.aside = Columns(nodes, arrays["aside_times"], arrays["aside_values"])
        self.newest, self.run, self.look_at = float(meta["newest"]), int(meta["run"]), int(meta["look_at"])


def _median(times: Floats) -> float:
    """The lower median: one of the times itself."""
    return float(np.sort(times)[(len(times) - 1) // 2])
