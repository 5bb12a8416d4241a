"""A built-in sensor network with known changes, for trying things out and for tests.

Every value is a function of the seed and the tick alone (a counter-based generator, one block of
ticks at a time), so the stream can be resumed at any tick without replaying the ones before.
"""

from __future__ import annotations

import asyncio
import math
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from connectors.base import MAX_SAMPLES, Batch, Sample, Settings, Source
from connectors.settings.units import Duration
from connectors.simulation.changes import (
    Change,
    Corrupt,
    Pattern,
    Planned,
    Truth,
    Values,
    changed,
    check_nodes,
    sluggish,
    usual_of,
)

if TYPE_CHECKING:
    import networkx as nx

BLOCK = 64  # ticks drawn from one generator
NOISE, PLACES, SPIKES, SENSORS = 1, 2, 3, 4  # what a generator is for


class SimulateSource(Source):
    """A network of sensors whose neighbours are correlated, with changes on a schedule."""

    name = "simulate"
    replayable = True
    ends = True
    example = ("nodes: 30", "speed: 60", "every: 30m")
    guarantee = "No lost alert, no distinct duplicate: any tick can be produced again."

    class Config(Settings):
        nodes: int = Field(default=30, description="Number of nodes.", ge=1, le=1_000_000)
        topology: Literal["ring", "grid", "small_world", "geometric"] = Field(
            default="small_world", description="How the nodes are linked."
        )
        dimension: int = Field(default=1, description="Components of a sample.", ge=1, le=64)
        period: Duration = Field(default=1.0, description="Time between two samples of a node.", gt=0)
        speed: float = Field(
            default=1.0, description="Speed relative to real time; 0: as fast as possible.", ge=0
        )
        coupling: float = Field(
            default=0.3, description="Weight of each neighbour's noise in a node's own.", ge=0, le=1
        )
        start: float | None = Field(
            default=None, description="Time of the first sample (unix); default: the time of the first run."
        )
        ticks: int | None = Field(
            default=None, description="Number of samples per node after which the source ends.", ge=0
        )
        changes: list[Change] = Field(default_factory=list, description="The changes, if any.")
        every: Duration | None = Field(
            default=None,
            description="Time between further changes of varying kind and place; null: none.",
            gt=0,
        )
        first: Duration | None = Field(
            default=None,
            description="Start of the first of these; default: after one such interval.",
            ge=0,
        )
        patterns: list[Pattern] = Field(
            default_factory=list,
            description="The changes that `every` cycles through; default: one of each kind.",
        )
        corrupt: Corrupt | None = Field(
            default=None, description="Sensors that send isolated corrupt readings; null: none."
        )
        offset: float = Field(
            default=0.0, description="Largest constant offset of a sensor, up or down.", ge=0
        )
        gain: float = Field(
            default=0.0,
            description="Spread of the logarithms of the sensors' gains; 0: all are 1.",
            ge=0,
            le=5,
        )
        seed: int = Field(default=0, description="Seed of all random numbers.", ge=0, lt=2**63)

        @model_validator(mode="after")
        def _names_exist(self) -> SimulateSource.Config:
            names = node_names(self.nodes)
            for key, patterns in (("changes", self.changes), ("patterns", self.patterns)):
                for pattern in patterns:
                    check_nodes(f"{key}.nodes", pattern.nodes, pattern.most_nodes, names)
            if self.corrupt is not None:
                most = self.corrupt.nodes if isinstance(self.corrupt.nodes, int) else 0
                check_nodes("corrupt.nodes", self.corrupt.nodes, most, names)
            for key, given in (("first", self.first is not None), ("patterns", bool(self.patterns))):
                if given and self.every is None:
                    raise ValueError(f"{key}: needs every, which says how often")
            return self

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.names = node_names(config.nodes)
        self._graph = build_graph(config.topology, config.nodes, config.seed)
        self._mixing = _mixing(self._graph, self.names, config.coupling)
        rng = self._generator(SENSORS, 0)
        self.offset = config.offset * rng.uniform(-1.0, 1.0, config.nodes)  # a sensor reads
        self.gain = np.exp(config.gain * rng.standard_normal(config.nodes))  # offset + gain value
        self.corrupt = self._corrupt_nodes(rng)
        self._tick = 0
        self._start = config.start or 0.0
        self._clock_start = 0.0
        self._block = -1
        self._values: Values = np.empty((0, config.nodes, config.dimension))

    def graph(self) -> nx.Graph[str]:
        """The network itself; the nodes are the sample's node ids."""
        return self._graph.copy()

    def truth(self, ticks: int) -> list[Truth]:
        """Every change that begins within the first `ticks` ticks."""
        found = []
        for planned in self._plan(0.0, ticks * self.config.period):
            begin, pattern = self._start + planned.at, planned.pattern
            nodes = tuple(self.names[i] for i in self._where(planned.number, pattern))
            found.append(
                Truth(begin, begin + planned.lasts, pattern.kind, nodes, pattern.type or pattern.kind)
            )
        return found

    async def open(self, position: Any) -> None:
        if position is None:
            self._tick, self._start = 0, time.time() if self.config.start is None else self.config.start
        else:
            self._tick, self._start = position["tick"], position["start"]
        # Stamps of the real clock go on while we are down: after a restart the missed ticks come at once.
        follows_clock = self.config.speed == 1 and self.config.start is None
        elapsed = self._tick * self.config.period
        if follows_clock:  # unless it was set back meanwhile
            elapsed = max(elapsed, time.time() - self._start)
        self._clock_start = time.monotonic() - elapsed / (self.config.speed or 1)
        self._block = -1

    async def read(self) -> Batch | None:
        last = math.inf if self.config.ticks is None else self.config.ticks
        if self._tick >= last:
            return None
        due = self._tick + 1
        if self.config.speed:
            wait = self._clock_start + due * self.config.period / self.config.speed - time.monotonic()
            await asyncio.sleep(max(0.0, wait))
            passed = (time.monotonic() - self._clock_start) * self.config.speed / self.config.period
            due = max(due, int(passed))
        else:
            due = self._tick + MAX_SAMPLES
            await asyncio.sleep(0)  # at full speed the loop must still breathe
        most = max(1, MAX_SAMPLES // self.config.nodes)
        batch = Batch()
        for tick in range(self._tick, int(min(due, last, self._tick + most))):
            moment = self._start + tick * self.config.period
            rows = self._row(tick).tolist()
            batch.accept([Sample(moment, n, tuple(v)) for n, v in zip(self.names, rows, strict=True)])
        self._tick += batch.received // self.config.nodes
        batch.position = {"tick": self._tick, "start": self._start}
        return batch

    async def close(self) -> None:
        return

    def _row(self, tick: int) -> Values:
        if tick // BLOCK != self._block:
            self._block = tick // BLOCK
            self._values = self._draw(self._block)
        row: Values = self._values[tick % BLOCK]
        return row

    def _generator(self, purpose: int, number: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=self.config.seed, counter=[0, 0, number, purpose]))

    def _draw(self, block: int) -> Values:
        """Readings of one block with the changes put in: (BLOCK, nodes, dimension)."""
        rng = self._generator(NOISE, block)
        values = self._quiet(rng)
        quiet, before = values.copy(), None
        ages = (block * BLOCK + np.arange(BLOCK)) * self.config.period
        for number, at, lasts, pattern in self._plan(float(ages[0]), float(ages[-1]) + self.config.period):
            on = (ages >= at) & (ages < at + lasts)
            nodes = self._where(number, pattern)
            where = np.ix_(on, nodes)
            if pattern.memory:
                if before is None:
                    before = self._quiet(self._generator(NOISE, block - 1)) if block else np.zeros_like(quiet)
                own = sluggish(before[:, nodes], quiet[:, nodes], pattern.memory)
                values[where] += (own - quiet[:, nodes])[on]
            age = (ages[on] - at) / self.config.period
            values[where] = changed(values[where], pattern, age, self._hops(nodes), rng)
        if self.config.corrupt is not None:
            self._spoil(values, ages, self.config.corrupt, self._generator(SPIKES, block))
        return self.offset[:, None] + self.gain[:, None] * values

    def _quiet(self, rng: np.random.Generator) -> Values:
        values = rng.standard_normal((BLOCK, self.config.nodes, self.config.dimension))
        return np.stack([self._mixing @ step for step in values]) if self.config.coupling else values

    def _spoil(self, values: Values, ages: Values, corrupt: Corrupt, rng: np.random.Generator) -> None:
        """Put in isolated wrong readings."""
        shape = (BLOCK, len(self.corrupt), 1)
        wrong = rng.uniform(size=shape) < corrupt.share
        size = corrupt.size * rng.uniform(2.0 / 3.0, 4.0 / 3.0, shape) * rng.choice((-1.0, 1.0), shape)
        values[:, self.corrupt] += np.where(wrong & (ages >= corrupt.at)[:, None, None], size, 0.0)

    def _corrupt_nodes(self, rng: np.random.Generator) -> list[int]:
        if self.config.corrupt is None:
            return []
        wanted = self.config.corrupt.nodes
        if isinstance(wanted, int):
            return [int(v) for v in rng.choice(self.config.nodes, wanted, replace=False)]
        return [self.names.index(name) for name in wanted]

    def _plan(self, since: float, until: float) -> list[Planned]:
        """What is on between two ages: of the configured changes, then of the regular ones."""
        found = [
            Planned(number, change.at, math.inf if change.lasts is None else change.lasts, change)
            for number, change in enumerate(self.config.changes)
        ]
        if self.config.every is not None:
            every, first = self.config.every, self.config.first
            most = {"nodes": min(5, self.config.nodes)}
            usual = [one.model_copy(update=most) for one in usual_of(self.config.dimension)]
            patterns = self.config.patterns or usual
            lasts = [every / 3 if one.lasts is None else one.lasts for one in patterns]
            first = every if first is None else first
            begin = max(0, math.floor((since - first - max(lasts)) / every))
            for i in range(begin, max(begin, math.ceil((until - first) / every))):
                k = i % len(patterns)
                number = len(self.config.changes) + i
                found.append(Planned(number, first + i * every, lasts[k], patterns[k]))
        return [one for one in found if one.at < until and one.at + one.lasts > since]

    def _where(self, number: int, pattern: Pattern) -> list[int]:
        if not isinstance(pattern.nodes, int):
            return [self.names.index(name) for name in pattern.nodes]
        import networkx as nx

        rng = self._generator(PLACES, number)
        center = self.names[int(rng.integers(self.config.nodes))]
        count = pattern.nodes + (int(rng.integers(pattern.more + 1)) if pattern.more else 0)
        near = [center, *(node for _, node in nx.bfs_edges(self._graph, center))]
        near += [name for name in self.names if name not in set(near)] if len(near) < count else []
        return [self.names.index(name) for name in near[:count]]

    def _hops(self, nodes: list[int]) -> Values:
        """(n,) from the first of them."""
        import networkx as nx

        away = nx.single_source_shortest_path_length(self._graph, self.names[nodes[0]])
        return np.array([away.get(self.names[v], math.inf) for v in nodes], float)


