"""Labelled recordings of networks in one shape: a quiet history, streams to watch, labels, the graph.

A set is a folder: `series/NAME.csv.gz` (first column the time), `nodes.csv` (node, channels), `edges.csv`
(u, v, weight) and `labels.csv` (series, kind, start, end, nodes; rows [start, end), `*`: the whole system).
What is history and what is stream is decided here once per set, by what its authors say is normal, and never
by what any detector makes of it.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import networkx as nx
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

GRACE = 25  # ticks after the end of a label in which an alarm still belongs to it


@dataclass(frozen=True)
class Label:
    start: int
    end: int
    nodes: frozenset[str] = frozenset()  # empty: the whole system


@dataclass
class Recording:
    """A quiet part to learn from, streams to watch, labels of each."""

    network: nx.Graph[str]
    history: Floats  # (T, N, d)
    streams: list[tuple[Floats, list[Label]]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return list(self.network.nodes)


class Folder:
    """One set on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.channels: dict[str, list[str]] = {}
        if (path / "nodes.csv").exists():
            self.channels = {
                r["node"]: (r.get("channels") or r["node"]).split() for r in self._rows("nodes.csv")
            }

    def _rows(self, name: str) -> list[dict[str, str]]:
        with (self.path / name).open() as lines:
            return list(csv.DictReader(lines))

    @property
    def series(self) -> list[str]:
        return sorted(p.name.removesuffix(".csv.gz") for p in (self.path / "series").glob("*.csv.gz"))

    def network(self, names: list[str] | None = None, series: str | None = None) -> nx.Graph[str]:
        """Of all nodes, or of ``names`` where every series has links of its own."""
        graph: nx.Graph[str] = nx.Graph()
        graph.add_nodes_from(names or self.channels)
        for r in self._rows("edges.csv"):
            if series is None or r["series"] == series:
                graph.add_edge(r["u"], r["v"], weight=float(r["weight"]))
        return graph

    def table(self, series: str) -> dict[str, Floats]:
        with gzip.open(self.path / "series" / f"{series}.csv.gz", "rt") as lines:
            rows = list(csv.reader(lines))
        values = np.array([[float(x) if x else np.nan for x in row[1:]] for row in rows[1:]])
        return dict(zip(rows[0][1:], values.T, strict=True))

    def values(self, series: str, components: int) -> Floats:
        """(T, N, d) with the first ``components`` channels of every node; zeros where a node has fewer."""
        data = self.table(series)
        out = np.zeros((len(next(iter(data.values()))), len(self.channels), components))
        for v, channels in enumerate(self.channels.values()):
            for c, channel in enumerate(channels[:components]):
                out[:, v, c] = data[channel]
        return out

    def labels(self, series: str, first: int = 0, kind: str = "interval") -> list[Label]:
        """In rows counted from ``first``; those that end before it are left out."""
        return [
            Label(int(r["start"]) - first, int(r["end"]) - first, frozenset(r["nodes"].split()) - {"*"})
            for r in self._rows("labels.csv")
            if r["series"] == series and r["kind"] == kind and int(r["end"]) > first
        ]

    def figures(self, series: str) -> dict[str, str]:
        """The line of `series.csv` on ``series``."""
        return next(r for r in self._rows("series.csv") if r["series"] == series)


def skab(at: Folder) -> Iterator[Recording]:
    """Every file has its own normal part of 400 rows, as the benchmark of that set has it."""
    for series in at.series:
        if series != "anomaly-free":
            x = at.values(series, 1)
            yield Recording(at.network(), x[:400], [(x[400:], at.labels(series, 400))])


def tep(at: Folder) -> Iterator[Recording]:
    """The control loops carry a fault through the plant at once: an alarm anywhere finds it."""
    streams = [
        (at.values(s, 1), [Label(g.start, g.end) for g in at.labels(s)])
        for s in at.series if s != "normal_train"
    ]  # fmt: skip
    yield Recording(at.network(), at.values("normal_train", 1), streams)


def batadal(at: Folder) -> Iterator[Recording]:
    watched = "dataset04_attacks"
    history = at.values("dataset03_clean", 1)
    yield Recording(at.network(), history, [(at.values(watched, 1), at.labels(watched))])


def tank_network(at: Folder) -> Iterator[Recording]:
    """No part without leaks: 200 rows in which 23 leaks run and some begin are taken for normal."""
    x = at.values("part1", 1)
    yield Recording(at.network(), x[:200], [(x[200:], at.labels("part1", 200))])


