"""The lock files: every package with hashes, no host named, and nothing that the project does not allow."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LOCKS = sorted((ROOT / "packaging" / "locks").glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def locked(path: Path) -> dict[str, list[str]]:
    """Package -> versions, one for each kind of Python."""
    found: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^ ;]+)", path.read_text(), re.MULTILINE):
        found.setdefault(canonicalize_name(name), []).append(version)
    return found


def wanted(*extras: str) -> list[Requirement]:
    """What the project asks for, with these extras."""
    found: list[Requirement] = []
    for text in [*PROJECT["dependencies"], *(t for e in extras for t in PROJECT["optional-dependencies"][e])]:
        one = Requirement(text)
        found += wanted(*one.extras) if one.name == PROJECT["name"] else [one]
    return found


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_what_is_installed_is_locked_by_hash(path: Path) -> None:
    text = path.read_text()
    assert "://" not in text
    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) > 20
    for entry in entries:
        assert re.match(r"[\w.-]+==\S+", entry), entry[:80]
        assert "--hash=sha256:" in entry, entry[:80]


@pytest.mark.parametrize(
    ("name", "extra"), [("run", "all"), ("build", "all"), ("dev", "dev"), ("lowest", "all")]
)
def test_locks_keep_to_what_the_project_allows(name: str, extra: str) -> None:
    """A requirement that was changed without `scripts/make-locks` shows here."""
    there = locked(ROOT / "packaging" / "locks" / f"{name}.txt")
    for one in wanted(extra):
        versions = there[canonicalize_name(one.name)]
        assert all(one.specifier.contains(version, prereleases=True) for version in versions), one


def test_installations_use_them() -> None:
    """Whoever installs must not take what is newest today."""
    makefile = (ROOT / "Makefile").read_text()
    assert makefile.count("packaging/locks/build.txt") == makefile.count("packaging/locks/dev.txt") == 1
    assert "--require-hashes" in (ROOT / "scripts" / "install-editable").read_text()
    assert "locks/run.txt" in (ROOT / "scripts" / "build-deb").read_text()
