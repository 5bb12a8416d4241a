"""Tables of the benchmarks: aligned text that is also Markdown, and where it was measured."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Markdown table with aligned columns; floats with three significant digits."""
    cells = [[str(name) for name in header], *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def machine() -> str:
    """One line: processor, cores, versions. What a figure is worth without it is little."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as lines:
            model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy"))
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, {packages}"
