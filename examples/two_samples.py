"""Two samples per node of a small network: estimate the ratios of their densities and draw them.

    python examples/two_samples.py [picture.png]

Three groups of eight sensors; the second sample of the first group has a higher mean, that of the second
group a larger spread, that of the third is like the first. Needs the extra ``plot`` (matplotlib).
"""

from __future__ import annotations

import sys

import networkx as nx
import numpy as np

from estimators import Grulsif, Pool


def samples(n: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray, nx.Graph]:
    """Two arrays (24, n, 1) and the graph: all links within a group, one between neighbouring groups."""
    rng = np.random.default_rng(seed)
    ref, test = rng.normal(size=(2, 24, n, 1))
    test[:8] += 1.0
    test[8:16] *= 1.6
    graph = nx.disjoint_union_all([nx.complete_graph(8)] * 3)
    graph.add_edges_from([(0, 8), (8, 16)])
    return ref, test, graph


def truth(group: int, x: np.ndarray, alpha: float) -> np.ndarray:
    """The exact relative ratio of a group."""
    mean, spread = [(1.0, 1.0), (0.0, 1.6), (0.0, 1.0)][group]
    p, q = np.exp(-0.5 * x**2), np.exp(-0.5 * ((x - mean) / spread) ** 2) / spread
    return q / ((1.0 - alpha) * p + alpha * q)


def main(picture: str = "two_samples.png") -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    ref, test, graph = samples()
    models = {"GRULSIF": Grulsif.select(ref, test, graph), "POOL (no graph)": Pool.select(ref, test)}
    x = np.linspace(-3.0, 4.0, 200)
    figure, axes = plt.subplots(2, 3, figsize=(11, 6), sharex=True, sharey=True)
    for row, (name, model) in zip(axes, models.items(), strict=True):
        print(name, "divergences:", " ".join(f"{score:.2f}" for score in model.divergence()))
        for group, axis in enumerate(row):
            for v in range(8 * group, 8 * group + 8):
                axis.plot(x, model.ratio(v, x), color="C0", alpha=0.7, lw=1)
            axis.plot(x, truth(group, x, model.alpha), color="black", lw=2)
            axis.set_title(f"{name}: {('mean +1', 'spread x 1.6', 'no change')[group]}", fontsize=10)
    axes[0, 0].set_ylim(-0.5, 6.0)
    figure.supxlabel("reading x")
    figure.supylabel("relative ratio r(x); black: exact")
    figure.tight_layout()
    figure.savefig(picture, dpi=90)


if __name__ == "__main__":
    main(*sys.argv[1:2])