def iceland_seismic(at: Folder) -> Iterator[Recording]:
    """Logarithm of the size of successive differences; normal is what no catalogued event covers in seg1."""

    def sizes(series: str) -> Floats:
        return np.asarray(np.log1p(np.abs(np.diff(at.values(series, 3), axis=0, prepend=0.0))))

    x = sizes("seg1")
    quiet = np.ones(len(x), bool)
    for label in at.labels("seg1"):
        quiet[label.start : label.end] = False
    yield Recording(at.network(), x[quiet], [(sizes("seg2a"), at.labels("seg2a"))])


def umich_rss(at: Folder) -> Iterator[Recording]:
    """Normal: between set-up and the second walk, without the first."""
    x = at.values("part1", 13)
    quiet = np.concatenate([x[40:166], x[190:464]])
    yield Recording(at.network(), quiet, [(x[464:], at.labels("part1", 464))])


def asd(at: Folder) -> Iterator[Recording]:
    """A server is a node with 19 metrics; overlapping labels of several servers are one event."""
    x = np.stack([np.stack(list(at.table(s).values()), axis=1) for s in at.channels], axis=1)
    labels = [
        Label(g.start, g.end, frozenset([s])) for s in at.channels for g in at.labels(s, 2880)
    ]  # fmt: skip
    merged: list[Label] = []
    for g in sorted(labels, key=lambda g: g.start):
        if merged and g.start <= merged[-1].end:
            last = merged.pop()
            g = Label(last.start, max(last.end, g.end), last.nodes | g.nodes)
        merged.append(g)
    yield Recording(at.network(), x[:2880], [(x[2880:], merged)])


def intel_lab(at: Folder) -> Iterator[Recording]:
    watched = "days2-3_injected"
    history = at.values("days1-3_clean", 1)[:2880]
    yield Recording(at.network(), history, [(at.values(watched, 1), at.labels(watched))])


def metr_la(at: Folder) -> Iterator[Recording]:
    """One and a half days before the first injected change are all there is to learn from."""
    x = at.values("days1-4_injected", 1)
    yield Recording(at.network(), x[:410], [(x[410:], at.labels("days1-4_injected", 410))])


def room_occupancy(at: Folder) -> Iterator[Recording]:
    """The night teaches, the day before it is watched; people who come and go within GRACE are one event."""
    x = at.values("dec22", max(map(len, at.channels.values())))
    labels: list[Label] = []
    for g in at.labels("dec22", kind="changepoint"):
        start = labels.pop().start if labels and g.start < labels[-1].end + GRACE else g.start
        labels.append(Label(start, g.start + 1))
    yield Recording(at.network(), x[1258:], [(x[:1258], labels)])


def wsn_suthaharan(at: Folder) -> Iterator[Recording]:
    x = at.values("multi_hop", 2)
    yield Recording(at.network(), x[:2000], [(x[2000:], at.labels("multi_hop", 2000))])


def water_leak_sim(at: Folder) -> Iterator[Recording]:
    streams = [(at.values(s, 1), at.labels(s)) for s in ("leak_a", "leak_b")]
    yield Recording(at.network(), at.values("noleak", 1), streams)


def smd(at: Folder) -> Iterator[Recording]:
    """A machine is a network, its metrics are the nodes; four days teach."""
    for series in at.series:
        data = at.table(series)
        x = np.stack(list(data.values()), axis=1)[:, :, None]
        network = at.network(list(data), series)
        yield Recording(network, x[:5760], [(x[5760:], at.labels(series, 5760))])


def nab(at: Folder) -> Iterator[Recording]:
    """Single series: a network of one node; normal is the probationary part, as its benchmark has it.

    That is 15 % of the rows, 169 of the shortest series: one less than the smallest windows need.
    """
    for series in at.series:
        graph: nx.Graph[str] = nx.Graph()
        graph.add_node("value")
        x = at.table(series)["value"][:, None, None]
        n = max(int(at.figures(series)["probation_rows"]), 170)
        labels = [Label(g.start, g.end) for g in at.labels(series, n, "nab_window")]
        yield Recording(graph, x[:n], [(x[n:], labels)])


NETWORKS: tuple[Callable[[Folder], Iterator[Recording]], ...] = (
    skab, tep, batadal, tank_network, iceland_seismic, umich_rss, asd, intel_lab, metr_la, room_occupancy,
    wsn_suthaharan, water_leak_sim,
)  # fmt: skip
BESIDE = (
    smd,
    nab,
)  # shown, and not part of the mean: two machines of many labels, and series without network
SETS = {make.__name__: make for make in (*NETWORKS, *BESIDE)}
MEAN = tuple(make.__name__ for make in NETWORKS)
LARGE = tuple(make.__name__ for make in BESIDE)


def load(data: Path, name: str) -> list[Recording]:
    """All recordings of a set."""
    if not (data / name).is_dir():
        raise FileNotFoundError(f"{data / name}: no such set; sets are {', '.join(SETS)}")
    return list(SETS[name](Folder(data / name)))
