"""The lock files: every package with hashes, no host named, and nothing that the project does not allow."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.machinery import SourceFileLoader
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

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


# Licences under which a package may be given away in our Debian package and image. Another one needs a look.
FREE = {
    "0BSD", "3-Clause BSD License", "Apache Software License", "Apache-2.0", "BSD License", "BSD-2-Clause",
    "BSD-3-Clause", "CC0-1.0", "EPL-2.0", "MIT", "MIT License", "MIT-CMU", "PSF-2.0",
    "Python Software Foundation License", "Zlib",
}  # fmt: skip


def licences() -> ModuleType:
    path = str(ROOT / "scripts" / "make-licences")
    loader = SourceFileLoader("make_licences", path)
    module = module_from_spec(spec_from_loader("make_licences", loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    return module


def test_licences_are_listed_and_free() -> None:
    """What is written down after a change of the locks (make docs), and what is installed now."""
    page = (ROOT / "docs" / "licences.md").read_text().partition("packages: begin")[2]
    rows = dict(re.findall(r"^\| ([\w.-]+) \| (.+) \|$", page, re.MULTILINE))
    del rows["package"]
    assert rows.keys() == locked(ROOT / "packaging" / "locks" / "run.txt").keys()
    said = list(rows.items())
    for name in rows:
        with contextlib.suppress(PackageNotFoundError):  # not for this Python
            said.append((name, licences().licence(distribution(name))))
    assert len(said) > 1.8 * len(rows)
    for name, text in said:
        assert set(re.split(r" AND | OR |, ", text)) <= FREE, f"{name}: {text}"


# Advisories in OSV's format, as they are published: one with a list of versions, one with ranges.
LISTED = {
    "id": "TEST-1", "summary": "a listed one",
    "affected": [{"package": {"ecosystem": "PyPI", "name": "PyYAML"}, "versions": ["5.1", "5.3.1"]}],
}  # fmt: skip
RANGED = {
    "id": "TEST-2",
    "affected": [{
        "package": {"ecosystem": "PyPI", "name": "aiohttp"},
        "ranges": [
            {"type": "GIT", "events": [{"introduced": "0"}]},
            {"type": "ECOSYSTEM", "events": [{"introduced": "1.0.5"}, {"fixed": "3.9.2"},
                                             {"introduced": "3.10.0"}, {"last_affected": "3.10.2"}]},
        ],
    }],
}  # fmt: skip


def audit(lock: Path, records: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts" / "audit", records, "--lock", lock]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("pyyaml==5.3.1", "pyyaml 5.3.1: TEST-1 a listed one\n"),
        ("pyyaml==5.4", ""),
        ("aiohttp==3.9.1", "aiohttp 3.9.1: TEST-2\n"),
        ("aiohttp==3.9.2", ""),
        ("aiohttp==3.10.2 ; python_version < '3.12'", "aiohttp 3.10.2: TEST-2\n"),
        ("aiohttp==3.10.3", ""),
        ("aiohttp==1.0.4", ""),
    ],
)
def test_known_vulnerabilities_of_a_lock_are_found(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "lock.txt").write_text(f"{line} \\\n    --hash=sha256:00\n")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as packed:
        packed.writestr("TEST-1.json", json.dumps(LISTED))
        packed.writestr("TEST-2.json", json.dumps(RANGED))
        packed.writestr(
            "TEST-3.json", json.dumps({**RANGED, "id": "TEST-3", "withdrawn": "2024-01-01T00:00:00Z"})
        )
    done = audit(tmp_path / "lock.txt", tmp_path / "all.zip")
    assert done.returncode == (1 if told else 0), done.stderr
    assert done.stdout == told or (not told and "nothing is known against 1 locked versions" in done.stdout)


def test_without_an_advisory_nothing_is_clean(tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text("pyyaml==5.3.1\n")
    assert audit(tmp_path / "lock.txt", tmp_path).returncode == 75
