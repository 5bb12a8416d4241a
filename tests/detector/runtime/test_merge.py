"""Partitions merged by event time: nothing becomes late by the merge, nothing waits for ever (T25)."""

from __future__ import annotations

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from connectors.base import Batch, Sample
from detector.alignment.aligner import Aligner
from detector.runtime.merge import JUMPED_S, LEAST, PACE_S, Merge
from detector.settings.alignment import AlignSettings

SETTINGS = AlignSettings(step=1.0, lateness=3.0, idle_after=5.0, max_skew=60.0)
ALL = 10**9


def batch(times: list[float], node: str = "a", partition: str | None = None) -> Batch:
    samples = [Sample(time, node, (0.0,)) for time in times]
    return Batch(samples=samples, received=len(samples), partition=partition)


def released(merge: Merge, now: float, most: int = ALL) -> list[Sample]:
    """What one look gives, in its order."""
    found = merge.release(now, most)
    samples = [sample for _, one in found.slices for sample in one.samples]
    return samples if found.order is None else [samples[i] for i in found.order.tolist()]


def drained(merge: Merge, now: float, most: int = ALL) -> list[Sample]:
    found: list[Sample] = []
    while some := released(merge, now, most):
        found += some
    return found


def times(samples: list[Sample]) -> list[float]:
    return [sample.time for sample in samples]


def two(settings: AlignSettings = SETTINGS) -> Merge:
    merge = Merge(settings)
    merge.expect("one", [""], 0.0)
    merge.expect("two", [""], 0.0)
    return merge


def test_what_is_ahead_waits_for_the_slowest() -> None:
    merge = two()
    merge.take("one", batch([1.0, 2.0, 3.0, 4.0]), 0.1)
    assert released(merge, 0.1) == []
    merge.take("two", batch([1.5, 2.5], "b"), 0.2)
    assert times(released(merge, 0.2)) == [1.0, 1.5, 2.0, 2.5]
    merge.take("two", batch([9.0], "b"), 0.3)
    assert times(released(merge, 0.3)) == [3.0, 4.0]
    assert merge.held == 1


def test_silence_is_waited_for_no_longer_than_said() -> None:
    merge = two()
    merge.take("one", batch([1.0]), 0.1)
    assert released(merge, 4.9) == []
    assert merge.next_look(4.9) <= 0.2
    assert times(released(merge, 5.1)) == [1.0]
    merge.take("one", batch([2.0]), 6.0)
    assert times(released(merge, 6.0)) == [2.0]
    merge.take("two", batch([2.5], "b"), 6.1)  # it is back: from now on it counts again
    merge.take("one", batch([4.0]), 6.2)
    assert times(released(merge, 6.2)) == [2.5]


def test_a_source_that_takes_long_to_connect_is_not_silent() -> None:
    """With a slow broker its backlog would be late. But nobody is waited for for ever."""
    merge = Merge(SETTINGS)
    merge.expect("one", [""], 0.0)
    merge.expect("two", [""], 0.0, patience=60.0)
    merge.take("one", batch([1.0]), 0.1)
    assert released(merge, 20.0) == []
    merge.connected("two", 20.0)
    assert released(merge, 24.9) == []
    merge.take("two", batch([0.5, 2.0], "b"), 24.9)
    assert times(released(merge, 24.9)) == [0.5, 1.0]
    merge.connected("two", 26.0)  # again: it has given something, so this changes nothing
    merge.take("one", batch([3.0]), 27.0)
    assert times(released(merge, 27.0)) == [2.0]
    assert times(released(merge, 32.1)) == [3.0]

    never = Merge(SETTINGS)
    never.expect("one", [""], 0.0)
    never.expect("two", [""], 0.0, patience=60.0)
    never.take("one", batch([1.0]), 0.1)
    assert released(never, 59.0) == []
    assert times(released(never, 60.1)) == [1.0]


def test_a_source_that_has_ended_is_not_waited_for() -> None:
    merge = two()
    merge.take("one", batch([1.0]), 0.1)
    merge.take("two", batch([0.5, 3.0], "b"), 0.1)
    merge.end("one")
    assert times(drained(merge, 0.1)) == [0.5, 1.0, 3.0]
    merge.end("two")
    assert len(merge) == 0


def test_a_full_partition_is_paused_and_goes_on() -> None:
    merge = Merge(SETTINGS, capacity=2 * LEAST)
    merge.expect("one", ["x", "y"], 0.0)
    merge.take("one", batch([i / LEAST for i in range(LEAST)], partition="x"), 0.1)
    assert merge.full("one") == {"x"}
    merge.take("one", batch([5.0], "b", "y"), 0.2)
    assert len(drained(merge, 0.2)) == LEAST
    assert merge.full("one") == set()


def test_time_spent_behind_a_slow_pipeline_is_not_silence() -> None:
    """Nobody looked for a minute: what was emptied just now has its whole time to give more."""
    merge = two()
    merge.take("one", batch([1.0, 9.0]), 0.1)
    merge.take("two", batch([1.0], "b"), 0.1)
    assert times(released(merge, 60.0)) == [1.0, 1.0]
    assert released(merge, 60.1) == []
    assert times(released(merge, 65.1)) == [9.0]


