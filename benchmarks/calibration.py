"""Does the budget hold? False incidents promised and counted on fresh quiet streams.

    OPENBLAS_NUM_THREADS=1 python benchmarks/calibration.py [--quick] [--results FILE]

For every kind of data, length of history and seed: learn, then count the incidents that a fresh stream of the
same kind opens. The rate of one budget is counted as incidents of the whole detector; other budgets need only
another threshold on the same run, and are counted as episodes of the event statistic (exceedances on linked
nodes at most `clear_after` ticks apart are one), as calibration itself counts.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2
from tables import machine, table

from detector import NetworkDetector
from estimators.core.graph import Graph
from estimators.timeseries.extremes import episodes

Floats = NDArray[np.float64]
KINDS = ("normal", "AR .5", "AR .9", "t(3)", "mixed scales", "seasonal", "drifting")
PERIOD = 288  # ticks of a season: a day in steps of five minutes
WANDER = 0.01, 0.002  # by which levels and logarithms of spreads of drifting data move per tick
BUDGETS = (500, 2000, 10_000)
LOW = 3.0  # exceedances of the event statistic kept


def network(n_nodes: int = 100, seed: int = 0) -> nx.Graph[int]:
    """Places in the unit square, each linked with its four nearest."""
    at = np.random.default_rng(seed).random((n_nodes, 2))
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(n_nodes))
    for v in range(n_nodes):
        near = np.argsort(np.square(at - at[v]).sum(axis=1))[1:5]
        graph.add_edges_from((v, int(u)) for u in near)
    return graph


def draw(kind: str, T: int, n_nodes: int, seed: int) -> Floats:
    """Quiet data (T, N, 1) of one kind; nodes are independent."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    if kind == "t(3)":
        return rng.standard_t(3, (T, n_nodes, 1))
    x = rng.normal(size=(T, n_nodes))
    if kind.startswith("AR"):
        phi = float(kind.split()[1])
        for t in range(1, T):
            x[t] = phi * x[t - 1] + np.sqrt(1 - phi * phi) * x[t]
    if kind == "seasonal":  # of level and spread, each node with a phase of its own
        phase = np.random.default_rng(7).uniform(0.0, 1.0, n_nodes)
        season = np.sin(2.0 * np.pi * (np.arange(T)[:, None] / PERIOD + phase))
        x = season + (1.0 + 0.3 * season) * x
    if kind == "drifting":
        level, spread = (size * np.cumsum(rng.normal(size=(T, n_nodes)), axis=0) for size in WANDER)
        x = level + np.exp(spread) * x
    if kind == "mixed scales":
        node = np.random.default_rng(7)
        x = 10.0 * node.normal(size=n_nodes) + np.exp(1.5 * node.normal(size=n_nodes)) * x
    return np.asarray(x[:, :, None])


def interval(count: float) -> tuple[float, float]:
    """95 % interval of a Poisson mean."""
    low = chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
    return float(low), float(chi2.ppf(0.975, 2 * count + 2) / 2)


