"""Units of components and nodes reach the sentences about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from detector.config.config import Config, ConfigError

CONFIG = """
graph:
  edges: [[a, b], [b, c]]
  {units}
sources: {{s: {{type: stdin}}}}
sinks: {{o: {{type: stdout}}}}
"""


def written(folder: Path, units: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(CONFIG.format(units=units), encoding="utf-8")
    return path


def test_one_unit_for_all_or_one_for_each_node(tmp_path: Path) -> None:
    network = Config.load(written(tmp_path, "units: [bar]")).network()
    assert network is not None
    assert network.units == {"a": ("bar",), "b": ("bar",), "c": ("bar",)}
    network = Config.load(written(tmp_path, "units: {a: bar, c: l/s}")).network()
    assert network is not None
    assert network.units == {"a": ("bar",), "c": ("l/s",)}


@pytest.mark.parametrize(
    ("units", "message"),
    [("units: {x: bar}", "'x' is no node"), ("units: [bar, K]", "2 units for 1 component")],
)
def test_units_that_do_not_fit_are_refused(tmp_path: Path, units: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.load(written(tmp_path, units)).network()
