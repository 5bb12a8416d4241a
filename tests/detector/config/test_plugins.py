"""Plug-ins by entry points, with real distributions on the path: who wins, who is named, who still works."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import connectors
from connectors.registry import PluginError, Registry
from detector.config import config
from detector.config.config import Config, ConfigError
from detector.config.model import connector_model, connector_models

SOURCE = """
from connectors import Batch, Settings, Source

class Probe(Source):
    '''A source of another package.'''

    name = "{name}"
    replayable = False
    guarantee = "None."

    class Config(Settings):
        pass

    async def open(self, position):
        return

    async def read(self):
        return None

    async def close(self):
        return
"""
GRAPH = "graph: {complete: true, nodes: [a, b]}\nsources: {plant: {type: %s}}\nsinks: {out: {type: stdout}}\n"


class Packages:
    """Writes distributions as an installer leaves them, into a folder of the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, distribution: str, points: str, module: str = "", code: str = "") -> None:
        info = self.folder / f"{distribution}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)
        if module:
            (self.folder / f"{module}.py").write_text(code)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packages:
    monkeypatch.syspath_prepend(tmp_path)
    # The one registry is made anew: what is installed is looked up once in the life of a process.
    fresh = Registry("detector.sources", "source", connectors.SOURCES.builtin)
    monkeypatch.setattr(connectors, "SOURCES", fresh)
    monkeypatch.setattr(config, "REGISTRIES", ((("sources",), fresh),))
    connector_model.cache_clear()
    return Packages(tmp_path)


def messages(kind: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        Config.parse(GRAPH % kind)
    return [f"{problem.key}: {problem.message}" for problem in caught.value.problems]


def test_a_plugin_is_a_type_like_any_other(packages: Packages) -> None:
    packages.install(
        "acme", "[detector.sources]\nprobe = acme_a:Probe\n", "acme_a", SOURCE.format(name="probe")
    )

    made = Config.parse(GRAPH % "probe")

    assert connectors.SOURCES["probe"] == "acme_a:Probe"
    assert connectors.SOURCES.origin("probe") == "acme 1.0"
    assert connectors.SOURCES.origin("mqtt") is None
    assert list(connectors.SOURCES)[:-1] == list(connectors.SOURCES.builtin)
    assert connectors.SOURCES.problems == []
    assert type(made.source_objects()["plant"]).__name__ == "Probe"
    assert made.doubts() == []
    assert "probe" in connector_models("source")


def test_built_in_names_win(packages: Packages) -> None:
    packages.install(
        "rival", "[detector.sources]\nmqtt = acme_b:Probe\n", "acme_b", SOURCE.format(name="mqtt")
    )

    assert connectors.source("mqtt").__module__ == "connectors.mqtt"
    (doubt,) = Config.parse(GRAPH % "stdin").doubts()
    assert str(doubt.key) == "sources"
    assert "rival 1.0 brings a source 'mqtt', which is built in" in doubt.message


def test_two_packages_with_one_name_are_both_named(packages: Packages) -> None:
    for distribution in ("first", "second"):
        module = f"acme_{distribution}"
        packages.install(
            distribution, f"[detector.sources]\nprobe = {module}:Probe\n", module, SOURCE.format(name="probe")
        )

    (message,) = messages("probe")

    assert message == (
        "sources.plant.type: source 'probe' is brought by first 1.0 and second 1.0: uninstall all but one "
        "(got 'probe')"
    )
    assert len(connectors.SOURCES.problems) == 1
    assert Config.parse(GRAPH % "stdin")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise RuntimeError('no licence')", "cannot be loaded: RuntimeError: no licence"),
        ("import surely_not_installed", "cannot be loaded: ModuleNotFoundError: No module named 'surely"),
        ("", "cannot be loaded: AttributeError: module 'acme_broken' has no attribute 'Probe'"),
        ("Probe = 3", "is not a subclass of connectors.Source"),
        (SOURCE.format(name="other"), "has the name 'other': it must be that of its entry point"),
        (SOURCE.format(name="bad").replace("    guarantee", "    about"), "does not define guarantee"),
        (SOURCE.format(name="bad").replace("def read", "def get"), "does not define read"),
        (SOURCE.format(name="bad").replace("Config(Settings)", "Options"), "has no Config that derives from"),
    ],
)
def test_a_broken_plugin_is_named_and_breaks_no_other(
    packages: Packages, monkeypatch: pytest.MonkeyPatch, code: str, why: str
) -> None:
    packages.install("broken", "[detector.sources]\nbad = acme_broken:Probe\n", "acme_broken", code)
    packages.install(
        "sound", "[detector.sources]\ngood = acme_sound:Probe\n", "acme_sound", SOURCE.format(name="good")
    )
    monkeypatch.delitem(sys.modules, "acme_broken", raising=False)

    (message,) = messages("bad")
    assert message.startswith(f"sources.plant.type: source 'bad' of broken 1.0 {why}")
    assert Config.parse(GRAPH % "good").source_objects()
    assert "good" in connector_models("source")
    assert "bad" not in connector_models("source")


def test_an_unused_plugin_is_not_imported(packages: Packages) -> None:
    packages.install("heavy", "[detector.sources]\nheavy = acme_heavy:Probe\n", "acme_heavy", "1 / 0")

    assert "heavy" in connectors.SOURCES
    assert Config.parse(GRAPH % "stdin").source_objects()


def test_a_built_in_that_is_broken_is_no_plugin_error() -> None:
    with pytest.raises(ModuleNotFoundError):
        Registry("detector.none", "thing", {"x": "surely_not_there:X"}).load("x")
    with pytest.raises(KeyError):
        Registry("detector.none", "thing", {}).load("x")
    assert not issubclass(PluginError, ImportError)
