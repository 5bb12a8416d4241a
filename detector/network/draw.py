"""Pictures of a network as PNG files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from detector.network.files import FilePath
from detector.network.network import Network
from estimators.core.graph import Graph
from estimators.core.types import Floats

LABELLED_NODES = 150  # beyond, names hide the picture
DOTS_PER_INCH = 120


def need_matplotlib() -> None:
    """Asked before long work, so that nothing is drawn in vain."""
    try:
        import matplotlib.backends.backend_agg
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        from connectors.base import install_line

        raise ImportError(f"drawing needs matplotlib: run  {install_line('plot')}") from error


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


def draw_network(network: Network, path: FilePath) -> None:
    """Write a PNG of nodes and links; the stronger a link, the darker. Needs matplotlib."""
    names, graph, positions = network.names, network.graph, network.layout()
    with sheet(path, 8.0, 8.0) as axes:
        draw_links(axes, graph, positions)
        axes.scatter(positions[:, 0], positions[:, 1], s=mark_size(len(names)), zorder=2)
        if len(names) <= LABELLED_NODES:
            draw_names(axes, names, positions)
        axes.set_title(network.warning, fontsize=7, wrap=True)


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
