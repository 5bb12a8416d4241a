"""The wall clock of the real process jumps: by an hour, by a day, there and back, and it begins in 1970; and
loggers that write local times, when summer time begins and ends.

libfaketime gives the process another wall clock and leaves the monotonic one true, as a bad time server does.
Samples carry no time of their own, so they are stamped by the clock that jumps.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from detector.storage.store import inspect
from tests import servers
from tests.detector import rig
from tests.detector.faults.burst_rig import counts

PERIOD = 0.1
STALL_S = 60.0  # a timer that follows the wall clock would stand still for an hour at least
SETTINGS: dict[str, Any] = {
    "align": {"step": "100ms", "lateness": "200ms", "silent_after": "3s"},
    "windows": {"reference": 20, "tests": [5]},
    "alarm": {"learn": 400, "budget": "1 per 100000 ticks"},
}


@pytest.fixture(scope="module")
def quick_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state that has learnt ten ticks in a second, long ago."""
    folder = tmp_path_factory.mktemp("quick")
    lines = []
    for line in rig.lines(0, 500):
        sample = json.loads(line)
        lines.append(json.dumps({**sample, "time": rig.START + (sample["time"] - rig.START) * PERIOD}))
    (folder / "in.jsonl").write_text("\n".join(lines) + "\n")
    with rig.Service(rig.write_config(folder, **SETTINGS), "--once") as service:
        assert service.process.wait(270) == 0, service.said()
    return folder / "state"


class Sensors:
    """Eight sensors that write a value ten times a second, without time; `shift` moves those of two nodes."""

    def __init__(self, path: Path) -> None:
        self.shift = 0.0
        self._path = path
        self._open = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        path.touch()

    def _run(self) -> None:
        rng = random.Random(7)
        due = time.monotonic()
        with self._path.open("a") as file:
            while self._open:
                for node in rig.NODES:
                    value = rng.gauss(0.0, 1.0) + (self.shift if node in ("n3", "n4") else 0.0)
                    file.write(json.dumps({"node": node, "value": value}) + "\n")
                file.flush()
                due += PERIOD
                time.sleep(max(0.0, due - time.monotonic()))

    def __enter__(self) -> Sensors:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._thread.join()


