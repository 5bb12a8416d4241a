"""How soon changes are seen, at equal rates of false alarms: ours, ours without its parts, and others.

    OPENBLAS_NUM_THREADS=1 python benchmarks/detection.py [--quick] [--results FILE]

Every method gets one threshold, from a quiet stream of its own, such that a node's average run length to a
false alarm is 1000 ticks: P(largest value of B ticks <= threshold) = exp(-B / 1000), B = 250. Another quiet
stream tells what run length was achieved. Then streams with a change, of seeds used for nothing else.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from rivals import Dummy, EwmaT2, Mmd, Newma, River, Watcher, run
from tables import machine, table

from detector import NetworkDetector
from detector.engines.density_ratio import Choice, DensityRatioEngine
from detector.engines.density_ratio.playback import Playback
from detector.engines.density_ratio.tuning import Tuning, features
from detector.preprocessing.preprocessor import Preprocessor
from detector.settings.core import Settings
from estimators.core.graph import Graph
from estimators.datasets.scenarios import scenario
from estimators.timeseries.block_bootstrap import block_length, correlation_time

Floats = NDArray[np.float64]
RUN, BLOCK, HORIZON = 1000.0, 250, 250
LEAD = 550  # quiet ticks before a change: all windows are full
MEMBERSHIP = ("incidents", "precision", "recall", "precision25", "recall25")
CASES = ("Ia", "Ib", "IIa", "IIb", "mixed", "modes")


@dataclass
class Case:
    """A network, and streams (T, N, d) of it with a change at a row (none: quiet)."""

    name: str
    network: nx.Graph[int]
    changed: dict[str, NDArray[np.intp]]
    stream: Callable[[int, int, int], Floats]

    @property
    def graph(self) -> Graph:
        return Graph.of(self.network)


def case(name: str, seed: int, n_nodes: int = 100) -> Case:
    if name == "mixed":
        return _mixed(seed, n_nodes)
    if name == "modes":
        return _modes(seed, n_nodes)
    made = scenario(name, n_nodes, seed)
    changed = made.stream(1, 1, 0).changed
    return Case(name, made.graph, changed, lambda T, at, s: made.stream(T, at, s).x)


def _mixed(seed: int, n_nodes: int) -> Case:
    """Own mean and scale per node, AR(1) with 0.3, 1 % missing; a cluster shifts by half a deviation."""
    made = scenario("Ia", n_nodes, seed)
    cluster = made.groups[-1].nodes
    rng = np.random.default_rng(seed)
    centre, scale = rng.normal(0.0, 10.0, n_nodes), np.exp(rng.normal(0.0, 1.0, n_nodes))

    def stream(T: int, at: int, s: int) -> Floats:
        draw = np.random.default_rng([s, 77])
        x = draw.normal(size=(T, n_nodes))
        for t in range(1, T):
            x[t] = 0.3 * x[t - 1] + np.sqrt(1 - 0.09) * x[t]
        x[at:, cluster] += 0.5
        x = centre + scale * x
        x[draw.random((T, n_nodes)) < 0.01] = np.nan
        return np.asarray(x[:, :, None])

    return Case("mixed", made.graph, {"mean +0.5 sd": cluster}, stream)


def _modes(seed: int, n_nodes: int) -> Case:
    """Machines that idle narrowly (sd 0.05 at 4) and work widely (sd 1 at 0); changes of one mode only."""
    made = scenario("Ia", n_nodes, seed)
    changed = dict(zip(("idle +0.1", "work +0.5"), (group.nodes for group in made.groups[-2:]), strict=True))

    def stream(T: int, at: int, s: int) -> Floats:
        draw = np.random.default_rng([s, 78])
        shift = np.zeros((2, T, n_nodes))
        for k, nodes in enumerate(changed.values()):
            shift[k, at:, nodes] = (0.1, 0.5)[k]
        idle = draw.normal(4.0, 0.05, (T, n_nodes)) + shift[0]
        work = draw.normal(0.0, 1.0, (T, n_nodes)) + shift[1]
        return np.asarray(np.where(draw.random((T, n_nodes)) < 0.5, idle, work)[:, :, None])

    return Case("modes", made.graph, changed, stream)


class Ours(Watcher):
    """The engine of the detector, at both of its levels."""

    def __init__(self, label: str, Z: Floats, graph: Graph, settings: Settings,
                 choice: Choice | None = None, pool: bool = False) -> None:  # fmt: skip
        self.settings = settings
        self.names = (f"{label}, node",) if pool else (f"{label}, event", f"{label}, node")  # type: ignore[misc]
        if choice is None:
            block = block_length(correlation_time(Z), len(Z))
            choice, psi = Tuning(Z, graph, settings, block).choose(lambda _, __: None)
        else:
            psi = features(Z, choice.sigma, settings)
        self.choice, self.rank, self.atoms = choice, psi.rank, len(psi.dictionary.atoms)
        self.engine = DensityRatioEngine(graph, psi, settings, choice)
        # Quiet mean and spread as the detector learns them: from the history in its own order, twice over.
        need = settings.windows.reference + settings.windows.tests[-1]
        playback = Playback(self.engine, Z, chain(range(len(Z)), range(need, len(Z))))
        playback.play(need)
        playback.learn_null(len(Z) - need)
        self.pool = pool

    def fresh(self) -> Watcher:
        twin = object.__new__(Ours)
        twin.__dict__ |= self.__dict__
        twin.engine = self.engine.fresh()
        return twin

    def step(self, z: Floats, seen: Any) -> Floats:
        at = np.flatnonzero(seen).astype(np.int32)
        if len(at):
            self.engine.slide(at, z[at])
        self.engine.finish()
        return np.stack([self.engine.node] if self.pool else [self.engine.event, self.engine.node])

    def bytes_per_node(self, n_nodes: int) -> float:
        parts = (self.engine, self.engine.bank, self.engine.statistics, self.engine.null)
        return sum(a.nbytes for p in parts for a in vars(p).values() if isinstance(a, np.ndarray)) / n_nodes


def watchers(which: list[str], Z: Floats, graph: Graph, report: dict[str, Any]) -> Iterator[Watcher]:
    """Made one after the other from the quiet history, so that memory stays small."""
    base = Settings.of()
    if "ours" in which:
        made = Ours("ours", Z, graph, base)
        report["choice"] = vars(made.choice) | {"rank": made.rank, "atoms": made.atoms}
        yield made
        if (made.choice.sigma, made.choice.coupling) != (0.6, 1.0) and "fixed" in which:
            yield Ours(
                "ours, sigma 0.6 coupling 1",
                Z,
                graph,
                base,
                replace(made.choice, sigma=0.6, coupling=1.0, ridge=0.01),
            )
    if "sparse" in which:
        made = Ours("ours, sparse dictionary", Z, graph, Settings.of(estimator={"dictionary": "sparse"}))
        report["choice"] = vars(made.choice) | {"rank": made.rank, "atoms": made.atoms}
        yield made
    if "pool" in which:
        yield Ours("ours without graph (POOL)", Z, graph, Settings.of(estimator={"name": "pool"}), pool=True)
    if "single" in which:
        yield Ours("ours, one test window of 50", Z, graph, Settings.of(windows={"tests": (50,)}))
    if "mmd" in which:
        yield Mmd(Z, graph, base)
    if "newma" in which:
        yield Newma(Z, graph)
    if "t2" in which:
        yield EwmaT2(Z, graph)
    for name in ("ADWIN", "KSWIN", "PageHinkley"):
        if name.lower() in which:
            yield River(name, Z.shape[1], Z.shape[2])
            yield River.tuned(name, Z[:3000], 1.0 / RUN)
    if "dummy" in which:
        yield Dummy()


METHODS = [
    "ours",
    "fixed",
    "sparse",
    "pool",
    "single",
    "mmd",
    "newma",
    "t2",
    "adwin",
    "kswin",
    "pagehinkley",
    "dummy",
]


def maxima(S: NDArray[np.float32]) -> NDArray[np.float32]:
    """Largest values of blocks, from (T, N); nodes without any decision are left out."""
    n = len(S) // BLOCK
    S = S[:, np.isfinite(S).any(axis=0)]
    return np.where(np.isfinite(S), S, -np.inf)[: n * BLOCK].reshape(n, BLOCK, -1).max(axis=1)


def run_length(share: float) -> float:
    """Average run length from the share of blocks with an alarm."""
    return float(-BLOCK / np.log1p(-min(share, 1.0 - 1e-6))) if share > 0 else float("inf")


def measure(watcher: Watcher, quiet: Floats, check: Floats, streams: list[Floats],
            changed: dict[str, NDArray[np.intp]]) -> list[dict[str, Any]]:  # fmt: skip
    """One record per statistic of the watcher."""
    few = watcher.subset is not None
    quiet, check = (quiet[:2000], check[:2000]) if few else (quiet, check)
    S = run(watcher.fresh(), quiet)[:, watcher.warm_up :]
    thresholds = [0.5 if watcher.binary else float(np.quantile(maxima(s), np.exp(-BLOCK / RUN))) for s in S]
    twin = watcher.fresh()
    began = time.process_time()
    S = run(twin, check)[:, watcher.warm_up :]
    n_nodes = check.shape[1] if watcher.subset is None else len(watcher.subset)
    cost = 1e6 * (time.process_time() - began) / (len(check) * n_nodes)
    size = twin.bytes_per_node(check.shape[1])
    achieved = [run_length(float((maxima(s) > h).mean())) for s, h in zip(S, thresholds, strict=True)]
    records: list[dict[str, Any]] = [
        {"method": name, "threshold": h, "achieved": a, "us": cost, "bytes": size, "others": [], "few": few,
         "delays": {kind: [] for kind in changed}}
        for name, h, a in zip(watcher.names, thresholds, achieved, strict=True)
    ]  # fmt: skip
    touched = np.concatenate(list(changed.values()))
    for x in streams:
        lead = LEAD - watcher.warm_up - 1 if few else 0
        S = run(watcher.fresh(), x[lead:])[:, LEAD - lead :]
        for record, s in zip(records, S, strict=True):
            over = s > record["threshold"]
            first = np.where(over.any(axis=0), over.argmax(axis=0) + 1.0, np.inf)
            known = np.isfinite(s).any(axis=0)
            for kind, nodes in changed.items():
                record["delays"][kind] += first[nodes[known[nodes]]].tolist()
            rest = np.setdiff1d(np.flatnonzero(known), touched)
            record["others"] += np.isfinite(first[rest]).tolist()
    return records


def incidents(made: Case, history: Floats, streams: list[Floats], budget: str) -> dict[str, Any]:
    """The same changes through the whole detector, with a threshold for the network's budget."""
    watch = NetworkDetector(made.network, alarm={"budget": budget}, incidents={"cool_down": 0})
    watch.learn(history)
    arrays, meta = watch.state()
    touched = {str(v) for nodes in made.changed.values() for v in nodes}
    found: dict[str, dict[str, list[float]]] = {
        kind: {k: [] for k in ("delay", *MEMBERSHIP, "onset", "early")} for kind in made.changed
    }
    first = len(history)
    for x in streams:
        watch = NetworkDetector.from_state(
            made.network, arrays, meta, alarm={"budget": budget}, incidents={"cool_down": 0}
        )
        at: dict[str, int] = {}  # kind: tick after the change at which an incident first holds its nodes
        opened = 0
        early: set[str] = (
            set()
        )  # kinds on whose nodes a false incident was open already: they cannot be judged
        for t, row in enumerate(x):
            events = watch.update(row, time=first + t + 0.5)
            opened += sum(event.event == "incident.opened" and t >= 50 for event in events)
            inside = watch.pipeline.incidents.open
            for kind, nodes in made.changed.items():
                names = {str(v) for v in nodes}
                mine = [i for i in inside.values() if names & i.members.keys()]
                if mine and t == 49:
                    early.add(kind)
                if mine and kind not in at and kind not in early and t >= 50:
                    at[kind] = t - 50
                for after, suffix in ((10, ""), (25, "25")):
                    if kind in at and t - 50 == at[kind] + after:
                        members = {n for i in mine for n, m in i.members.items() if not m.suspected}
                        if members:
                            found[kind]["precision" + suffix].append(len(members & touched) / len(members))
                        found[kind]["recall" + suffix].append(len(members & names) / len(names))
                        if not suffix:
                            onsets = [i.onset.time for i in mine if i.onset is not None]
                            if onsets:
                                found[kind]["onset"].append(min(onsets) - first - 50.0)
        for kind in made.changed:
            if kind in early:
                found[kind]["early"].append(1.0)
                continue
            found[kind]["delay"].append(at[kind] + 1.0 if kind in at else np.inf)
            found[kind]["incidents"].append(opened / len(made.changed))
    assert watch.report is not None
    return {"found": found, "event": watch.event_threshold, "node": watch.threshold}


