"""Alignment: the same ticks for every cut of the stream, each sample counted once, wild clocks withstood."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from detector.alignment.aligner import Aligner
from detector.alignment.samples import REASONS, Columns, from_samples, typical_interval
from detector.network.node_index import NodeIndex
from detector.settings.alignment import AlignSettings

NAN, INF = math.nan, math.inf


@dataclass
class Sample:
    time: float
    node: str
    values: tuple[float, ...]


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


def aligner(n: int = 3, dim: int = 1, believe_all: bool = False, **given_settings: Any) -> Aligner:
    how = AlignSettings(**given_settings)
    if believe_all:  # as arrays that Python hands over
        how = how.model_copy(update={"max_ahead": INF})
    return Aligner([f"n{v}" for v in range(n)], dim, how)


def run(target: Aligner, rows: list[tuple[int, float, float]]) -> list[Any]:
    return target.push(columns([(v, t, (x,)) for v, t, x in rows], 1)) + target.flush()


def balanced(target: Aligner) -> bool:
    c = target.counts
    return c["received"] == c["accepted"] + target.waiting + sum(c[reason] for reason in REASONS)


def test_a_tick_holds_layers_with_every_node_at_most_once() -> None:
    """Ordered by node and time; the second sample of a node goes to the second layer."""
    target = aligner(step=10.0, lateness=0.0, believe_all=True)
    ticks = run(target, [(2, 3.0, 5.0), (0, 4.0, 2.0), (0, 1.0, 1.0), (1, 2.0, 3.0), (0, 12.0, 9.0)])
    assert plain(ticks)[0][1] == [[(0, 1.0, (1.0,)), (1, 2.0, (3.0,)), (2, 3.0, (5.0,))], [(0, 4.0, (2.0,))]]
    assert [tick.index for tick in ticks] == [0, 1]
    assert (ticks[1].start, ticks[1].end, ticks[0].n_samples) == (10.0, 20.0, 4)


def test_samples_on_decimal_grid_points_fall_one_per_tick() -> None:
    """0.3 / 0.1 is below 3 in floating point; rounding does not move a sample to the tick before."""
    target = aligner(n=1, step=0.1, lateness=0.0, believe_all=True, max_gap=5.0, silent_after=5.0)
    ticks = run(target, [(0, 1.7e9 + k / 10, float(k)) for k in range(200)])
    assert [len(tick.layers) for tick in ticks] == [1] * 200


def test_late_and_duplicate_samples_are_told_apart() -> None:
    """A repeat of the last emitted sample is a duplicate, an older one is late."""
    target = aligner(lateness=0.0)
    run(target, [(0, 0.0, 1.0), (1, 0.5, 1.0), (0, 1.0, 1.0), (0, 2.0, 1.0), (0, 2.0, 7.0), (0, 3.5, 1.0),
                 (0, 2.0, 1.0), (0, 1.0, 1.0), (2, 0.5, 1.0), (1, 0.5, 1.0)])  # fmt: skip
    assert target.counts["duplicate"] == 3
    assert target.counts["late"] == 2
    assert target.counts["accepted"] == 5


def test_one_wild_time_stamp_does_not_move_the_stream() -> None:
    """A sample a year ahead is rejected; all others pass."""
    target = aligner()
    rows = [(v, float(t), 1.0) for t in range(50) for v in range(3)]
    rows.insert(60, (1, 3.2e7, 1.0))
    ticks = run(target, rows)
    assert target.counts["future"] == 1
    assert target.counts["late"] == 0
    assert sum(tick.n_samples for tick in ticks) == 150


@pytest.mark.parametrize("position", [0, 1, 2, 4])
def test_a_wild_first_time_stamp_does_not_hold_the_stream(position: int) -> None:
    """Nor does one among the first samples: the stream begins where most of them agree."""
    target = aligner()
    rows = [(v, float(t), 1.0) for t in range(50) for v in range(3)]
    rows.insert(position, (2, 3.2e7, 1.0))
    run(target, rows)
    assert (target.counts["future"], target.counts["accepted"]) == (1, 150)


def test_a_broken_clock_does_not_stop_the_others() -> None:
    """One node of three sends a day ahead for ever: its samples are refused, the others' are not."""
    target = aligner()
    run(target, [(v, t + (86400.0 if v == 1 else 0.0), 1.0) for t in range(200) for v in range(3)])
    assert target.counts["future"] == 200
    assert target.counts["accepted"] == 400