def study(
    kind: str, history: int, whiten: bool, seed: int, ticks: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """One history, one fresh stream."""
    graph = network()
    n = len(graph)
    X = draw(kind, history + ticks, n, seed)
    watch = NetworkDetector(
        graph,
        alarm={"budget": "1 per 2000 ticks", "seed": seed},
        preprocess={} if whiten else {"difference": 0, "whiten": 0},
        incidents={"cool_down": 0},
        **settings,
    )
    began = time.process_time()
    report = watch.learn(X[:history])
    learning = time.process_time() - began
    opened = 0
    hits: list[tuple[int, int, float]] = []
    levels: list[Floats] = []
    for t, x in enumerate(X[history:]):
        opened += sum(e.event == "incident.opened" for e in watch.update(x, time=history + t + 0.5))
        event = watch.event_statistic * (report.event_threshold / watch.event_threshold)  # as it follows
        hits += [(t, int(v), float(event[v])) for v in np.flatnonzero(event > LOW)]
        if t % 10 == 0:
            levels.append(watch.pipeline.engine.statistics.level.copy())  # type: ignore[union-attr]
    at, who, value = (np.array(column) for column in zip(*hits, strict=True))
    thresholds = {b: report.tail.threshold(1.0 / b / report.caution) for b in BUDGETS}
    counts = {}
    for b, h in thresholds.items():
        over = value > h
        counts[b] = len(episodes(at[over], who[over], value[over], Graph.of(graph), 25))
    every = np.stack(levels)
    return {
        "kind": kind, "history": history, "whiten": whiten, "seed": seed, "ticks": ticks, "opened": opened,
        "episodes": counts, "thresholds": thresholds, "tail": vars(report.tail) | {}, "block": report.block,
        "learning": learning, "node_threshold": report.threshold, "caution": report.caution,
        "factor": watch.event_threshold / report.event_threshold,
        "level_mean": np.nanmean(every, axis=(0, 2)).tolist(),
        "level_sd": np.nanstd(every, axis=(0, 2)).tolist(),
        "node_rate": float(np.mean(every[:, 3] > report.threshold)),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two kinds, one short history, one seed")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--histories", type=int, nargs="+", default=[5000, 20_000])
    parser.add_argument("--whiten", choices=("no", "yes", "both"), default="both")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ticks", type=int, default=10_000, help="length of the fresh stream")
    parser.add_argument(
        "--fixed", action="store_true", help="kernel width .6, coupling .3: no tuning, faster"
    )
    parser.add_argument("--results", type=Path, help="JSON lines: results are added, what is there is kept")
    args = parser.parse_args()
    if args.quick:
        args.kinds, args.histories, args.seeds, args.ticks, args.whiten = (
            ["normal", "AR .5"],
            [3000],
            [0],
            2000,
            "no",
        )
    records = []
    if args.results and args.results.exists():
        records = [json.loads(line) for line in args.results.read_text().splitlines()]
    done = {(r["kind"], r["history"], r["whiten"], r["seed"]) for r in records}
    settings = {"estimator": {"sigma": 0.6, "coupling": 0.3}} if args.fixed else {}
    for seed in args.seeds:
        for history in args.histories:
            for whiten in {"no": [False], "yes": [True], "both": [False, True]}[args.whiten]:
                for kind in args.kinds:
                    if whiten and not kind.startswith("AR"):
                        continue  # `auto` leaves the others as they are
                    if (kind, history, whiten, seed) in done:
                        continue
                    record = study(kind, history, whiten, seed, args.ticks, settings)
                    records.append(json.loads(json.dumps(record)))
                    if args.results:
                        with args.results.open("a") as out:
                            out.write(json.dumps(record) + "\n")
    show(records)


def show(records: list[dict[str, Any]]) -> None:
    """Counted over promised, with 95 % intervals."""
    print(f"{machine()}\n100 nodes; counted / promised (95 % interval)\n")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for r in records:
        groups.setdefault((r["kind"], "auto" if r["whiten"] else "no", r["history"]), []).append(r)
    header = ["data", "whiten", "history", "fresh ticks", "incidents, 1 per 2000",
              *(f"episodes, 1 per {b}" for b in BUDGETS), "block", "learning s"]  # fmt: skip
    lines = []
    for key, found in sorted(
        groups.items(), key=lambda item: (KINDS.index(item[0][0]), item[0][1], item[0][2])
    ):
        ticks = sum(r["ticks"] for r in found)
        cells = [_ratio(sum(r["opened"] for r in found), ticks / 2000)]
        cells += [_ratio(sum(r["episodes"][str(b)] for r in found), ticks / b) for b in BUDGETS]
        lines.append(
            [*key, ticks, *cells, found[0]["block"], f"{np.mean([r['learning'] for r in found]):.0f}"]
        )
    print(table(header, lines))


def _ratio(count: float, promised: float) -> str:
    low, high = interval(count)
    return f"{count / promised:.2f} ({low / promised:.2f}–{high / promised:.2f})"


if __name__ == "__main__":
    main()
