"""The notebooks are executed once, for their own test and for the site that shows them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="package")
def notebooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all notebooks and their outputs."""
    folder = tmp_path_factory.mktemp("notebooks")
    command = [sys.executable, str(ROOT / "scripts" / "run-notebooks"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder
