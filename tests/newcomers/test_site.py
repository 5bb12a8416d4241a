"""The documentation site: built without a warning, complete, and nothing in it is loaded from elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import detector
import estimators

ROOT = Path(__file__).parents[2]
# What a browser loads by itself; a link to another site is none of it.
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b[^>]*\bhref=["']?(?:https?:)?//"""
    r"""|@import|url\(["']?(?:https?:)?//"""
)


@pytest.fixture(scope="module")
def site(notebooks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        str(ROOT / "site" / "mkdocs.yml"),
    ]
    done = subprocess.run(
        [*command, "--site-dir", str(folder)], capture_output=True, text=True, timeout=550,
        env={**os.environ, "DETECTOR_NOTEBOOKS": str(notebooks), "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    return folder


def test_every_document_is_there(site: Path) -> None:
    wanted = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
    assert len(wanted) > 20
    assert not [path for path in wanted if not (site / path).is_file()]
    for page in ("index", "gallery", "changelog", "systemd", "contributing"):
        assert (site / f"{page}.html").is_file(), page


def test_everything_public_is_in_the_reference(site: Path) -> None:
    text = "".join(path.read_text() for path in (site / "reference").glob("*.html"))
    headings = set(re.findall(r'<h2 id="([\w.]+)"', text))
    wanted = {*estimators.__all__, *detector.__all__} - {"ESTIMATORS", "SCENARIOS", "__version__"}
    assert not wanted - {heading.rpartition(".")[2] for heading in headings}


def test_notebooks_are_shown_with_their_pictures(site: Path) -> None:
    for source in (ROOT / "examples" / "notebooks").glob("*.ipynb"):
        page = (site / "notebooks" / f"{source.stem}.html").read_text()
        pictures = re.findall(r'<img [^>]*src="([^"]+\.png)"', page)
        assert pictures
        assert all((site / "notebooks" / picture).is_file() for picture in pictures)
    gallery = re.findall(r'<img [^>]*src="([^"]+\.png)"', (site / "gallery.html").read_text())
    assert len(gallery) >= 6


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    assert LOADED.search('<script async src="https://a.example/x.js">')
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 40
    assert not [path.name for path in pages if LOADED.search(path.read_text())]


def test_pages_can_be_searched(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    where = {entry["location"].partition("#")[0] for entry in index["docs"] if "budget" in entry["text"]}
    assert {"getting-started.html", "notebooks/watch_a_network.html", "reference/detector.html"} <= where