def study(name: str, seed: int, which: list[str], n_streams: int, n_quiet: int) -> dict[str, Any]:
    made = case(name, seed)
    history = made.stream(5000, 5000, 1000 + seed)
    prepare = Preprocessor().learn(history, np.arange(len(history), dtype=float))
    Z = prepare.transform(history)
    quiet, check = (prepare.transform(made.stream(n_quiet, n_quiet, k + seed)) for k in (2000, 3000))
    raw = [made.stream(LEAD + HORIZON, LEAD, 4000 + 100 * seed + k) for k in range(n_streams)]
    streams = [prepare.transform(x) for x in raw]
    record: dict[str, Any] = {
        "case": name,
        "seed": seed,
        "kinds": {k: len(v) for k, v in made.changed.items()},
    }
    record["methods"] = [
        r
        for w in watchers(which, Z, made.graph, record)
        for r in measure(w, quiet, check, streams, made.changed)
    ]
    if "incidents" in which:
        record["incidents"] = incidents(made, history, [x[LEAD - 50 :] for x in raw], "1 per 10000 ticks")
    return record


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="Ia only, one seed, ours and the cheap rivals")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--methods", nargs="+", default=[*METHODS, "incidents"])
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[0, 1], help="graphs, histories, quiet streams"
    )
    parser.add_argument("--streams", type=int, default=4, help="streams with a change, per seed")
    parser.add_argument("--quiet", type=int, default=5500, help="ticks of each quiet stream")
    parser.add_argument("--results", type=Path, help="JSON lines: results are added, what is there is kept")
    args = parser.parse_args()
    if args.quick:
        args.cases, args.seeds, args.streams, args.quiet = ["Ia"], [0], 2, 2500
        args.methods = ["ours", "mmd", "newma", "t2", "dummy", "incidents"]
    records = []
    if args.results and args.results.exists():
        records = [json.loads(line) for line in args.results.read_text().splitlines()]
    done = {(r["case"], r["seed"], m) for r in records for m in r["which"]}
    for seed in args.seeds:
        for name in args.cases:
            first = [m for m in ("ours", "fixed") if m in args.methods]
            for which in ([first] if "ours" in first else []) + [
                [m] for m in args.methods if m not in ("ours", "fixed")
            ]:
                if (name, seed, which[0]) in done:
                    continue
                record = study(name, seed, which, args.streams, args.quiet) | {"which": which}
                records.append(record)
                if args.results:
                    with args.results.open("a") as out:
                        out.write(json.dumps(record) + "\n")
    show(records)


