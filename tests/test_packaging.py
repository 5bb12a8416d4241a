"""What is made from the code is current, and everything that is shipped is there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SHIPPED = PROJECT["tool"]["setuptools"]["data-files"]


def test_manual_pages_and_completion_files_are_current() -> None:
    """After a change to commands or keys: make docs."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "make-man", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, f"stale: {done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", sorted((ROOT / "man").iterdir()), ids=lambda page: page.name)
def test_manual_pages_are_good_roff(page: Path) -> None:
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-Kutf8", page], capture_output=True, text=True)
    assert done.returncode == 0
    assert not done.stderr


def test_completion_files_are_read_by_their_shell() -> None:
    subprocess.run(["bash", "-n", ROOT / "completion" / "detector"], check=True)


@pytest.mark.parametrize("pattern", [pattern for found in SHIPPED.values() for pattern in found])
def test_what_is_shipped_exists(pattern: str) -> None:
    assert list(ROOT.glob(pattern))


def test_every_door_that_needs_a_library_has_an_extra() -> None:
    import connectors

    extras = PROJECT["project"]["optional-dependencies"]
    doors = [connectors.source(name) for name in connectors.SOURCES]
    needed = {door.extra for door in [*doors, *map(connectors.sink, connectors.SINKS)] if door.extra}
    assert needed <= set(extras)
    (everything,) = extras["all"]
    assert needed <= set(everything.removeprefix("detector[").removesuffix("]").split(","))


def test_make_help_lists_what_there_is() -> None:
    done = subprocess.run(["make", "-s", "-C", ROOT, "help"], capture_output=True, text=True, check=True)
    listed = set(re.findall(r"make (\w+) ", done.stdout))
    assert {"help", "run", "test", "lint", "types", "bench", "docs", "wheel", "clean"} <= listed


def test_scripts_are_good_shell() -> None:
    for path in [*(ROOT / "scripts").iterdir(), ROOT / ".ci" / "run"]:
        if path.is_file() and path.read_text().startswith("#!/usr/bin/env bash"):
            subprocess.run(["bash", "-n", path], check=True)
            assert path.stat().st_mode & 0o111, f"{path.name} cannot be run"
