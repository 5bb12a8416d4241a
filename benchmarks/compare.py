"""The two-sample test over a graph: is its level held, what does it find, and how long does it take?

    OPENBLAS_NUM_THREADS=1 python benchmarks/compare.py [--quick] [--plots DIRECTORY]

Level: quiet samples, independent and autoregressive, with and without blocks; shares of runs that reject at
.05, with exact 95 % intervals. Power: a graph of communities, one of which (or one node) changes; beside the
same without the graph (POOL), the maximum mean discrepancy of every node (biased, Gaussian, median width) by
the same permutations, and Kolmogorov-Smirnov by node with Bonferroni's correction. All are run at a
family-wise level of .05.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import networkx as nx
import numpy as np
from scipy.stats import beta, ks_2samp
from tables import machine, table

from estimators import CollaborativeTwoSampleTest
from estimators.core.kernels import gaussian, median_distance
from estimators.core.types import Floats
from estimators.ratio import permutation

LEVEL = 0.05
GROUP, GROUPS = 10, 3
N = GROUP * GROUPS


def ar(rng: np.random.Generator, n_nodes: int, n: int, phi: float) -> Floats:
    """Series (N, n) of variance one, a third of it common to all nodes."""
    common = rng.normal(size=(1, n + 100))
    noise = np.sqrt(2 / 3) * rng.normal(size=(n_nodes, n + 100)) + np.sqrt(1 / 3) * common
    x = noise.copy()
    for t in range(1, n + 100):
        x[:, t] = phi * x[:, t - 1] + np.sqrt(1.0 - phi**2) * noise[:, t]
    return x[:, 100:]


def interval(hits: int, runs: int) -> str:
    """Share with its exact 95 % interval."""
    low = beta.ppf(0.025, hits, runs - hits + 1) if hits else 0.0
    high = beta.ppf(0.975, hits + 1, runs - hits) if hits < runs else 1.0
    return f"{hits / runs:.3f} ({low:.3f}–{high:.3f})"


def levels(runs: int, permutations: int) -> Iterator[tuple[object, ...]]:
    """Rejections of quiet samples: network-wide, any node by family, mean node."""
    graph = communities(0)
    cases = [(0.0, 50, 1), (0.0, 50, None), (0.5, 200, 1), (0.5, 200, None), (0.8, 400, 1), (0.8, 400, None),
             (0.8, 200, None)]  # fmt: skip
    for phi, n, block in cases:
        network = family = nodes = warned = 0
        lengths = []
        for seed in range(runs):
            x = ar(np.random.default_rng(seed), N, 2 * n, phi)
            test = CollaborativeTwoSampleTest(permutations=permutations, block=block, seed=seed)
            test.fit(x[:, :n], x[:, n:], graph)
            network += test.p_network_ <= LEVEL
            family += bool((test.p_family_ <= LEVEL).any())
            nodes += int((test.p_values_ <= LEVEL).sum())
            warned += any("correlated" in text for text in test.warnings_)
            lengths.append(test.block_)
        given = "told" if block is None else str(block)
        yield (phi, n, given, float(np.median(lengths)), interval(network, runs), interval(family, runs),
               nodes / runs / N, f"{warned / runs:.0%}")  # fmt: skip


def communities(seed: int) -> nx.Graph:
    return nx.random_partition_graph([GROUP] * GROUPS, 0.5, 0.02, seed=seed)


def shifted(size: float, nodes: int) -> Callable[[Floats, np.random.Generator], None]:
    def change(y: Floats, _: np.random.Generator) -> None:
        y[:nodes] += size

    return change


def spread(factor: float, nodes: int) -> Callable[[Floats, np.random.Generator], None]:
    def change(y: Floats, _: np.random.Generator) -> None:
        y[:nodes] *= factor

    return change


def two_peaks(nodes: int) -> Callable[[Floats, np.random.Generator], None]:
    """Mean and variance stay, the form does not: two peaks of width .6 at ±.8."""

    def change(y: Floats, rng: np.random.Generator) -> None:
        signs = rng.choice([-1.0, 1.0], size=y[:nodes].shape)
        y[:nodes] = 0.8 * signs + 0.6 * y[:nodes]

    return change


CASES = {
    "mean +.6, a community": (shifted(0.6, GROUP), GROUP),
    "mean +.9, one node": (shifted(0.9, 1), 1),
    "spread × 1.5, a community": (spread(1.5, GROUP), GROUP),
    "spread × 2, one node": (spread(2.0, 1), 1),
    "two peaks, a community": (two_peaks(GROUP), GROUP),
}


def mmd(X: Floats, Y: Floats, permutations: int, seed: int) -> Floats:
    """Family-wise p-values of the maximum mean discrepancies, by permutations common to all nodes."""
    n = X.shape[1]
    L = permutation.labels(n, Y.shape[1], permutations, np.random.default_rng(seed))
    w = L / L.sum(axis=1, keepdims=True) - (1.0 - L) / (1.0 - L).sum(axis=1, keepdims=True)
    Z = np.concatenate([X, Y], axis=1)
    scores = []
    for z in Z:
        K = gaussian(z, z, median_distance(z))
        scores.append(np.einsum("pi,pi->p", w @ K, w))
    return permutation.family_p(permutation.standardised(np.stack(scores, axis=1)))


def ks(X: Floats, Y: Floats) -> Floats:
    p = np.array([ks_2samp(x[:, 0], y[:, 0]).pvalue for x, y in zip(X, Y, strict=True)])
    return np.minimum(p * len(p), 1.0)


METHODS = ("GRULSIF", "GRULSIF, α balanced", "POOL", "MMD", "KS")


def named(method: str, X: Floats, Y: Floats, graph: nx.Graph, permutations: int, seed: int) -> np.ndarray:
    """Nodes that a method names."""
    if method == "MMD":
        return mmd(X, Y, permutations, seed) <= LEVEL
    if method == "KS":
        return ks(X, Y) <= LEVEL
    settings = {"coupling": 0.0} if method == "POOL" else {"alpha": 0.5} if "balanced" in method else {}
    test = CollaborativeTwoSampleTest(permutations=permutations, seed=seed, **settings)
    return test.fit(X, Y, graph).changed(LEVEL)


def powers(runs: int, permutations: int, n: int = 60) -> Iterator[tuple[object, ...]]:
    for case, (change, count) in CASES.items():
        for method in METHODS:
            found, false, seconds = [], [], []
            for seed in range(runs):
                rng = np.random.default_rng(1000 + seed)
                X, Y = rng.normal(size=(2, N, n, 1))
                change(Y, rng)
                graph = communities(seed)
                began = time.process_time()
                nodes = named(method, X, Y, graph, permutations, seed)
                seconds.append(time.process_time() - began)
                beside = np.array([any(u < count for u in graph[v]) for v in range(count, N)])
                found.append(nodes[:count].mean())
                false.append((nodes[count:][beside].mean() if beside.any() else np.nan, nodes[count:].any()))
            error = np.std(found) / np.sqrt(runs)
            near, anywhere = np.array(false, float).T
            yield (case, method, f"{np.mean(found):.2f} ± {error:.2f}", float(np.nanmean(near)),
                   float(anywhere.mean()), float(np.median(seconds)))  # fmt: skip


def speeds(permutations: int) -> Iterator[tuple[object, ...]]:
    for n_nodes in (30, 100, 300, 1000):
        graph = nx.random_regular_graph(6, n_nodes, seed=0)
        X, Y = np.random.default_rng(0).normal(size=(2, n_nodes, 100, 1))
        began = time.process_time()
        CollaborativeTwoSampleTest(permutations=permutations).fit(X, Y, graph)
        yield n_nodes, 100, permutations, time.process_time() - began


def picture(rows: list[tuple[object, ...]], directory: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    cases = list(CASES)
    figure, axis = plt.subplots(figsize=(10, 4))
    width = 0.8 / len(METHODS)
    for k, method in enumerate(METHODS):
        mine = {row[0]: row[2] for row in rows if row[1] == method}
        mean, error = np.array([[float(part) for part in str(mine[c]).split(" ± ")] for c in cases]).T
        axis.bar(np.arange(len(cases)) + (k - 2) * width, mean, width, yerr=error, label=method, capsize=2)
    axis.set_xticks(range(len(cases)), [case.replace(", ", ",\n") for case in cases], fontsize=8)
    axis.set(ylabel="share of changed nodes named", ylim=(0, 1.05))
    axis.legend(fontsize=8, ncol=3)
    figure.tight_layout()
    directory.mkdir(parents=True, exist_ok=True)
    figure.savefig(directory / "compare-power.png", dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few runs")
    parser.add_argument("--plots", type=Path, help="directory for the picture")
    options = parser.parse_args()
    runs, draws, permutations = (10, 5, 99) if options.quick else (200, 60, 199)
    print(machine())
    print(f"\nLevel: rejections of quiet samples at {LEVEL}, {N} nodes, {runs} runs")
    head = ("AR", "n", "block", "rows", "network", "any node, family-wise", "mean node", "warned: few rows")
    print(table(head, levels(runs, permutations)))
    print(f"\nPower: {N} nodes in {GROUPS} communities, 60 samples before and after, {draws} draws")
    rows = list(powers(draws, permutations))
    print(table(("change", "method", "changed nodes named", "unchanged neighbours named",
                 "runs with a false node", "CPU s"), rows))  # fmt: skip
    print("\nTime: CPU seconds of one test")
    print(table(("nodes", "n", "permutations", "CPU s"), speeds(99 if options.quick else 999)))
    if options.plots:
        picture(rows, options.plots)


if __name__ == "__main__":
    main()