def test_far_behind_what_was_released_nobody_waits() -> None:
    """A source comes back with an hour of backlog: the others go on meanwhile, and wait when it is near."""
    merge = two()
    merge.take("one", batch([5000.0]), 6.0)
    assert times(released(merge, 6.0)) == [5000.0]
    merge.take("two", batch([1400.0, 1500.0], "b"), 7.0)
    merge.take("one", batch([5001.0]), 7.0)
    assert times(drained(merge, 7.0)) == [1400.0, 1500.0, 5001.0]
    merge.take("two", batch([4990.0], "b"), 7.5)
    merge.take("one", batch([5002.0]), 7.5)
    assert times(drained(merge, 7.5)) == [4990.0]


def test_what_is_read_again_after_a_stop_is_not_far_behind() -> None:
    """Samples that had gone on before come first: what follows them is new, and the others wait for it."""
    merge = two()
    merge.frontier = 1000.0  # where the pipeline stands after a restart
    merge.take("one", batch([800.0, 850.0]), 0.1, first=2)
    merge.take("two", batch([1001.0, 1050.0], "b"), 0.1)
    assert drained(merge, 0.1) == []
    merge.take("one", batch([900.0, 990.0, 1002.0, 1060.0]), 0.2, first=2)
    assert times(drained(merge, 0.2)) == [1001.0, 1002.0, 1050.0]


def test_a_clock_a_day_behind_is_given_up() -> None:
    """At first start nobody knows who is right; who goes on at the pace of time will not catch up."""
    merge = two()
    at, found = 0.0, 0
    while at < 3 * PACE_S and not found:
        merge.take("one", batch([86400.0 + at]), at)
        merge.take("two", batch([at], "b"), at)
        found = sum(sample.time >= 86400.0 for sample in drained(merge, at))
        drained(merge, at + 0.5)
        at += 1.0
    assert PACE_S <= at < 3 * PACE_S


def test_a_long_backlog_is_not_given_up() -> None:
    """The same distance, but one catches up: the other waits for it, for minutes if need be."""
    merge = two()
    merge.take("one", batch([86400.0]), 0.0)
    for second in range(200):
        merge.take("two", batch([100.0 * second], "b"), second)
        assert times(drained(merge, second + 0.1)) == [100.0 * second]
        assert released(merge, second + 0.9) == []


def test_wild_time_stamps_hold_up_nobody() -> None:
    merge = two()
    merge.take("one", batch([1.0, 1e9, 2.0]), 0.1)
    merge.take("two", batch([2.0], "b"), 0.1)
    assert times(released(merge, 0.1)) == [1.0, 1e9, 2.0, 2.0]


def test_a_partition_that_has_jumped_waits_a_minute_for_the_others() -> None:
    merge = two()
    for part in ("one", "two"):
        merge.take(part, batch([1.0], part), 0.1)
    assert len(drained(merge, 0.1)) == 2
    merge.take("one", batch([1e6 + i for i in range(10)]), 0.2)
    second = 0.2
    while second < JUMPED_S:
        second += 2.0
        merge.take("two", batch([second], "b"), second)
        early = [sample for sample in drained(merge, second) if sample.time > 1e5]
        assert len(early) in (4, 0) or second >= JUMPED_S  # those before the jump was believed
    merge.take("one", batch([1e6 + 20]), second)
    assert 1e6 + 20 in times(drained(merge, second + 0.1))


def test_a_clock_that_was_set_back_frees_what_waited_for_its_time() -> None:
    merge = two()
    merge.take("one", batch([1e6 + i for i in range(8)]), 0.1)
    merge.take("two", batch([5.0], "b"), 0.1)
    assert times(released(merge, 0.1)) == [5.0]
    merge.take("one", batch([6.0] * 5), 0.2)
    merge.take("two", batch([7.0], "b"), 0.2)
    assert len(drained(merge, 0.2)) == 13


streams = st.lists(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 2)), min_size=1, max_size=60),
    min_size=1, max_size=4,
)  # fmt: skip


@given(streams, st.integers(0, 10**6), st.integers(1, 50))
def test_late_is_only_what_was_late_in_its_own_partition(
    raw: list[list[tuple[int, int]]], seed: int, most: int
) -> None:
    """However they are read: all come through, partitions keep their order, and none is late by the merge.

    Partitions are made of times that rise, but for a disorder of up to two ticks.
    """
    rng = random.Random(seed)
    settings = SETTINGS.model_copy(update={"max_ahead": math.inf})
    names = [f"p{i}" for i in range(len(raw))]
    queues = {
        name: [Sample(float(time - back), name, (float(k),)) for k, (time, back) in enumerate(sorted(part))]
        for name, part in zip(names, raw, strict=True)
    }
    merge = Merge(settings)
    merge.expect("s", names, 0.0)
    left = {name: list(queue) for name, queue in queues.items()}
    out: list[Sample] = []
    while left:
        name = rng.choice(sorted(left))
        size = rng.randint(1, 20)
        part, left[name] = left[name][:size], left[name][size:]
        merge.take("s", Batch(samples=part, received=len(part), partition=name), 0.0)
        if not left[name]:
            del left[name]
            merge.expect("s", sorted(left), 0.0)
        if rng.random() < 0.5:
            out += released(merge, 0.0, most)
    out += drained(merge, 0.0, most)
    assert merge.held == 0
    for name, queue in queues.items():
        assert [sample for sample in out if sample.node == name] == queue
    aligner = Aligner(names, 1, settings)
    aligner.push_samples(out)
    aligner.flush()
    assert aligner.counts["late"] == 0
