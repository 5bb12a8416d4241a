"""Records as lines that people read at a terminal; the same records as JSON everywhere else."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from connectors.base import Accepted, unheard
from connectors.stdio import StdoutSink
from detector.events.model import clock

COLOURS = {"critical": "red", "warning": "yellow", "info": "cyan"}
WORDS = {
    "incident.opened": "OPENED",
    "incident.updated": "updated",
    "incident.resolved": "RESOLVED",
    "incident.labelled": "labelled",
    "incident.analyzed": "analyzed",
}


def line(record: Mapping[str, Any], colour: bool = True) -> str:
    """``2026-11-16 14:05:10 UTC  OPENED  warning  20261116-ab12  n03, n04 (+3): mean up ...``"""
    kind = str(record["event"])
    time = float(record["time"])
    parts = [f"{clock(time, 0.0):<12}", f"{WORDS.get(kind, kind.partition('.')[2]):<10}"]
    if record.get("incident") and kind.startswith("incident."):
        word = record.get("resolution") if kind == "incident.resolved" else record["severity"]
        word = record["details"]["kind"] if kind == "incident.analyzed" else word
        parts += [f"{word or '':<9}", str(record["incident"])]
    parts.append(str(record["summary"]))
    text = printable("  ".join(parts))
    if not colour:
        return text
    loud = kind in ("incident.opened", "incident.resolved")
    shade = "green" if kind == "incident.resolved" else COLOURS.get(str(record["severity"]), "cyan")
    if kind.startswith("incident."):
        return click.style(text, fg=shade, bold=loud)
    return click.style(
        text, dim=record["severity"] == "info", fg=None if record["severity"] == "info" else shade
    )


def describe(records: Sequence[Mapping[str, Any]]) -> str:
    """One incident from its records, oldest first, told for people."""
    last, findings = split(records)
    now = float(last["time"])
    lines = [f"incident {last['incident']}: {last['summary']}", ""]
    state = f"resolved, {last['resolution']}" if last.get("resolution") else "open"
    lines.append(f"  state      {state}; severity {last['severity']}")
    if last.get("opened") is not None:
        lines.append(f"  opened     {_moment(last['opened'], now)}")
    if last.get("onset") is not None:
        between = ""
        if last.get("onset_earliest") is not None and last.get("onset_latest") is not None:
            earliest, latest = clock(last["onset_earliest"], now), clock(last["onset_latest"], now)
            between = f"  (95 %: {earliest} to {latest})"
        lines.append(f"  began      about {_moment(last['onset'], now)}{between}")
    elif reason := last.get("details", {}).get("onset"):
        lines.append(f"  began      {reason}")
    if last.get("peak") is not None and last.get("threshold"):
        ratio = float(last["peak"]) / float(last["threshold"])
        lines.append(
            f"  evidence   {last['peak']:g} against a threshold of {last['threshold']:g} ({ratio:.1f} times)"
        )
    for number, change in enumerate(last.get("description") or ()):
        lines.append(f"  {'change' if number == 0 else '':<10} {change['text']}")
    lines += ["", "  nodes"]
    for node in last.get("nodes") or ():
        how = "; ".join(change["text"] for change in node.get("change") or ())
        since = clock(node["since"], now) if node.get("since") is not None else ""
        peak = f"{node['peak']:g}" if node.get("peak") is not None else ""
        lines.append(f"    {node['name']:<20} {node['state']:<10} {since:<14} {peak:<8} {how}".rstrip())
    labels = last.get("labels")
    if labels:
        said = ", ".join(
            f"{key} {value}" for key, value in labels.items() if value is not None and key != "time"
        )
        lines += ["", f"  label      {said}"]
    for number, finding in enumerate(findings):
        about = f"{finding['details']['kind']}, {finding['details']['stage']}: {finding['summary']}"
        lines += ([""] if number == 0 else []) + [f"  {'found' if number == 0 else '':<10} {about}"]
    lines += ["", "  history"]
    lines += [f"    {line(record, colour=False)}" for record in records]
    return "\n".join(map(printable, lines))


def split(records: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """The latest record that tells the state of an incident, and what was found out about it."""
    findings = [record for record in records if record["event"] == "incident.analyzed"]
    rest = [record for record in records if record["event"] != "incident.analyzed"]
    return (rest or records)[-1], findings


def _moment(time: float, now: float) -> str:
    return clock(float(time), now)


def printable(text: str) -> str:
    """Without control characters: names come from outside, and a terminal obeys them."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def joined(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """In the order of time; all that was found out about an incident at a time in one record."""
    made: list[Mapping[str, Any]] = []
    places: dict[tuple[Any, Any], int] = {}  # of what was found out about an incident at a time
    for record in sorted(records, key=lambda record: float(record["time"])):
        place = len(made)
        if record["event"] == "incident.analyzed":
            place = places.setdefault((record["incident"], record["time"]), place)
        if place == len(made):
            made.append(record)
            continue
        first = made[place]
        kinds = f"{first['details']['kind']}, {record['details']['kind']}"
        summary = f"{first['summary']}; {record['summary']}"
        made[place] = {**first, "summary": summary, "details": {**first["details"], "kind": kinds}}
    return made


class PrettyStdout(StdoutSink):
    """Standard output where people look at it."""

    async def write(self, records: Sequence[Mapping[str, Any]], accepted: Accepted = unheard) -> None:
        if records:
            text = "".join(line(record) + "\n" for record in joined(records)).encode()
            await asyncio.to_thread(self._write, str(records[-1]["id"]), text)


def is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False
