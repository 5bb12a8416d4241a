"""Event records: everything the detector tells the outside.

The structs below are the only definition of a record; `detector/events/schema.py` says in words what each
field means and publishes the JSON Schema. Records hold no NaN: a number that is not known is null. Measured
numbers are rounded to six significant digits, so that records stay readable; times are left as they came.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from detector.events.label import Alarm as Alarm
from detector.events.label import Label

SCHEMA_VERSION = 1

IncidentKind = Literal[
    "incident.opened", "incident.updated", "incident.resolved", "incident.labelled", "incident.analyzed"
]
NodeKind = Literal[
    "node.silent", "node.returned", "node.stuck", "node.unstuck", "node.out_of_range", "node.in_range",
    "node.restored",
]  # fmt: skip
DetectorKind = Literal["detector.learning", "detector.calibrated", "detector.warning"]
ChangeKind = Literal["mean", "spread", "correlation", "tails", "asymmetry", "distribution"]
Severity = Literal["info", "warning", "critical"]
Resolution = Literal["cleared", "accepted", "restored", "timed_out", "merged"]
NodeState = Literal["suspected", "alarmed", "recovered", "silent", "stuck", "out_of_range", "watching"]
By = Literal["detector", "policy", "operator"]
Source = Literal["threshold", "learnt"]  # who named the nodes

SINGLE = "value"  # the component of samples that have only one, and no name for it

# Below this a time is taken for a plain number (a sample count), above it for unix seconds: it is March 1973.
FIRST_UNIX_TIME = 1e8
LAST_UNIX_TIME = 253402300799.0  # the end of the year 9999


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One supported statement about how values changed."""

    kind: ChangeKind
    text: str
    components: list[str]
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    before: float | None = None
    after: float | None = None
    unit: str | None = None
    z: float | None = None
    nodes: int = 1


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One node within a record."""

    name: str
    state: NodeState
    since: float | None = None
    onset: float | None = None
    onset_earliest: float | None = None
    onset_latest: float | None = None
    statistic: float | None = None
    peak: float | None = None
    probability: float | None = None
    p_value: float | None = None
    changed: bool | None = None
    change: list[Change] = []


class Labels(Label, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """What people said about an incident, taken together. Kept with it, for later learning."""

    time: Annotated[float, msgspec.Meta(description="when it was last labelled")]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One record. Fields that do not apply to a kind are null or empty, never absent."""

    id: str
    version: int = SCHEMA_VERSION
    event: IncidentKind | NodeKind | DetectorKind
    time: float
    time_iso: str | None = None
    summary: str
    severity: Severity = "info"
    severity_now: Severity | None = None
    incident: str | None = None
    common: str | None = None
    sequence: int | None = None
    opened: float | None = None
    onset: float | None = None
    onset_iso: str | None = None
    onset_earliest: float | None = None
    onset_latest: float | None = None
    nodes: list[NodeRecord] = []
    statistic: float | None = None
    peak: float | None = None
    threshold: float | None = None
    node_threshold: float | None = None
    description: list[Change] = []
    resolution: Resolution | None = None
    merged_into: str | None = None
    by: By = "detector"
    labels: Labels | None = None
    source: Source = "threshold"
    details: dict[str, Any] = {}

    def record(self) -> dict[str, Any]:
        """The JSON-ready form that sinks receive."""
        record: dict[str, Any] = msgspec.to_builtins(self)
        return record


MOST_TOGETHER = 500  # nodes in one record, so that it fits into a message of any broker
# What is said of one node, and of several.
NODE_WORDS: dict[NodeKind, tuple[str, str]] = {
    "node.silent": ("sends no more data", "send no more data"),
    "node.returned": ("sends data again", "send data again"),
    "node.stuck": ("is stuck at one value", "are stuck at one value each"),
    "node.unstuck": ("moves again", "move again"),
    "node.out_of_range": (
        "has values far from what was learnt, where few changes are seen: learn again",
        "have values far from what was learnt, where few changes are seen: learn again",
    ),
    "node.in_range": (
        "has values again where changes are seen", "have values again where changes are seen"
    ),
    "node.restored": (
        "is back to its earlier normal: the change that was accepted has ended",
        "are back to their earlier normal: the change that was accepted has ended",
    ),
}  # fmt: skip
NODE_STATES: dict[NodeKind, NodeState] = {
    "node.silent": "silent", "node.stuck": "stuck", "node.out_of_range": "out_of_range",
}  # fmt: skip


