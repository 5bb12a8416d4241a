"""Pieces of a report: a page that holds everything it needs, tables, charts. Text is always escaped."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Protocol

import numpy as np

_NUMBER = re.compile(r"–|[-+]?[\d.,]+(e[-+]?\d+)?( ?(%|s|min|h|d))?")


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


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], caption: str | None = None) -> Markup:
    """Columns of numbers stand to the right, with their heads."""
    cells = [list(row) for row in rows]
    right = [
        bool(cells) and all(_is_number(row[c]) for row in cells) and any(row[c] != "–" for row in cells)
        for c in range(len(head))
    ]
    kinds = ["number" if one else None for one in right]
    lines = [
        tag("tr", *(tag("td", cell, klass=kind) for cell, kind in zip(row, kinds, strict=True)))
        for row in cells
    ]
    heads = (tag("th", name, scope="col", klass=kind) for name, kind in zip(head, kinds, strict=True))
    content = (
        tag("caption", caption) if caption else "",
        tag("thead", tag("tr", *heads)),
        tag("tbody", *lines),
    )
    return tag("div", tag("table", *content), klass="scroll")


def _is_number(cell: Any) -> bool:
    return not isinstance(cell, Markup) and _NUMBER.fullmatch(str(cell)) is not None


def facts(pairs: Iterable[tuple[str, Any]]) -> Markup:
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs), klass="facts")


def plain(values: Any, digits: int = 5) -> list[float | None]:
    """Numbers for a chart: short, null where not known."""
    return [
        float(f"{x:.{digits}g}") if math.isfinite(x) else None for x in np.asarray(values, float).tolist()
    ]


class Drawn(Protocol):
    """A picture of its own kind, beside charts."""

    def svg(self) -> Markup: ...


@dataclass
class Page:
    """Collects sections and pictures, then gives one file of HTML."""

    title: str
    sections: list[Markup] = field(default_factory=list)
    charts: dict[str, dict[str, Any]] = field(default_factory=dict)
    pictures: list[tuple[str, object]] = field(default_factory=list)  # with captions; what --png draws

    def section(self, title: str, *content: Any) -> None:
        self.sections.append(tag("section", tag("h2", title), *content))

    def chart(self, caption: str, about: str = "", **spec: Any) -> Markup:
        """A figure drawn by report.js; ``spec`` as described there."""
        key = f"chart{len(self.charts)}"
        self.charts[key] = spec
        self.pictures.append((caption, spec))
        return _figure(
            caption, tag("div", data_chart=key, klass="chart", role="img", aria_label=about or caption)
        )

    def figure(self, caption: str, drawn: Drawn) -> Markup:
        self.pictures.append((caption, drawn))
        return _figure(caption, drawn.svg())

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


def _figure(caption: str, content: Markup) -> Markup:
    button = tag("button", "PNG", type="button", klass="png", aria_label=f"Save {caption} as PNG")
    return tag("figure", tag("figcaption", caption, button), content)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
