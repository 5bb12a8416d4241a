"""`detector top`: what a frame says, against a made-up status and a real daemon."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from detector.cli.top_view import Rates, frame
from tests.detector import rig
from tests.detector.http.page_rig import Feed, settings


def status(**changed: Any) -> dict[str, Any]:
    node = {"name": "n1", "state": "alarmed"}
    incident = {"incident": "20261116-ab", "severity": "critical", "opened": 1.7e9, "nodes": [node],
                "summary": "n1 changed\x1b[2J: mean up"}  # fmt: skip
    return {
        "time": 1000.0, "started": 400.0, "phase": "watching", "learning_progress": 1.0, "calibrating": None,
        "watermark": 1.7e9 + 60, "ticks": 500, "counts": {"accepted": 5000}, "threshold": 4.0,
        "nodes": {"count": 10, "states": {"watching": 9, "alarmed": 1}},
        "top_nodes": [{"name": "n1", "statistic": 8.0}, {"name": "[red]n2[/red]", "statistic": 1.0}],
        "incidents_open": [incident], "promised_rate": 1 / 86400, "observed_rate": 0.0,
        "queue": {"samples": 95, "capacity": 100}, "state": {"failing": None, "damages": []},
        "sources": {"in": {"type": "mqtt", "status": "down", "lag": 2.0, "error": "refused"}},
        "sinks": {"out": {"type": "webhook", "status": "up", "waiting": 3, "error": None}},
    } | changed  # fmt: skip


def shown(given: dict[str, Any], rates: Rates | None = None, width: int = 140) -> str:
    console = Console(file=io.StringIO(), width=width, height=40)
    console.print(frame(given, rates or Rates(), "127.0.0.1:9178"))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_a_frame_has_what_matters() -> None:
    text = shown(status())
    wanted = """watching|up 10 min|20261116-ab|critical|n1|200%|one in 1 d|queue 95%|none labelled false|mqtt
        |down|refused|lag 2 s|3 waiting|alarmed"""
    for words in map(str.strip, wanted.split("|")):
        assert words in text, words


def test_nodes_are_counted_as_the_summary_counts_them() -> None:
    members = [{"name": f"n{v}", "state": "alarmed", "changed": True} for v in range(6)]
    members += [{"name": f"m{v}", "state": "suspected", "changed": False} for v in range(3)]
    given = status()
    given["incidents_open"][0]["nodes"] = members
    assert "6 changed, 3 possibly" in shown(given)


def test_names_cannot_paint_or_command_the_terminal() -> None:
    text = shown(status())
    assert "\x1b" not in text
    assert "[red]n2[/red]" in text


def test_learning_and_calibrating() -> None:
    young = {"threshold": None, "top_nodes": [], "incidents_open": [], "promised_rate": None}
    text = shown(status(phase="learning", learning_progress=0.4, observed_rate=None, **young))
    assert "learning the baseline 40%" in text
    assert "none yet" in text
    text = shown(status(phase="learning", calibrating={"stage": "threshold", "share": 0.6}))
    assert "calibrating: threshold 60%" in text


def test_trouble_with_the_state_is_loud() -> None:
    assert "state not saved: disk full" in shown(
        status(state={"failing": "disk full", "damages": []}), width=200
    )
    damaged = status(state={"failing": None, "damages": [{"damage": "1 of silence"}]})
    assert "damaged state: 1 of silence" in shown(damaged, width=200)


def test_rates_from_two_looks() -> None:
    rates = Rates()
    rates.take(status())
    assert rates.samples is None
    rates.take(status(time=1002.0, counts={"accepted": 5600}, ticks=510))
    assert (rates.samples, rates.ticks) == (300.0, 5.0)
    assert "300 samples/s  5 ticks/s" in shown(status(), rates)
    rates.take(status(time=1003.0, started=1002.5, counts={"accepted": 10}))
    assert rates.samples is None  # another daemon: no difference makes sense


def test_fits_a_narrow_terminal() -> None:
    assert max(map(len, shown(status(), width=60).splitlines())) <= 60


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("top")
    with rig.Service(settings(folder)) as service:
        Feed(service.wait_ready()).push(20)
        yield settings(folder, http={"port": service.port})


def command(config: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "detector", "top", "--config", str(config), *options]


def test_once_prints_one_frame(daemon: Path) -> None:
    done = subprocess.run(command(daemon, "--once"), capture_output=True, text=True, timeout=60,
                          env={**os.environ, "COLUMNS": "200"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "learning the baseline" in done.stdout
    assert "← push" in done.stdout
    assert "\x1b" not in done.stdout


def test_live_view_ends_with_q(daemon: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command(daemon, "--every", "0.3"), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    heard = b""
    deadline = time.monotonic() + 60.0
    try:
        while b"sources and sinks" not in heard and time.monotonic() < deadline:
            if select.select([ours], [], [], 1.0)[0]:
                heard += os.read(ours, 65536)
        os.write(ours, b"q")
        while process.poll() is None and time.monotonic() < deadline:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    heard += os.read(ours, 65536)
                except OSError:
                    break
        assert process.wait(rig.PATIENCE_S) == 0
    finally:
        process.kill()
        os.close(ours)
    assert b"sources and sinks" in heard


def test_no_daemon_is_told_in_one_line(tmp_path: Path) -> None:
    config = settings(tmp_path, http={"port": 1})
    done = subprocess.run(command(config, "--once"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 69
    assert done.stderr.startswith("detector: no daemon answers")
