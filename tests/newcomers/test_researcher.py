"""A researcher's first hour: the three notebooks run to their last cell, and show what they say."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

SOURCES = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def outputs(folder: Path, name: str) -> tuple[str, int]:
    """All text that the cells of a notebook gave, and the number of pictures."""
    notebook: Any = nbformat.read(folder / f"{name}.ipynb", as_version=4)
    given = [one for cell in notebook.cells if cell.cell_type == "code" for one in cell.outputs]
    assert not [one for one in given if one.output_type == "error" or one.get("name") == "stderr"]
    text = [one.text for one in given if one.output_type == "stream"]
    text += [one.data.get("text/plain", "") for one in given if "data" in one]
    return "\n".join(text), sum("image/png" in one.get("data", {}) for one in given)


def test_two_samples_on_a_graph(notebooks: Path) -> None:
    text, pictures = outputs(notebooks, "two_samples_on_a_graph")
    assert pictures == 2
    one_pair = dict(re.findall(r"(\w+): divergence (-?[0-9.]+)", text))
    assert float(one_pair["changed"]) > 0.2 > 0.05 > abs(float(one_pair["unchanged"]))
    errors = {
        name: [float(error) for error in found.split()]
        for name, found in re.findall(r"(with the graph|without): ([0-9. ]+)", text)
    }
    assert all(a < b for a, b in zip(errors["with the graph"][:2], errors["without"][:2], strict=True))
    changed = ast.literal_eval(re.search(r"changed nodes: (\[.*\])", text)[1])  # type: ignore[index]
    assert len(changed) >= 6
    assert max(changed) < 16, "a node of the third group is named, where nothing changed"


def test_watch_a_network(notebooks: Path) -> None:
    text, pictures = outputs(notebooks, "watch_a_network")
    assert pictures == 1
    assert "promised: 1 per" in text
    assert text.count("incident.opened") == 1, "one change is one incident"
    assert text.count("incident.resolved") == 1
    certain = re.findall(r"(s\d\d)\s+([01]\.\d+)\s+(True|False)", text)
    assert {name for name, p, _ in certain if float(p) > 0.5} == {"s11", "s01", "s10", "s12", "s21"}
    assert all(really == "True" for _, p, really in certain if float(p) > 0.5)


def test_compare_on_your_data(notebooks: Path) -> None:
    text, pictures = outputs(notebooks, "compare_on_your_data")
    assert pictures == 1
    assert "2200 rows, 12 sensors, 10 s apart, 3 labelled events" in text
    rows = dict(re.findall(r"^(grulsif|pool|page-hinkley|adwin)\s+(\d) of 3", text, re.MULTILINE))
    assert len(rows) == 4
    assert rows["grulsif"] == "3"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(path: Path) -> None:
    """They are made anew wherever they are shown; differences stay readable."""
    notebook: Any = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells
    assert not [cell for cell in cells if cell.outputs or cell.execution_count]
