"""Likelihood-ratio estimation on the document's scenarios (Sec. 6.1, Fig. 2-5): error, time, divergences.

    OPENBLAS_NUM_THREADS=1 python benchmarks/lre.py [--quick] [--first-seed N] [--methods NAME ...]
                                                    [--results FILE] [--plots DIRECTORY]

All estimators see the same samples, choose their hyper-parameters themselves, and are judged on 10,000
fresh points per node (Eq. 44). ULSIF and KLIEP estimate the plain ratio (alpha = 0) and are judged on it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tables import machine, table

from estimators import ESTIMATORS, SCENARIOS, scenario
from estimators.datasets.scenarios import UNCHANGED

NAMES = tuple(ESTIMATORS)
ALPHA = {"grulsif": 0.1, "pool": 0.1, "rulsif": 0.1, "ulsif": 0.0, "kliep": 0.0}
COLOURS = {"grulsif": "C3", "pool": "C0", "rulsif": "C2", "ulsif": "C1", "kliep": "C4"}


def measure(name: str, n_nodes: int, n: int, seed: int, methods: tuple[str, ...], points: int,
            **params: Any) -> list[dict[str, Any]]:  # fmt: skip
    """Selection, fit and error of all methods on one draw of one scenario."""
    truth = scenario(name, n_nodes, seed)
    ref, test = truth.sample(n, seed)
    rows = []
    for method in methods:
        began = time.perf_counter(), time.process_time()
        model = ESTIMATORS[method].select(ref, test, truth.graph, seed=seed, **params)
        wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
        error = truth.error(model.ratio, ALPHA[method], points, seed + 1)
        scores = {group.kind: model.scores_[group.nodes].tolist() for group in truth.groups}
        rows.append({"scenario": name, "N": n_nodes, "n": n, "seed": seed, "method": method, **params,
                     "error": float(error.mean()), "median": float(np.median(error)),
                     "wall": wall, "cpu": cpu, "scores": scores})  # fmt: skip
        print(f"{name} N={n_nodes} n={n} seed={seed} {method}: error {error.mean():.4g}, {cpu:.2f} s",
              file=sys.stderr, flush=True)  # fmt: skip
    return rows


def plan(quick: bool, first_seed: int) -> list[dict[str, Any]]:
    """All measurements: window lengths and scenarios, plain and centred target, sizes of the network."""
    seeds, points = (range(1), 1000) if quick else (range(first_seed, first_seed + 5), 10_000)
    steps: list[dict[str, Any]] = []
    for methods in (("grulsif", "pool"), ("rulsif", "ulsif", "kliep")):
        for seed, name, n in itertools.product(seeds, SCENARIOS, (50,) if quick else (50, 100, 250)):
            case = {"name": name, "n_nodes": 100, "n": n, "seed": seed, "points": points}
            steps.append({**case, "methods": methods})
            if n == 50 and "pool" in methods:
                steps.append({**case, "methods": methods, "centred": True})
        for seed, n_nodes in itertools.product(seeds, (50,) if quick else (50, 250, 500)):
            case = {"name": "Ia", "n_nodes": n_nodes, "n": 50, "seed": seed, "points": points}
            steps.append({**case, "methods": tuple(m for m in methods if m not in ("ulsif", "kliep"))})
    return steps


def run(quick: bool, first_seed: int, methods: Sequence[str], results: Path | None) -> list[dict[str, Any]]:
    """Measure what the file of results does not hold yet, and add it there."""
    rows = (
        [json.loads(line) for line in results.read_text().splitlines()]
        if results and results.exists()
        else []
    )
    done = {(r["scenario"], r["N"], r["n"], r["seed"], r.get("centred", False), r["method"]) for r in rows}
    for step in plan(quick, first_seed):
        case = step["name"], step["n_nodes"], step["n"], step["seed"], step.get("centred", False)
        step["methods"] = tuple(m for m in step["methods"] if m in methods and (*case, m) not in done)
        found = measure(**step)
        rows += found
        if results:
            with results.open("a") as out:
                out.writelines(json.dumps(row) + "\n" for row in found)
    return rows


def values(rows: list[dict[str, Any]], key: str, **wanted: Any) -> list[float]:
    """The figures of all seeds for one cell of a table."""
    wanted = {"centred": False, **wanted}
    return [r[key] for r in rows if all(r.get(k, False) == v for k, v in wanted.items())]


def mean(figures: list[float]) -> float:
    """Mean over the seeds; not a number where nothing was measured."""
    return float(np.mean(figures)) if figures else np.nan


def least(figures: list[float]) -> float:
    """Smallest over the seeds."""
    return min(figures, default=np.nan)


def report(rows: list[dict[str, Any]]) -> None:
    """Print the tables."""
    three = ("grulsif", "pool", "rulsif")
    cases = sorted({(SCENARIOS.index(r["scenario"]), r["n"]) for r in rows if r["N"] == 100})
    named = [(SCENARIOS[i], n) for i, n in cases]

    def cell(key: str, case: tuple[str, int], method: str, centred: bool = False) -> list[float]:
        return values(rows, key, scenario=case[0], n=case[1], N=100, method=method, centred=centred)

    print(machine())
    print(f"\nError (Eq. 44), 100 nodes, mean of {len({r['seed'] for r in rows})} seeds")
    print(table(("scenario", "n", *NAMES),
                [(*case, *(mean(cell("error", case, m)) for m in NAMES)) for case in named]))  # fmt: skip
    print("\nThe same, smallest and largest over the seeds")
    spans = [(*case, *(f"{least(e):.3g} - {max(e, default=np.nan):.3g}" for m in three
                       for e in [cell("error", case, m)])) for case in named]  # fmt: skip
    print(table(("scenario", "n", *three), spans))
    print("\nThe same for the median node")
    print(table(("scenario", "n", *NAMES),
                [(*case, *(mean(cell("median", case, m)) for m in NAMES)) for case in named]))  # fmt: skip
    print("\nCPU seconds of selection and fit, 100 nodes, smallest over the seeds (wall in brackets)")
    times = [(*case, *(f"{least(cell('cpu', case, m)):.2f} ({least(cell('wall', case, m)):.2f})"
                       for m in NAMES)) for case in named]  # fmt: skip
    print(table(("scenario", "n", *NAMES), times))
    print("\nPlain and centred target: error, mean over the seeds")
    targets = [(m, c) for m in ("grulsif", "pool") for c in (False, True)]
    print(table(("scenario", "n", *(f"{m} centred" if c else m for m, c in targets)),
                [(*case, *(mean(cell("error", case, m, c)) for m, c in targets))
                 for case in named if case[1] == 50]))  # fmt: skip
    print("\nSynth.Ia, n = 50: error and CPU seconds against the size of the network")
    sizes = [(N, *(summary(values(rows, key, scenario="Ia", N=N, n=50, method=m))
                   for key, summary in (("error", mean), ("cpu", least)) for m in three))
             for N in sorted({r["N"] for r in rows})]  # fmt: skip
    print(table(("N", *three, *(f"{m} s" for m in three)), sizes))


def plot(rows: list[dict[str, Any]], directory: Path) -> None:
    """One picture per scenario: error against n, and the divergences found per group."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    for name in SCENARIOS:
        mine = [r for r in rows if r["scenario"] == name and r["N"] == 100 and not r.get("centred")]
        sizes = sorted({r["n"] for r in mine})
        truth = scenario(name)
        groups = {group.kind: int(group.nodes[0]) for group in truth.groups}
        figure, axes = plt.subplots(1, 2 + len(groups), figsize=(3.4 * (2 + len(groups)), 3.8))
        for axis, methods in ((axes[0], NAMES), (axes[1], ("grulsif", "pool"))):
            for method in methods:
                errors = [values(mine, "error", n=n, method=method) for n in sizes]
                mean = np.array([np.mean(e) for e in errors])
                span = [mean - [min(e) for e in errors], [max(e) for e in errors] - mean]
                axis.errorbar(sizes, mean, span, marker="o", capsize=3, label=method, color=COLOURS[method])
            axis.set(xlabel="points per window, n", ylabel="error (Eq. 44)", xscale="log")
            axis.set_xticks(sizes, [str(n) for n in sizes])
            axis.minorticks_off()
            axis.legend(fontsize=8)
        axes[0].set_yscale("log")
        axes[0].set_title(f"Synth.{name}, 100 nodes")
        axes[1].set_title("with and without the graph")
        n = sizes[min(1, len(sizes) - 1)]
        for axis, (kind, v) in zip(axes[2:], groups.items(), strict=True):
            found = {m: np.concatenate([r["scores"][kind] for r in mine if r["n"] == n and r["method"] == m])
                     for m in NAMES}  # fmt: skip
            axis.boxplot(list(found.values()), tick_labels=NAMES, showfliers=False, widths=0.6)
            for i, method in enumerate(NAMES):
                target = truth.kl(v) if method == "kliep" else truth.divergence(v, ALPHA[method])
                if np.isfinite(target):
                    axis.hlines(target, i + 0.6, i + 1.4, color="C3", lw=1.5)
            axis.tick_params(axis="x", rotation=45)
            title = "no change" if kind == UNCHANGED else kind
            axis.set_title(f"divergence: {title} (n = {n})", fontsize=10)
        figure.tight_layout()
        directory.mkdir(parents=True, exist_ok=True)
        figure.savefig(directory / f"lre-{name}.png", dpi=90)
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, one window length, few points")
    parser.add_argument("--first-seed", type=int, default=0, help="of five")
    parser.add_argument("--methods", nargs="+", default=NAMES, choices=NAMES, help="only these")
    parser.add_argument("--results", type=Path, help="JSON lines: what is there is not measured again")
    parser.add_argument("--plots", type=Path, help="directory for the pictures")
    options = parser.parse_args()
    rows = run(options.quick, options.first_seed, options.methods, options.results)
    report(rows)
    if options.plots:
        plot(rows, options.plots)


if __name__ == "__main__":
    main()
