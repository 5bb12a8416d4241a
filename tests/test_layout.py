"""What import contracts cannot say: the pipeline is pure, folders are small, the daemon is lean."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import grimp
import pytest

from detector.settings.registries import ENGINES, STEPS

ROOT = Path(__file__).parents[1]
PACKAGES = ("detector", "estimators", "connectors")
IMPURE = {"asyncio", "datetime", "io", "logging", "os", "pickle", "random", "socket", "sqlite3", "subprocess",
          "sys", "tempfile", "threading", "time"}  # fmt: skip
LARGEST_FOLDER = 16


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, include_external_packages=True, exclude_type_checking_imports=True)


def closure(imports: grimp.ImportGraph, module: str) -> set[str]:
    found = imports.find_upstream_modules(module) | {module}
    return {name for name in found if name.split(".")[0] in PACKAGES}


def impure(imports: grimp.ImportGraph, modules: set[str]) -> set[tuple[str, str]]:
    return {
        (name, used)
        for name in modules
        for used in imports.find_modules_directly_imported_by(name)
        if used.split(".")[0] in IMPURE
    }


def test_the_pipeline_is_pure(imports: grimp.ImportGraph) -> None:
    """From samples to events, with everything that is imported on the way: no clock, thread, file or log."""
    loaded = {place.partition(":")[0] for registry in (ENGINES, STEPS) for place in registry.builtin.values()}
    modules = set().union(*(closure(imports, name) for name in ("detector.pipeline.pipeline", *loaded)))
    assert len(modules) > 60
    assert impure(imports, modules) == set()


def test_the_mathematics_is_pure(imports: grimp.ImportGraph) -> None:
    """Arrays in, arrays out: `estimators` has no clock, thread, log, file or pickle."""
    modules = {name for name in imports.modules if name.split(".")[0] == "estimators"}
    assert impure(imports, modules) == set()


def test_impurity_would_be_seen(imports: grimp.ImportGraph) -> None:
    """The daemon reads clocks and starts threads; a check that finds nothing there checks nothing."""
    used = {used for _, used in impure(imports, closure(imports, "detector.daemon.daemon"))}
    assert {"asyncio", "time", "threading"} <= {name.split(".")[0] for name in used}


def test_import_contracts() -> None:
    command = [Path(sys.executable).parent / "lint-imports", "--config", "importlinter.ini"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_array_types_are_defined_once() -> None:
    """One name for one type of element, in one place: Floats is float64 wherever it is read."""
    kinds = "float64|float32|intp|bool_"
    alias = re.compile(rf"^\w+ = NDArray\[np\.(?:{kinds})\]|^(?:Nodes|Floats) = ", re.MULTILINE)
    found = {path.relative_to(ROOT).as_posix() for package in ("detector", "estimators")
             for path in (ROOT / package).rglob("*.py*") if path.suffix in (".py", ".pyi")
             and alias.search(path.read_text())}  # fmt: skip
    # Rows of a state have a name of their own: which of the old nodes each node was.
    assert found - {"detector/stateful.py"} == {"estimators/core/types.py"}


def test_no_folder_is_crowded() -> None:
    counts = Counter(path.parent for package in PACKAGES for path in (ROOT / package).rglob("*.py*")
                     if path.suffix in (".py", ".pyx") and path.name != "__init__.py")  # fmt: skip
    assert {str(folder): n for folder, n in counts.items() if n > LARGEST_FOLDER} == {}


def test_the_daemon_loads_no_more_than_it_needs() -> None:
    """Memory of an edge device: libraries for graphs on request, pictures and statistics stay on the disk."""
    heavy = ("jinja2", "networkx", "matplotlib", "pandas", "river", "rich", "sklearn", "scipy.optimize",
             "scipy.stats")  # fmt: skip
    code = (
        "import sys, detector.cli.main, detector.daemon.daemon;"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_no_file_holds_both_sides_of_a_merge() -> None:
    """Python would not run; a page, a document or a unit would, without a word."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True).stdout
    if not files:
        pytest.skip("no checkout")
    marks = re.compile(rb"^(<{7}|>{7}) ", re.MULTILINE)
    found = [name for name in files.split("\0") if name and marks.search((ROOT / name).read_bytes())]
    assert found == []
