"""The documents are true: their commands run, they name everything there is, their links lead somewhere."""

from __future__ import annotations

import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import connectors
from detector.cli.main import cli
from detector.config.config import Config
from detector.config.model import connector_model
from detector.diagnosis.registry import ANALYZERS
from detector.runtime.metrics import TABLE
from detector.settings.registries import ENGINES

ROOT = Path(__file__).parents[1]
DOCS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "systemd" / "README.md"]
TEXT = {path.relative_to(ROOT).as_posix(): path.read_text() for path in DOCS}
ALL = "\n".join(TEXT.values())
BLOCK = re.compile(r"(<!-- not run: [^>]+ -->\n)?^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXAMPLES = sorted((ROOT / "examples" / "configs").glob("*.yaml"))


def blocks(text: str, language: str) -> list[str]:
    """Fenced blocks that are not marked as not run."""
    return [code for mark, kind, code in BLOCK.findall(text) if kind == language and not mark]


def run(command: list[str], folder: Path, script: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, input=script, cwd=folder, env={**os.environ, "PATH": path}, text=True,
        capture_output=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    (code,) = blocks(TEXT["README.md"], "python")
    said = run([sys.executable, "-"], tmp_path, code)
    assert "promised: 1 per 3000 ticks" in said
    assert "incident.opened" in said


def test_the_tour_of_getting_started_runs(tmp_path: Path) -> None:
    """Every command that needs neither root nor a server, in order, in one shell."""
    text = TEXT["docs/getting-started.md"]
    for name in ("examples", "systemd", "monitoring"):
        (tmp_path / name).symlink_to(ROOT / name)
    script = "\n".join(blocks(text, "sh"))
    assert script.count("  port: 9178") == 1
    script = script.replace("  port: 9178", "  port: 0")  # another daemon may run here
    said = run(["bash", "-eu"], tmp_path, script)
    records = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    opened = [record for record in records if record["event"] == "incident.opened"]
    assert len(opened) == 2, "one in the replay, one in the run"
    assert opened[0]["id"] == opened[1]["id"], "the same one"
    assert re.match(r"\d nodes around n\d+ changed at 05:(19|20):\d\d UTC: mean", opened[0]["summary"])
    ended = next(record for record in records if record["event"] == "incident.resolved")
    assert {"n02", "n04", "n06", "n07"} <= {node["name"] for node in ended["nodes"]}
    assert {"footprint", "value_ranges"} <= {record["details"].get("kind") for record in records}
    assert f"{opened[0]['incident']}\tcleared" in said
    tour = tmp_path / "tour"
    assert len((tour / "incidents.jsonl").read_text().splitlines()) >= 2
    for page in ("learnt.html", "replay.html"):
        assert (tour / page).stat().st_size > 10_000


def test_the_plugin_of_extending_is_the_one_that_is_tested() -> None:
    """What the page shows is what is in examples/plugin, which is built, installed and run by a test."""
    folder = ROOT / "examples" / "plugin"
    files = {path.read_text() for path in (folder / "detector_example").glob("*.py")}
    shown = blocks(TEXT["docs/extending.md"], "python")
    assert len(shown) >= 2
    assert set(shown) <= files
    assert blocks(TEXT["docs/extending.md"], "toml") == [(folder / "pyproject.toml").read_text()]


def test_what_is_not_run_says_why() -> None:
    kept = [mark for text in TEXT.values() for mark, kind, _ in BLOCK.findall(text) if mark]
    assert kept
    assert all(len(mark) > len("<!-- not run:  -->\n") + 5 for mark in kept)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_configurations_are_right(path: Path) -> None:
    config = Config.load(path)
    side, kind = path.stem.split("-", 1)
    given = config.sources if side == "source" else config.sinks
    assert [one.type for one in given.values()] == [kind]  # type: ignore[attr-defined]


def test_there_is_an_example_configuration_for_each_door() -> None:
    wanted = {f"source-{name}" for name in connectors.SOURCES} | {f"sink-{name}" for name in connectors.SINKS}
    assert {path.stem for path in EXAMPLES} == wanted


def test_every_analyzer_is_documented() -> None:
    lines = TEXT["README.md"].splitlines()
    readme = next(line for line in lines if line.startswith("| analyzers, after an alarm |"))
    for name in ANALYZERS:
        assert f"`{name}`" in readme
        assert re.search(rf"^## {name}$", TEXT["docs/diagnosis.md"], re.MULTILINE), name


@pytest.mark.parametrize("side", ["source", "sink"])
def test_every_door_and_its_keys_are_told(side: str) -> None:
    readme = next(line for line in TEXT["README.md"].splitlines() if line.startswith(f"| {side}s |"))
    for name in connectors.SOURCES if side == "source" else connectors.SINKS:
        assert f"`{name}`" in readme
        assert re.search(rf"^## {name}$", TEXT["docs/connectors.md"], re.MULTILINE), name
        section = TEXT["docs/configuration.md"].split(f"### {side}s: {name}\n")[1].split("\n##")[0]
        for key in connector_model(side, name).model_fields:  # type: ignore[arg-type]
            assert f"| `{key}` |" in section, f"{side} {name}: {key}"


def test_every_key_is_told() -> None:
    schema = Config.model_json_schema()
    keys = set(schema["properties"])
    for definition in schema["$defs"].values():
        keys |= set(definition.get("properties", {}))
    assert len(keys) > 100
    assert not {key for key in keys if f"`{key}`" not in TEXT["docs/configuration.md"]}


def test_every_metric_is_told_and_none_that_is_not() -> None:
    """Metrics of the page; histograms and counters with the endings that Prometheus gives them."""
    told = set(re.findall(r"^\| `(detector_\w+)` \|", TEXT["docs/metrics.md"], re.MULTILINE))
    assert told == {f"detector_{metric.name}" for metric in TABLE}


def test_every_estimator_is_told() -> None:
    line = next(line for line in TEXT["README.md"].splitlines() if line.startswith("| estimators |"))
    assert not [name for name in ENGINES.builtin if f"`{name}`" not in line]


def commands(group: click.Group, before: str = "detector") -> list[str]:
    found = []
    for name, command in group.commands.items():
        found.append(f"{before} {name}")
        if isinstance(command, click.Group):
            found += commands(command, f"{before} {name}")
    return found


@pytest.mark.parametrize("command", commands(cli))
def test_every_command_is_told(command: str) -> None:
    assert command in ALL or command == "detector calibrate"  # another name of learn, told by its help


def test_commands_that_are_told_exist() -> None:
    context = click.Context(cli)
    for name, text in TEXT.items():
        told = set(re.findall(r"(?:^|`)detector ([a-z][a-z-]+)", text, re.MULTILINE))
        unknown = {command for command in told if cli.get_command(context, command) is None}
        assert not unknown, f"{name}: {unknown}"


def slugs(text: str) -> set[str]:
    """Anchors of the headings, as GitHub makes them."""
    bare = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    heads = re.findall(r"^#+ (.+)$", bare, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("name", list(TEXT))
def test_links_lead_somewhere(name: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", TEXT[name]):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = ((ROOT / name).parent / file).resolve() if file else ROOT / name
        assert target.exists(), f"{name}: {link}"
        if anchor:
            assert anchor in slugs(target.read_text()), f"{name}: {link}"


@pytest.mark.parametrize("name", list(TEXT))
def test_modules_that_are_named_exist(name: str) -> None:
    """Dotted paths of the packages; `detector.NAME` alone may also be an event, a file or an entry point."""
    for path in re.findall(r"`((?:detector\.\w+|estimators|connectors)(?:\.[A-Za-z_]\w*)+)[`(]", TEXT[name]):
        try:
            pkgutil.resolve_name(path)
        except (ImportError, AttributeError) as error:
            pytest.fail(f"{name}: {path}: {error}")


@pytest.mark.parametrize("name", list(TEXT))
def test_files_that_are_named_exist(name: str) -> None:
    folders = "docs|examples|scripts|monitoring|systemd|man|tests|benchmarks|detector|connectors|estimators"
    for path in re.findall(rf"`((?:{folders})/[\w./-]+\.\w+)`", TEXT[name]):
        assert (ROOT / path).exists(), f"{name}: {path}"


def test_every_fault_has_its_tests() -> None:
    """The map names each fault once, and only tests that there are; a number in a test is one of the map."""
    rows = re.findall(r"^\| (T\d+) \|(.*)\|$", TEXT["docs/faults.md"], re.MULTILINE)
    numbers = [int(number[1:]) for number, _ in rows]
    assert numbers == sorted(set(numbers))
    for number, row in rows:
        _, _, tests, _, gap = (cell.strip() for cell in row.split("|"))
        assert tests or gap, f"{number}: neither a test nor why there is none"
        told = re.findall(r"`(\S+\.py)::(\w+)`", tests)
        assert len(told) == tests.count("`") // 2, f"{number}: not all of it are tests"
        for path, function in told:
            code = (ROOT / path).read_text()
            assert re.search(rf"^def {function}\(", code, re.MULTILINE), f"{number}: {path}::{function}"
    used = {number for path in (ROOT / "tests").rglob("*.py")
            for number in re.findall(r"\bT\d+\b(?=[,)])", path.read_text())}  # fmt: skip
    assert used <= {number for number, _ in rows}


def test_nothing_is_told_of_the_machine_it_was_written_on() -> None:
    for name, text in TEXT.items():
        assert not re.search(r"/(home|root|work)/\w", text), name
