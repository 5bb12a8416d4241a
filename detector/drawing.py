"""Pictures of the network: where nodes without a position go, and a PNG file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from detector.graph_files import FilePath
from detector.layouts import large_layout
from detector.samples import Floats
from estimators.graph import Graph

SPRING_NODES = 500  # a spring layout costs the square of it; larger networks are placed by distances
SEED = 7  # any number, but always the same: a network must not look different every time
LABELLED_NODES = 150  # beyond, names hide the picture


def layout(graph: Graph) -> Floats:
    """Positions (N, 2) from the links: springs if small, distances to pivots if large."""
    n = graph.n_nodes
    if n <= SPRING_NODES:
        import networkx as nx

        view = nx.from_scipy_sparse_array(graph.matrix())
        placed = nx.spring_layout(view, seed=SEED)
        return np.array([placed[v] for v in range(n)], dtype=np.float64)
    return large_layout(graph)


def draw_network(
    path: FilePath, names: Sequence[str], graph: Graph, positions: Floats, title: str = ""
) -> None:
    """Write a PNG of nodes and links; the stronger a link, the darker."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.collections import LineCollection
        from matplotlib.figure import Figure
    except ImportError as error:
        raise RuntimeError("drawing needs matplotlib: run  pip install 'detector[plot]'") from error
    figure = Figure(figsize=(8.0, 8.0), layout="constrained")
    FigureCanvasAgg(figure)  # no window system, no global state
    axes = figure.subplots()
    W = graph.matrix().tocoo()
    once = W.coords[0] < W.coords[1]
    ends = positions[np.stack([W.coords[0][once], W.coords[1][once]], axis=1)]
    if len(ends):
        shade = 0.15 + 0.65 * W.data[once] / W.data.max()
        colours = np.column_stack([np.zeros((len(shade), 3)), shade])
        axes.add_collection(LineCollection(ends, colors=colours, linewidths=1.0))
    axes.scatter(positions[:, 0], positions[:, 1], s=max(4.0, 300.0 / np.sqrt(len(names))), zorder=2)
    if len(names) <= LABELLED_NODES:
        for name, (x, y) in zip(names, positions, strict=True):
            axes.annotate(name, (x, y), xytext=(4, 4), textcoords="offset points", fontsize=7)
    axes.set_title(title, fontsize=7, wrap=True)
    axes.set_axis_off()
    axes.margins(0.08)
    figure.savefig(path, format="png", dpi=120)
