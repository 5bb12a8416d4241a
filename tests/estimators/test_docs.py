"""The page on the mathematics names what exists, and the example runs."""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path

import numpy as np

from estimators import ESTIMATORS, scenario

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "mathematics.md").read_text(encoding="utf-8")


def symbols():
    """(code names, places) of every row of the table of symbols."""
    table = PAGE.split("## Symbols", 1)[1].split("## ", 1)[0]
    for line in table.splitlines()[4:]:
        if line.startswith("|"):
            cells = line.strip("|").split("|")
            yield re.findall(r"`([^`]+)`", cells[1]), re.findall(r"`([^`]+)`", cells[4])


def find(path):
    """The object behind a dotted path: a module, or something in one."""
    parts = path.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for name in parts[k:]:
            found = getattr(found, name)
        return found
    raise AttributeError(path)


def known(name, places):
    """Whether a code name is the place itself, something in it, a parameter of it, or a fitted attribute."""
    model = ESTIMATORS["grulsif"]().fit(*scenario("Ia", 8).sample(5, 0), scenario("Ia", 8).graph)
    for place in map(find, places):
        code = getattr(place, "__code__", getattr(getattr(place, "__func__", None), "__code__", None))
        if (
            getattr(place, "__name__", "") == name
            or hasattr(place, name)
            or name in getattr(place, "__dataclass_fields__", {})
            or (code is not None and name in code.co_varnames)
            or hasattr(model, name)
            or name == "selection_"
        ):
            return True
    return False


def test_symbols_exist():
    """Every code name of the table of symbols exists where the table says."""
    rows = list(symbols())

    assert len(rows) > 15
    for names, places in rows:
        assert names
        assert places
        for name in names:
            assert known(name, places), f"{name} is not in {places}"


def test_estimators_are_in_the_guide():
    """Every estimator has its line in the guide."""
    guide = PAGE.split("## Which estimator when", 1)[1].split("## ", 1)[0]

    for estimator in ESTIMATORS.values():
        assert f"`{estimator.__name__}`" in guide


def test_example(tmp_path):
    """The example fits two samples, prints divergences and draws a picture."""
    example = runpy.run_path(str(ROOT / "examples" / "two_samples.py"))
    example["main"](str(tmp_path / "ratios.png"))

    assert (tmp_path / "ratios.png").stat().st_size > 10_000
    np.testing.assert_allclose(example["truth"](2, np.array([0.3]), 0.1), 1.0)