def show(records: list[dict[str, Any]]) -> None:
    print(
        f"{machine()}\nchance level: found within {HORIZON} {1 - np.exp(-HORIZON / RUN):.2f}, leakage 1.0\n"
    )
    for name in dict.fromkeys(r["case"] for r in records):
        mine = [r for r in records if r["case"] == name]
        kinds = list(mine[0]["kinds"])
        lines: dict[str, list[dict[str, Any]]] = {}
        for r in mine:
            for m in r["methods"]:
                lines.setdefault(_plain(m["method"]), []).append(m)
        if choices := [r["choice"] | {"seed": r["seed"]} for r in mine if "choice" in r]:
            print(f"{name}: chosen", *choices)
        header = [
            "method",
            *(f"{k}: found / median / mean" for k in kinds),
            "leak",
            "run length",
            "µs",
            "bytes",
        ]
        print(table(header, [_line(m, found, kinds) for m, found in lines.items()]), "\n")
    _show_incidents([r for r in records if "incidents" in r])


def _plain(method: str) -> str:
    """Tuned parameters differ between seeds: one row for all."""
    return (
        method
        if not method.startswith("river") or "as it comes" in method
        else method.split(",")[0] + ", tuned"
    )


def _line(method: str, found: list[dict[str, Any]], kinds: list[str]) -> list[object]:
    cells: list[object] = [method]
    for kind in kinds:
        d = np.concatenate([f["delays"][kind] for f in found])
        hit = d[np.isfinite(d)]
        mean = f"{hit.mean():.0f}" if len(hit) else "–"
        cells.append(f"{len(hit) / len(d):.2f} / {_number(float(np.median(d)))} / {mean}" if len(d) else "–")
    others = np.concatenate([f["others"] for f in found])
    leak = 1000.0 / run_length(float(others.mean()))
    length = 1.0 / np.mean([1.0 / f["achieved"] for f in found])
    return [*cells, f"{leak:.1f}", f"{length:.0f}", f"{np.mean([f['us'] for f in found]):.1f}",
            f"{np.mean([f['bytes'] for f in found]):.0f}"]  # fmt: skip


