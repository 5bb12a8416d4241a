"""The commands as people start them: real processes, real exit codes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CANARY = "canary-9f3a7"
CONFIG = """\
graph: {edges: [[a, b], [b, c], [c, d]]}
sources: {log: {type: file, path: samples.jsonl}}
windows: {reference: 50, tests: [5, 10]}
estimator: {name: page-hinkley}
alarm: {learn: 300, budget: 1 per 1h}
sinks: {console: {type: stdout}}
state: {directory: state}
http: {enabled: false}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(CONFIG)
    X = np.random.default_rng(3).standard_normal((600, 4))
    X[450:, 1:3] += 6.0
    with (tmp_path / "samples.jsonl").open("w") as out:
        for t, x in enumerate(X):
            for name, value in zip("abcd", x, strict=True):
                out.write(json.dumps({"time": 1.7e9 + t, "node": name, "value": round(value, 4)}) + "\n")
    return tmp_path


def detector(folder: Path, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "detector", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False, **more
    )


def test_init_check_and_replay(folder: Path) -> None:
    made = detector(folder, "init", "new.yaml")
    assert (made.returncode, made.stdout) == (0, "")
    good = detector(folder, "check", "--config", "new.yaml")
    assert (good.returncode, good.stderr) == (0, "")
    assert detector(folder, "init", "new.yaml").returncode == 74
    assert detector(folder, "check", "--config", "absent.yaml").returncode == 78
    assert detector(folder, "check", "--bogus").returncode == 2


def test_a_run_says_what_a_replay_says(folder: Path) -> None:
    """The same records, field by field; JSON lines because nobody looks. Findings come when they are made."""
    replayed = detector(folder, "replay", "samples.jsonl")
    assert replayed.returncode == 0
    live = detector(folder, "run", "--once")
    assert live.returncode == 0, live.stderr
    records, again = ([json.loads(line) for line in said.stdout.splitlines()] for said in (live, replayed))
    examined = "incident.analyzed"
    assert [r for r in records if r["event"] != examined] == [r for r in again if r["event"] != examined]
    # Ranges of values take long enough to be given up on a busy machine; the other findings are there twice.
    quick, twice = (
        sorted(
            (r for r in said if r["details"].get("kind", "value_ranges") != "value_ranges"),
            key=lambda r: r["id"],
        )
        for said in (records, again)
    )
    assert quick == twice
    assert any(record["event"] == "incident.opened" for record in records)
    stored = detector(folder, "incidents", "list", "--all", "--json")
    assert {record["incident"] for record in json.loads(stored.stdout)} == {
        record["incident"] for record in records if record["incident"]
    }


def test_a_dry_run_sends_nothing(folder: Path) -> None:
    done = detector(folder, "run", "--once", "--dry-run", "--log-format", "json")
    assert (done.returncode, done.stdout) == (0, "")
    assert all(json.loads(line) for line in done.stderr.splitlines())


def test_a_closed_pipe_is_no_disaster(folder: Path) -> None:
    command = f"{sys.executable} -m detector replay samples.jsonl | head -n 1"
    done = subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert len(done.stdout.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_a_bad_configuration_does_not_start(folder: Path) -> None:
    (folder / "config.yaml").write_text(CONFIG.replace("budget:", "bugdet:"))
    done = detector(folder, "run")
    assert done.returncode == 78
    assert done.stderr == (
        "detector: config.yaml:5:21: alarm.bugdet: unknown key; did you mean budget? (got '1 per 1h')\n"
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_running_daemon_is_asked_and_stopped(folder: Path) -> None:
    """Also: its token is nowhere, neither in debug logs nor in the list of processes."""
    http = f"{{port: {free_port()}, token: '${{DETECTOR_TEST_TOKEN}}'}}"
    text = CONFIG.replace("{enabled: false}", http).replace("samples.jsonl}", "samples.jsonl, mode: tail}")
    (folder / "config.yaml").write_text(text)
    env = {**os.environ, "DETECTOR_TEST_TOKEN": CANARY}
    command = [sys.executable, "-m", "detector", "run", "--log-level", "debug"]
    process = subprocess.Popen(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        said: list[Any] = []
        until = time.monotonic() + 60
        while not said and time.monotonic() < until:
            time.sleep(0.3)
            listed = detector(folder, "incidents", "list", "--all", "--json", env=env)
            said = json.loads(listed.stdout) if listed.returncode == 0 else []
        assert said
        status = detector(folder, "status", env=env)
        assert status.returncode == 0, status.stderr
        assert "sources.log\tup" in status.stdout
        incident = said[-1]["incident"]
        labelled = detector(
            folder, "incidents", "label", incident, "--alarm", "true", "--note", "seen", env=env
        )
        assert labelled.stdout == f"{incident}: labelled\n", labelled.stderr
        assert "label      alarm true, note seen" in detector(folder, "explain", incident, env=env).stdout
        assert "in use by another process" in detector(folder, "check", "--connect", env=env).stderr
        assert CANARY not in Path(f"/proc/{process.pid}/cmdline").read_text()
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert CANARY not in out + err + status.stdout + listed.stdout
