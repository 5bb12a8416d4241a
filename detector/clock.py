"""Stream time that one wild time stamp cannot move.

The newest believed time drives the watermark, so a single sample dated next year would make every other
one late. The rule, with c = ``confirm`` and a time called *ahead* when it is more than ``max_ahead`` beyond
the newest believed one:

- a sample that is not ahead is believed at once;
- a sample that is ahead is set aside. It is believed, together with those set aside that agree with it
  (times within ``max_ahead`` of its own), as soon as c of the last 2c - 1 arrivals agree, from at least two
  nodes. One node alone is believed after 20 c arrivals in a row that are all ahead; the only node of a
  network needs no second one;
- what was set aside and not believed within 2c - 1 arrivals is rejected as ``future``, and so are those
  that disagree with the ones believed.

So a minority of broken clocks does not move the stream, and a network that was silent for a day resumes
after c samples without losing them. Nothing is believed before the stream has begun: the first c of 2c - 1
arrivals that agree, from any nodes, begin it; a stream that ends before that takes what agrees with its
median time. ``max_ahead`` infinite believes everything.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from detector.samples import MAX_TIME, Columns, Floats

NEVER = -10.0 * MAX_TIME  # the newest time of a stream that has not begun
ALONE = 20  # times ``confirm``: how long one node must insist; longer than a node's usual burst
BLOCK = 4096  # samples scanned at once, so that many doubtful ones do not make the scan quadratic


class Clock:
    """Passes on believed samples in the order in which they become believed."""

    def __init__(self, n_nodes: int, dim: int, max_ahead: float, confirm: int) -> None:
        self.max_ahead, self.confirm = max_ahead, confirm
        self.window = 2 * confirm - 1
        self.needed_nodes = min(2, n_nodes)
        self.newest = NEVER
        self.arrivals = 0
        self.run = 0  # arrivals in a row that were ahead
        self.aside = Columns.empty(dim)
        self.aside_at: list[int] = []  # arrival numbers of those set aside

    def believe(self, batch: Columns) -> tuple[Columns, int]:
        """The samples believed by now, and how many were rejected as ``future``."""
        if math.isinf(self.max_ahead) and not self.aside_at:
            self.newest = max(self.newest, float(batch.times.max(initial=NEVER)))
            return batch, 0
        n_aside = len(self.aside_at)
        pool = Columns.join([self.aside, batch]) if n_aside else batch
        # (arrival number, position in the pool) of those set aside
        waiting = list(zip(self.aside_at, range(n_aside), strict=True))
        order: list[Any] = []
        rejected, at = 0, n_aside
        while at < len(pool):
            if not waiting:
                ordinary = self._ordinary(pool.times[at : at + BLOCK])
                if ordinary:
                    order.append(np.arange(at, at + ordinary))
                    at += ordinary
                    continue
            rejected += self._doubt(pool, at, waiting, order)
            at += 1
        left = [position for _, position in waiting]
        self.aside, self.aside_at = pool.take(left), [arrival for arrival, _ in waiting]
        if not order:
            return pool.take(slice(0, 0)), rejected
        taken = np.concatenate(order)
        if len(taken) == len(batch) and not n_aside and (np.diff(taken) == 1).all():
            return batch, 0
        return pool.take(taken), rejected

    def _ordinary(self, times: Floats) -> int:
        """How many samples from the first on are not ahead; they are believed."""
        newest = np.maximum.accumulate(times)
        np.maximum(newest, self.newest, out=newest)
        before = np.empty_like(newest)
        before[0], before[1:] = self.newest, newest[:-1]
        ahead = times > before + self.max_ahead
        first = int(ahead.argmax())
        n = first if ahead[first] else len(times)
        if n:
            self.newest = float(newest[n - 1])
            self.arrivals += n
            self.run = 0
        return n

    def _doubt(self, pool: Columns, at: int, waiting: list[tuple[int, int]], order: list[Any]) -> int:
        """One arrival while something is, or is to be, set aside. Returns the number rejected."""
        self.arrivals += 1
        rejected = 0
        while waiting and self.arrivals - waiting[0][0] >= self.window:
            waiting.pop(0)
            rejected += 1
        time = float(pool.times[at])
        if time <= self.newest + self.max_ahead:
            self.newest = max(self.newest, time)
            self.run = 0
            order.append([at])
            return rejected
        self.run += 1
        waiting.append((self.arrivals, at))
        agreeing = [p for _, p in waiting if abs(float(pool.times[p]) - time) <= self.max_ahead]
        if len(agreeing) < self.confirm:
            return rejected
        if (
            self.newest > NEVER
            and len({int(pool.nodes[p]) for p in agreeing}) < self.needed_nodes
            and self.run < ALONE * self.confirm
        ):
            return rejected
        rejected += len(waiting) - len(agreeing)
        order.append(agreeing)
        waiting.clear()
        self.newest = max(float(pool.times[p]) for p in agreeing)
        self.run = 0
        return rejected

    def finish(self) -> tuple[Columns, int]:
        """The stream ends: what may still be believed, and how many were rejected."""
        left = self.aside
        self.aside, self.aside_at = left.take(slice(0, 0)), []
        if not len(left):
            return left, 0
        if self.newest > NEVER:
            return left.take(slice(0, 0)), len(left)
        middle = float(np.sort(left.times)[(len(left) - 1) // 2])
        agree = np.abs(left.times - middle) <= self.max_ahead
        believed = left.take(agree)
        self.newest = float(believed.times.max())
        return believed, len(left) - len(believed)

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arrays and JSON from which `restore` continues exactly."""
        arrays = {
            "aside_nodes": self.aside.nodes.copy(),
            "aside_times": self.aside.times.copy(),
            "aside_values": self.aside.values.copy(),
        }
        meta = {
            "newest": self.newest,
            "arrivals": self.arrivals,
            "run": self.run,
            "aside_at": list(self.aside_at),
        }
        return arrays, meta

    def restore(self, aside: Columns, aside_at: list[int], meta: dict[str, Any]) -> None:
        """Continue from `state`; the caller has mapped the nodes of those set aside."""
        self.aside, self.aside_at = aside, aside_at
        self.newest, self.arrivals, self.run = float(meta["newest"]), int(meta["arrivals"]), int(meta["run"])