def node_names(count: int) -> list[str]:
    width = len(str(count - 1))
    return [f"n{i:0{width}}" for i in range(count)]


def build_graph(topology: str, count: int, seed: int) -> nx.Graph[str]:
    """A connected network of the asked kind, the same for the same seed."""
    import networkx as nx

    graph: Any
    if count < 4 or topology == "ring":
        graph = nx.cycle_graph(count) if count > 2 else nx.path_graph(count)
    elif topology == "grid":
        rows = max(divisor for divisor in range(1, math.isqrt(count) + 1) if count % divisor == 0)
        graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, count // rows), ordering="sorted")
    elif topology == "geometric":
        graph = nx.random_geometric_graph(count, 1.6 * math.sqrt(1 / count), seed=seed)
        parts = [min(part) for part in nx.connected_components(graph)]
        graph.add_edges_from(pairwise(parts))
        for _, place in graph.nodes(data=True):
            place.clear()
    else:
        graph = nx.connected_watts_strogatz_graph(count, min(4, count - 1), 0.2, seed=seed)
    labels: Any = dict(enumerate(node_names(count)))
    named: nx.Graph[str] = nx.relabel_nodes(graph, labels)
    return named


def _mixing(graph: nx.Graph[str], names: list[str], coupling: float) -> Any:
    """Own noise plus a share of each neighbour's, scaled to unit variance (sparse)."""
    import networkx as nx

    adjacency = nx.to_scipy_sparse_array(graph, nodelist=names, dtype=np.dtype(float), format="csr")
    mixing = adjacency * coupling
    mixing.setdiag(1.0)
    norms = np.sqrt(np.asarray((mixing * mixing).sum(axis=1)).ravel())
    return (mixing.T / norms).T.tocsr()