def test_a_network_silent_for_a_day_resumes_without_loss() -> None:
    """Samples that agree, from two nodes, confirm the new time; nodes restart, none is called silent."""
    target = aligner()
    rows = [(v, float(t), float(t)) for t in range(20) for v in range(3)]
    rows += [(v, 86400.0 + t, float(t)) for t in range(20) for v in range(3)]
    ticks = run(target, rows)
    assert target.counts["accepted"] == 120
    assert [tick.restart.tolist() for tick in ticks if len(tick.restart)] == [[0, 1, 2]]
    assert all(len(tick.silent) == 0 for tick in ticks)


def test_a_gateway_with_a_wrong_clock_does_not_move_the_stream() -> None:
    """A third of the nodes, one after the other in every round, a day ahead: only theirs are refused."""
    target = aligner(n=30)
    run(target, [(v, t + (86400.0 if v < 10 else 0.0), 1.0) for t in range(100) for v in range(30)])
    assert target.counts["late"] == 0
    assert target.counts["accepted"] == 2000


def test_a_part_of_the_network_resumes_after_silent_after() -> None:
    """One node of three comes back alone: believed once nobody else spoke for 60 s by its own time."""
    target = aligner(silent_after=60.0)
    rows = [(v, float(t), 1.0) for t in range(20) for v in range(3)]
    ticks = target.push(columns([(v, t, (x,)) for v, t, x in rows], 1))
    alone = [(0, 86400.0 + t, (1.0,)) for t in range(80)]
    ticks += target.push(columns(alone[:60], 1))
    assert target.waiting == 60 + 9
    target.push(columns(alone[60:], 1))
    target.flush()
    assert target.counts["accepted"] == 60 + 80


def test_old_samples_do_not_refute_a_resumed_stream() -> None:
    """A node that first sends what it had stored, hours before the silence, does not hold the others up."""
    target = aligner(n=4)
    rows = [(v, 20_000.0 + t, 1.0) for t in range(20) for v in range(4)]
    for t in range(20):
        rows += [(v, 90_000.0 + t, 1.0) for v in range(3)] + [(3, 10_000.0 + t, 1.0)]
    run(target, rows)
    assert (target.counts["future"], target.counts["late"], target.counts["accepted"]) == (0, 20, 140)


def test_what_is_set_aside_is_bounded() -> None:
    """Times that never agree are rejected in the end."""
    target = aligner(n=1)
    target.push(columns([(0, 1e5 * t, (1.0,)) for t in range(3000)], 1))
    assert target.waiting == 1000
    assert target.counts["future"] == 2000


def test_the_only_node_of_a_network_needs_no_second_one() -> None:
    target = aligner(n=1)
    run(target, [(0, float(t), 1.0) for t in range(20)] + [(0, 86400.0 + t, 1.0) for t in range(20)])
    assert target.counts["accepted"] == 40


def test_a_stream_that_ends_early_gives_what_it_had() -> None:
    """Fewer samples than confirm: those that agree with the median time are taken."""
    target = aligner(n=1)
    ticks = run(target, [(0, 0.0, 1.0), (0, 1.0, 1.0), (0, 9e9, 1.0)])
    assert [tick.index for tick in ticks] == [0, 1]
    assert target.counts["future"] == 1


def test_silence_is_told_once_and_the_return_too() -> None:
    """In stream time, also for a node never heard."""
    target = aligner(silent_after=5.0, max_gap=5.0)
    rows = [(0, float(t), float(t)) for t in range(40)]
    rows += [(1, float(t), float(t)) for t in [*range(10), *range(30, 40)]]
    ticks = run(target, sorted(rows, key=lambda row: row[1]))
    events = {
        tick.index: (tick.silent.tolist(), tick.returned.tolist(), tick.restart.tolist()) for tick in ticks
    }
    assert {index: event for index, event in events.items() if any(event)} == {
        5: ([2], [], []), 14: ([1], [], []), 30: ([], [1], [1])}  # fmt: skip
    assert target.health.silent.tolist() == [False, False, True]


