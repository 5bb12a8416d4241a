"""Log lines: one event each, escaped, without secrets, without floods; and the watchdog's pulse."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detector.daemon.lifecycle import Pulse
from detector.runtime import logs
from detector.runtime.pipeline_thread import PipelineThread
from tests.detector import rig

ROOT = Path(__file__).parents[3]


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, put back afterwards."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:], logger.level = handlers, level


def test_text_and_json_hold_one_line_each(root: logging.Logger) -> None:
    """Line ends and control characters of a message or a trace become escapes."""
    for kind in ("text", "json"):
        stream = io.StringIO()
        logs.setup(kind, stream=stream)  # type: ignore[arg-type]
        try:
            raise ValueError("first\nsecond \x1b[31m")
        except ValueError:
            logging.getLogger("detector.x").exception("node %s", "a\nb\r\x00")
        text = stream.getvalue()
        assert text.count("\n") == 1
        assert "\x1b" not in text
        assert "\r" not in text
        if kind == "json":
            assert json.loads(text)["message"] == "node a\nb\r\x00"
        else:
            assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]{12}Z error +detector\.x: node a\\nb", text)


def test_secrets_are_blotted_out(root: logging.Logger) -> None:
    """In messages, arguments and traces, in both forms, also where JSON would spell them differently."""
    logs.hide(['pass"word', "short-secret"])
    for kind in ("text", "json"):
        stream = io.StringIO()
        logs.setup(kind, stream=stream)  # type: ignore[arg-type]
        try:
            raise ValueError('refused pass"word')
        except ValueError:
            logging.getLogger("detector").exception("with short-secret")
        assert "short-secret" not in stream.getvalue()
        assert "word" not in stream.getvalue().replace("pass", "")
        assert "***" in stream.getvalue()


def test_repeats_are_counted_not_written() -> None:
    """One line per key and ten seconds; the next says how many were left out; other keys are free."""
    now = [0.0]
    repeats = logs.Repeats(lambda: now[0])

    def record(**extra: Any) -> logging.LogRecord:
        made = logging.LogRecord("detector", logging.WARNING, "", 0, "down", (), None)
        vars(made).update(extra)
        return made

    assert repeats.filter(record(repeat="a"))
    assert not any(repeats.filter(record(repeat="a")) for _ in range(5))
    assert repeats.filter(record(repeat="b"))
    assert all(repeats.filter(record()) for _ in range(3))
    library = [logging.LogRecord("connectors.kafka", 40, "", 0, "lost", (), None) for _ in range(5)]
    assert [repeats.filter(one) for one in library] == [True, False, False, False, False]
    now[0] = 10.5
    again = record(repeat="a")
    assert repeats.filter(again)
    assert "5 more like this" in logs.Formatter("text", False).format(again)


def test_journald_priorities() -> None:
    """Under systemd each line begins with its level as journald reads it, and has no time of its own."""
    made = logging.LogRecord("detector", logging.WARNING, "", 0, "hello", (), None)
    assert logs.Formatter("text", True).format(made) == "<4>warning  detector: hello"


def test_a_hung_pipeline_starves_the_watchdog(tmp_path: Path) -> None:
    """The sign of life comes from the pipeline's thread: busy with progress is alive, stuck is not."""

    class Notifier:
        watchdog_s = 0.3
        signs = 0

        def alive(self) -> None:
            self.signs += 1

        def status(self, text: str) -> None:
            return

    async def scenario() -> None:
        worker = PipelineThread(None)  # type: ignore[arg-type]
        notifier = Notifier()
        pulse = Pulse(notifier, worker, lambda: "status")  # type: ignore[arg-type]
        task = asyncio.create_task(pulse.run())
        await asyncio.sleep(0.5)
        assert pulse.healthy
        assert notifier.signs >= 2
        stuck = threading.Event()
        hanging = asyncio.create_task(worker.run(stuck.wait, 10))
        while pulse.healthy:
            await asyncio.sleep(0.01)
        assert time.monotonic() - worker.beat >= notifier.watchdog_s  # not after one late answer
        signs = notifier.signs
        await asyncio.sleep(0.4)
        assert notifier.signs <= signs + 1
        worker._progress("calibration", 0.5)
        stuck.set()
        await hanging
        await asyncio.sleep(0.4)
        assert pulse.healthy
        task.cancel()
        worker.shutdown()

    asyncio.run(scenario())


def test_operations_manual_names_what_exists() -> None:
    """Metrics and settings named in the manual are real."""
    from detector.runtime.metrics import TABLE
    from detector.settings.service import HttpSettings, StateSettings

    pages = ("operations", "state", "http")
    text = "".join((ROOT / "docs" / f"{page}.md").read_text() for page in pages)
    known = {f"detector_{metric.name}" for metric in TABLE}
    assert set(re.findall(r"\bdetector_[a-z_]+", text)) <= known
    for name in ("journal_max", "history", "outbox_records", "outbox_size", "outbox_full", "commit_every",
                 "commit_samples", "snapshot_every"):  # fmt: skip
        assert name in StateSettings.model_fields
        assert f"`{name}`" in text
    assert "allow_unauthenticated" in HttpSettings.model_fields


def test_open_incidents_are_told_again_after_a_start(tmp_path: Path, learnt_state: Path) -> None:
    """A sink whose peer forgets (Alertmanager) hears of every open incident once after each start."""
    rig.copy_state(learnt_state, tmp_path)
    lines = list(rig.lines(rig.LEARN + 60, 640, every=120, lasts=200))
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    peer = rig.Receiver()
    config = rig.write_config(tmp_path, sinks={"am": {"type": "alertmanager", "url": peer.url}})
    with rig.Service(config) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.metric("incidents_open") >= 1 and peer.records)
        [incident] = [one["incident"] for one in service.ask("/api/v1/incidents?state=open")[1]["incidents"]][
            :1
        ]
        service.ask(f"/api/v1/incidents/{incident}/label", "POST", {"note": "seen"})
        service.stop()
    peer.records.clear()
    with rig.Service(config) as service:
        service.wait_ready()
        rig.wait_for(lambda: peer.records)
        told = {alert["labels"]["incident"] for post in peer.records for alert in post}  # type: ignore[index]
        assert incident in told
        service.stop()
    peer.close()
