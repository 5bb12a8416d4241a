"""Analyzers of other packages: found by entry points, configured and run; broken ones harm nobody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

GOOD = '''
"""How long an incident lasts."""
from pydantic import Field
from detector.diagnosis.analyzer import AnalyzerSettings, Finding

class Settings(AnalyzerSettings):
    """How long an incident lasts, in seconds."""
    least: float = Field(default=5.0, ge=0, description="Shorter ones are left out.")

class DurationAnalyzer:
    kind = "duration"
    stages = frozenset({"early"})
    def __init__(self, settings):
        self.settings = settings
    def analyze(self, case):
        lasted = case.time - case.begin
        return Finding(self.kind, f"{lasted:g} s") if lasted >= self.settings.least else None

def analyzer(settings, repository):
    return DurationAnalyzer(settings)

ACTIONS = {}
'''
HEAD = "graph: {empty: true, nodes: [a, b]}\nsources: {in: {type: stdin}}\n"
SCRIPT = """
import json, sys
from pathlib import Path
from detector.config.config import Config, ConfigError
from detector.diagnosis.actions import ActionError
from detector.diagnosis.registry import ANALYZERS, build_analyzer, find_action, relearning
from detector.diagnosis.repository import Repository
from detector.storage.store import Store
from tests.detector.storage.test_cases import case

text, folder = sys.argv[1:]
told = {"names": list(ANALYZERS), "problems": ANALYZERS.problems, "built": {}, "asked": {}}
try:
    settings = Config.parse(text).diagnosis
    repository = Repository(Store(Path(folder)))
    for name in ANALYZERS:
        try:
            analyzer = build_analyzer(name, settings, repository)
        except Exception as error:
            told["built"][name] = f"{type(error).__name__}: {error}"
        else:
            finding = analyzer.analyze(case()) if analyzer and "early" in analyzer.stages else None
            told["built"][name] = finding and finding.summary
        try:
            find_action(name, "dance")
        except ActionError as error:
            told["asked"][name] = str(error)
    relearning(settings)
except ConfigError as error:
    told["refused"] = str(error)
print(json.dumps(told))
"""


def install(folder: Path, distribution: str, entries: dict[str, str], **modules: str) -> None:
    """What pip leaves behind in site-packages."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    info = folder / f"{distribution}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
    lines = "".join(f"{name} = {place}\n" for name, place in entries.items())
    (info / "entry_points.txt").write_text(f"[detector.analyzers]\n{lines}")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    return folder


def run(site: Path, text: str = HEAD) -> dict[str, Any]:
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{root}"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, text, str(site.parent / "state")],
        capture_output=True, text=True, env=environment, cwd=root,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_an_analyzer_of_another_package(site: Path) -> None:
    """By its entry point alone it has a key in the configuration, with its ranges, and finds something."""
    install(site, "acme", {"duration": "acme_duration"}, acme_duration=GOOD)
    told = run(site)
    assert told["names"][-1] == "duration"
    assert told["built"]["duration"] == "12 s"
    assert run(site, HEAD + "diagnosis: {duration: {least: 60}}")["built"]["duration"] is None
    assert run(site, HEAD + "diagnosis: {duration: {enabled: false}}")["built"]["duration"] is None
    refused = run(site, HEAD + "diagnosis: {duration: {least: -1}}")["refused"]
    assert "diagnosis.duration.least: must be at least 0 (got -1)" in refused


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("import nothing_of_that_name", "cannot be loaded: ModuleNotFoundError: No module named"),
        ("1 / 0", "cannot be loaded: ZeroDivisionError"),
        ("", "has no ACTIONS"),
        (GOOD.replace("class Settings(AnalyzerSettings)", "class Settings"), "do not derive from"),
        (GOOD.replace("def analyzer(", "def other("), "has no function analyzer"),
        (GOOD.replace("class Settings(", "class Other("), "has an analyzer, but no Settings"),
    ],
)
def test_a_broken_one_harms_nobody_else(site: Path, module: str, why: str) -> None:
    """Those who do not name it only miss it; those who do are told which package it is."""
    install(site, "acme", {"duration": "acme_duration"}, acme_duration=module)
    told = run(site)
    assert told["built"]["footprint"].startswith("2 nodes affected")
    assert told["built"]["duration"].startswith("PluginError: analyzer 'duration' of acme 1.2")
    assert why in told["built"]["duration"]
    assert told["asked"]["duration"] == told["built"]["duration"].removeprefix("PluginError: ")
    refused = run(site, HEAD + "diagnosis: {duration: {enabled: true}}")["refused"]
    assert refused.startswith("configuration:3:")
    assert "diagnosis.duration: analyzer 'duration' of acme 1.2" in refused


def test_names_that_clash(site: Path) -> None:
    """A built-in name stays what it is; two packages with one name are an error for whoever uses it."""
    install(site, "acme", {"trend": "acme_duration", "duration": "acme_duration"}, acme_duration=GOOD)
    install(site, "zenith", {"duration": "zenith_duration"}, zenith_duration=GOOD)
    told = run(site)
    assert told["built"]["duration"] == (
        "PluginError: analyzer 'duration' is brought by acme 1.2 and zenith 1.2: uninstall all but one"
    )
    assert told["built"]["trend"] is None
    assert len(told["problems"]) == 2
    assert told["problems"][0].startswith("acme 1.2 brings")