def node_events(
    kind: NodeKind, names: Sequence[str], time: float, incident: str | None = None
) -> list[Event]:
    """What became of nodes in one tick, together: a gateway that dies is no thousand pieces of news."""
    parts = (names[at : at + MOST_TOGETHER] for at in range(0, len(names), MOST_TOGETHER))
    return [_node_event(kind, part, time, incident) for part in parts]


def _node_event(kind: NodeKind, names: Sequence[str], time: float, incident: str | None) -> Event:
    shown = ", ".join(names[:3]) + (f" (+{len(names) - 3})" if len(names) > 3 else "")
    return Event(
        id=f"{date_prefix(time)}-{digest(kind, *names, time)}", event=kind, time=time, time_iso=iso(time),
        summary=f"{shown} {NODE_WORDS[kind][len(names) > 1]}", incident=incident,
        nodes=[NodeRecord(name=name, state=NODE_STATES.get(kind, "watching")) for name in names],
    )  # fmt: skip


def detector_event(
    kind: DetectorKind, time: float, summary: str, details: Mapping[str, Any] | None = None,
    severity: Severity = "info", nodes: Sequence[str] = (),
) -> Event:  # fmt: skip
    """A record about the detector itself: learning progress, calibration result, warning.

    ``details`` must be JSON-ready. Two records of one kind in one tick need different summaries: the id is
    made from kind, time and summary.
    """
    return Event(
        id=f"{date_prefix(time)}-{digest(kind, summary, time)}", event=kind, time=time, time_iso=iso(time),
        summary=summary, severity=severity, details=dict(details or {}),
        nodes=[NodeRecord(name=name, state="watching") for name in nodes],
    )  # fmt: skip


def incident_id(time: float, hot: Sequence[str]) -> str:
    """Id from the opening time and the names of the hot nodes: the same input gives the same id.

    Two incidents opened in one tick have no hot node in common, so their ids differ.
    """
    return f"{date_prefix(time)}-{digest(time, *sorted(hot))}"


def digest(*parts: str | float) -> str:
    """Short stable hash. JSON keeps the parts apart: ("ab", "c") is not ("a", "bc")."""
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=6).hexdigest()


def is_unix(time: float) -> bool:
    return FIRST_UNIX_TIME <= time <= LAST_UNIX_TIME


def date_prefix(time: float) -> str:
    """Day of a unix time as 20261116, of a plain number its whole part as t1250."""
    return _utc(time)[:10].replace("-", "") if is_unix(time) else f"t{math.floor(time)}"


def iso(time: float | None) -> str | None:
    """ISO 8601 in UTC to the millisecond; None for a plain number."""
    if time is None or not is_unix(time):
        return None
    return f"{_utc(time)[:23]}Z"


def clock(time: float, now: float) -> str:
    """A time in a sentence: 14:05:10 UTC, with its date if that is not today's; a plain number as it is."""
    if not is_unix(time):
        return f"{time:.10g}"
    date, clock_time = _utc(time)[:10], _utc(time)[11:19]
    return f"{clock_time} UTC" if date == _utc(now)[:10] else f"{date} {clock_time} UTC"


def rounded(value: float | None) -> float | None:
    """Six significant digits; None for what is not a finite number."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.6g}")


def _utc(time: float) -> str:
    """2026-11-16T14:05:10.123456: by arithmetic alone, nothing here looks at a clock."""
    fraction, seconds = math.modf(time)
    return str(np.datetime64(int(seconds) * 10**6 + round(fraction * 1e6), "us"))
