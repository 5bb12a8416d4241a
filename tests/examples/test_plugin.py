"""The plug-in of examples/plugin as a user has it: built, installed, configured, run by the real daemon."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors import ConnectorError
from tests.detector.rig import total, wait_for
from tests.servers import free_port

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugin"
PROJECT = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
NAMES = [f"n{v}" for v in range(6)]
LEARN, AFTER = 300, 120
CONFIG = """
graph: {{edges: {edges}}}
sources: {{field: {{type: udp, port: {port}}}}}
align: {{step: 1s, lateness: 0s}}
windows: {{reference: 60, tests: [5, 10, 25]}}
estimator: {estimator}
alarm: {{learn: {learn}, budget: 1 per 5000 ticks}}
{more}
diagnosis: {{settle: 30}}
sinks:
  lamp: {{type: lamp, path: {lamp}}}
  out: {{type: file, path: {out}}}
state: {{directory: {state}}}
http: {{port: {http}}}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plug-in in it, as pip leaves it: the package, and what its metadata says."""
    source, target = tmp_path_factory.mktemp("plugin") / "source", tmp_path_factory.mktemp("site")
    shutil.copytree(EXAMPLE, source)  # a build leaves files beside its source
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
               "--disable-pip-version-check", "--target", target, source]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    assert (target / "detector_example" / "udp.py").exists()
    return target


def environment(installed: Path) -> dict[str, str]:
    path = os.pathsep.join([str(installed), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def run(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "detector", *arguments],
        cwd=folder, env=environment(installed), capture_output=True, text=True, timeout=120,
    )  # fmt: skip


class Field:
    """Sensors that send datagrams."""

    def __init__(self, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._address = ("127.0.0.1", port)
        self._rng, self.tick = np.random.default_rng(0), 0

    def send(self, ticks: int, shift: float = 0.0) -> None:
        for _ in range(ticks):
            values = np.exp(0.1 * self._rng.normal(size=len(NAMES)))
            values[:2] *= np.exp(shift)
            for name, value in zip(NAMES, values.tolist(), strict=True):
                sample = {"time": 1_800_000_000 + self.tick, "node": name, "value": value}
                self._socket.sendto(json.dumps(sample).encode(), self._address)
            self.tick += 1

    def close(self) -> None:
        self._socket.close()


class Service:
    """`detector run` with the plug-in, as a process."""

    def __init__(self, installed: Path, folder: Path, more: str = "", estimator: str = "{}") -> None:
        self.folder, self.port, self.http = folder, free_port(), free_port()
        self.lamp, self.out = folder / "brightness", folder / "incidents.jsonl"
        self.lamp.write_text("0")
        edges = json.dumps([[NAMES[v], NAMES[v + 1]] for v in range(len(NAMES) - 1)])
        (folder / "config.yaml").write_text(CONFIG.format(
            edges=edges, port=self.port, learn=LEARN, lamp=self.lamp, out=self.out, more=more,
            estimator=estimator, state=folder / "state", http=self.http,
        ))  # fmt: skip
        self.log = folder / "log"
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "detector", "run"], cwd=folder, env=environment(installed),
                stdout=log, stderr=log,
            )  # fmt: skip
        self.field = Field(self.port)

    def records(self, *kinds: str) -> list[dict[str, Any]]:
        if not self.out.exists():
            return []
        found = [json.loads(line) for line in self.out.read_text().splitlines()]
        return [record for record in found if record["event"] in kinds]

    def metric(self, name: str) -> float:
        """The sum over all series of that name; 0 as long as nobody answers."""
        assert self._process.poll() is None, self.log.read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=10) as answer:
                return total(answer.read().decode(), name)
        except OSError:
            return 0.0

    def feed(self, ticks: int, shift: float = 0.0) -> None:
        """In portions, each waited for: a socket's buffer holds a few hundred datagrams."""
        for _ in range(0, ticks, 20):
            self.field.send(20, shift)
            sent = self.field.tick * len(NAMES)
            wait_for(lambda: self.metric("samples_received_total") >= sent, what=f"{sent} samples")  # noqa: B023

    def stop(self) -> None:
        self.field.close()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(240) == 0, self.log.read_text()


@pytest.fixture
def service(installed: Path, tmp_path: Path) -> Iterator[Service]:
    made = Service(installed, tmp_path)
    yield made
    made.stop()


def named(service: Service) -> set[str]:
    """Of all records of incidents: at first a neighbour may be named."""
    records = service.records("incident.opened") + service.records("incident.updated")
    return {node["name"] for record in records for node in record["nodes"]}


def test_a_change_lights_the_lamp_and_is_analyzed(service: Service) -> None:
    """Datagrams in, a lamp and a finding out; everything between is the daemon."""
    wait_for(lambda: service.metric("source_up") == 1.0, what="the source")
    service.feed(LEARN + 20)
    wait_for(lambda: service.metric("watching") == 1.0, what="the end of learning")
    service.feed(60)
    assert service.lamp.read_text() == "0"
    service.feed(AFTER, shift=1.0)
    wait_for(lambda: service.lamp.read_text() == "1", what="the lamp")
    (opened,) = service.records("incident.opened")
    wait_for(lambda: named(service) & {"n0", "n1"}, what="the nodes that changed")

    def durations() -> list[dict[str, Any]]:
        found = service.records("incident.analyzed")
        return [record for record in found if record["details"]["kind"] == "duration"]

    wait_for(durations, what="the finding")
    assert durations()[0]["details"]["seconds"] > 0
    assert durations()[0]["incident"] == opened["incident"]


