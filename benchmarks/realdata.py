"""Labelled recordings of real and simulated networks: recall, delay and false incidents against the budget.

    OPENBLAS_NUM_THREADS=1 python benchmarks/realdata.py --data ../shared/data [--quick] [--results FILE]

The recordings are not part of the distribution. One rule for all sets: `difference: auto`, `whiten: auto`,
the largest of three banks of windows that the quiet part allows, a budget of one false incident per 1000
ticks; an incident that has not grown for 100 ticks is accepted. An alarm is an incident that opens, or grows
again after 25 ticks. It finds a label if it comes between its start and 25 ticks after its end and names one
of its nodes; alarms that fit no label are false. Periodic and random dummies raise as many alarms as ours,
each naming as many linked nodes, at random.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from rivals import EwmaT2, run
from tables import machine, table

from detector import NetworkDetector
from detector.injection import neighbourhood
from detector.preprocess import Preprocess, PreprocessSettings
from estimators.graph import Graph

Floats = NDArray[np.float64]
GRACE = 25
PER = 1000
REPEATS = 20  # of the dummies
BANKS = ((250, (5, 10, 25, 100, 200)), (100, (5, 10, 25, 50)), (60, (5, 10, 25)))
RULE = {"difference": "auto", "whiten": "auto"}


@dataclass
class Label:
    start: int
    end: int
    nodes: set[str]  # empty: the whole system


@dataclass
class Recording:
    """A quiet part to learn from, streams to watch, labels of each."""

    name: str
    network: nx.Graph[str]
    history: Floats  # (T, N, d)
    streams: list[tuple[Floats, list[Label]]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return list(self.network.nodes)


class Folder:
    """One data set on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nodes = {r["node"]: (r.get("channels") or r["node"]).split() for r in self._rows("nodes.csv")}
        self.network: nx.Graph[str] = nx.Graph()
        self.network.add_nodes_from(self.nodes)
        for r in self._rows("edges.csv"):
            self.network.add_edge(r["u"], r["v"], weight=float(r["weight"]))

    def _rows(self, name: str) -> list[dict[str, str]]:
        with (self.path / name).open() as lines:
            return list(csv.DictReader(lines))

    def table(self, series: str) -> dict[str, Floats]:
        with gzip.open(self.path / "series" / f"{series}.csv.gz", "rt") as lines:
            rows = list(csv.reader(lines))
        columns = zip(*rows[1:], strict=True)
        found = zip(rows[0][1:], list(columns)[1:], strict=True)
        return {name: np.array([float(x) if x else np.nan for x in values]) for name, values in found}

    def values(self, series: str, components: int) -> Floats:
        """(T, N, d) with the first ``components`` channels of every node."""
        data = self.table(series)
        return np.stack(
            [np.stack([data[c] for c in channels[:components]], axis=1) for channels in self.nodes.values()],
            1,
        )

    def labels(self, series: str, first: int = 0, kind: str = "interval") -> list[Label]:
        """Intervals, in rows counted from ``first``; those that end before it are left out."""
        return [
            Label(int(r["start"]) - first, int(r["end"]) - first, set(r["nodes"].split()) - {"*"})
            for r in self._rows("labels.csv")
            if r["series"] == series and r["kind"] == kind and int(r["end"]) > first
        ]  # fmt: skip

    @property
    def series(self) -> list[str]:
        return sorted(p.name.removesuffix(".csv.gz") for p in (self.path / "series").glob("*.csv.gz"))


def skab(at: Folder) -> Iterator[Recording]:
    """Every file has its own normal part of 400 rows, as the benchmark of that set has it."""
    for series in at.series:
        if series != "anomaly-free":
            x = at.values(series, 1)
            yield Recording("skab", at.network, x[:400], [(x[400:], at.labels(series, 400))])


def tep(at: Folder) -> Iterator[Recording]:
    """The control loops carry a fault through the plant at once: an alarm anywhere finds it."""
    streams = [(at.values(s, 1), at.labels(s)) for s in at.series if s != "normal_train"]
    for _, labels in streams:
        for label in labels:
            label.nodes.clear()
    yield Recording("tep", at.network, at.values("normal_train", 1), streams)


def batadal(at: Folder) -> Iterator[Recording]:
    watched = "dataset04_attacks"
    x = at.values("dataset03_clean", 1)
    yield Recording("batadal", at.network, x, [(at.values(watched, 1), at.labels(watched))])


def tank_network(at: Folder) -> Iterator[Recording]:
    """No part without leaks: 200 rows in which 23 leaks run and some begin are taken for normal."""
    x = at.values("part1", 1)
    yield Recording("tank_network", at.network, x[:200], [(x[200:], at.labels("part1", 200))])