def _number(x: float) -> str:
    return f"{x:.0f}" if np.isfinite(x) else ">250"


def _show_incidents(records: list[dict[str, Any]]) -> None:
    merged: dict[tuple[str, str], dict[str, list[float]]] = {}
    for r in records:
        for kind, found in r["incidents"]["found"].items():
            into = merged.setdefault((r["case"], kind), {k: [] for k in found})
            for k, values in found.items():
                into[k] += values
    lines = []
    for (name, kind), f in merged.items():
        if not f["delay"]:
            continue
        hit = np.isfinite(f["delay"])
        mean = [f"{np.mean(f[k]):.2f}" if f[k] else "–" for k in MEMBERSHIP]
        onset = f"{np.median(f['onset']):+.0f} ({np.mean(np.abs(f['onset'])):.0f})" if f["onset"] else "–"
        lines.append(
            [
                name,
                kind,
                f"{hit.mean():.2f}",
                _number(float(np.median(f["delay"]))),
                *mean,
                onset,
                len(f["early"]),
            ]
        )
    header = [
        "case",
        "change",
        "found",
        "median delay",
        "incidents per event",
        "precision, 10th",
        "recall, 10th",
        "precision, 25th",
        "recall, 25th",
        "onset error, median (mean size)",
        "left out: false incident open before",
    ]
    if lines:
        print("whole detector, 1 false incident per 10000 ticks of the network\n")
        print(table(header, lines))


if __name__ == "__main__":
    main()