def test_its_engine_and_its_step_judge_in_the_stream(installed: Path, tmp_path: Path) -> None:
    """`estimator.name` and `preprocess.steps` name members of the plug-in."""
    service = Service(installed, tmp_path, "preprocess: {steps: {log: {}}}", "{name: mean-shift}")
    try:
        wait_for(lambda: service.metric("source_up") == 1.0, what="the source")
        service.feed(LEARN + 20)
        wait_for(lambda: service.metric("watching") == 1.0, what="the end of learning")
        service.feed(60)
        service.feed(AFTER, shift=0.5)
        wait_for(lambda: service.records("incident.opened"), what="an incident")
        (calibrated,) = service.records("detector.calibrated")
        assert "mean-shift" in json.dumps(calibrated)
    finally:
        service.stop()
    config = (tmp_path / "config.yaml").read_text()
    (tmp_path / "config.yaml").write_text(config.replace("{log: {}}", "{}"))
    again = run(installed, tmp_path, "run")  # what was learnt rests on the step
    assert again.returncode != 0
    assert "preprocess.steps" in again.stderr


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("{log: {floor: -1.0}}", "preprocess.steps: log.floor: "),
        ("{log: {flour: 1.0}}", "preprocess.steps: log.flour: "),
        ("{lag: {}}", "preprocess.steps: lag: no installed package brings such a step; known: log"),
        ("{clip: {}}", "preprocess.steps: clip: no installed package brings such a step; known: log"),
    ],
)
def test_wrong_steps_are_told(installed: Path, tmp_path: Path, steps: str, message: str) -> None:
    run(installed, tmp_path, "init")
    text = (tmp_path / "config.yaml").read_text()
    assert text.count("\npreprocess:\n") == 1
    text = text.replace("\npreprocess:\n", f"\npreprocess:\n  steps: {steps}\n")
    (tmp_path / "config.yaml").write_text(text)
    refused = run(installed, tmp_path, "check")
    assert refused.returncode == 78
    assert message in refused.stdout + refused.stderr


def test_the_lamp_follows_the_incidents(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record may come twice; a lamp that is not there is worth a retry."""
    monkeypatch.syspath_prepend(installed)
    kind: Any = importlib.import_module("detector_example.lamp").LampSink
    lamp = tmp_path / "brightness"
    sink = kind(kind.Config(path=str(lamp)))
    opened = {"id": "a-1", "event": "incident.opened", "incident": "a"}
    resolved = {"id": "a-2", "event": "incident.resolved", "incident": "a"}

    async def life() -> None:
        with pytest.raises(ConnectorError) as caught:
            await sink.open()
        assert caught.value.retry
        lamp.write_text("0")
        await sink.open()
        await sink.write([opened, opened])
        assert lamp.read_text() == "1"
        await sink.write([resolved])
        assert lamp.read_text() == "0"
        await sink.close()

    asyncio.run(life())


def test_the_commands_know_the_plugin(installed: Path, tmp_path: Path) -> None:
    """`init` writes its example, `check` accepts it, the schema has its keys."""
    made = run(installed, tmp_path, "init", "--source", "udp", "--sink", "lamp")
    assert made.returncode == 0, made.stderr
    text = (tmp_path / "config.yaml").read_text()
    assert "port: 8125" in text
    assert "path: /sys/class/leds/alarm/brightness" in text
    checked = run(installed, tmp_path, "check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    schema = run(installed, tmp_path, "schema").stdout
    assert '"UdpSourceConfig"' in schema
    assert '"LampSinkConfig"' in schema
    assert '"duration"' in schema
    wrong = text.replace("port: 8125", "prot: 8125")
    (tmp_path / "config.yaml").write_text(wrong)
    refused = run(installed, tmp_path, "check")
    assert refused.returncode == 78
    assert "unknown key; did you mean port?" in refused.stdout + refused.stderr


def test_without_the_plugin_its_types_are_unknown(installed: Path, tmp_path: Path) -> None:
    run(installed, tmp_path, "init", "--source", "udp", "--sink", "lamp")
    checked = run(tmp_path, tmp_path, "check")
    assert checked.returncode == 78
    assert "must be one of file, http, " in checked.stdout + checked.stderr


SAME_BITS = """
import networkx as nx, numpy as np
from detector import NetworkDetector

graph, rng = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4)), np.random.default_rng(3)
history, stream = rng.normal(size=(600, 12, 1)), rng.normal(size=(40, 12, 1))
stream[20:, :4] += 3.0
for kind in ("inline", "slow-ticks"):
    windows = {"reference": 60, "tests": [5, 10, 25]}
    watch = NetworkDetector(graph, windows=windows, engine={"type": kind, "parts": 2})
    watch.learn(history)
    for row in stream:
        watch.update(row)
    print(watch.event_statistic.tobytes().hex())
assert watch.pipeline.engine.run.ticks >= len(stream)
"""


def test_its_runner_gives_the_same_bits(installed: Path) -> None:
    """Whoever runs the parts, what comes out is the same."""
    done = subprocess.run(
        [sys.executable, "-c", SAME_BITS],
        cwd=ROOT, env=environment(installed), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    inline, other = done.stdout.split()
    assert inline == other


def test_its_members_keep_the_contracts(installed: Path) -> None:
    """The contract tests are crossed with all that is installed: plug-ins, too."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               *(f"tests/contracts/test_{what}.py" for what in ("steps", "engines", "analyzers")),
               "-k", "log or mean-shift or duration"]  # fmt: skip
    done = subprocess.run(
        command, cwd=ROOT, env=environment(installed), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 30


def test_every_extension_point_is_shown() -> None:
    """The example has a member of each group of entry points that the program looks for."""
    groups = {
        found
        for folder in ("connectors", "detector")
        for path in (ROOT / folder).rglob("*.py")
        for found in re.findall(r'Registry\(\s*"(detector\.\w+)"', path.read_text())
    }
    assert len(groups) >= 3
    assert set(PROJECT["entry-points"]) == groups
