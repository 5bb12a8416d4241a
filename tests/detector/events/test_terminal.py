"""Lines for people: complete, one line each, and nothing in them that a terminal obeys."""

from __future__ import annotations

import asyncio
import os
import pty
import re
from typing import Any

import pytest

from connectors.stdio import StdoutSink
from detector.config.config import Config
from detector.events.model import Change, Event, Labels, NodeRecord, detector_event
from detector.events.terminal import PrettyStdout, describe, line

HOSTILE = "evil\x1b[2J\x07\r\nname"


def incident(**more: Any) -> dict[str, Any]:
    change = Change(kind="mean", text="mean of t up 2 sd", components=["t"])
    node = NodeRecord(name="pump-1", state="alarmed", since=1.7e9, peak=9.0, change=[change])
    given: dict[str, Any] = {
        "id": "i-1", "event": "incident.opened", "time": 1.7e9, "summary": "pump-1 changed",
        "severity": "warning", "incident": "20231114-ab", "sequence": 1, "opened": 1.7e9,
        "onset": 1.7e9 - 5, "onset_earliest": 1.7e9 - 8, "onset_latest": 1.7e9 - 2,
        "nodes": [node], "peak": 9.0, "threshold": 4.5, "description": [change],
    }  # fmt: skip
    return Event(**{**given, **more}).record()


def test_a_line_holds_time_kind_severity_incident_and_summary() -> None:
    expected = "2023-11-14 22:13:20 UTC  OPENED      warning    20231114-ab  pump-1 changed"
    assert line(incident(), colour=False) == expected
    ended = incident(event="incident.resolved", resolution="cleared")
    assert "RESOLVED    cleared    20231114-ab" in line(ended, colour=False)
    learning = detector_event("detector.learning", 12.0, "learning").record()
    assert line(learning, colour=False) == "12            learning    learning"


def test_colours_by_severity() -> None:
    assert "\x1b[33m" in line(incident())
    assert "\x1b[31m" in line(incident(severity="critical"))
    assert "\x1b[32m" in line(incident(event="incident.resolved", resolution="cleared"))


def test_a_story_says_why() -> None:
    labels = Labels(time=1.7e9, alarm="true", note="seen")
    told = describe([incident(), incident(event="incident.labelled", sequence=2, labels=labels)])
    for words in ("incident 20231114-ab: pump-1 changed", "state      open; severity warning",
                  "began      about 22:13:15 UTC  (95 %: 22:13:12 UTC to 22:13:18 UTC)",
                  "evidence   9 against a threshold of 4.5 (2.0 times)", "change     mean of t up 2 sd",
                  "pump-1               alarmed", "label      alarm true, note seen"):  # fmt: skip
        assert words in told
    assert len(told.split("history\n")[1].splitlines()) == 2


def test_a_story_says_why_no_begin_is_known() -> None:
    told = describe([incident(onset=None, details={"onset": "not known: too few samples"})])
    assert "began      not known: too few samples" in told


def test_findings_are_told_beside_the_state() -> None:
    finding = incident(id="f", event="incident.analyzed", summary="it grows", sequence=None, nodes=[],
                       details={"kind": "trend", "stage": "settled"})  # fmt: skip
    told = describe([incident(), finding])
    assert "incident 20231114-ab: pump-1 changed" in told
    assert "found      trend, settled: it grows" in told
    assert "analyzed    trend      20231114-ab  it grows" in line(finding, colour=False)


def finding(incident: str, kind: str, time: float, summary: str) -> dict[str, Any]:
    return Event(
        id=f"{incident}-{kind}-{time}", event="incident.analyzed", time=time, summary=summary,
        incident=incident, details={"kind": kind, "stage": "early"},
    ).record()  # fmt: skip


def test_findings_arrive_as_one_line_in_the_order_of_time() -> None:
    """All of an incident at a time together, whatever comes between; those of its later stage apart."""
    given = [
        finding("i1", "trend", 20.0, "it grows"), finding("i2", "trend", 20.0, "it fades"),
        finding("i1", "novelty", 20.0, "nothing like it"), finding("i1", "trend", 60.0, "it is constant"),
        incident(time=10.0), incident(event="incident.updated", time=40.0),
    ]  # fmt: skip
    reading, writing = os.pipe()
    sink = PrettyStdout(PrettyStdout.Config(descriptor=writing))
    try:
        asyncio.run(sink.write(given))
        told = re.sub(r"\x1b\[[0-9;]*m", "", os.read(reading, 10_000).decode()).splitlines()
    finally:
        os.close(reading)
        os.close(writing)
    assert [line.split()[:2] for line in told] == [
        ["10", "OPENED"], ["20", "analyzed"], ["20", "analyzed"], ["40", "updated"], ["60", "analyzed"],
    ]  # fmt: skip
    assert told[1].endswith("trend, novelty  i1  it grows; nothing like it")
    assert told[2].endswith("i2  it fades")
    assert told[4].endswith("i1  it is constant")


def test_names_from_outside_cannot_speak_to_the_terminal() -> None:
    node = NodeRecord(name=HOSTILE, state="alarmed", since=1.7e9)
    record = incident(summary=f"{HOSTILE} changed", nodes=[node], incident=HOSTILE)
    for text in (line(record, colour=False), *describe([record]).split("\n")):
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", text)


def test_only_a_terminal_gets_readable_lines() -> None:
    data: dict[str, Any] = {"graph": "simulate", "sources": {"demo": {"type": "simulate"}}}
    main, terminal = pty.openpty()
    reading, writing = os.pipe()
    try:
        for descriptor, kind in ((terminal, PrettyStdout), (writing, StdoutSink)):
            data["sinks"] = {"console": {"type": "stdout", "descriptor": descriptor}}
            sink = Config.of(data).sink_objects()["console"]
            assert type(sink) is kind
            asyncio.run(sink.write([incident()]))
        assert b"OPENED" in os.read(main, 1000)
        assert os.read(reading, 10).startswith(b'{"id":')
    finally:
        for descriptor in (main, terminal, reading, writing):
            os.close(descriptor)


@pytest.mark.parametrize("missing", ["opened", "onset", "peak", "threshold", "onset_earliest"])
def test_what_is_not_known_is_left_out(missing: str) -> None:
    assert "None" not in describe([incident(**{missing: None})])