def iceland_seismic(at: Folder) -> Iterator[Recording]:
    """Logarithm of the size of successive differences; normal is what no catalogued event covers in seg1."""

    def sizes(series: str) -> Floats:
        return np.asarray(np.log1p(np.abs(np.diff(at.values(series, 3), axis=0, prepend=0.0))))

    x = sizes("seg1")
    quiet = np.ones(len(x), bool)
    for label in at.labels("seg1"):
        quiet[label.start : label.end] = False
    yield Recording("iceland_seismic", at.network, x[quiet], [(sizes("seg2a"), at.labels("seg2a"))])


def umich_rss(at: Folder) -> Iterator[Recording]:
    """Normal: between set-up and the second walk, without the first."""
    x = at.values("part1", 13)
    quiet = np.concatenate([x[40:166], x[190:464]])
    yield Recording("umich_rss", at.network, quiet, [(x[464:], at.labels("part1", 464))])


def asd(at: Folder) -> Iterator[Recording]:
    """A server is a node with 19 metrics; overlapping labels of several servers are one event."""
    x = np.stack([np.stack(list(at.table(s).values()), axis=1) for s in at.nodes], axis=1)
    labels = [Label(g.start, g.end, {s}) for s in at.nodes for g in at.labels(s, 2880)]
    merged: list[Label] = []
    for label in sorted(labels, key=lambda g: g.start):
        if merged and label.start <= merged[-1].end:
            merged[-1].end, merged[-1].nodes = max(merged[-1].end, label.end), merged[-1].nodes | label.nodes
        else:
            merged.append(label)
    yield Recording("asd", at.network, x[:2880], [(x[2880:], merged)])


def intel_lab(at: Folder) -> Iterator[Recording]:
    watched = "days2-3_injected"
    x = at.values("days1-3_clean", 1)[:2880]
    yield Recording("intel_lab", at.network, x, [(at.values(watched, 1), at.labels(watched))])


def metr_la(at: Folder) -> Iterator[Recording]:
    """One and a half days before the first injected change are all there is to learn from."""
    x = at.values("days1-4_injected", 1)
    yield Recording("metr_la", at.network, x[:410], [(x[410:], at.labels("days1-4_injected", 410))])


SETS = {
    f.__name__: f
    for f in (skab, tep, batadal, tank_network, iceland_seismic, umich_rss, asd, intel_lab, metr_la)
}
Alarms = list[tuple[int, set[str]]]


def windows(n_history: int) -> dict[str, Any]:
    reference, tests = next((b for b in BANKS if n_history >= 2 * (b[0] + b[1][-1])), BANKS[-1])
    return {"reference": reference, "tests": tests}


def ours(rec: Recording, estimator: str) -> Iterator[Alarms]:
    """What an operator is told: an incident opens, or grows again after a pause."""
    T = len(rec.history)
    settings: dict[str, Any] = {
        "alarm": {"budget": f"1 per {PER} ticks"},
        "preprocess": RULE,
        "windows": windows(T),
        "estimator": {"name": estimator},
        "incidents": {"hold_for": 100.0, "cool_down": 0.0},
    }
    watch = NetworkDetector(rec.network, **settings)
    watch.learn(rec.history)
    arrays, meta = watch.state()
    for x, _ in rec.streams:
        watch = NetworkDetector.from_state(rec.network, arrays, meta, **settings)
        alarms: Alarms = []
        known: dict[str, set[str]] = {}  # incident: its nodes so far
        grown: dict[
            str, tuple[int, int]
        ] = {}  # incident: its latest alarm, tick at which it last gained a node
        for t, row in enumerate(x):
            watch.update(row, time=T + t + 0.5)
            for incident in watch.pipeline.incidents.open.values():
                joined = incident.members.keys() - known.setdefault(incident.id, set())
                if not joined:
                    continue
                latest, last = grown.get(incident.id, (0, -GRACE - 1))
                if t - last > GRACE:
                    latest = len(alarms)
                    alarms.append((t, set()))
                alarms[latest][1].update(joined)
                known[incident.id] |= joined
                grown[incident.id] = (latest, t)
        yield alarms


def chart(rec: Recording) -> Iterator[Alarms]:
    """EWMA T² averaged over neighbours, one threshold for the network from the history in its order."""
    prepare = Preprocess(PreprocessSettings(**RULE)).learn(
        rec.history, np.arange(len(rec.history), dtype=float)
    )
    Z = prepare.transform(rec.history)
    chart = EwmaT2(np.nan_to_num(Z), Graph.of(rec.network))
    largest = np.nanmax(run(chart.fresh(), Z)[1, 30:], axis=1)
    block = 50
    n = len(largest) // block
    tops = largest[: n * block].reshape(n, block).max(axis=1)
    threshold = float(np.quantile(tops, np.exp(-block / PER)))
    for x, _ in rec.streams:
        S = run(chart.fresh(), prepare.transform(x))[1]
        alarms: Alarms = []
        last = -(10**9)
        for t in np.flatnonzero(np.nanmax(S, axis=1) > threshold):
            who = {rec.names[v] for v in np.flatnonzero(S[t] > threshold)}
            if t - last > GRACE:
                alarms.append((int(t), who))
            else:
                alarms[-1][1].update(who)
            last = int(t)
        yield alarms


