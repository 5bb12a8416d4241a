"""From content to a page: one HTML file that holds everything it needs. Templates escape all text."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

_NUMBER = re.compile(r"–|[-+]?[\d.,]+(e[-+]?\d+)?( ?(%|s|min|h|d))?")
Facts = list[tuple[str, Any]]  # names and values


@dataclass(frozen=True)
class Bar:
    """A table cell with a bar of ``width`` (of 140) before its words."""

    width: float
    words: str

    @classmethod
    def of(cls, value: float, most: float, words: str) -> Bar:
        known = math.isfinite(value) and most > 0
        return cls(140.0 * min(value / most, 1.0) if known else 0.0, words)


@dataclass(frozen=True)
class Table:
    """Columns of numbers stand to the right, with their heads."""

    head: Sequence[str]
    rows: Sequence[Sequence[str | Bar]]
    caption: str | None = None

    @property
    def numeric(self) -> list[bool]:
        columns = [[row[c] for row in self.rows] for c in range(len(self.head))]
        return [
            any(cell != "–" for cell in cells) and all(_NUMBER.fullmatch(str(cell)) for cell in cells)
            for cells in columns
        ]


@dataclass(frozen=True)
class Chart:
    """A figure that report.js draws."""

    key: str
    caption: str


@dataclass
class Charts:
    """The charts of one page, with their data."""

    data: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, caption: str, **spec: Any) -> Chart:
        """``spec`` as described in report.js."""
        made = Chart(f"chart{len(self.data)}", caption)
        self.data[made.key] = spec
        return made


def plain(values: Any, digits: int = 5) -> list[float | None]:
    """Numbers for a chart: short, null where not known."""
    return [
        float(f"{x:.{digits}g}") if math.isfinite(x) else None for x in np.asarray(values, float).tolist()
    ]


def render(template: str, **content: Any) -> Markup:
    """A template of this package, filled in."""
    return Markup(_templates().get_template(template).render(content))


def render_page(template: str, title: str, charts: Charts, **content: Any) -> str:
    """A whole page, to be written to a file."""
    style = Markup(_file("http", "uPlot.min.css") + _file("report", "report.css"))
    scripts = [Markup(_file("http", "uPlot.iife.min.js")), Markup(_file("report", "report.js"))]
    # Nothing is loaded, and only our own scripts run, whatever a name in the data contains.
    allowed = " ".join(_hash(script) for script in scripts)
    policy = f"default-src 'none'; style-src {_hash(style)}; img-src data:; script-src {allowed}"
    data = json.dumps(charts.data, separators=(",", ":"), allow_nan=False)
    data = Markup(data.replace("<", "\\u003c").replace("&", "\\u0026"))
    frame = {"title": title, "policy": policy, "style": style, "scripts": scripts, "data": data}
    return str(render(template, **frame, **content))


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("detector", "report/templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _file(package: str, name: str) -> str:
    return resources.files("detector").joinpath(package, "static", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
