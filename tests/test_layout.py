"""Who may know whom: the doors and the mathematics know neither each other nor the daemon."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = {"estimators": {"connectors", "detector"}, "connectors": {"estimators", "detector"}}
FILES = [(room, path) for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
NOT_FOR_MATHEMATICS = {
    "logging",
    "time",
    "datetime",
    "threading",
    "asyncio",
    "socket",
    "pickle",
    "os",
    "sys",
    "io",
}
HEART = ("aftermath/casefile", "aftermath/clerk", "align", "behind", "bootstrap", "calibration", "coverage",
         "engine", "history", "incidents", "injection", "newcomers", "pipeline", "pipeline_state", "readings",
         "rehearsal", "screen", "tail", "tuning", "views")  # fmt: skip


def imported(path: Path) -> set[str]:
    """Top-level names of everything a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level <= 1, f"{path.name}: import from outside its room"
            names.add(node.module or "" if not node.level else path.parent.name)
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize(("room", "path"), FILES, ids=[f"{room}/{path.name}" for room, path in FILES])
def test_direction_of_imports(room: str, path: Path) -> None:
    """`estimators` and `connectors` import neither each other nor `detector`."""
    assert not imported(path) & ROOMS[room]


@pytest.mark.parametrize("path", sorted((ROOT / "estimators").rglob("*.py")), ids=lambda path: path.name)
def test_mathematics_has_no_clock_and_no_file(path: Path) -> None:
    """Arrays in, arrays out: no clock, thread, log, file or pickle among the imports of `estimators`."""
    assert not imported(path) & NOT_FOR_MATHEMATICS


@pytest.mark.parametrize("name", HEART)
def test_heart_is_pure(name: str) -> None:
    """The streaming core, from samples to events, has neither clock nor thread nor file."""
    assert not imported(ROOT / "detector" / f"{name}.py") & NOT_FOR_MATHEMATICS


def test_the_map_of_the_house_is_complete() -> None:
    """docs/architecture.md says what each file of the daemon is for, and names none that is not there."""
    named = set(re.findall(r"\w+\.py", (ROOT / "docs" / "architecture.md").read_text()))
    there = {path.name for path in (ROOT / "detector").glob("*.py") if not path.name.startswith("__")}
    assert there - named == set()
    everywhere = {path.name for room in ("detector", *ROOMS, "tests") for path in (ROOT / room).rglob("*.py")}
    assert named - everywhere == set()


def test_the_daemon_loads_no_more_than_it_needs() -> None:
    """Memory of an edge device: libraries for graphs on request, pictures and statistics stay on the disk."""
    heavy = ("networkx", "matplotlib", "pandas", "river", "rich", "sklearn", "scipy.optimize", "scipy.stats")
    code = f"import sys, detector.cli, detector.daemon; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
