"""Pictures of a report and their inline SVG: the network with its incidents, and their timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class NetworkPicture:
    """Nodes darker the nearer their peak came to the threshold; members of incidents are triangles."""

    network: Network
    peaks: NDArray[Any]
    threshold: float
    alarmed: set[str]

    def shares(self) -> NDArray[Any]:
        """Peaks as shares of the threshold."""
        known = np.isfinite(self.peaks) & (self.threshold > 0)
        return np.where(known, self.peaks, 0.0) / (self.threshold if self.threshold > 0 else 1.0)

    def named(self) -> set[str]:
        """Nodes whose names are written: as many as can be read."""
        if self.network.n_nodes <= NAMED:
            return set(self.network.names)
        return self.alarmed if len(self.alarmed) <= NAMED else set()

    def svg(self) -> Markup:
        places = self.network.layout()
        low, span = places.min(axis=0), np.maximum(np.ptp(places, axis=0), 1e-9)
        height = float(np.clip(WIDTH * span[1] / span[0], 350.0, 700.0))
        xy = 25.0 + (places - low) / span * [WIDTH - 50.0, height - 50.0]
        xy[:, 1] = height - xy[:, 1]
        links = sp.triu(self.network.graph.matrix(), k=1).tocoo()
        strong = np.argsort(-links.data, kind="stable")[:MOST_LINKS]
        path = "".join(
            f"M{xy[u, 0]:.1f} {xy[u, 1]:.1f}L{xy[v, 0]:.1f} {xy[v, 1]:.1f}"
            for u, v in zip(links.coords[0][strong], links.coords[1][strong], strict=True)
        )
        n = self.network.n_nodes
        r = float(np.clip(0.2 * np.sqrt(WIDTH * height / max(n, 1)), 2.5, 9.0))
        marks, names = [], []
        shares = self.shares()
        named = self.named()
        for v, name in enumerate(self.network.names):
            x, y = xy[v]
            share = shares[v]
            title = tag("title", f"{name}: peak {share:.0%} of the node threshold")
            if name in self.alarmed:
                shape = f"M{x:.1f} {y - 1.4 * r:.1f}l{1.3 * r:.1f} {2.2 * r:.1f}h{-2.6 * r:.1f}z"
                marks.append(tag("path", title, d=shape, klass="alarmed"))
            else:
                marks.append(tag("circle", title, cx=f"{x:.1f}", cy=f"{y:.1f}", r=f"{r:.1f}",
                                 klass=f"level{level(share)}"))  # fmt: skip
            if name in named:
                inside = min(max(x, 50.0), WIDTH - 50.0)
                above = y - 1.6 * r - 2.0
                names.append(tag("text", name[:24], x=f"{inside:.1f}", y=f"{above:.1f}", klass="name"))
        return tag(
            "svg",
            tag("path", d=path, klass="link"),
            *marks,
            *names,
            viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
            role="img",
            aria_label=f"Network of {n} nodes; {len(self.alarmed)} were part of an incident",
        )


def level(share: float) -> int:
    """Of five shades."""
    return round(4 * min(max(float(share), 0.0), 1.0))


@dataclass(frozen=True)
class Bar:
    """One incident in the timeline."""

    story: Story
    begin: float
    end: float
    row: int
    kind: str  # incident; with labels found or false


@dataclass(frozen=True)
class Timeline:
    """Labels above, incidents below in as many rows as overlap; the learning period is shaded."""

    stories: Sequence[Story]
    labels: Sequence[Label]
    span: tuple[float, float]
    begin: float | None  # of watching
    grace: float
    true_ones: set[str]

    def bars(self) -> list[Bar]:
        """Each as wide as to be seen, in the first row that is free."""
        first, last = self.span
        least = (last - first) / 200.0
        made: list[Bar] = []
        free: list[float] = []
        for story in sorted(self.stories, key=lambda one: one.opened):
            begin = min(max(story.opened, first), last)
            end = max(begin + least, min(story.ended if story.ended is not None else last, last))
            row = next((k for k, taken in enumerate(free) if taken <= begin), len(free))
            if row == len(free) and row < ROWS:
                free.append(first)
            row = min(row, ROWS - 1)
            free[row] = end + least / 5.0
            kind = "incident" if not self.labels else "found" if story.id in self.true_ones else "false"
            made.append(Bar(story, begin, end, row, kind))
        return made

    def svg(self) -> Markup:
        first, last = self.span
        scale = (WIDTH - 20.0) / max(last - first, 1e-9)

        def at(time: float) -> float:
            return 10.0 + (min(max(time, first), last) - first) * scale

        parts: list[Markup] = []
        top = 24.0
        if self.begin is not None and self.begin > first:
            wide = at(self.begin) - 10.0
            parts.append(tag("rect", tag("title", "learning"), x="10", y="0", width=f"{wide:.1f}",
                             height="100%", klass="learning"))  # fmt: skip
        if self.labels:
            parts.append(tag("text", "labels", x="10", y=f"{top - 8:.0f}", klass="row"))
            for label in self.labels:
                until = label.until(self.grace)
                words = f"{label.kind or 'event'} from {moment(label.start)}, {duration(until - label.start)}"
                wide = max(2.0, at(until) - at(label.start))
                parts.append(tag("rect", tag("title", words), x=f"{at(label.start):.1f}", y=f"{top:.0f}",
                                 width=f"{wide:.1f}", height="16", klass="label"))  # fmt: skip
            top += 46.0
        parts.append(tag("text", "incidents", x="10", y=f"{top - 8:.0f}", klass="row"))
        bars = self.bars()
        for one in bars:
            wide = (one.end - one.begin) * scale
            words = f"{one.story.id}: {one.story.summary}"
            parts.append(tag("rect", tag("title", words), x=f"{at(one.begin):.1f}",
                             y=f"{top + 20.0 * one.row:.0f}", width=f"{wide:.1f}", height="16",
                             klass=one.kind))  # fmt: skip
        height = top + 20.0 * (1 + max((one.row for one in bars), default=0)) + 24.0
        for k in range(5):
            time = first + (last - first) * k / 4.0
            anchor = "start" if k == 0 else "end" if k == 4 else "middle"
            words = moment(time) if k == 0 else clock(time, first)  # the date once is enough
            parts.append(tag("text", words, x=f"{at(time):.1f}", y=f"{height - 4:.0f}", klass="time",
                             text_anchor=anchor))  # fmt: skip
        about = f"{len(self.stories)} incidents and {len(self.labels)} labels over time"
        size = f"0 0 {WIDTH:.0f} {height:.0f}"
        return tag("svg", *parts, viewBox=size, role="img", aria_label=about)


@dataclass(frozen=True)
class Delays:
    """Expected delays in ticks; the page shows them as bars within a table."""

    changes: Sequence[str]
    ticks: Sequence[float]  # not finite: not found


def bar(value: float, most: float, words: str) -> Markup:
    """A bar within a table cell, with its value beside it."""
    wide = 0.0 if not np.isfinite(value) or most <= 0 else 140.0 * min(value / most, 1.0)
    shape = tag("rect", x="0", y="2", width=f"{wide:.1f}", height="12", klass="bar")
    drawn = tag("svg", shape, viewBox="0 0 140 16", klass="inline", aria_hidden="true")
    return Markup(f"{drawn} {tag('span', words)}")
