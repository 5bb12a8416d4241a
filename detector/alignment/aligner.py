"""Samples in any interleaving become ordered ticks.

    check -> clock (times too far ahead, see clock.py) -> ticks -> order, duplicates -> health (see health.py)

Time is cut in a grid: tick i covers [origin + i step, origin + (i+1) step). The watermark is the newest
believed time less ``lateness``; a tick closes when the watermark reaches its end. Each sample is judged
against the watermark as it stood when the sample arrived, so the ticks do not depend on how the stream was
cut into batches.

A closed tick gives its samples ordered by node and time, in *layers*: the first sample of every node that
has one, then the second of those that have two, and so on. Ticks without a sample are left out.

late        the sample's tick was closed when it arrived
duplicate   same node and time as a sample waiting in the same tick (the first to arrive wins) or as the last
            one emitted
missing     ``hold`` fills a missing component as said in health.py; ``drop`` rejects the sample. A sample
            without any component is always rejected, and does not move the watermark

Every sample received is counted once: received == accepted + waiting + the sum over `REASONS`. Memory is
bounded: beyond ``max_waiting`` samples the oldest ticks are closed by force (``forced``) until a sixteenth
is free.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector.alignment.clock_reset import ClockReset
from detector.alignment.event_time import NEVER, EventTime
from detector.alignment.node_health import NodeHealth
from detector.alignment.samples import MAX_TIME, REASONS, Columns, Sampled, from_samples
from detector.alignment.ticks import NO_NODES, Tick, split_layers
from detector.network.node_index import NodeIndex
from detector.settings.alignment import AlignSettings
from detector.stateful import Arrays, Meta, Rows, places

SLACK = 1e-3  # of a step: a sample that rounding put just before its grid point belongs to it


class Aligner:
    """Takes samples in arrival order, gives ticks in time order. No clock: time is what the samples say."""

    def __init__(self, names: Sequence[str], dim: int, settings: AlignSettings | None = None) -> None:
        if dim < 1:
            raise ValueError(f"dim: must be at least 1, got {dim}")
        self.settings = settings = settings or AlignSettings()
        self.node_index, self.dim = NodeIndex(names), dim
        n = len(self.node_index)
        self.clock = EventTime(
            n,
            dim,
            max_ahead=settings.seconds("max_ahead"),
            confirm=settings.confirm,
            silent_after=settings.seconds("silent_after"),
        )
        self.health = NodeHealth(
            n,
            dim,
            max_gap=settings.seconds("max_gap"),
            silent_after=settings.seconds("silent_after"),
            stuck_after=settings.stuck_after,
            max_hold=settings.max_hold,
        )
        self._behind = ClockReset(n)
        self.counts: dict[str, int] = dict.fromkeys(("received", "accepted", *REASONS), 0)
        self.late: list[Columns] = []  # the late samples of the latest push
        self.forced = 0  # ticks closed because too many samples were waiting
        self._lateness = settings.seconds("lateness")
        self._newest = NEVER
        self._open = int(self._tick_of(np.float64(NEVER)))  # the oldest tick still open
        self._ticks: list[int] = []  # heap of the keys of _waiting
        self._waiting: dict[int, list[Columns]] = {}
        self._n_waiting = 0

    @property
    def waiting(self) -> int:
        """Samples received, and neither emitted nor rejected yet."""
        return self._n_waiting + len(self.clock.aside)

    @property
    def watermark(self) -> float | None:
        """Stream time: no tick that ends before it is open. None before the stream has begun."""
        return self._newest - self._lateness if self._newest > NEVER else None

    @property
    def behind(self) -> float | None:
        """What time it is to most nodes, while nothing comes that is not late."""
        alive = int(np.count_nonzero(~self.health.silent & np.isfinite(self.health.last_time)))
        return self._behind.time(alive, self.settings.seconds("silent_after"))

    def push_samples(self, samples: Sequence[Sampled]) -> list[Tick]:
        """`push` for objects with time, node (a name) and values."""
        columns, rejected = from_samples(self.node_index, samples, self.dim)
        self.counts["received"] += rejected
        self.counts["dimension"] += rejected
        return self.push(columns)

    def push(self, batch: Columns) -> list[Tick]:
        """Take samples in arrival order; the ticks that they close."""
        self.late = []
        believed, rejected = self.clock.believe(self._check(batch))
        self.counts["future"] += rejected
        return self._take(believed)

    def flush(self) -> list[Tick]:
        """The stream ends: close everything. What comes later for these ticks is late."""
        believed, rejected = self.clock.finish()
        self.counts["future"] += rejected
        ticks = self._take(believed)
        if self._ticks:
            self._open = max(self._open, max(self._ticks) + 1)
            self._close(self._open, ticks)
        return ticks

    def set_back(self, to: float) -> list[Tick]:
        """The clock of the samples was set back: close everything, and go on from that time."""
        ticks = self.flush()
        self._newest = self.clock.newest = to
        self._open = int(self._tick_of(np.float64(to - self._lateness)))
        self.clock.heard = np.minimum(self.clock.heard, to)
        self.health.set_back()
        self._behind.forget()
        return ticks

    def _check(self, batch: Columns) -> Columns:
        # Copies: samples may wait here after the caller has filled the arrays anew.
        nodes, times = np.array(batch.nodes, np.int32), np.array(batch.times, np.float64)
        values = np.array(batch.values, np.float64)
        if not (nodes.shape == times.shape == values.shape[:1] and values.shape[1:] == (self.dim,)):
            shapes = f"{nodes.shape}, {times.shape} and {values.shape}"
            raise ValueError(f"batch: expected (n,), (n,) and (n, {self.dim}), got shapes {shapes}")
        self.counts["received"] += len(nodes)
        kept = Columns(nodes, times, values)
        kept = self._refuse(kept, (nodes < 0) | (nodes >= len(self.node_index)), "node")
        kept = self._refuse(kept, ~(np.abs(kept.times) <= MAX_TIME), "time")
        if np.isfinite(kept.values).all():
            return kept
        kept = self._refuse(kept, np.isinf(kept.values).any(axis=1), "infinite")
        missing = np.isnan(kept.values)
        hopeless = missing.all(axis=1) if self.settings.missing == "hold" else missing.any(axis=1)
        return self._refuse(kept, hopeless, "missing")

    def _refuse(self, batch: Columns, bad: Any, reason: str) -> Columns:
        n = int(np.count_nonzero(bad))
        self.counts[reason] += n
        return batch.take(~bad) if n else batch

    def _tick_of(self, times: Any) -> Any:
        return np.floor((times - self.settings.origin) / self.settings.step + SLACK).astype(np.int64)

    def _take(self, batch: Columns) -> list[Tick]:
        """Believed samples, in pieces so small that the bound on waiting ones acts at the right sample."""
        ticks: list[Tick] = []
        limit, at = self.settings.max_waiting, 0
        while at < len(batch):
            size = max(1, limit - self._n_waiting)
            self._sort_in(batch.take(slice(at, at + size)) if at or size < len(batch) else batch, ticks)
            at += size
            if self._n_waiting > limit:
                while self._n_waiting > limit - limit // 16:
                    self.forced += 1
                    self._open = self._ticks[0] + 1
                    self._close(self._open, ticks)
        return ticks

    def _sort_in(self, batch: Columns, ticks: list[Tick]) -> None:
        """Put samples into their ticks, refuse late ones, close what the watermark has passed."""
        tick = self._tick_of(batch.times)
        newest = np.maximum(np.maximum.accumulate(batch.times), self._newest)
        before = np.concatenate([[self._newest], newest[:-1]])
        oldest = np.maximum(self._tick_of(before - self._lateness), self._open)  # as each sample arrived
        late = tick < oldest
        self._behind.take(batch, late)
        if late.any():
            self._store(batch.take(~late), tick[~late])
            self._judge_late(batch.take(late), oldest[late], ticks)
        else:
            self._store(batch, tick)
        self._newest = float(newest[-1])
        self._open = max(self._open, int(self._tick_of(np.float64(self._newest - self._lateness))))
        self._close(self._open, ticks)

    def _store(self, batch: Columns, tick: NDArray[np.int64]) -> None:
        self._n_waiting += len(tick)
        steps = np.diff(tick)
        if (steps < 0).any():
            order = np.argsort(tick, kind="stable")
            batch, tick = batch.take(order), tick[order]
            steps = np.diff(tick)
        cuts = [0, *(np.flatnonzero(steps) + 1).tolist(), len(tick)]
        for first, last in pairwise(cuts):
            if first == last:
                continue
            key = int(tick[first])
            if key not in self._waiting:
                self._waiting[key] = []
                heapq.heappush(self._ticks, key)
            self._waiting[key].append(batch.take(slice(first, last)))

    def _judge_late(self, batch: Columns, oldest: NDArray[np.int64], ticks: list[Tick]) -> None:
        """Count late samples, those that repeat the last one emitted when they arrived as duplicates."""
        for boundary in np.unique(oldest):
            self._close(int(boundary), ticks)  # what had been emitted at that moment, and no more
            here = batch.take(oldest == boundary)
            again = self.health.last_time[here.nodes] == here.times
            self.counts["duplicate"] += int(np.count_nonzero(again))
            self.counts["late"] += int(np.count_nonzero(~again))
            self.late.append(here.kept(~again))

    def _close(self, before: int, ticks: list[Tick]) -> None:
        while self._ticks and self._ticks[0] < before:
            key = heapq.heappop(self._ticks)
            ticks.append(self._emit(key, Columns.join(self._waiting.pop(key))))

    def _emit(self, index: int, samples: Columns) -> Tick:
        start = self.settings.origin + index * self.settings.step
        end = self.settings.origin + (index + 1) * self.settings.step
        self._n_waiting -= len(samples)
        self.health.begin(start)
        stuck_before = self.health.stuck.copy()
        layers, restarts = [], []
        parts, repeated = split_layers(samples)
        self.counts["duplicate"] += repeated
        for layer in parts:
            whole, restart, rejected = self.health.observe(layer)
            self.counts["missing"] += rejected
            self.counts["accepted"] += len(whole)
            if len(whole):
                layers.append(whole)
            if len(restart):
                restarts.append(restart)
        heard = np.concatenate([layer.nodes for layer in layers]) if layers else NO_NODES
        silent, returned = self.health.end(end, heard)
        turned = np.flatnonzero(self.health.stuck != stuck_before).astype(np.int32)
        now = self.health.stuck[turned]
        restart = np.unique(np.concatenate(restarts)) if restarts else NO_NODES
        return Tick(
            index,
            start,
            end,
            tuple(layers),
            restart,
            silent,
            returned,
            stuck=turned[now],
            unstuck=turned[~now],
        )

    def state(self) -> tuple[Arrays, Meta]:
        """Arrays and JSON from which `restore` continues exactly."""
        parts = [part for key in sorted(self._waiting) for part in self._waiting[key]]
        waiting = Columns.join(parts) if parts else Columns.empty(self.dim)
        arrays, clock = self.clock.state()
        health_arrays, health = self.health.state()
        arrays |= health_arrays
        arrays["waiting_nodes"] = waiting.nodes.copy()
        arrays["waiting_times"] = waiting.times.copy()
        arrays["waiting_values"] = waiting.values.copy()
        meta = {
            "dim": self.dim,
            "step": self.settings.step,
            "origin": self.settings.origin,
            "newest": self._newest,
            "open": self._open,
            "forced": self.forced,
            "counts": dict(self.counts),
            "unknown": dict(self.node_index.unknown),
            "clock": clock,
            "health": health,
        }
        return arrays, meta

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        """Continue from `state`, in a new aligner.

        With the same settings and nodes everything that follows is the same. New nodes start without a past,
        samples waiting for removed ones are counted as unknown. Settings may differ.
        """
        if meta["dim"] != self.dim:
            raise ValueError(f"state: has {meta['dim']} components per sample, the network has {self.dim}")
        self.health.restore(arrays, meta["health"], rows)
        self.counts |= meta["counts"]
        self.node_index.unknown = dict(meta["unknown"])
        self.forced, self._newest, self._open = int(meta["forced"]), float(meta["newest"]), int(meta["open"])
        if (meta["step"], meta["origin"]) != (self.settings.step, self.settings.origin):
            # Another grid: open from the first of its ticks that begins after everything closed.
            begins = (meta["origin"] + self._open * meta["step"] - self.settings.origin) / self.settings.step
            self._open = int(np.ceil(begins - SLACK))
        self.clock.restore(arrays, meta["clock"], rows)
        self.clock.aside = self._refuse(self.clock.aside, self.clock.aside.nodes < 0, "node")
        nodes = places(rows, len(arrays["heard"]))[arrays["waiting_nodes"]]
        waiting = Columns(nodes, arrays["waiting_times"], arrays["waiting_values"])
        waiting = self._refuse(waiting, waiting.nodes < 0, "node")
        # A sample that falls before the first open tick of another grid goes into that tick: it was not late.
        self._store(waiting, np.maximum(self._tick_of(waiting.times), self._open))
