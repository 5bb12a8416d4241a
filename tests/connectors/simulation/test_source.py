"""The built-in network: the changes are where and what the schedule says, in real time or faster."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import networkx as nx
import numpy as np
import pytest
from pydantic import ValidationError

from connectors.simulation.source import SimulateSource


def make(**config: Any) -> SimulateSource:
    return SimulateSource(SimulateSource.Config.model_validate({"start": 1e9, "speed": 0, **config}))


def values(connector: SimulateSource) -> np.ndarray:
    """(ticks, nodes, dimension)"""

    async def main() -> list[Any]:
        await connector.open(None)
        found = []
        while (batch := await connector.read()) is not None:
            found += batch.samples
        return found

    samples = asyncio.run(main())
    nodes = len(connector.names)
    assert [sample.node for sample in samples[:nodes]] == connector.names
    return np.array([sample.values for sample in samples]).reshape(-1, nodes, connector.config.dimension)


@pytest.mark.parametrize("topology", ["ring", "grid", "small_world", "geometric"])
@pytest.mark.parametrize("nodes", [1, 2, 3, 5, 30])
def test_graph_is_connected_and_named_like_the_samples(topology: str, nodes: int) -> None:
    connector = make(topology=topology, nodes=nodes, ticks=2)
    graph = connector.graph()
    assert set(graph) == set(connector.names)
    assert nx.is_connected(graph)
    assert values(connector).shape == (2, nodes, 1)


def test_quiet_is_standard_and_neighbours_are_correlated() -> None:
    connector = make(nodes=20, ticks=4000, topology="ring", dimension=2)
    x = values(connector)
    assert np.abs(x.mean(axis=0)).max() < 0.1
    assert np.abs(x.std(axis=0) - 1).max() < 0.1
    near = np.corrcoef(x[:, 3, 0], x[:, 4, 0])[0, 1]
    far = np.corrcoef(x[:, 3, 0], x[:, 13, 0])[0, 1]
    assert near > 0.3
    assert abs(far) < 0.1


@pytest.mark.parametrize("kind", ["mean", "spread", "correlation", "shape", "drift"])
def test_changes_happen_where_and_when_the_truth_says(kind: str) -> None:
    change = {"at": "1000s", "lasts": "2000s", "kind": kind, "nodes": 4}
    quiet, connector = make(ticks=4000, dimension=2), make(ticks=4000, dimension=2, changes=[change])
    before, after = values(quiet), values(connector)
    (truth,) = connector.truth(4000)
    assert (truth.begin, truth.end, truth.kind, len(truth.nodes)) == (1e9 + 1000, 1e9 + 3000, kind, 4)
    changed = np.abs(before - after).max(axis=2) > 0
    where = np.array([name in truth.nodes for name in connector.names])
    assert not changed[:1000].any()
    assert not changed[3000:].any()
    assert not changed[:, ~where].any()
    assert changed[1100:3000, where].mean() > 0.99


def test_regular_changes_vary() -> None:
    connector = make(every="100s", ticks=1)
    truth = connector.truth(1000)
    assert len(truth) == 9
    assert {one.kind for one in truth} == {
        "mean",
        "spread",
        "shape",
        "drift",
    }  # one component has no correlation
    assert len({one.nodes for one in truth}) > 3


PATTERNS = [
    {"type": "leak", "kind": "mean", "size": 3.0, "fade": 0.5, "nodes": 4, "more": 4, "lasts": "80s"},
    {"type": "jam", "kind": "spread", "size": 0.5, "memory": 0.8, "nodes": ["n03", "n04"]},
]


def test_patterns_come_in_turn() -> None:
    connector = make(every="200s", first="50s", patterns=PATTERNS, ticks=1)
    truth = connector.truth(1000)
    assert [(one.type, one.kind) for one in truth] == [("leak", "mean"), ("jam", "spread")] * 2 + [
        ("leak", "mean")
    ]
    assert [one.begin - 1e9 for one in truth] == [50, 250, 450, 650, 850]
    assert truth[0].end - truth[0].begin == 80
    assert truth[1].end - truth[1].begin == pytest.approx(200 / 3)
    assert truth[1].nodes == ("n03", "n04")
    sizes = {len(one.nodes) for one in make(every="1s", patterns=PATTERNS[:1]).truth(200)}
    assert sizes == {4, 5, 6, 7, 8}


def test_a_change_may_fade_with_every_hop() -> None:
    """A mean by a factor, a spread in its exponent, from the first node on."""
    names = ["n2", "n3", "n4"]
    for kind, size, wanted in (("mean", 4.0, [4.0, 2.0, 1.0]), ("spread", 16.0, [16.0, 4.0, 2.0])):
        change = {"at": 0, "kind": kind, "size": size, "fade": 0.5, "nodes": names}
        quiet = values(make(nodes=8, topology="ring", ticks=64))
        connector = make(nodes=8, topology="ring", ticks=64, changes=[change])
        x = values(connector)
        found = x - quiet if kind == "mean" else x / quiet
        assert np.allclose(found[:, 2:5, 0], wanted)


def test_a_change_may_remember() -> None:
    """Values stick to the ones before them, with the spread that was asked for."""
    change = {"at": "100s", "kind": "spread", "size": 0.5, "memory": 0.8, "nodes": ["n1", "n2"]}
    x = values(make(nodes=5, ticks=20_000, coupling=0, changes=[change]))[..., 0]
    assert np.abs(x[200:, 1:3].std(axis=0) - 0.5).max() < 0.02
    for v, wanted in ((0, 0.0), (1, 0.8), (2, 0.8), (3, 0.0)):
        assert np.corrcoef(x[200:-1, v], x[201:, v])[0, 1] == pytest.approx(wanted, abs=0.04)


def test_corrupt_readings_are_isolated_and_large() -> None:
    corrupt = {"nodes": 2, "share": 0.1, "size": 15.0, "at": "1000s"}
    connector = make(ticks=5000, corrupt=corrupt)
    x = np.abs(values(connector) - values(make(ticks=5000)))[..., 0]
    assert len(connector.corrupt) == 2
    assert not x[:1000].any()
    assert not np.delete(x, connector.corrupt, axis=1).any()
    wrong = x[1000:, connector.corrupt]
    assert 0.08 < (wrong > 0).mean() < 0.12
    assert 10.0 - 1e-9 <= wrong[wrong > 0].min() <= wrong.max() <= 20.0 + 1e-9
    assert make(ticks=1, corrupt={"nodes": ["n07"]}).corrupt == [7]


def test_sensors_have_offset_and_gain() -> None:
    plain = values(make(ticks=10, dimension=2))
    connector = make(ticks=10, dimension=2, offset=50.0, gain=1.0)
    assert np.allclose(values(connector), connector.offset[:, None] + connector.gain[:, None] * plain)
    assert 20.0 < np.abs(connector.offset).max() <= 50.0
    assert np.log(connector.gain).std() == pytest.approx(1.0, abs=0.5)


def test_any_tick_can_be_produced_again() -> None:
    """Whatever happens, a stream that begins late goes on like one that ran all the time."""

    async def rest(first: int) -> np.ndarray:
        connector = make(
            ticks=700, every="150s", first="60s", patterns=PATTERNS, corrupt={}, offset=9.0, gain=0.5
        )
        await connector.open({"tick": first, "start": 1e9})
        found = []
        while (batch := await connector.read()) is not None:
            found += [sample.values for sample in batch.samples]
        return np.array(found).reshape(-1, 30)

    whole = asyncio.run(rest(0))
    for first in (1, 63, 64, 65, 230, 699):
        assert np.array_equal(asyncio.run(rest(first)), whole[first:])


def test_same_seed_same_stream() -> None:
    assert np.array_equal(values(make(ticks=100, seed=3)), values(make(ticks=100, seed=3)))
    assert not np.array_equal(values(make(ticks=100, seed=3)), values(make(ticks=100, seed=4)))


def test_speed_is_kept() -> None:
    """Ten ticks of 100 ms at five-fold speed take 0.2 s."""

    async def main() -> float:
        connector = make(nodes=2, ticks=10, period="100ms", speed=5.0)
        await connector.open(None)
        began = time.monotonic()
        while await connector.read() is not None:
            pass
        return time.monotonic() - began

    assert 0.18 < asyncio.run(main()) < 1.0


def test_real_time_goes_on_while_away() -> None:
    """With stamps of the real clock the missed ticks come at once; with a fixed start none are missed."""

    async def main() -> None:
        connector = SimulateSource(SimulateSource.Config.model_validate({"nodes": 2, "period": "50ms"}))
        await connector.open({"tick": 10, "start": time.time() - 5})
        batch = await connector.read()
        assert batch is not None
        assert 85 <= batch.received / 2 <= 95
        await connector.open({"tick": 10, "start": time.time() + 86400})  # the clock was set back
        batch = await asyncio.wait_for(connector.read(), 30)
        assert batch is not None
        assert batch.received == 2
        fixed = make(nodes=2, period="50ms", speed=1.0)
        await fixed.open({"tick": 10, "start": 1e9})
        batch = await fixed.read()
        assert batch is not None
        assert batch.received == 2
        assert batch.samples[0].time == pytest.approx(1e9 + 0.5)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"changes": [{"at": 1, "nodes": ["n9"]}]}, "changes.nodes: 'n9' is outside n0 to n4"),
        ({"changes": [{"at": 1, "nodes": 9}]}, r"changes.nodes: must be 1 to 5 \(got 9\)"),
        ({"every": 9, "patterns": [{"nodes": 3, "more": 4}]},
         r"patterns.nodes: must be 1 to 5 \(got 3 and 4 more\)"),
        ({"every": 9, "patterns": [{"nodes": []}]}, "patterns.nodes: must name at least one"),
        ({"every": 9, "patterns": [{"nodes": ["n1"], "more": 4}]}, r"more: makes no sense .* \(got 4\)"),
        ({"patterns": [{"nodes": 1}]}, "patterns: needs every"),
        ({"first": "0s"}, "first: needs every"),
        ({"changes": [{"at": 1, "nodes": 2, "kind": "spread", "size": -2, "fade": 0.5}]},
         r"size: a spread that fades must be above 0 \(got -2\)"),
        ({"changes": [{"at": 1, "nodes": 2, "kind": "shape", "fade": 0.5}]},
         r"fade: only mean, spread, drift have it, not shape \(got 0.5\)"),
        ({"changes": [{"at": 1, "nodes": 2, "kind": "correlation", "memory": 0.5}]}, "memory: only mean"),
        ({"changes": [{"at": 1, "nodes": 2, "memory": 1.0}]}, "memory"),
        ({"corrupt": {"nodes": 6}}, r"corrupt.nodes: must be 1 to 5 \(got 6\)"),
        ({"corrupt": {"nodes": ["x"]}}, "corrupt.nodes: 'x' is outside"),
        ({"corrupt": {"share": 2}}, "share"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        make(nodes=5, **config)
