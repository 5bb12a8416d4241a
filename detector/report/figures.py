"""Figures of a report as inline SVG: the network with its incidents, and their timeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from markupsafe import Markup
from numpy.typing import NDArray

from detector.events.model import clock
from detector.events.wording import duration, moment
from detector.network.network import Network
from detector.replay.ground_truth import Label
from detector.replay.timeline import ReplayedIncident
from detector.report.html import render

WIDTH = 1000.0
MOST_LINKS = 8000
NAMED = 40
ROWS = 12  # of overlapping incidents


@dataclass(frozen=True)
class NetworkFigure:
    """Nodes darker the nearer their peak came to the threshold; members of incidents are triangles."""

    network: Network
    peaks: NDArray[Any]
    threshold: float
    alarmed: set[str]
    words: Sequence[str] | None = None  # about each node; by default its peak
    said: str = "were part of an incident"  # of the alarmed

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
        r = float(np.clip(0.2 * np.sqrt(WIDTH * height / max(self.network.n_nodes, 1)), 2.5, 9.0))
        return render("network.svg", width=WIDTH, height=height, links=path, radius=r,
                      nodes=list(self._nodes(xy, r)), alarmed=f"{len(self.alarmed)} {self.said}")  # fmt: skip

    def _nodes(self, xy: NDArray[Any], r: float) -> Iterator[dict[str, Any]]:
        shares, named = self.shares(), self.named()
        peaks = [f"peak {100.0 * share:.0f}% of the node threshold" for share in shares.tolist()]
        about = zip(self.network.names, self.words or peaks, shares.tolist(), xy.tolist(), strict=True)
        for name, words, share, (x, y) in about:
            triangle = f"M{x:.1f} {y - 1.4 * r:.1f}l{1.3 * r:.1f} {2.2 * r:.1f}h{-2.6 * r:.1f}z"
            yield {
                "name": name, "words": words, "x": x, "y": y, "level": level(share),
                "triangle": triangle if name in self.alarmed else None, "named": name in named,
                "text_x": min(max(x, 50.0), WIDTH - 50.0), "text_y": y - 1.6 * r - 2.0,
            }  # fmt: skip


def level(share: float) -> int:
    """Of five shades."""
    return round(4 * min(max(float(share), 0.0), 1.0))


@dataclass(frozen=True)
class Bar:
    """One incident in the timeline."""

    incident: ReplayedIncident
    begin: float
    end: float
    row: int
    kind: str  # incident; with labels found or false


@dataclass(frozen=True)
class Timeline:
    """Labels above, incidents below in as many rows as overlap; the learning period is shaded."""

    incidents: Sequence[ReplayedIncident]
    labels: Sequence[Label]
    span: tuple[float, float]
    learnt: tuple[float, float] | None
    grace: float
    true_ones: set[str]

    def bars(self) -> list[Bar]:
        """Each as wide as to be seen, in the first row that is free."""
        first, last = self.span
        least = (last - first) / 200.0
        made: list[Bar] = []
        free: list[float] = []
        for incident in sorted(self.incidents, key=lambda one: one.opened):
            begin = min(max(incident.opened, first), last)
            end = max(begin + least, min(incident.ended if incident.ended is not None else last, last))
            row = next((k for k, taken in enumerate(free) if taken <= begin), len(free))
            if row == len(free) and row < ROWS:
                free.append(first)
            row = min(row, ROWS - 1)
            free[row] = end + least / 5.0
            kind = "incident" if not self.labels else "found" if incident.id in self.true_ones else "false"
            made.append(Bar(incident, begin, end, row, kind))
        return made

    def svg(self) -> Markup:
        first, last = self.span
        scale = (WIDTH - 20.0) / max(last - first, 1e-9)

        def at(time: float) -> float:
            return 10.0 + (min(max(time, first), last) - first) * scale

        rectangles: list[dict[str, Any]] = []
        texts: list[dict[str, Any]] = []
        top = 24.0
        if self.learnt is not None and self.learnt[1] > first:
            begin, end = map(at, self.learnt)
            rectangles.append(_rectangle(begin, 0.0, end - begin, "learning", "learning", "100%"))
        if self.labels:
            texts.append({"words": "labels", "x": 10.0, "y": top - 8.0, "kind": "row", "anchor": None})
            for label in self.labels:
                until = label.until(self.grace)
                words = f"{label.kind or 'event'} from {moment(label.start)}, {duration(until - label.start)}"
                wide = max(2.0, at(until) - at(label.start))
                rectangles.append(_rectangle(at(label.start), top, wide, "label", words))
            top += 46.0
        texts.append({"words": "incidents", "x": 10.0, "y": top - 8.0, "kind": "row", "anchor": None})
        bars = self.bars()
        for one in bars:
            words, wide = f"{one.incident.id}: {one.incident.summary}", (one.end - one.begin) * scale
            rectangles.append(_rectangle(at(one.begin), top + 20.0 * one.row, wide, one.kind, words))
        height = top + 20.0 * (1 + max((one.row for one in bars), default=0)) + 24.0
        for k in range(5):
            time = first + (last - first) * k / 4.0
            anchor = "start" if k == 0 else "end" if k == 4 else "middle"
            words = moment(time) if k == 0 else clock(time, first)  # the date once is enough
            texts.append({"words": words, "x": at(time), "y": height - 4.0, "kind": "time", "anchor": anchor})
        return render("timeline.svg", width=WIDTH, height=height, rectangles=rectangles, texts=texts,
                      incidents=len(self.incidents), labels=len(self.labels))  # fmt: skip


def _rectangle(x: float, y: float, width: float, kind: str, words: str, height: str = "16") -> dict[str, Any]:
    return {"x": x, "y": y, "width": width, "height": height, "kind": kind, "words": words}
