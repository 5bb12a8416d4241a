"""An engineer with a CSV: `detector try`, then a daemon with what it wrote, and an Alertmanager."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from tests import servers
from tests.detector import rig

STEP = 60
ROWS = 900
PUMPS = [f"pump-{i}" for i in range(6)]
NAMES = [*PUMPS, *(f"tank-{i}" for i in range(6))]
CHANGED = PUMPS[:4]
CHANGE = range(720, 800)


def signals(rows: int, seed: int) -> np.ndarray:
    """Pumps that move together, and tanks that do."""
    rng = np.random.default_rng(seed)
    common = np.repeat(rng.normal(size=(rows, 2)), 6, axis=1)
    return 20.0 + 0.7 * common + rng.normal(size=(rows, len(NAMES)))


def write_csv(path: Path, start: int) -> None:
    """As a historian exports it: a column per sensor, times in words."""
    X = signals(ROWS, 4)
    X[CHANGE.start : CHANGE.stop, :4] += 4.0
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["time", *NAMES])
        for t, x in enumerate(X):
            moment = datetime.fromtimestamp(start + STEP * t, UTC)
            rows.writerow([moment.strftime("%Y-%m-%d %H:%M:%S"), *np.round(x, 3)])


def detector(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "detector", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=480,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def edit(config: Path, alerts: int, console: str) -> None:
    """What the page getting started says: a live source in the place of the file, and whom to tell."""
    text = config.read_text()
    edits = {
        '  recording:\n    type: file\n    path: "../plant.csv"\n': "  live: {type: http}\n",
        "  # alerts:\n  #   type: alertmanager\n  #   url: http://127.0.0.1:9093\n":
            f"  alerts: {{type: alertmanager, url: 'http://127.0.0.1:{alerts}', console_url: '{console}'}}\n",
        "  port: 9178\n": "  port: 0\n",
    }  # fmt: skip
    for old, new in edits.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    config.write_text(text)


def test_from_a_csv_to_a_notification(tmp_path: Path) -> None:
    start = (int(time.time()) // STEP - ROWS) * STEP
    write_csv(tmp_path / "plant.csv", start)

    found = json.loads(detector(tmp_path, "try", "plant.csv", "--no-open", "--json"))
    in_change = range(start + STEP * CHANGE.start, start + STEP * (CHANGE.start + 30))
    incident = next(one for one in found["incidents"] if int(one["opened"]) in in_change)
    assert set(CHANGED) <= set(incident["nodes"])
    report = (tmp_path / "plant-detector" / "report.html").read_text()
    assert incident["incident"] in report

    receiver = rig.Receiver()
    routes = (
        "route: {receiver: people, group_wait: 1s, group_interval: 1s}\n"
        f"receivers: [{{name: people, webhook_configs: [{{url: '{receiver.url}'}}]}}]\n"
    )
    alertmanager = servers.alertmanager(tmp_path / "alertmanager", routes)
    try:
        config = tmp_path / "plant-detector" / "config.yaml"
        edit(config, alertmanager.port, "https://detector.example")
        assert "fine" in detector(tmp_path, "check", "--config", str(config))
        with rig.Service(config) as service:
            service.wait_ready()
            assert service.ask("/api/v1/status")[1]["phase"] == "watching", "nothing is learnt twice"
            push(service, start + STEP * ROWS)
            (alert,) = rig.wait_for(lambda: alerts_of(receiver, "firing"), what="a notification")[:1]
    finally:
        alertmanager.stop()
        receiver.close()
    assert alert["labels"]["severity"] in ("warning", "critical")
    assert any(name in alert["annotations"]["summary"] for name in CHANGED)
    assert alert["generatorURL"] == f"https://detector.example/incidents/{alert['labels']['incident']}"


def push(service: rig.Service, start: int) -> None:
    """Two quiet hours, and then the pumps go up, as a gateway sends them: batch by batch."""
    X = signals(150, 9)
    X[120:, :4] += 4.0
    for first in range(0, len(X), 30):
        lines = [
            json.dumps({"time": start + STEP * t, "node": name, "value": round(float(x), 3)})
            for t in range(first, first + 30)
            for name, x in zip(NAMES, X[t], strict=True)
        ]
        status, answer = service.ask("/ingest", "POST", "\n".join(lines))
        assert (status, answer["accepted"]) == (200, len(lines)), answer


def alerts_of(receiver: rig.Receiver, status: str) -> list[dict[str, Any]]:
    return [one for record in receiver.records for one in record["alerts"] if one["status"] == status]