def judge(alarms: Alarms, labels: list[Label], n_ticks: int) -> dict[str, Any]:
    """Labels that ran already when watching began (start < 0) need not be found, but excuse an alarm."""

    def fits(alarm: tuple[int, set[str]], label: Label) -> bool:
        t, who = alarm
        return label.start <= t < label.end + GRACE and (not label.nodes or bool(who & label.nodes))

    delays = []
    for label in labels:
        if label.start >= 0:
            hits = [t for t, who in alarms if fits((t, who), label)]
            delays.append(min(hits) - label.start + 1.0 if hits else np.inf)
    false = sum(not any(fits(alarm, label) for label in labels) for alarm in alarms)
    quiet = np.ones(n_ticks, bool)  # where a label holds for the whole system, no alarm can be false
    for label in labels:
        if not label.nodes:
            quiet[max(label.start, 0) : max(label.end + GRACE, 0)] = False
    return {"delays": delays, "alarms": len(alarms), "false": false, "quiet": int(quiet.sum())}


def dummy(rec: Recording, like: list[Alarms], periodic: bool, seed: int) -> Iterator[Alarms]:
    """As many alarms as ours, each naming as many nodes, linked but at random."""
    rng, graph = np.random.default_rng(seed), Graph.of(rec.network)
    for (x, _), alarms in zip(rec.streams, like, strict=True):
        n = len(alarms)
        when = (
            (np.arange(n) + rng.random()) * len(x) / max(n, 1)
            if periodic
            else np.sort(rng.random(n)) * len(x)
        )
        yield [
            (int(t), {rec.names[v] for v in neighbourhood(graph, int(rng.integers(graph.n_nodes)), len(who))})
            for t, (_, who) in zip(when, alarms, strict=True)
        ]


def study(rec: Recording, quick: bool) -> list[dict[str, Any]]:
    methods = {"ours": lambda: ours(rec, "grulsif"), "EWMA T², neighbours": lambda: chart(rec)}
    if not quick:
        methods["POOL"] = lambda: ours(rec, "pool")
        methods["river PageHinkley"] = lambda: ours(rec, "page-hinkley")
    records = []

    def add(method: str, found: list[Alarms]) -> None:
        for alarms, (x, labels) in zip(found, rec.streams, strict=True):
            records.append({"set": rec.name, "method": method} | judge(alarms, labels, len(x)))

    for method, make in methods.items():
        found = list(make())
        add(method, found)
        if method == "ours":
            for k in range(REPEATS):
                add("periodic dummy", list(dummy(rec, found, True, k)))
                add("random dummy", list(dummy(rec, found, False, k)))
    return records


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--quick", action="store_true", help="two small sets, ours and the chart")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--results", type=Path, help="JSON lines: results are added, what is there is kept")
    args = parser.parse_args()
    if not args.data.is_dir():
        sys.exit(0 if args.quick else f"{args.data}: no such folder; give --data")
    if args.quick:
        args.sets = ["umich_rss", "tep"]
    records = []
    if args.results and args.results.exists():
        records = [json.loads(line) for line in args.results.read_text().splitlines()]
    done = {r["set"] for r in records}
    for name in args.sets:
        if name in done:
            continue
        found = [r for rec in SETS[name](Folder(args.data / name)) for r in study(rec, args.quick)]
        records += found
        if args.results:
            with args.results.open("a") as out:
                out.writelines(json.dumps(r) + "\n" for r in found)
        print(name, "done", file=sys.stderr)
    show(records)


def show(records: list[dict[str, Any]]) -> None:
    print(f"{machine()}\nbudget: 1 false incident per {PER} ticks\n")
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for r in records:
        groups.setdefault((r["set"], r["method"]), []).append(r)
    lines = []
    for (name, method), found in groups.items():
        d = np.array([x for r in found for x in r["delays"]], dtype=float)
        hit = d[np.isfinite(d)]
        repeats = REPEATS if "dummy" in method else 1
        quiet, false = sum(r["quiet"] for r in found), sum(r["false"] for r in found)
        middle = f"{np.median(hit):.0f}" if len(hit) else "–"
        alarms = f"{sum(r['alarms'] for r in found) / repeats:.0f}"
        recall = f"{len(hit) / max(len(d), 1):.2f}"
        rate = f"{PER * false / max(quiet, 1):.1f}"
        wrong = f"{false / repeats:.1f}"
        lines.append([name, method, len(d) // repeats, recall, middle, alarms, wrong, quiet // repeats, rate])
    header = ["set", "method", "labels", "recall", "median delay of found", "alarms", "false", "quiet ticks",
              f"false per {PER}"]  # fmt: skip
    print(table(header, lines))


if __name__ == "__main__":
    main()