def test_stuck_is_constant_where_it_was_not() -> None:
    """Node 0 freezes and recovers, node 1 never changed, node 2 has long runs by nature."""
    target = aligner(stuck_after=5)
    rows = []
    for t in range(60):
        rows.append((0, float(t), 7.0 if 20 <= t < 40 else float(t)))
        rows.append((1, float(t), 3.0))
        rows.append((2, float(t), float(t // 4)))
    ticks = run(target, rows)
    assert [(tick.index, tick.stuck.tolist()) for tick in ticks if len(tick.stuck)] == [(24, [0])]
    assert [(tick.index, tick.unstuck.tolist()) for tick in ticks if len(tick.unstuck)] == [(40, [0])]


def test_runs_of_the_learning_period_are_not_stuck() -> None:
    """A history or a learning phase teaches how long each node may stay constant."""
    rows = [(0, float(t), float(t // 20)) for t in range(60)]
    taught, learning, untaught = (aligner(n=1, stuck_after=5) for _ in range(3))
    history = np.repeat(np.arange(5.0), 20)[:, None, None]
    history[3] = NAN
    taught.health.learn(history)
    learning.health.learning = True
    assert not any(len(tick.stuck) for tick in run(taught, rows))
    assert not any(len(tick.stuck) for tick in run(learning, rows))
    assert any(len(tick.stuck) for tick in run(untaught, [(0, float(t), float(t) + 99) for t in range(5)]
                                               + [(0, t + 5, x) for _, t, x in rows]))  # fmt: skip


def test_missing_components_are_held_or_dropped() -> None:
    """Hold: the last value of that component, max_hold times in a row. Drop: the sample is refused."""
    rows = [(0, 0.0, (1.0, 5.0)), (0, 1.0, (2.0, NAN)), (0, 2.0, (3.0, NAN)), (0, 3.0, (4.0, NAN)),
            (0, 4.0, (NAN, NAN)), (0, 5.0, (NAN, 6.0))]  # fmt: skip
    hold, drop = aligner(n=1, dim=2, max_hold=2), aligner(n=1, dim=2, missing="drop")
    held = plain(hold.push(columns(rows, 2)) + hold.flush())
    assert [tick[1][0][0][2] for tick in held if tick[1]] == [(1.0, 5.0), (2.0, 5.0), (3.0, 5.0), (4.0, 6.0)]
    assert hold.counts["missing"] == 2
    drop.push(columns(rows, 2))
    drop.flush()
    assert (drop.counts["missing"], drop.counts["accepted"]) == (5, 1)


def test_waiting_samples_are_bounded() -> None:
    """Beyond max_waiting the oldest ticks are closed by force, and counted."""
    target = aligner(lateness=1000.0, max_waiting=50)
    for t in range(100):
        target.push(columns([(v, float(t), (1.0,)) for v in range(3)], 1))
        assert target.waiting <= 50 + 9
    assert target.forced > 0
    assert balanced(target)


def test_samples_become_columns() -> None:
    """Names to indices; wrong dimensions and unknown names are counted, the first names remembered."""
    target = aligner(n=2)
    good = [Sample(float(t), f"n{v}", (1.0,)) for t in range(10) for v in range(2)]
    bad = [Sample(0.0, "x", (1.0,)), Sample(0.0, "n0", (1.0, 2.0)), Sample(0.0, "n0", ()),
           Sample(INF, "n0", (1.0,)), Sample(1.0, "n0", (-INF,)), Sample(1.0, "n1", (NAN,))]  # fmt: skip
    target.push_samples(good[:5] + bad + good[5:])
    target.push_samples([])
    target.flush()
    expected = {
        "node": 1,
        "dimension": 2,
        "time": 1,
        "infinite": 1,
        "missing": 1,
        "accepted": 20,
        "received": 26,
    }
    assert {key: count for key, count in target.counts.items() if count} == expected
    assert target.node_index.unknown == {"x": 1}


def test_ragged_batches_of_vectors_keep_the_good_ones() -> None:
    node_index = NodeIndex(["a"])
    made, rejected = from_samples(node_index, [Sample(0.0, "a", (1.0, 2.0)), Sample(1.0, "a", (1.0,))], 2)
    assert (made.values.tolist(), rejected) == ([[1.0, 2.0]], 1)
    made, rejected = from_samples(node_index, [Sample(0.0, "a", (1.0,)), Sample(1.0, "a", (1.0,))], 2)
    assert (len(made), made.values.shape, rejected) == (0, (0, 2), 2)


def test_the_typical_interval_is_the_nodes_own() -> None:
    """Not that of the network: three nodes that report every 10 s in turn have an interval of 10 s."""
    rows = [(v, 10.0 * t + 3.0 * v, (0.0,)) for t in range(20) for v in range(3)]
    rows += [(0, 5000.0, (0.0,)), (0, 5000.0, (0.0,)), (-1, 1.0, (0.0,)), (-1, 2.0, (0.0,))]
    assert typical_interval(columns(rows, 1)) == 10.0
    assert math.isnan(typical_interval(columns(rows[:3], 1)))


def test_unknown_names_remembered_are_bounded() -> None:
    node_index = NodeIndex(["a"])
    from_samples(node_index, [Sample(0.0, f"x{i}", (1.0,)) for i in range(500)], 1)
    assert len(node_index.unknown) == 100


def test_nodes_added_and_removed_keep_the_others_state() -> None:
    """Each node takes over its own row; samples waiting for a removed node are counted as unknown."""
    before = Aligner(["a", "b", "c"], 1, AlignSettings(lateness=5.0))
    before.push(columns([(v, float(t), (float(t + v),)) for t in range(20) for v in range(3)], 1))
    after = Aligner(["c", "new", "a"], 1, AlignSettings(lateness=5.0))
    after.restore(*before.state(), np.array([2, -1, 0]))
    assert after.health.last_time.tolist()[0] == before.health.last_time[2]
    assert after.health.last_value.tolist()[2] == before.health.last_value[0].tolist()
    assert after.counts["node"] == before.waiting / 3
    ticks = after.flush()
    assert ticks[0].layers[0].nodes.tolist() == [0, 2]
    assert balanced(after)


def test_another_grid_continues_after_what_was_closed() -> None:
    """A new step on restart: nothing is emitted twice and nothing waiting is lost."""
    before = Aligner(["a"], 1, AlignSettings(step=1.0, lateness=3.0))
    emitted = before.push(columns([(0, float(t), (1.0,)) for t in range(20)], 1))
    after = Aligner(["a"], 1, AlignSettings(step=5.0, lateness=3.0))
    after.restore(*before.state(), np.arange(1))
    later = after.push(columns([(0, float(t), (1.0,)) for t in range(20, 40)], 1)) + after.flush()
    times = [float(t) for tick in emitted + later for layer in tick.layers for t in layer.times]
    assert times == [float(t) for t in range(40)]


def test_the_callers_arrays_may_be_reused() -> None:
    target = aligner(n=1, believe_all=True)
    batch = columns([(0, float(t), (float(t),)) for t in range(3)], 1)
    target.push(batch)
    batch.values[:] = 99.0
    batch.times[:] = 99.0
    assert [row[1][0][0][1:] for row in plain(target.flush())] == [
        (0.0, (0.0,)),
        (1.0, (1.0,)),
        (2.0, (2.0,)),
    ]


def test_wrong_networks_states_and_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="'a' is named twice"):
        Aligner(["a", "b", "a"], 1)
    with pytest.raises(ValueError, match="the network has no node"):
        Aligner([], 1)
    with pytest.raises(ValueError, match="dim: must be at least 1"):
        Aligner(["a"], 0)
    with pytest.raises(ValueError, match="state: has 1 components per sample, the network has 2"):
        aligner(dim=2).restore(*aligner(dim=1).state(), np.arange(1))
    with pytest.raises(ValueError, match=r"batch: expected \(n,\), \(n,\) and \(n, 2\)"):
        aligner(dim=2).push(columns([(0, 0.0, (1.0,))], 1))


def test_a_node_that_joins_is_silent_only_after_it_had_time_to_speak() -> None:
    settings = AlignSettings(step=1.0, silent_after=10.0)
    before = Aligner(["a"], 1, settings)
    before.push(columns([(0, float(t), (float(t),)) for t in range(100)], 1))
    after = Aligner(["a", "new"], 1, settings)
    after.restore(*before.state(), np.array([0, -1]))
    kept = Aligner(["a", "new"], 1, settings)
    kept.restore(*after.state(), np.array([0, 1]))  # a restart in between
    for aligner in (after, kept):
        ticks = aligner.push(columns([(0, float(t), (float(t),)) for t in range(100, 130)], 1))
        (moment,) = [tick.end for tick in ticks if len(tick.silent)]
        assert moment == pytest.approx(before.health.until + 11.0)
