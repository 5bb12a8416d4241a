"""Shards that take turns are the engine that they were made of, to the last bit."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from detector.engines.density_ratio import DensityRatioEngine
from detector.engines.runners.base import started
from detector.engines.runners.shard import Answer, OutOfTurn, Shard, Turn
from detector.engines.runners.sharded import ShardedEngine
from tests.detector.engines.eventful import GRAPH, LABELS, TICKS, D, N, bits, made, play, settings_of


class Here:
    """Shards in this process, each of which is told everything as if it were far away, and twice."""

    def __init__(self) -> None:
        self.shards: list[Shard] = []

    def begin(self, shards: Iterable[Shard]) -> None:
        self.shards = [pickle.loads(pickle.dumps(shard)) for shard in shards]

    def turn(self, turns: Sequence[Turn]) -> list[Answer]:
        pairs = list(zip(self.shards, pickle.loads(pickle.dumps(turns)), strict=True))
        for shard, turn in pairs:
            shard.turn(turn)
        return [shard.turn(turn) for shard, turn in pairs]

    def ask(self, name: str, given: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        number = self.shards[0].last.number if self.shards[0].last else -1
        return {k: self.shards[k].ask(number, name, rest) for k, rest in given.items()}


def sharded(engine: DensityRatioEngine, most: int) -> ShardedEngine:
    return ShardedEngine(engine, GRAPH, Here(), most)


@pytest.fixture(scope="module")
def whole() -> list[bytes]:
    engine = made()
    play(engine)
    return bits(engine)


@pytest.mark.parametrize("most", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("begun", [0, 30, 84])
def test_shards_give_the_same_bits(whole: list[bytes], most: int, begun: int) -> None:
    """However many there are, and whatever is open when they take over."""
    first = made()
    play(first, 0, begun)
    shards = sharded(first, most)
    assert len(shards.held) == min(most, 4)
    assert bits(shards) == bits(first)
    play(shards, begun)
    assert bits(shards) == whole


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_threads_give_the_same_bits(whole: list[bytes], workers: int) -> None:
    engine = started(made(), GRAPH, settings_of(type="threads", workers=workers))
    assert isinstance(engine, ShardedEngine)
    assert len(engine.held) == 4
    play(engine)
    assert bits(engine) == whole


@pytest.mark.parametrize("most", [1, 2, 4])
def test_states_are_the_same_and_go_on_either_way(whole: list[bytes], most: int) -> None:
    one, shards = made(), sharded(made(), most)
    for engine in (one, shards):
        play(engine, 0, 84)
    (arrays, meta), (others, other_meta) = one.state(), shards.state()
    assert sorted(arrays) == sorted(others)
    assert {k: a.tobytes() for k, a in arrays.items()} == {k: a.tobytes() for k, a in others.items()}
    assert all(others[k].dtype == a.dtype and others[k].shape == a.shape for k, a in arrays.items())
    assert meta == other_meta
    play(shards, 84)  # a state that is taken leaves no mark
    assert bits(shards) == whole
    back = DensityRatioEngine.empty(GRAPH, D, settings_of())
    back.restore(others, json.loads(json.dumps(other_meta)), np.arange(N, dtype=np.intp))
    back.hold([3, 4, 5, 6])
    play(back, 84)
    assert bits(back) == whole
    again = sharded(made(), most)
    again.restore(others, json.loads(json.dumps(other_meta)), np.arange(N, dtype=np.intp))
    again.hold([3, 4, 5, 6])
    play(again, 84)
    assert bits(again) == whole


def test_everything_that_may_be_asked() -> None:
    one, shards = made(), sharded(made(), 3)
    for engine in (one, shards):
        play(engine, 0, 100)
    nodes = np.array([17, 3, 29, 8, 39, 4], np.int32)
    for v in nodes.tolist():
        for name in ("reference", "recent", "times", "log_ratio"):
            np.testing.assert_array_equal(getattr(shards, name)(v), getattr(one, name)(v))
        x = np.random.default_rng(v).normal(size=(3, D))
        np.testing.assert_array_equal(shards.ratio(v, x), one.ratio(v, x))
    np.testing.assert_array_equal(shards.time_of_latest(nodes, 3), one.time_of_latest(nodes, 3))
    assert shards.coverage(nodes) is None
    assert (shards.atoms, 0.0 < shards.residual < 2.0) == (one.atoms, True)
    seeds = np.array([False, True, False, True, False, True])
    asked, told = shards.common, one.common
    for since in (76.0, 90.0):
        for name in ("probability", "p_value"):
            a, b = (getattr(c.membership(nodes, since, seeds), name) for c in (asked, told))
            np.testing.assert_array_equal(a, b)
        a, b = asked.log_ratios(nodes, since), told.log_ratios(nodes, since)
        assert list(a) == list(b)
        np.testing.assert_array_equal(list(a.values()), list(b.values()))
        both = (np.full(len(nodes), since), 5)
        np.testing.assert_array_equal(asked.returned(nodes, *both), told.returned(nodes, *both))
    assert asked.between(nodes, 76.0, 90.0) == told.between(nodes, 76.0, 90.0)
    none = nodes[:0]
    assert len(shards.time_of_latest(none, 3)) == len(shards.count_since(none, none)) == 0
    fresh, the_same = shards.fresh(), one.fresh()
    for engine in (fresh, the_same):
        play(engine, 0, 80)
    assert bits(fresh) == bits(the_same)


def test_what_is_held_is_seen_at_once() -> None:
    """An incident is opened after a tick, and statistics are read before the next one."""
    one, shards = made(), sharded(made(), 4)
    for engine in (one, shards):
        play(engine, 0, 80)
        engine.hold([3, 4])
    assert bits(shards) == bits(one)
    for engine in (one, shards):
        engine.release([4])
    assert bits(shards) == bits(one)


def test_turns_are_taken_in_order_and_once() -> None:
    shard = Shard(made(np.zeros(N, np.int32)), np.zeros(0, np.int32))
    z = np.ones((N, D))
    everyone = np.arange(N, dtype=np.int32)
    shard.turn(Turn(7))
    first = shard.turn(Turn(8, [("slide", (everyone, z))], finish=True))
    assert shard.turn(Turn(8, [("slide", (everyone, z))], finish=True)) is first
    assert shard.ask(8, "bank.ref_count", ()).tolist() == [1] * N
    with pytest.raises(OutOfTurn, match="10 after 8"):
        shard.turn(Turn(10))
    with pytest.raises(OutOfTurn, match="about turn 9"):
        shard.ask(9, "node", ())


def test_a_tick_is_one_exchange() -> None:
    shards = sharded(made(), 4)
    begun = shards._number
    play(shards, 0, 70)
    assert shards._number == begun + 70
    assert TICKS > 70
    assert LABELS.max() == 3
