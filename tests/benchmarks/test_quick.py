"""`make bench` runs every script of the folder at its quick size."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = [path for path in sorted(FOLDER.glob("*.py")) if "ArgumentParser(" in path.read_text()]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_benchmark_has_a_quick_size(script: Path) -> None:
    assert re.search(r'add_argument\(\s*"--quick", action="store_true"', script.read_text())
