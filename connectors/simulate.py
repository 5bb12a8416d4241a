"""A built-in sensor network with known changes, for trying things out and for tests.

Every value is a function of the seed and the tick alone (a counter-based generator, one block of
ticks at a time), so the stream can be resumed at any tick without replaying the ones before.
"""

from __future__ import annotations

import asyncio
import math
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from .base import MAX_SAMPLES, Batch, Sample, Settings, Source
from .units import Duration

if TYPE_CHECKING:
    import networkx as nx

BLOCK = 64  # ticks drawn from one generator
TANH_SPREAD = 0.8631  # standard deviation of tanh(3 x) for a standard normal x

Kind = Literal["mean", "spread", "correlation", "shape", "drift"]


class Change(Settings):
    """One change: when it begins and ends, where, and how."""

    at: Duration = Field(description="When it begins, after the start of the simulation.")
    lasts: Duration | None = Field(default=None, description="How long it lasts; for ever if not given.")
    kind: Kind = Field(default="mean", description="What changes in the distribution.")
    size: float = Field(default=2.0, description="How much, in standard deviations (spread: factor).")
    nodes: int | list[str] = Field(
        default=5, description="The nodes by name, or how many neighbours around a node drawn by the seed."
    )


class Truth(NamedTuple):
    """What really happened: for scoring a detector."""

    begin: float
    end: float
    kind: Kind
    nodes: tuple[str, ...]


class SimulateSource(Source):
    """A network of sensors whose neighbours are correlated, with changes on a schedule."""

    name = "simulate"
    replayable = True
    guarantee = "No lost alert, no distinct duplicate: any tick can be produced again."

    class Config(Settings):
        nodes: int = Field(default=30, description="Number of nodes.", ge=1, le=1_000_000)
        topology: Literal["ring", "grid", "small_world", "geometric"] = Field(
            default="small_world", description="How the nodes are linked."
        )
        dimension: int = Field(default=1, description="Components of a sample.", ge=1, le=64)
        period: Duration = Field(default=1.0, description="Time between two samples of a node.", gt=0)
        speed: float = Field(
            default=1.0, description="Times faster than the clock; 0 is as fast as it goes.", ge=0
        )
        coupling: float = Field(default=0.3, description="How much neighbours' noise is shared.", ge=0, le=1)
        start: float | None = Field(
            default=None, description="Time of the first sample (unix); default: when it first ran."
        )
        ticks: int | None = Field(default=None, description="End after so many samples of each node.", ge=0)
        changes: list[Change] = Field(default_factory=list, description="The changes, if any.")
        every: Duration | None = Field(
            default=None, description="Besides, a change of varying kind and place each so often.", gt=0
        )
        seed: int = Field(default=0, description="Seed of everything random.", ge=0, lt=2**63)

        @model_validator(mode="after")
        def _names_exist(self) -> SimulateSource.Config:
            known = set(node_names(self.nodes))
            for change in self.changes:
                if isinstance(change.nodes, int):
                    if not 1 <= change.nodes <= self.nodes:
                        raise ValueError(f"changes.nodes must be 1 to {self.nodes} (got {change.nodes})")
                elif not set(change.nodes) <= known:
                    raise ValueError(f"changes.nodes names a node outside {min(known)} to {max(known)}")
            return self

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.names = node_names(config.nodes)
        self._graph = build_graph(config.topology, config.nodes, config.seed)
        self._mixing = _mixing(self._graph, self.names, config.coupling)
        self._tick = 0
        self._start = config.start or 0.0
        self._clock_start = 0.0
        self._block = -1
        self._values: NDArray[np.float64] = np.empty((0, config.nodes, config.dimension))

    def graph(self) -> nx.Graph[str]:
        """The network itself; the nodes are the sample's node ids."""
        return self._graph.copy()

    def truth(self, ticks: int) -> list[Truth]:
        """Every change that begins within the first `ticks` ticks."""
        horizon = ticks * self.config.period
        found = []
        for number, change in enumerate(self._schedule(horizon)):
            if change.at < horizon:
                end = math.inf if change.lasts is None else self._start + change.at + change.lasts
                nodes = tuple(self.names[i] for i in self._where(number, change))
                found.append(Truth(self._start + change.at, end, change.kind, nodes))
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

    def _row(self, tick: int) -> NDArray[np.float64]:
        if tick // BLOCK != self._block:
            self._block = tick // BLOCK
            self._values = self._draw(self._block)
        row: NDArray[np.float64] = self._values[tick % BLOCK]
        return row

    def _draw(self, block: int) -> NDArray[np.float64]:
        """Quiet noise of one block with the changes put in: (BLOCK, nodes, dimension)."""
        rng = np.random.Generator(np.random.Philox(key=self.config.seed, counter=[0, 0, block, 1]))
        values = rng.standard_normal((BLOCK, self.config.nodes, self.config.dimension))
        if self.config.coupling:
            values = np.stack([self._mixing @ step for step in values])
        ticks = block * BLOCK + np.arange(BLOCK)
        ages = ticks * self.config.period
        for number, change in enumerate(self._schedule(float(ages[-1]) + self.config.period)):
            end = math.inf if change.lasts is None else change.at + change.lasts
            on = (ages >= change.at) & (ages < end)
            if on.any():
                where = np.ix_(on, self._where(number, change))
                values[where] = _changed(
                    values[where], change, (ages[on] - change.at) / self.config.period, rng
                )
        return values

    def _schedule(self, horizon: float) -> list[Change]:
        """The configured changes, then the regular ones that begin before the horizon."""
        changes = list(self.config.changes)
        if self.config.every is not None:
            kinds: tuple[Kind, ...] = ("mean", "spread", "correlation", "shape", "drift")
            count = int(horizon // self.config.every)
            changes += [
                Change(at=i * self.config.every, lasts=self.config.every / 3, kind=kinds[(i - 1) % 5],
                       size=2.0, nodes=min(5, self.config.nodes))
                for i in range(1, count + 1)
            ]  # fmt: skip
        return changes

    def _where(self, number: int, change: Change) -> list[int]:
        if not isinstance(change.nodes, int):
            return [self.names.index(name) for name in change.nodes]
        import networkx as nx

        rng = np.random.Generator(np.random.Philox(key=self.config.seed, counter=[0, 0, number, 2]))
        center = self.names[int(rng.integers(self.config.nodes))]
        near = [center, *(node for _, node in nx.bfs_edges(self._graph, center))]
        near += [name for name in self.names if name not in set(near)] if len(near) < change.nodes else []
        return [self.names.index(name) for name in near[: change.nodes]]


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


def _changed(
    quiet: NDArray[np.float64], change: Change, age: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """(steps, nodes, dimension) -> the same after the change; `age` in ticks since it began."""
    if change.kind == "mean":
        return quiet + change.size
    if change.kind == "spread":
        return quiet * change.size
    if change.kind == "drift":
        return quiet + change.size * np.minimum(1.0, age / 200.0)[:, None, None]
    if change.kind == "correlation":
        if quiet.shape[2] == 1:  # with one component, the link to the neighbours is what is lost
            return rng.standard_normal(quiet.shape)
        return np.repeat(quiet[:, :, :1], quiet.shape[2], axis=2)
    return np.tanh(3.0 * quiet) / TANH_SPREAD  # two humps, same mean and variance
