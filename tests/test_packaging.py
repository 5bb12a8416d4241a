"""What is made from the code is current, and everything that is shipped is there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SHIPPED = PROJECT["tool"]["setuptools"]["data-files"]


def test_there_is_one_version() -> None:
    """The installed one, that of the citation, and one in the changelog with the same date."""
    import detector

    version = PROJECT["project"]["version"]
    assert detector.__version__ == version, "install again: make .venv/.test-installed"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == version
    newest = re.findall(r"^## (\d\S*) - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)[0]
    assert newest == (version, str(citation["date-released"]))


def test_manual_pages_and_completion_files_are_current() -> None:
    """After a change to commands or keys: make docs."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "make-man", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, f"stale: {done.stdout}{done.stderr}"


def test_the_map_of_the_packages_is_current() -> None:
    """After a change to a docstring of a package, or to the first line of a module: make docs."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "make-architecture", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", ["connectors", "detector", "estimators"])
def test_packages_say_what_they_hold(package: str) -> None:
    """What it holds, who calls it, what it promises: in two to six lines of text."""
    for path in (ROOT / package).rglob("__init__.py"):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        lines = [line for line in text.splitlines() if line]
        assert 2 <= len(lines) <= 6, path


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


def test_every_connector_that_needs_a_library_has_an_extra() -> None:
    import connectors

    extras = PROJECT["project"]["optional-dependencies"]
    sources = [connectors.source(name) for name in connectors.SOURCES]
    needed = {one.extra for one in [*sources, *map(connectors.sink, connectors.SINKS)] if one.extra}
    assert needed <= set(extras)
    (everything,) = extras["all"]
    assert needed <= set(everything.removeprefix("detectord[").removesuffix("]").split(","))


# `detector` on package indexes is somebody else's program, and `detectord` is on none: anybody may register
# it. Whoever installs by these names would run what a stranger wrote.
STRANGER = re.compile(
    r"""(pip3?|pipx|uv(\s+pip)?|uvx|poetry|pdm|conda)\s+(-\S+\s+)*(install|run|add)\s+(-\S+\s+)*['"]?detectord?(\[[\w,]*\])?(?![\w./-])"""
    r"""|['"`]detector\[[\w,]+\]|dependencies\s*=\s*\[[^\]]*['"]detector['"\s<>=~!]"""
)


def _texts() -> list[Path]:
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True
    )
    found = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    if not found:  # an unpacked source distribution
        found = [path for path in ROOT.rglob("*") if not {".venv", "build", "dist"} & set(path.parts)]
    return [path for path in found if path.is_file() and path != Path(__file__)]


@pytest.mark.parametrize(
    "line",
    ["pip install detector", "pip install 'detector[all]'", "`detector[mqtt]`", "pip install -U detector",
     'dependencies = ["detector"]', "pip install detectord", "pip install 'detectord[ray]'",
     "/opt/detectord/bin/pip install --upgrade detectord", "pip install detectord==0.2.0"],
)  # fmt: skip
def test_the_search_for_a_strangers_name_finds_it(line: str) -> None:
    assert STRANGER.search(line)


@pytest.mark.parametrize(
    "line",
    ["pip install '.[all]'", "pip install detector-example", "pip install .",
     "apt install ./dist/detectord_*.deb", "pip install 'dist/detectord-0.2.0-py3-none-any.whl[ray]'",
     'pip install "$(echo dist/detectord-*.whl)[all]"'],
)  # fmt: skip
def test_the_search_for_a_strangers_name_spares_ours(line: str) -> None:
    assert not STRANGER.search(line)


def test_nothing_tells_anybody_to_install_a_strangers_package() -> None:
    texts = _texts()
    assert len(texts) > 400
    wrong = []
    for path in texts:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        wrong += [f"{path.relative_to(ROOT)}: {found[0]}" for found in STRANGER.finditer(text)]
    assert not wrong


def test_make_help_lists_what_there_is() -> None:
    done = subprocess.run(["make", "-s", "-C", ROOT, "help"], capture_output=True, text=True, check=True)
    listed = set(re.findall(r"make (\w+) ", done.stdout))
    assert {
        "help",
        "run",
        "test",
        "lint",
        "types",
        "bench",
        "docs",
        "wheel",
        "deb",
        "image",
        "clean",
    } <= listed


def test_scripts_are_good_shell() -> None:
    for path in [*(ROOT / "scripts").iterdir(), ROOT / ".ci" / "run"]:
        if path.is_file() and path.read_text().startswith("#!/usr/bin/env bash"):
            subprocess.run(["bash", "-n", path], check=True)
            assert path.stat().st_mode & 0o111, f"{path.name} cannot be run"
