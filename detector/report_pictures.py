"""Pictures of a report as inline SVG: the network with its incidents, and their timeline against labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from detector.events import clock
from detector.labels import Label
from detector.network import Network
from detector.report_parts import Markup, tag
from detector.track import Story
from detector.wording import duration, moment

WIDTH = 1000.0
MOST_LINKS = 8000
NAMED = 40
ROWS = 12  # of overlapping incidents


def network_picture(network: Network, peaks: NDArray[Any], threshold: float, alarmed: set[str]) -> Markup:
    """Nodes darker the nearer their peak came to the threshold; members of incidents are triangles."""
    places = network.layout()
    low, span = places.min(axis=0), np.maximum(np.ptp(places, axis=0), 1e-9)
    height = float(np.clip(WIDTH * span[1] / span[0], 350.0, 700.0))
    xy = 25.0 + (places - low) / span * [WIDTH - 50.0, height - 50.0]
    xy[:, 1] = height - xy[:, 1]
    links = sp.triu(network.graph.matrix(), k=1).tocoo()
    strong = np.argsort(-links.data, kind="stable")[:MOST_LINKS]
    path = "".join(
        f"M{xy[u, 0]:.1f} {xy[u, 1]:.1f}L{xy[v, 0]:.1f} {xy[v, 1]:.1f}"
        for u, v in zip(links.coords[0][strong], links.coords[1][strong], strict=True)
    )
    n = network.n_nodes
    r = float(np.clip(0.2 * np.sqrt(WIDTH * height / max(n, 1)), 2.5, 9.0))
    marks, names = [], []
    few = n <= NAMED or len(alarmed) > NAMED
    for v, name in enumerate(network.names):
        x, y = xy[v]
        share = peaks[v] / threshold if np.isfinite(peaks[v]) and threshold > 0 else 0.0
        title = tag("title", f"{name}: peak {share:.0%} of the node threshold")
        if name in alarmed:
            shape = f"M{x:.1f} {y - 1.4 * r:.1f}l{1.3 * r:.1f} {2.2 * r:.1f}h{-2.6 * r:.1f}z"
            marks.append(tag("path", title, d=shape, klass="alarmed"))
        else:
            level = f"level{round(4 * min(max(share, 0.0), 1.0))}"
            marks.append(tag("circle", title, cx=f"{x:.1f}", cy=f"{y:.1f}", r=f"{r:.1f}", klass=level))
        if n <= NAMED or (name in alarmed and not few):
            inside = min(max(x, 50.0), WIDTH - 50.0)
            names.append(tag("text", name[:24], x=f"{inside:.1f}", y=f"{y - 1.6 * r - 2:.1f}", klass="name"))
    return tag(
        "svg",
        tag("path", d=path, klass="link"),
        *marks,
        *names,
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
        role="img",
        aria_label=f"Network of {n} nodes; {len(alarmed)} were part of an incident",
    )


def timeline(
    stories: Sequence[Story], labels: Sequence[Label], span: tuple[float, float], begin: float | None,
    grace: float, true_ones: set[str],
) -> Markup:  # fmt: skip
    """Labels above, incidents below in as many rows as overlap; the learning period is shaded."""
    first, last = span
    scale = (WIDTH - 20.0) / max(last - first, 1e-9)

    def at(time: float) -> float:
        return 10.0 + (min(max(time, first), last) - first) * scale

    parts: list[Markup] = []
    top = 24.0
    if begin is not None and begin > first:
        parts.append(tag("rect", tag("title", "learning"), x="10", y="0", width=f"{at(begin) - 10:.1f}",
                         height="100%", klass="learning"))  # fmt: skip
    if labels:
        parts.append(tag("text", "labels", x="10", y=f"{top - 8:.0f}", klass="row"))
        for label in labels:
            lasted = duration(label.until(grace) - label.start)
            words = f"{label.kind or 'event'} from {moment(label.start)}, {lasted}"
            wide = max(2.0, at(label.until(grace)) - at(label.start))
            parts.append(tag("rect", tag("title", words), x=f"{at(label.start):.1f}", y=f"{top:.0f}",
                             width=f"{wide:.1f}", height="16", klass="label"))  # fmt: skip
        top += 46.0
    parts.append(tag("text", "incidents", x="10", y=f"{top - 8:.0f}", klass="row"))
    free: list[float] = []
    for story in sorted(stories, key=lambda one: one.opened):
        left = at(story.opened)
        wide = max(5.0, at(story.ended if story.ended is not None else last) - left)
        row = next((k for k, taken in enumerate(free) if taken <= left), len(free))
        if row == len(free) and row < ROWS:
            free.append(0.0)
        row = min(row, ROWS - 1)
        free[row] = left + wide + 1.0
        kind = "incident" if not labels else "found" if story.id in true_ones else "false"
        words = f"{story.id}: {story.summary}"
        y = top + 20.0 * row
        parts.append(tag("rect", tag("title", words), x=f"{left:.1f}", y=f"{y:.0f}", width=f"{wide:.1f}",
                         height="16", klass=kind))  # fmt: skip
    height = top + 20.0 * max(len(free), 1) + 24.0
    for k in range(5):
        time = first + (last - first) * k / 4.0
        anchor = "start" if k == 0 else "end" if k == 4 else "middle"
        words = moment(time) if k == 0 else clock(time, first)  # the date once is enough
        parts.append(tag("text", words, x=f"{at(time):.1f}", y=f"{height - 4:.0f}", klass="time",
                         text_anchor=anchor))  # fmt: skip
    return tag("svg", *parts, viewBox=f"0 0 {WIDTH:.0f} {height:.0f}", role="img",
               aria_label=f"{len(stories)} incidents and {len(labels)} labels over time")  # fmt: skip


def bar(value: float, most: float, words: str) -> Markup:
    """A bar within a table cell, with its value beside it."""
    wide = 0.0 if not np.isfinite(value) or most <= 0 else 140.0 * min(value / most, 1.0)
    shape = tag("rect", x="0", y="2", width=f"{wide:.1f}", height="12", klass="bar")
    drawn = tag("svg", shape, viewBox="0 0 140 16", klass="inline", aria_hidden="true")
    return Markup(f"{drawn} {tag('span', words)}")
