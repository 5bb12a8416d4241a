"""The page about the five documents names only files and tests that there are, and no row is empty."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "documents.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith("| what ")
]


def test_there_are_five_documents_with_rows() -> None:
    parts = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
    assert len(parts) == 5
    assert all(part.count("\n| ") > 5 for part in parts)
    assert all(len(row) == 5 and all(row) for row in ROWS), [row for row in ROWS if len(row) != 5]


def test_every_file_exists() -> None:
    named = re.findall(r"`((?:estimators|detector|benchmarks|tests|connectors)/[\w./-]+?\.py)(?:`|::)", TEXT)
    assert len(named) > 80
    assert not [path for path in named if not (ROOT / path).is_file()]


NAMED = sorted(set(re.findall(r"`(tests/[\w/.]+\.py)::(\w+)`", TEXT)))


@pytest.mark.parametrize(("path", "function"), NAMED)
def test_every_test_exists(path: str, function: str) -> None:
    assert re.search(rf"^(?:async )?def {function}\(", (ROOT / path).read_text(), re.MULTILINE)


def test_what_is_here_is_shown_and_what_is_not_has_a_reason() -> None:
    for what, where, how_far, departs, shown in ROWS:
        if how_far == "not here":
            assert len(departs) > 10, what
        else:
            assert re.search(r"`[\w/]+\.py`", where), what
        if how_far.startswith("faithful"):
            assert "::" in shown, f"{what}: said to be faithful, and no test shows it"


def test_what_shows_a_row_is_a_test_or_a_section_of_the_benchmarks() -> None:
    """That the section exists is checked with all other links."""
    evidence = re.compile(r"`tests/[\w/.]+\.py::\w+`|\[benchmarks\]\(benchmarks/\w+\.md#[^)\s]+\)")
    for what, *_, shown in ROWS:
        assert shown == "–" or all(evidence.fullmatch(one) for one in shown.split(", ")), what
