"""The built-in network: the changes are where and what the schedule says, in real time or faster."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import networkx as nx
import numpy as np
import pytest
from pydantic import ValidationError

from connectors.simulate import SimulateSource


def make(**config: Any) -> SimulateSource:
    return SimulateSource(SimulateSource.Config.model_validate({"start": 1e9, "speed": 0, **config}))


def values(door: SimulateSource) -> np.ndarray:
    """(ticks, nodes, dimension)"""

    async def main() -> list[Any]:
        await door.open(None)
        found = []
        while (batch := await door.read()) is not None:
            found += batch.samples
        return found

    samples = asyncio.run(main())
    nodes = len(door.names)
    assert [sample.node for sample in samples[:nodes]] == door.names
    return np.array([sample.values for sample in samples]).reshape(-1, nodes, door.config.dimension)


@pytest.mark.parametrize("topology", ["ring", "grid", "small_world", "geometric"])
@pytest.mark.parametrize("nodes", [1, 2, 3, 5, 30])
def test_graph_is_connected_and_named_like_the_samples(topology: str, nodes: int) -> None:
    door = make(topology=topology, nodes=nodes, ticks=2)
    graph = door.graph()
    assert set(graph) == set(door.names)
    assert nx.is_connected(graph)
    assert values(door).shape == (2, nodes, 1)


def test_quiet_is_standard_and_neighbours_are_correlated() -> None:
    door = make(nodes=20, ticks=4000, topology="ring", dimension=2)
    x = values(door)
    assert np.abs(x.mean(axis=0)).max() < 0.1
    assert np.abs(x.std(axis=0) - 1).max() < 0.1
    near = np.corrcoef(x[:, 3, 0], x[:, 4, 0])[0, 1]
    far = np.corrcoef(x[:, 3, 0], x[:, 13, 0])[0, 1]
    assert near > 0.3
    assert abs(far) < 0.1


@pytest.mark.parametrize("kind", ["mean", "spread", "correlation", "shape", "drift"])
def test_changes_happen_where_and_when_the_truth_says(kind: str) -> None:
    change = {"at": "1000s", "lasts": "2000s", "kind": kind, "nodes": 4}
    quiet, door = make(ticks=4000, dimension=2), make(ticks=4000, dimension=2, changes=[change])
    before, after = values(quiet), values(door)
    (truth,) = door.truth(4000)
    assert (truth.begin, truth.end, truth.kind, len(truth.nodes)) == (1e9 + 1000, 1e9 + 3000, kind, 4)
    changed = np.abs(before - after).max(axis=2) > 0
    where = np.array([name in truth.nodes for name in door.names])
    assert not changed[:1000].any()
    assert not changed[3000:].any()
    assert not changed[:, ~where].any()
    assert changed[1100:3000, where].mean() > 0.99


def test_regular_changes_vary() -> None:
    door = make(every="100s", ticks=1)
    truth = door.truth(1000)
    assert len(truth) == 9
    assert len({one.kind for one in truth}) == 5
    assert len({one.nodes for one in truth}) > 3


def test_same_seed_same_stream() -> None:
    assert np.array_equal(values(make(ticks=100, seed=3)), values(make(ticks=100, seed=3)))
    assert not np.array_equal(values(make(ticks=100, seed=3)), values(make(ticks=100, seed=4)))


def test_speed_is_kept() -> None:
    """Ten ticks of 100 ms at five-fold speed take 0.2 s."""

    async def main() -> float:
        door = make(nodes=2, ticks=10, period="100ms", speed=5.0)
        await door.open(None)
        began = time.monotonic()
        while await door.read() is not None:
            pass
        return time.monotonic() - began

    assert 0.18 < asyncio.run(main()) < 1.0


def test_real_time_goes_on_while_away() -> None:
    """With stamps of the real clock the missed ticks come at once; with a fixed start none are missed."""

    async def main() -> None:
        door = SimulateSource(SimulateSource.Config.model_validate({"nodes": 2, "period": "50ms"}))
        await door.open({"tick": 10, "start": time.time() - 5})
        batch = await door.read()
        assert batch is not None
        assert 85 <= batch.received / 2 <= 95
        await door.open({"tick": 10, "start": time.time() + 86400})  # the clock was set back
        batch = await asyncio.wait_for(door.read(), 5)
        assert batch is not None
        assert batch.received == 2
        fixed = make(nodes=2, period="50ms", speed=1.0)
        await fixed.open({"tick": 10, "start": 1e9})
        batch = await fixed.read()
        assert batch is not None
        assert batch.received == 2
        assert batch.samples[0].time == pytest.approx(1e9 + 0.5)

    asyncio.run(main())


def test_unknown_nodes_are_refused() -> None:
    with pytest.raises(ValidationError, match="outside"):
        make(nodes=5, changes=[{"at": 1, "nodes": ["n9"]}])
    with pytest.raises(ValidationError, match="1 to 5"):
        make(nodes=5, changes=[{"at": 1, "nodes": 9}])
