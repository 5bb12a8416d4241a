"""What every step of preprocessing promises, crossed with STEPS."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detector.alignment.samples import Columns
from detector.preprocessing.base import Shape, Step, step_classes
from detector.preprocessing.blocks import Blocks
from detector.settings.preprocessing import PreprocessSettings
from detector.settings.registries import STEPS
from estimators.core.graph import Graph

N, D, T = 5, 2, 240
SWITCHED_ON: dict[str, dict[str, Any]] = {
    "seasonal": {"seasonal": 24.0, "seasonal_bins": 6},
    "screen": {"screen": "on"},
    "difference": {"difference": 2},
    "whiten": {"whiten": "aic", "max_order": 3},
    "embed": {"embed": 3},
}
EVERYONE = np.arange(N, dtype=np.int32)


def history(seed: int = 0, n_nodes: int = N) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(T, n_nodes, D)) + 3.0 * np.sin(2 * np.pi * np.arange(T) / 24.0)[:, None, None]
    x[1:] += 0.5 * x[:-1]
    x[rng.random((T, n_nodes)) < 0.02] *= 30.0
    return x


def classes() -> dict[str, type[Step]]:
    brought = [name for name in STEPS if name not in STEPS.builtin]
    return {kind.name: kind for kind in step_classes(brought)}


@pytest.fixture(params=list(STEPS))
def kind(request: pytest.FixtureRequest) -> type[Step]:
    return classes()[request.param]


def made(kind: type[Step], n_nodes: int = N) -> Step:
    given_settings = PreprocessSettings(**SWITCHED_ON.get(kind.name, {}))
    step = kind(given_settings, Shape(n_nodes, D, window=60))
    step.link(Graph.empty(n_nodes))
    return step


def fitted(kind: type[Step], seed: int = 0) -> Step:
    step = made(kind)
    step.fit(Blocks(history(seed), np.arange(float(T))))
    assert step.active
    return step


def layers(seed: int, ticks: int) -> list[Columns]:
    """Some of the nodes in each, spikes now and then."""
    rng = np.random.default_rng(seed)
    x = history(seed + 1)
    found = []
    for t in range(ticks):
        nodes = np.flatnonzero(rng.random(N) < 0.8).astype(np.int32)
        found.append(Columns(nodes, np.full(len(nodes), float(T + t)), x[t, nodes]))
    return found


def rows(parts: list[Columns]) -> list[tuple[int, float, tuple[float, ...]]]:
    """Node, time and values of each sample, whatever the order."""
    joined = Columns.join(parts or [Columns.empty(D)])
    values = map(tuple, joined.values.tolist())
    return sorted(zip(joined.nodes.tolist(), joined.times.tolist(), values, strict=True))


def given_out(step: Step, stream: list[Columns]) -> list[tuple[bytes, bytes, bytes]]:
    out = [part for layer in stream for part in step.apply(layer) if len(part)]
    return [(part.nodes.tobytes(), part.times.tobytes(), part.values.tobytes()) for part in out]


def restored(step: Step, places: Any = EVERYONE) -> Step:
    arrays, meta = step.state()
    assert all(array.dtype.kind in "biuf" for array in arrays.values())
    twin = made(type(step), len(places))
    twin.restore(arrays, json.loads(json.dumps(meta)), np.array(places, np.intp))
    return twin


def test_every_step_is_reached_by_its_name(kind: type[Step]) -> None:
    assert [name for name in classes() if name in STEPS.builtin] == list(STEPS.builtin)
    assert set(classes()) == set(STEPS)
    assert isinstance(kind.cleans, bool)


@given(seed=st.integers(0, 1000), cut=st.integers(0, 40))
@settings(max_examples=15, deadline=None)
@pytest.mark.parametrize("name", list(STEPS))
def test_a_restored_step_goes_on_bit_for_bit(name: str, seed: int, cut: int) -> None:
    one = fitted(classes()[name], seed)
    stream = layers(seed, 60)
    given_out(one, stream[:cut])
    two = restored(one)
    assert given_out(one, stream[cut:]) == given_out(two, stream[cut:])
    for v in range(N):
        assert one.describe(v) == two.describe(v)


def test_taking_the_state_shares_nothing(kind: type[Step]) -> None:
    step = fitted(kind)
    arrays, _ = step.state()
    before = {name: array.copy() for name, array in arrays.items()}
    given_out(step, layers(3, 30))
    assert all(arrays[name].tobytes() == before[name].tobytes() for name in arrays)


def test_nodes_move_come_and_go(kind: type[Step]) -> None:
    """Each node takes over its own row; what another one does is nothing to it."""
    one = fitted(kind)
    given_out(one, layers(4, 20))
    two = restored(one, [3, -1, 0])
    for layer in layers(5, 30):
        kept = layer.take(np.isin(layer.nodes, [0, 3]))
        moved = Columns(np.where(kept.nodes == 0, 2, 0).astype(np.int32), kept.times, kept.values)
        order = np.argsort(moved.nodes)
        first = [part for part in one.apply(kept) if len(part)]
        second = [part for part in two.apply(moved.take(order)) if len(part)]
        for a, b in zip(first, second, strict=True):
            back = np.argsort(np.where(b.nodes == 2, 0, 3))
            np.testing.assert_array_equal(np.where(b.nodes == 2, 0, 3)[back], a.nodes)
            np.testing.assert_array_equal(b.values[back], a.values)


def test_shapes_and_times(kind: type[Step]) -> None:
    """Distinct nodes, finite values of the promised width, times that came in."""
    step, seen = fitted(kind), set()
    for layer in layers(6, 60):
        seen |= set(zip(layer.nodes.tolist(), layer.times.tolist(), strict=True))
        for part in step.apply(layer):
            assert part.values.shape == (len(part.nodes), step.dim_out)
            assert part.values.dtype == np.float64
            assert np.isfinite(part.values).all()
            assert len(set(part.nodes.tolist())) == len(part)
            assert set(zip(part.nodes.tolist(), part.times.tolist(), strict=True)) <= seen
    centre, scale = step.to_units(np.zeros((N, D)), np.ones((N, D)))
    assert centre.shape == scale.shape == (N, step.dim_out)
    assert len(step.components(("a", "b"))) == step.dim_out
    assert json.loads(json.dumps(step.describe(0))) == step.describe(0)
    assert all(isinstance(n, int) for n in step.counts.values())


def test_an_empty_layer_is_nothing(kind: type[Step]) -> None:
    step = fitted(kind)
    before = step.state()[0]
    assert sum(len(part) for part in step.apply(Columns.empty(D))) == 0
    after = step.state()[0]
    assert all(before[name].tobytes() == after[name].tobytes() for name in before)


def test_the_same_nodes_one_by_one(kind: type[Step]) -> None:
    """How a tick is cut into layers does not matter where nodes are not linked."""
    whole, parts = fitted(kind), fitted(kind)
    for layer in layers(7, 50):
        one = [part for part in whole.apply(layer) if len(part)]
        two = [part for i in range(len(layer)) for part in parts.apply(layer.take([i])) if len(part)]
        assert rows(one) == rows(two)


def test_a_restarted_node_is_as_at_the_begin(kind: type[Step]) -> None:
    """What it gives after a restart does not depend on what came before; the others do not notice."""
    one, two = fitted(kind), fitted(kind)
    given_out(one, layers(8, 25))
    given_out(two, layers(9, 25))
    for step in (one, two):
        step.restart(EVERYONE)
    x = np.random.default_rng(1).normal(size=(40, N, D))  # no spikes: how many were masked lately may differ
    stream = [Columns(EVERYONE, np.full(N, 1000.0 + t), row) for t, row in enumerate(x)]
    assert given_out(one, stream) == given_out(two, stream)
    three = restored(one)
    one.restart(np.array([2], np.int32))
    for layer in stream[:10]:
        for a, b in zip(one.apply(layer), three.apply(layer), strict=True):
            others = a.nodes[a.nodes != 2]
            np.testing.assert_array_equal(others, b.nodes[b.nodes != 2])
            np.testing.assert_array_equal(a.values[a.nodes != 2], b.values[b.nodes != 2])


def test_history_and_stream_agree(kind: type[Step]) -> None:
    """`transform` of a block is what `apply` gives row by row, but for rounding and what is dropped."""
    step = fitted(kind)
    x = history(11)
    whole = step.transform(slice(0, N), x, np.broadcast_to(np.arange(float(T))[:, None], (T, N)))
    if kind.name == "seasonal":
        whole = whole - step.level  # type: ignore[attr-defined]  # of `scale`, which was not there to learn it
    streamed = np.full((T, N, step.dim_out), np.nan)
    for t, row in enumerate(x):
        for part in step.apply(Columns(EVERYONE, np.full(N, float(t)), row)):
            streamed[part.times.astype(int), part.nodes] = part.values
    lost = T - len(whole)
    both = ~np.isnan(streamed[lost:]).any(axis=2)
    assert both.mean() > 0.85
    np.testing.assert_allclose(streamed[lost:][both], whole[both], rtol=1e-9, atol=1e-9)


def test_a_later_node_is_learnt_as_the_others_are(kind: type[Step]) -> None:
    """Adopted, it is treated as if it had been there."""
    step, small = fitted(kind), made(kind, 1)
    blocks = Blocks(history(12)[:, :1], np.arange(float(T)))
    small.fit(blocks, like=step)
    assert small.active == step.active
    step.settle()
    small.settle()
    step.adopt(np.array([4], np.int32), small)
    step.restart(np.array([4], np.int32))
    for t, row in enumerate(history(13)[:40, :1]):
        here = step.apply(Columns(np.array([4], np.int32), np.array([float(t)]), row))
        there = small.apply(Columns(np.array([0], np.int32), np.array([float(t)]), row))
        for a, b in zip(here, there, strict=True):
            np.testing.assert_array_equal(a.values, b.values)


def test_fresh_has_learnt_and_seen_nothing(kind: type[Step]) -> None:
    one, two = fitted(kind), fitted(kind)
    given_out(one, layers(14, 30))
    again = one.fresh()
    assert given_out(again, layers(15, 30)) == given_out(two, layers(15, 30))


def test_a_node_without_samples_is_survived(kind: type[Step]) -> None:
    x = history(16)
    x[:, 1] = np.nan
    x[2:, 2] = np.nan
    step = made(kind)
    step.fit(Blocks(x, np.arange(float(T))))
    for layer in layers(17, 30):
        for part in step.apply(layer.take(~np.isin(layer.nodes, [1, 2]))):
            assert np.isfinite(part.values).all()
