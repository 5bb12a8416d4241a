"""The role of alpha and the rates in n and N (GRULSIF document, Sec. 6.2, Fig. 6-9, Theorem 2).

    OPENBLAS_NUM_THREADS=1 python benchmarks/lre_alpha.py [--quick] [--tables NAME ...] [--plots DIRECTORY]

Alpha: error (Eq. 44) and spread of the scores of unchanged nodes at alpha = .01, .1 and .5, with the graph
(GRULSIF) and without (POOL), hyper-parameters chosen by each. Rates: slope of log error in log n and in
log N, by least squares over all seeds, with 95 % intervals by a bootstrap of the seeds. Settings: GRULSIF
with one (sigma, lam, gamma) for the network, chosen on a held-out fifth, and with one for each node
(`GrulsifByNode`), beside RULSIF.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tables import machine, table

from estimators import Grulsif, GrulsifByNode, Pool, Rulsif, scenario
from estimators.datasets.scenarios import UNCHANGED

METHODS: dict[str, Any] = {"grulsif": Grulsif, "pool": Pool}
ALPHAS = (0.01, 0.1, 0.5)


def measure(name: str, n_nodes: int, n: int, seed: int, alpha: float, points: int) -> dict[str, Any]:
    """Errors of both methods on one draw, and the spread of the scores where nothing changed."""
    truth = scenario(name, n_nodes, seed)
    ref, test = truth.sample(n, seed)
    quiet = np.concatenate([group.nodes for group in truth.groups if group.kind == UNCHANGED])
    row: dict[str, Any] = {"scenario": name, "N": n_nodes, "n": n, "seed": seed, "alpha": alpha}
    for method, kind in METHODS.items():
        model = kind.select(ref, test, truth.graph, seed=seed, alpha=alpha)
        row[method] = float(truth.error(model.ratio, alpha, points, seed + 1).mean())
        row[f"{method} spread"] = float(model.scores_[quiet].std())
    print(row, file=sys.stderr, flush=True)
    return row


def slope(
    sizes: list[int], errors: list[list[float]], rng: np.random.Generator
) -> tuple[float, float, float]:
    """Of log error in log size, errors by size and seed; with the 95 % interval of a bootstrap of seeds."""
    x, y = np.log(sizes), np.log(np.array(errors))  # (S,), (S, seeds)
    x = x - x.mean()

    def fitted(drawn: np.ndarray) -> float:
        return float(x @ y[:, drawn].mean(axis=1) / (x @ x))

    seeds = y.shape[1]
    draws = [fitted(rng.integers(0, seeds, seeds)) for _ in range(1000)]
    low, high = np.quantile(draws, [0.025, 0.975])
    return fitted(np.arange(seeds)), float(low), float(high)


def alphas(quick: bool, points: int) -> list[dict[str, Any]]:
    seeds, sizes = (1, (50,)) if quick else (3, (50, 250))
    rows = [measure(name, 100, n, seed, alpha, points) for name in ("Ia", "IIb") for n in sizes
            for alpha in ALPHAS for seed in range(seeds)]  # fmt: skip
    cells = []
    for name in ("Ia", "IIb"):
        for n in sizes:
            for alpha in ALPHAS:
                mine = [r for r in rows if (r["scenario"], r["n"], r["alpha"]) == (name, n, alpha)]
                mean = {key: float(np.mean([r[key] for r in mine])) for key in
                        ("grulsif", "pool", "grulsif spread", "pool spread")}  # fmt: skip
                cells.append((name, n, alpha, mean["grulsif"], mean["pool"], mean["pool"] / mean["grulsif"],
                              mean["grulsif spread"], mean["pool spread"]))  # fmt: skip
    print(f"\nRole of alpha: error, and spread of the scores of unchanged nodes; 100 nodes, {seeds} seeds")
    head = ("scenario", "n", "alpha", "grulsif", "pool", "pool/grulsif", "spread grulsif", "spread pool")
    print(table(head, cells))
    return rows


def rates(quick: bool, points: int) -> dict[str, tuple[list[int], dict[str, list[list[float]]]]]:
    seeds = 2 if quick else 5
    plans = {"n": [50, 100] if quick else [25, 50, 100, 200], "N": [20, 50] if quick else [20, 50, 100, 250]}
    found: dict[str, tuple[list[int], dict[str, list[list[float]]]]] = {}
    cells = []
    for axis, sizes in plans.items():
        errors: dict[str, list[list[float]]] = {method: [] for method in METHODS}
        for size in sizes:
            case = {"n_nodes": 100, "n": size} if axis == "n" else {"n_nodes": size, "n": 50}
            runs = [measure("Ia", seed=seed, alpha=0.1, points=points, **case) for seed in range(seeds)]
            for method in METHODS:
                errors[method].append([run[method] for run in runs])
        found[axis] = sizes, errors
        for method in METHODS:
            rate, low, high = slope(sizes, errors[method], np.random.default_rng(0))
            means = ", ".join(f"{np.mean(e):.3g}" for e in errors[method])
            cells.append((axis, method, means, f"{rate:.2f} ({low:.2f} to {high:.2f})"))
    print(f"\nRates, Synth.Ia, alpha = .1, {seeds} seeds: error at {plans}, exponent with 95 % interval")
    print(table(("in", "method", "errors", "exponent"), cells))
    return found


def settings(quick: bool, points: int) -> None:
    """Is it one setting for all nodes that makes RULSIF better in IIa?"""
    cells = []
    for name, n in (("IIa", 50),) if quick else (("Ia", 50), ("IIa", 250)):
        for seed in range(1 if quick else 2):
            for way, figures in _settings(name, n, seed, points).items():
                cells.append((name, n, seed, way, *(float(figure) for figure in figures)))
                print(cells[-1], file=sys.stderr, flush=True)
    print("\nOne setting for the network or one per node: error of all, changed and unchanged nodes")
    print(table(("scenario", "n", "seed", "settings", "all", "changed", "unchanged"), cells))


def _settings(name: str, n: int, seed: int, points: int) -> dict[str, tuple[float, float, float]]:
    truth = scenario(name, 100, seed)
    ref, test = truth.sample(n, seed)
    quiet = np.concatenate([group.nodes for group in truth.groups if group.kind == UNCHANGED])
    changed = np.setdiff1d(np.arange(100), quiet)
    by_node = GrulsifByNode().fit(ref, test, truth.graph)
    best = {key: value for key, value in by_node.selection_.best().items() if key != "loss"}
    models: dict[str, Any] = {
        "one for all": Grulsif(**best).fit(ref, test, truth.graph),
        "one per node": by_node,
        "rulsif": Rulsif.select(ref, test, seed=seed),
    }
    found = {way: truth.error(model.ratio, 0.1, points, seed + 1) for way, model in models.items()}
    return {way: (e.mean(), e[changed].mean(), e[quiet].mean()) for way, e in found.items()}


def picture(rows: list[dict[str, Any]], found: dict[str, Any], directory: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(15, 3.6))
    for axis, name in zip(axes[:2], ("Ia", "IIb"), strict=True):
        for method, colour in (("grulsif", "C3"), ("pool", "C0")):
            for n, style in ((50, "o-"), (250, "s--")):
                errors = [[r[method] for r in rows if (r["scenario"], r["n"], r["alpha"]) == (name, n, alpha)]
                          for alpha in ALPHAS]  # fmt: skip
                if all(errors):
                    mean = [np.mean(e) for e in errors]
                    axis.plot(ALPHAS, mean, style, color=colour, label=f"{method}, n = {n}")
        axis.set(xscale="log", yscale="log", xlabel="α", ylabel="error (Eq. 44)", title=f"Synth.{name}")
        axis.legend(fontsize=7)
    for axis, (size, (sizes, errors)) in zip(axes[2:], found.items(), strict=True):
        for method, colour in (("grulsif", "C3"), ("pool", "C0")):
            mean = np.array([np.mean(e) for e in errors[method]])
            span = [mean - [min(e) for e in errors[method]], [max(e) for e in errors[method]] - mean]
            axis.errorbar(sizes, mean, span, marker="o", capsize=3, color=colour, label=method)
        axis.set(xscale="log", yscale="log", xlabel=size, ylabel="error (Eq. 44)", title="Synth.Ia, α = .1")
        axis.set_xticks(sizes, [str(one) for one in sizes])
        axis.minorticks_off()
        axis.legend(fontsize=7)
    figure.tight_layout()
    directory.mkdir(parents=True, exist_ok=True)
    figure.savefig(directory / "lre-alpha.png", dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few seeds and sizes")
    names = ("alpha", "rates", "settings")
    parser.add_argument("--tables", nargs="+", default=names, choices=names, help="only these")
    parser.add_argument("--plots", type=Path, help="directory for the picture, of alpha and rates")
    options = parser.parse_args()
    points = 1000 if options.quick else 4000
    print(machine())
    rows = alphas(options.quick, points) if "alpha" in options.tables else []
    found = rates(options.quick, points) if "rates" in options.tables else {}
    if "settings" in options.tables:
        settings(options.quick, points)
    if options.plots and rows and found:
        picture(rows, found, options.plots)


if __name__ == "__main__":
    main()
