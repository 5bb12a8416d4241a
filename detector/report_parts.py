"""Pieces of a report: a page that holds everything it needs, tables, charts. Text is always escaped."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import numpy as np

from detector.events import clock, iso


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(value: Any) -> Markup:
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def tag(name: str, *content: Any, **attributes: Any) -> Markup:
    """``tag("td", "a < b", klass="number")``; attributes with the value None are left out."""
    given = "".join(
        f' {key.replace("klass", "class").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>{''.join(map(escaped, content))}</{name}>")


def number(value: float | None, digits: int = 3) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.{digits}g}" if abs(value) < 1e6 else f"{value:.2e}"


def duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "–"
    for name, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if abs(seconds) >= size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:.3g} s"


def moment(time: float | None) -> str:
    return "–" if time is None else clock(time, 0.0)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], caption: str | None = None) -> Markup:
    """Cells that are numbers in words, or begin with a digit, stand to the right."""
    lines = [
        tag("tr", *(tag("td", cell, klass="number" if _is_number(cell) else None) for cell in row))
        for row in rows
    ]
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption) if caption else "",
            tag("thead", tag("tr", *(tag("th", name, scope="col") for name in head))),
            tag("tbody", *lines),
        ),
        klass="scroll",
    )


def _is_number(cell: Any) -> bool:
    text = str(cell)
    return not isinstance(cell, Markup) and (
        text == "–" or text[:1].isdigit() or text[:1] in "-+" or not text
    )


def facts(pairs: Iterable[tuple[str, Any]]) -> Markup:
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs), klass="facts")


def plain(values: Any, digits: int = 5) -> list[float | None]:
    """Numbers for a chart: short, null where not known."""
    return [
        float(f"{x:.{digits}g}") if math.isfinite(x) else None for x in np.asarray(values, float).tolist()
    ]


@dataclass
class Page:
    """Collects sections and charts, then gives one file of HTML."""

    title: str
    sections: list[Markup] = field(default_factory=list)
    charts: dict[str, Any] = field(default_factory=dict)

    def section(self, title: str, *content: Any) -> None:
        self.sections.append(tag("section", tag("h2", title), *content))

    def chart(self, caption: str, about: str = "", **spec: Any) -> Markup:
        """A figure drawn by report.js; ``spec`` as described there."""
        key = f"chart{len(self.charts)}"
        self.charts[key] = spec
        return figure(
            caption, tag("div", data_chart=key, klass="chart", role="img", aria_label=about or caption)
        )

    def html(self) -> str:
        folder = resources.files("detector")
        style = "".join(
            folder.joinpath(*path).read_text(encoding="utf-8")
            for path in (("page", "uPlot.min.css"), ("report", "report.css"))
        )
        scripts = [
            folder.joinpath(*path).read_text(encoding="utf-8")
            for path in (("page", "uPlot.iife.min.js"), ("report", "report.js"))
        ]
        # Nothing is loaded, and only our own scripts run, whatever a name in the data contains.
        allowed = " ".join(_hash(script) for script in scripts)
        policy = f"default-src 'none'; style-src {_hash(style)}; img-src data:; script-src {allowed}"
        data = json.dumps(self.charts, separators=(",", ":"), allow_nan=False)
        data = data.replace("<", "\\u003c").replace("&", "\\u0026")
        body = [
            tag("header", tag("h1", self.title)),
            tag("main", *self.sections),
            Markup(f'<script type="application/json" id="data">{data}</script>'),
            *(Markup(f"<script>{script}</script>") for script in scripts),
        ]
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            f"<title>{html.escape(self.title)}</title><style>{style}</style></head>"
            f"<body>{''.join(body)}</body></html>\n"
        )


def figure(caption: str, content: Markup) -> Markup:
    button = tag("button", "PNG", type="button", klass="png", aria_label=f"Save {caption} as PNG")
    return tag("figure", tag("figcaption", caption, button), content)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def when(time: float | None) -> str:
    """ISO 8601 where the stream has such times, else the number."""
    return "–" if time is None else iso(time) or f"{time:.10g}"
