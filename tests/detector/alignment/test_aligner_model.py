"""Alignment against a naive model that takes one sample at a time, as plainly as its rules can be written."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detector.alignment.aligner import Aligner
from detector.alignment.samples import MAX_TIME, REASONS, Columns
from detector.settings.alignment import AlignSettings

NAN, INF = math.nan, math.inf
Row = tuple[int, float, tuple[float, ...]]


class NaiveAligner:
    """Gives ticks as tuples (index, layers, restart, silent, returned, stuck, unstuck)."""

    def __init__(self, n_nodes: int, dim: int, settings: AlignSettings, limit: int = 1000) -> None:
        self.limit = limit  # samples set aside
        self.n, self.dim, self.s = n_nodes, dim, settings
        self.counts = dict.fromkeys(("received", "accepted", *REASONS), 0)
        self.forced = 0
        self.newest = -math.inf  # of believed samples
        self.heard = [-math.inf] * n_nodes
        self.aside: list[Row] = []
        self.run, self.look_at = 0, settings.confirm
        self.open = -math.inf
        self.buckets: dict[int, list[Row]] = {}
        self.nodes: list[dict[str, Any]] = [
            {"last": None, "value": None, "known": [None] * dim, "run": 0, "longest": 0, "varied": False,
             "stuck": False, "silent": False} for _ in range(n_nodes)]  # fmt: skip
        self.resumed, self.until = 0.0, None
        self.ticks: list[Any] = []

    def tick_of(self, time: float) -> int:
        return math.floor((time - self.s.origin) / self.s.step + 1e-3)

    def push(self, node: int, time: float, values: tuple[float, ...]) -> None:
        self.counts["received"] += 1
        missing = [math.isnan(x) for x in values]
        if not 0 <= node < self.n:
            self.counts["node"] += 1
        elif not abs(time) <= MAX_TIME:
            self.counts["time"] += 1
        elif any(math.isinf(x) for x in values):
            self.counts["infinite"] += 1
        elif all(missing) or (self.s.missing == "drop" and any(missing)):
            self.counts["missing"] += 1
        else:
            self.guard((node, time, values))

    def guard(self, row: Row) -> None:
        ahead, silent_after = self.s.seconds("max_ahead"), self.s.seconds("silent_after")
        if math.isinf(ahead):
            self.take(row)
            return
        if row[1] <= self.newest + ahead:
            if row[1] >= self.newest - ahead:
                self.counts["future"] += len(self.aside)
                self.forget()
            self.take(row)
            return
        self.aside.append(row)
        self.run += 1
        if len(self.aside) > self.limit:
            self.aside.pop(0)
            self.counts["future"] += 1
        if self.run < self.look_at:
            return
        self.look_at = self.run + max(1, self.run // 8)
        agree = self.agreeing()
        nodes, others = {row[0] for row in agree}, {row[0] for row in self.aside if row not in agree}
        times = [row[1] for row in agree]
        lately = sum(self.newest - time <= silent_after for time in self.heard) if self.ticking() else self.n
        if len(agree) < self.s.confirm or len(nodes) < len(others):
            return
        if len(nodes) > lately / 2 or max(times) - min(times) >= min(silent_after, ahead):
            self.counts["future"] += len(self.aside) - len(agree)
            self.forget()
            for believed in agree:
                self.take(believed)

    def ticking(self) -> bool:
        return self.newest > -math.inf

    def forget(self) -> None:
        self.aside, self.run, self.look_at = [], 0, self.s.confirm

    def agreeing(self) -> list[Row]:
        middle = sorted(row[1] for row in self.aside)[(len(self.aside) - 1) // 2]
        return [row for row in self.aside if abs(row[1] - middle) <= self.s.seconds("max_ahead")]

    def take(self, row: Row) -> None:
        node, time, _ = row
        self.heard[node] = time
        tick = self.tick_of(time)
        if tick < self.open:
            self.counts["duplicate" if self.nodes[node]["last"] == time else "late"] += 1
        else:
            self.buckets.setdefault(tick, []).append(row)
        self.newest = max(self.newest, time)
        self.close(max(self.open, self.tick_of(self.newest - self.s.seconds("lateness"))))
        limit = self.s.max_waiting
        if self.waiting() > limit:
            while self.waiting() > limit - limit // 16:
                self.forced += 1
                self.close(min(self.buckets) + 1)

    def waiting(self) -> int:
        return sum(map(len, self.buckets.values()))

    def close(self, before: float) -> None:
        self.open = before
        for tick in sorted(self.buckets):
            if tick < before:
                self.emit(tick, self.buckets.pop(tick))

    def flush(self) -> None:
        rows = self.aside
        good = self.agreeing() if rows and not self.ticking() else []
        self.counts["future"] += len(rows) - len(good)
        self.forget()
        for row in good:
            self.take(row)
        if self.buckets:
            self.close(max(self.open, max(self.buckets) + 1))

    def emit(self, index: int, rows: list[Row]) -> None:
        start, end = self.s.origin + index * self.s.step, self.s.origin + (index + 1) * self.s.step
        if self.until is None or start - self.until > self.s.seconds("silent_after"):
            self.resumed = start
        self.until = end
        stuck_before = [node["stuck"] for node in self.nodes]
        silent_before = [node["silent"] for node in self.nodes]
        seen: set[tuple[int, float]] = set()
        depth: dict[int, int] = {}
        layers: dict[int, list[Row]] = {}
        restart, heard = set(), set()
        for row in sorted(rows, key=lambda row: row[:2]):
            if row[:2] in seen:
                self.counts["duplicate"] += 1
                continue
            seen.add(row[:2])
            layer = depth[row[0]] = depth.get(row[0], -1) + 1
            values = self.fill(row)
            if values is None:
                self.counts["missing"] += 1
                continue
            self.counts["accepted"] += 1
            layers.setdefault(layer, []).append((row[0], row[1], values))
            heard.add(row[0])
            if self.observe(row[0], row[1], values):
                restart.add(row[0])
        for v in heard:
            self.nodes[v]["silent"] = False
        silent = []
        for v, node in enumerate(self.nodes):
            since = self.resumed if node["last"] is None else max(node["last"], self.resumed)
            if end - since > self.s.seconds("silent_after") and not node["silent"]:
                node["silent"] = True
                silent.append(v)
        returned = [v for v in sorted(heard) if silent_before[v]]
        stuck = [v for v in range(self.n) if self.nodes[v]["stuck"] and not stuck_before[v]]
        unstuck = [v for v in range(self.n) if stuck_before[v] and not self.nodes[v]["stuck"]]
        self.ticks.append(
            (index, [layers[k] for k in sorted(layers)], sorted(restart), silent, returned, stuck, unstuck)
        )

    def fill(self, row: Row) -> tuple[float, ...] | None:
        known = self.nodes[row[0]]["known"]  # per component (value, time, age in samples)
        out = []
        for c, x in enumerate(row[2]):
            if not math.isnan(x):
                known[c] = (x, row[1], 0)
                out.append(x)
                continue
            if known[c] is None:
                out.append(x)
                continue
            value, time, age = known[c][0], known[c][1], known[c][2] + 1
            known[c] = (value, time, age)
            fresh = age <= self.s.max_hold and row[1] - time <= self.s.seconds("max_gap")
            out.append(value if fresh else x)
        return None if any(math.isnan(x) for x in out) else tuple(out)

    def observe(self, v: int, time: float, values: tuple[float, ...]) -> bool:
        node = self.nodes[v]
        gap = node["last"] is not None and time - node["last"] > self.s.seconds("max_gap")
        node["last"] = time
        if node["value"] == values:
            node["run"] += 1
        else:
            if node["run"]:
                node["varied"] = True
                if not node["stuck"]:
                    node["longest"] = max(node["longest"], node["run"])
            node["run"], node["value"] = 1, values
        node["stuck"] = node["varied"] and node["run"] >= max(self.s.stuck_after, 2 * node["longest"])
        return gap


def columns(rows: list[tuple[int, float, tuple[float, ...]]], dim: int) -> Columns:
    return Columns(
        np.array([row[0] for row in rows], np.int32),
        np.array([row[1] for row in rows], np.float64),
        np.array([row[2] for row in rows], np.float64).reshape(len(rows), dim),
    )


def plain(ticks: list[Any]) -> list[Any]:
    """Ticks as tuples (index, layers, restart, silent, returned, stuck, unstuck)."""

    def rows(layer: Columns) -> list[Any]:
        triples = zip(layer.nodes.tolist(), layer.times.tolist(), layer.values.tolist(), strict=True)
        return [(v, time, tuple(values)) for v, time, values in triples]

    lists = ("restart", "silent", "returned", "stuck", "unstuck")
    return [
        (t.index, [rows(layer) for layer in t.layers], *(getattr(t, name).tolist() for name in lists))
        for t in ticks
    ]


def balanced(target: Aligner) -> bool:
    c = target.counts
    return c["received"] == c["accepted"] + target.waiting + sum(c[reason] for reason in REASONS)


# Times on a coarse lattice, so that duplicates, lateness and gaps are common, with a few wild ones.
times = st.one_of(
    st.integers(0, 60).map(lambda k: k / 4),
    st.integers(0, 60).map(lambda k: k / 4),
    st.integers(0, 400).map(float),
    st.sampled_from([1000.0, 1000.5, 1001.0, 5000.0, -50.0, NAN, INF, -INF, 1e300]),
)
component = st.sampled_from([0.0, 0.0, 1.0, 2.0, NAN, INF])


def long_stream(seed: int, n: int, dim: int) -> list[Row]:
    """What a real stream does: nearly in order, with pauses of nodes and network, frozen and wild values."""
    rng = np.random.default_rng(seed)
    now, rows = 0.0, []
    frozen, away = np.zeros(n, bool), np.zeros(n, bool)
    for _ in range(int(rng.integers(20, 60))):
        now += rng.choice([0.25, 1.0, 2.0, 15.0, 200.0], p=[0.3, 0.5, 0.15, 0.04, 0.01])
        frozen ^= rng.random(n) < 0.1
        away ^= rng.random(n) < 0.1
        for v in np.flatnonzero(~away):
            time = now + rng.choice([0.0, 0.25, -1.0, -3.0, 40.0], p=[0.7, 0.2, 0.05, 0.03, 0.02])
            values = np.zeros(dim) if frozen[v] else rng.integers(0, 9, dim).astype(float)
            values[rng.random(dim) < 0.05] = NAN
            rows += [(int(v), float(time), tuple(values.tolist()))] * int(rng.choice([1, 2], p=[0.95, 0.05]))
    return rows


@st.composite
def streams(draw: st.DrawFn) -> tuple[int, int, AlignSettings, list[Any], list[int]]:
    n, dim = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    how = AlignSettings(
        step=draw(st.sampled_from([0.5, 1.0, 3.0])),
        origin=draw(st.sampled_from([0.0, 0.25])),
        lateness=draw(st.sampled_from([0.0, 1.0, 5.0])),
        max_gap=draw(st.sampled_from([3.0, 8.0])),
        silent_after=draw(st.sampled_from([3.0, 6.0, 30.0])),
        confirm=draw(st.integers(1, 3)),
        stuck_after=draw(st.integers(2, 4)),
        missing=draw(st.sampled_from(["hold", "drop"])),
        max_hold=draw(st.integers(0, 2)),
        max_waiting=draw(st.sampled_from([1, 3, 20, 1000])),
    )
    how = how.model_copy(update={"max_ahead": draw(st.sampled_from([10.0, 30.0, INF]))})
    if draw(st.booleans()):
        rows = long_stream(draw(st.integers(0, 2**32 - 1)), n, dim)
    else:
        row = st.tuples(st.integers(-1, n - 1), times, st.tuples(*[component] * dim))
        rows = draw(st.lists(row, max_size=40))
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    return n, dim, how, rows, [0, *cuts, len(rows)]


@given(streams(), st.sampled_from([3, 1000]))
@settings(max_examples=400, deadline=None)
def test_any_batches_give_the_ticks_of_the_naive_model(stream: Any, limit: int) -> None:
    """Ticks, counts and forced closings do not depend on batch boundaries."""
    n, dim, how, rows, cuts = stream
    model = NaiveAligner(n, dim, how, limit)
    for row in rows:
        model.push(*row)
    model.flush()
    fast = Aligner([f"n{v}" for v in range(n)], dim, how)
    fast.clock.limit = limit
    ticks = []
    for first, last in pairwise(cuts):
        ticks += fast.push(columns(rows[first:last], dim))
        assert balanced(fast)
    ticks += fast.flush()

    assert plain(ticks) == model.ticks
    assert fast.counts == model.counts
    assert fast.forced == model.forced
    assert fast.waiting == 0


@given(streams(), st.integers(0, 60))
@settings(max_examples=200, deadline=None)
def test_stopping_anywhere_and_restoring_changes_nothing(stream: Any, stop: int) -> None:
    """State through JSON and arrays gives identical later ticks and counts."""
    n, dim, how, rows, _ = stream
    names = [f"n{v}" for v in range(n)]
    whole = Aligner(names, dim, how)
    first = whole.push(columns(rows[:stop], dim))
    arrays, meta = whole.state()
    second = Aligner(names, dim, how)
    arrays = {key: array.copy() for key, array in arrays.items()}
    second.restore(arrays, json.loads(json.dumps(meta)), np.arange(n))
    expected = whole.push(columns(rows[stop:], dim)) + whole.flush()

    assert plain(second.push(columns(rows[stop:], dim)) + second.flush()) == plain(expected)
    assert second.counts == whole.counts
    assert balanced(second)
    assert [tick.index for tick in first + expected] == sorted({tick.index for tick in first + expected})


@given(streams(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_interleaving_within_the_lateness_does_not_matter(stream: Any, random: Any) -> None:
    """Samples that arrive in any order within the lateness give the same ticks."""
    n, dim, _, rows, _ = stream
    how = AlignSettings(step=1.0, lateness=1000.0, max_gap=8.0, silent_after=6.0)
    how = how.model_copy(update={"max_ahead": INF})
    rows = [(v, t, x) for v, t, x in rows if math.isfinite(t) and 0.0 <= t <= 500.0]
    rows = list({(v, t): (v, t, x) for v, t, x in rows}.values())
    results = []
    for _ in range(2):
        target = Aligner([f"n{v}" for v in range(n)], dim, how)
        results.append(plain(target.push(columns(rows, dim)) + target.flush()))
        random.shuffle(rows)
    assert results[0] == results[1]