def test_jumps_of_the_wall_clock(tmp_path: Path, quick_state: Path) -> None:
    """No incident by a jump, no timer that stands still, no negative duration; detection goes on (T5)."""
    rig.copy_state(quick_state, tmp_path)
    stamp = tmp_path / "stamp"
    offset = tmp_path / "offset"

    def jump(seconds: int) -> None:
        offset.write_text(f"{seconds:+d}")
        offset.rename(stamp)  # never half written

    jump(60 - int(time.time()))  # a minute after the beginning of 1970
    notify = rig.NotifySocket(tmp_path)
    environment = {
        "LD_PRELOAD": servers.faketime(), "FAKETIME_TIMESTAMP_FILE": str(stamp),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NOTIFY_SOCKET": notify.path, "WATCHDOG_USEC": "3000000",
    }  # fmt: skip
    config = rig.write_config(
        tmp_path,
        **SETTINGS,
        sources={"in": {"type": "file", "path": str(tmp_path / "in.jsonl"), "mode": "tail", "poll": "20ms"}},
        state={"directory": str(tmp_path / "state"), "commit_every": "100ms", "snapshot_every": "500ms"},
    )

    def records() -> list[dict[str, Any]]:
        return rig.records(tmp_path / "out.jsonl")

    with (
        Sensors(tmp_path / "in.jsonl") as sensors,
        rig.Service(config, environment=environment, fork=False) as service,
    ):
        service.wait_ready()

        def watches_again(far: float) -> bool:
            """All nodes have verdicts, and the stream is where the clock is."""
            time.sleep(0.2)
            status = service.ask("/api/v1/status")[1]
            return abs(status["watermark"] - far) < 60 and status["nodes"]["states"].get("watching") == 8

        rig.wait_for(lambda: watches_again(60), what="watching in 1970")
        for seconds in (0, 3600, 0, 86400, 0):
            snapshot = inspect(tmp_path / "state")["snapshots"][0]["seq"]
            jump(seconds)
            rig.wait_for(
                lambda seconds=seconds: watches_again(time.time() + seconds), what=f"a jump to {seconds:+d} s"
            )
            rig.wait_for(
                lambda snapshot=snapshot: inspect(tmp_path / "state")["snapshots"][0]["seq"] > snapshot,
                timeout=STALL_S,
            )
            negative = [
                line for line in service.ask("/metrics")[1].splitlines()
                if not line.startswith("#") and "_seconds" in line and float(line.rpartition(" ")[2]) < 0
            ]  # fmt: skip
            assert not negative
            rig.wait_for(lambda: service.ask("/readyz")[0] == 200)
        assert not [record for record in records() if record["event"].startswith(("incident", "node"))]
        warnings = [record for record in records() if record["event"] == "detector.warning"]
        moved = [record["details"]["set_back"] for record in warnings if "set_back" in record["details"]]
        assert [round(seconds / 3600) for seconds in moved[1:]] == [1, 24]  # the first was to 1970
        sensors.shift = 6.0
        opened = rig.wait_for(lambda: [one for one in records() if one["event"] == "incident.opened"])
        assert abs(opened[0]["time"] - time.time()) < 60
        assert service.stop() == 0
        assert "Traceback" not in service.said()
        assert not re.search(r"-\d+ s\b", service.said())
    beats = [moment for moment, line in notify.heard if line == "WATCHDOG=1"]
    notify.close()
    assert max(later - earlier for earlier, later in pairwise(beats)) < STALL_S
    for record in records():
        begun = [record["opened"], *(node["since"] for node in record["nodes"])]
        assert all(record["time"] >= since for since in begun if since is not None), record


BERLIN = ZoneInfo("Europe/Berlin")
BEGINS, ENDS = datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 1, tzinfo=UTC)  # of summer time
MINUTES = (460, 140)  # before and after


@pytest.mark.parametrize(
    ("change", "offset", "lost"), [(BEGINS, False, 0), (ENDS, False, 60), (ENDS, True, 0)],
    ids=["it begins", "it ends", "it ends, times with their offset"],
)  # fmt: skip
def test_loggers_that_write_local_times(tmp_path: Path, change: datetime, offset: bool, lost: int) -> None:
    """The hour that comes twice is late the second time, to the sample; no incident, no other loss (T5)."""
    rng = random.Random(4)
    rows = ["time,node,value"]
    for minute in range(-MINUTES[0], MINUTES[1]):
        local = (change + timedelta(minutes=minute)).astimezone(BERLIN)
        text = (local if offset else local.replace(tzinfo=None)).isoformat(sep=" ")
        rows += [f"{text},{node},{rng.gauss(0.0, 1.0):.4f}" for node in rig.NODES]
    (tmp_path / "in.csv").write_text("\n".join(rows) + "\n")
    config = rig.write_config(
        tmp_path, diagnosis=rig.only(), align={"step": "60s", "lateness": "0s"},
        sources={"in": {"type": "file", "path": str(tmp_path / "in.csv")}},
        alarm={"learn": 400, "budget": "1 per 100000 ticks"},
    )  # fmt: skip
    with rig.Service(config, "--once") as service:
        assert service.process.wait(rig.PATIENCE_S) == 0, service.said()
    found = counts(tmp_path / "state")
    assert found["received"] == sum(MINUTES) * len(rig.NODES)
    assert found["late"] + found["duplicate"] == lost * len(rig.NODES)
    assert found["accepted"] == (sum(MINUTES) - lost) * len(rig.NODES)
    records = rig.records(tmp_path / "out.jsonl")
    assert not [record for record in records if record["event"].startswith(("incident", "node"))]
