"""`--png`: the pictures of a report as files, for where no browser is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from detector.drawing import draw_links, draw_names, mark_size, sheet
from detector.events import is_unix
from detector.report_parts import Page
from detector.report_pictures import Delays, NetworkPicture, Timeline, level

WIDTH = 10.0  # inches
DAY = 86400.0


def save_pictures(folder: Path, page: Page) -> list[Path]:
    """Write each picture of ``page`` into ``folder``, numbered in the order of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    colours = _colours()
    paths = []
    for k, (caption, picture) in enumerate(page.pictures, start=1):
        words = re.sub(r"[^\w-]+", "-", caption, flags=re.ASCII).strip("-")[:60]
        paths.append(folder / f"{k:02d}-{words or 'picture'}.png")
        height, draw = _drawer(picture)
        with sheet(paths[-1], WIDTH, height) as axes:
            axes.set_title(caption, fontsize=10, loc="left")
            draw(axes, picture, colours)
    return paths


def _drawer(picture: object) -> tuple[float, Callable[[Any, Any, dict[str, str]], None]]:
    if isinstance(picture, NetworkPicture):
        return 7.0, _network
    if isinstance(picture, Timeline):
        rows = 1 + max((one.row for one in picture.bars()), default=0)
        return 1.2 + 0.3 * (rows + bool(picture.labels)), _timeline
    if isinstance(picture, Delays):
        return 1.2 + 0.25 * len(picture.changes), _delays
    return 3.4, _chart


def _colours() -> dict[str, str]:
    """The names and colours of the page's light dress."""
    style = resources.files("detector").joinpath("report", "report.css").read_text(encoding="utf-8")
    light = style.split("@media", 1)[0]
    return dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]+)", light))


def _chart(axes: Any, spec: dict[str, Any], colours: dict[str, str]) -> None:
    """As `report.js` draws it."""
    timed = bool(spec.get("time"))
    unit = DAY if timed else 1.0
    x = np.asarray(spec["x"], float) / unit
    series = spec["series"]
    values = [np.array([np.nan if one is None else one for one in given["y"]]) for given in series]
    lines = []
    for given, y in zip(series, values, strict=True):
        colour = colours[given["colour"]]
        look: dict[str, Any] = {"linewidth": 1.2}
        if given.get("points"):
            look = {"linestyle": "none", "marker": "o", "markersize": 3.0}
        elif "dash" in given:
            look["dashes"] = given["dash"]
        lines += axes.plot(x, y, color=colour, **look)
        if "fill" in given:  # counted from one: the page has x as number 0
            upper, lower = (values[k - 1] for k in given["fill"])
            axes.fill_between(x, lower, upper, color=colour, alpha=0.33, linewidth=0.0)
    for begin, end, colour in spec.get("spans", ()):
        axes.axvspan(begin / unit, end / unit, color=colours[colour], alpha=0.16, linewidth=0.0)
    for place, label in spec.get("marks", ()):
        lines.append(axes.axvline(place / unit, color=colours["now"], linewidth=1.0))
        axes.annotate(label, (place / unit, 1.0), xycoords=("data", "axes fraction"), xytext=(-3, -3),
                      textcoords="offset points", rotation=90, ha="right", va="top", fontsize=7)  # fmt: skip
    if spec.get("log"):
        from matplotlib.ticker import LogFormatter

        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(LogFormatter())
    if len(x) > 1:
        axes.set_xlim(x[0], x[-1])
    axes.set_xlabel(spec.get("label", ""))
    axes.set_ylabel(spec.get("side", ""))
    axes.grid(color=colours["line"], linewidth=0.6)
    _legend(axes, lines[: len(series)], [given["label"] for given in series])
    _time_axis(axes, timed)


def _legend(axes: Any, lines: Sequence[Any], labels: Sequence[str]) -> None:
    below = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.14), "ncols": 4, "frameon": False, "fontsize": 8}
    axes.legend(lines, labels, **below)


def _timeline(axes: Any, picture: Timeline, colours: dict[str, str]) -> None:
    first, last = picture.span
    timed = is_unix(first)
    unit = DAY if timed else 1.0
    bars = picture.bars()
    rows = 1 + max((one.row for one in bars), default=0)
    if picture.begin is not None and picture.begin > first:
        axes.axvspan(first / unit, picture.begin / unit, color=colours["edge"], alpha=0.15, linewidth=0.0)
    looks = {
        "incident": {"facecolor": colours["now"]},
        "found": {"facecolor": colours["good"]},
        "false": {"facecolor": colours["panel"], "edgecolor": colours["now"]},
    }
    for one in bars:
        spread = [(one.begin / unit, (one.end - one.begin) / unit)]
        axes.broken_barh(spread, (one.row + 0.1, 0.8), **looks[one.kind])
    for label in picture.labels:
        wide = max(label.until(picture.grace) - label.start, (last - first) / 500.0)
        axes.broken_barh([(label.start / unit, wide / unit)], (-0.9, 0.8), facecolor=colours["before"])
    top = -1 if picture.labels else 0
    axes.set_yticks([*([-0.5] if picture.labels else []), rows / 2.0],
                    [*(["labels"] if picture.labels else []), "incidents"])  # fmt: skip
    axes.set_ylim(rows, top)
    axes.set_xlim(first / unit, max(last, first + 1e-9) / unit)
    _time_axis(axes, timed)


def _network(axes: Any, picture: NetworkPicture, colours: dict[str, str]) -> None:
    network, places, named = picture.network, picture.network.layout(), picture.named()
    draw_links(axes, network.graph, places)
    alarmed = np.array([name in picture.alarmed for name in network.names])
    fill = np.array([colours[f"l{level(share)}"] for share in picture.shares()])
    size = mark_size(network.n_nodes)
    common: dict[str, Any] = {"zorder": 2, "edgecolors": colours["edge"], "linewidths": 0.8}
    axes.scatter(*places[~alarmed].T, s=size, c=fill[~alarmed], **common)
    axes.scatter(*places[alarmed].T, s=1.6 * size, c=colours["now"], marker="^", **common)
    shown = [v for v, name in enumerate(network.names) if name in named]
    draw_names(axes, [network.names[v][:24] for v in shown], places[shown])


def _delays(axes: Any, picture: Delays, colours: dict[str, str]) -> None:
    found = [ticks if np.isfinite(ticks) else 0.0 for ticks in picture.ticks]
    rows = np.arange(len(found))
    drawn = axes.barh(rows, found, color=colours["before"])
    words = [f" {ticks:g}" if np.isfinite(ticks) else " not found" for ticks in picture.ticks]
    axes.bar_label(drawn, words, fontsize=8)
    axes.set_yticks(rows, picture.changes, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("median delay in ticks")


def _time_axis(axes: Any, timed: bool) -> None:
    """Unix times, given in days, as dates and clocks."""
    if not timed:
        return
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(tz=UTC)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    axes.set_xlabel("UTC")
