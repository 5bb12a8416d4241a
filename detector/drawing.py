"""Pictures as PNG files, and the network: where nodes without a position go, and how it is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from detector.graph_files import FilePath
from detector.layouts import large_layout
from detector.samples import Floats
from estimators.graph import Graph

SPRING_NODES = 500  # a spring layout costs the square of it; larger networks are placed by distances
SEED = 7  # any number, but always the same: a network must not look different every time
LABELLED_NODES = 150  # beyond, names hide the picture
DOTS_PER_INCH = 120


def layout(graph: Graph) -> Floats:
    """Positions (N, 2) from the links: springs if small, distances to pivots if large."""
    n = graph.n_nodes
    if n <= SPRING_NODES:
        import networkx as nx

        view = nx.from_scipy_sparse_array(graph.matrix())
        placed = nx.spring_layout(view, seed=SEED)
        return np.array([placed[v] for v in range(n)], dtype=np.float64)
    return large_layout(graph)


def need_matplotlib() -> None:
    """Asked before long work, so that nothing is drawn in vain."""
    try:
        import matplotlib.backends.backend_agg
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError("drawing needs matplotlib: run  pip install 'detector[plot]'") from error


@contextmanager
def sheet(path: FilePath, width: float, height: float) -> Iterator[Any]:
    """Axes of so many inches to draw on; a PNG in the end."""
    need_matplotlib()
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"text.parse_math": False}):  # a dollar in a name is a dollar
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)  # no window system, no global state
        yield figure.subplots()
        figure.savefig(path, format="png", dpi=DOTS_PER_INCH)


def draw_network(
    path: FilePath, names: Sequence[str], graph: Graph, positions: Floats, title: str = ""
) -> None:
    """Write a PNG of nodes and links; the stronger a link, the darker."""
    with sheet(path, 8.0, 8.0) as axes:
        draw_links(axes, graph, positions)
        axes.scatter(positions[:, 0], positions[:, 1], s=mark_size(len(names)), zorder=2)
        if len(names) <= LABELLED_NODES:
            draw_names(axes, names, positions)
        axes.set_title(title, fontsize=7, wrap=True)


def draw_links(axes: Any, graph: Graph, positions: Floats) -> None:
    from matplotlib.collections import LineCollection

    W = graph.matrix().tocoo()
    once = W.coords[0] < W.coords[1]
    ends = positions[np.stack([W.coords[0][once], W.coords[1][once]], axis=1)]
    if len(ends):
        shade = 0.15 + 0.65 * W.data[once] / W.data.max()
        colours = np.column_stack([np.zeros((len(shade), 3)), shade])
        axes.add_collection(LineCollection(ends, colors=colours, linewidths=1.0))
    axes.set_axis_off()
    axes.margins(0.08)


def draw_names(axes: Any, names: Sequence[str], positions: Floats) -> None:
    for name, place in zip(names, positions, strict=True):
        axes.annotate(name, place, xytext=(4, 4), textcoords="offset points", fontsize=7)


def mark_size(n_nodes: int) -> float:
    """Of a node, in points squared."""
    return float(max(4.0, 300.0 / np.sqrt(n_nodes)))
