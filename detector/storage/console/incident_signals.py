"""Signals of the members of incidents, copied from those of all nodes before these are forgotten.

They reach from before the begin of an incident to after its end, at the finest resolution there is; a long
incident is thinned, so that each has a bounded size.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping
from typing import Any

from detector.events.wording import split_nodes
from detector.pipeline.signal_capture import FINE, Block
from detector.storage import records
from detector.storage.arrays import Unreadable
from detector.storage.console.signals import Signal, begins, of_block, read_signals

NODES = 16  # members that are kept, the strongest first
ROWS = 1200  # of each
LOOKED_AT = 200  # the latest incidents
BEFORE, AFTER = 3600.0, 1800.0  # seconds, at least; both as long as the incident if that is longer
LONGEST = 6 * 3600.0  # but not more than this


def span(record: Mapping[str, Any]) -> tuple[float, float]:
    """From when to when the signals of an incident are kept, by its latest record; inf while it is open."""
    begin = record.get("onset") or record.get("opened") or record["time"]
    if record.get("resolution") is None:
        return begin - BEFORE, math.inf
    ended = record.get("ended", record["time"])
    lasted = min(max(ended - begin, 0.0), LONGEST)
    return begin - max(BEFORE, lasted), ended + max(AFTER, lasted)


def members(record: Mapping[str, Any]) -> list[str]:
    """Those that changed first, each by its largest statistic."""
    nodes = sorted(record.get("nodes", []), key=lambda node: -(node.get("peak") or 0.0))
    changed, possibly = split_nodes(nodes)
    return [*changed, *possibly][:NODES]


def latest(stored: list[records.Record]) -> dict[str, Any] | None:
    """The last record that tells the state of an incident; ``ended`` is the time of its resolution."""
    told = [record for record in stored if record.event in
            ("incident.opened", "incident.updated", "incident.resolved")]  # fmt: skip
    if not told:
        return None
    content = told[-1].content()
    if told[-1].event == "incident.resolved":
        content["ended"] = content["time"]
    return content


def keep(connection: sqlite3.Connection) -> None:
    """Copy what has come since the last time, for all incidents whose signals are not complete."""
    begin = begins(connection).get(FINE)
    if begin is None:
        return
    for record in records.latest(connection, LOOKED_AT):
        incident = str(record.incident)
        reached = connection.execute(
            "SELECT max(until) FROM incident_signal WHERE incident = ?", (incident,)
        ).fetchone()[0]
        told = latest(records.of_incident(connection, incident))
        if told is None:
            continue
        since, until = span(told)
        if until < begin or (reached is not None and reached >= until):
            continue
        _copy(connection, incident, told, since, until)


def _copy(
    connection: sqlite3.Connection, incident: str, told: Mapping[str, Any], since: float, until: float
) -> None:
    there = stored(connection, incident)
    names = [name for name in there if name not in members(told)] + members(told)
    new = read_signals(connection, names, FINE, since, until)
    whole = _whole(connection, since)
    for place, name in enumerate(names[-NODES:]):
        kept = there.get(name)
        if not len(new[name].times):
            continue
        joined = _joined(None if whole else kept, new[name]).between(since, until).thinned(ROWS)
        connection.execute(
            "INSERT OR REPLACE INTO incident_signal (incident, node, place, until, body) VALUES (?,?,?,?,?)",
            (incident, name, place, float(new[name].times[-1]), joined.pack()),
        )


def _whole(connection: sqlite3.Connection, since: float) -> bool:
    """Whether the signals of all nodes still reach back so far: then they do alone, in rows of one width."""
    begin = begins(connection).get(FINE)
    return begin is not None and begin <= since


def _joined(kept: Signal | None, new: Signal) -> Signal:
    """What was kept, and the rows that have come after it: those before may be thinned already."""
    if kept is None or not len(kept.times):
        return new
    return Signal.joined([kept, new.between(float(kept.times[-1]) + 1e-9, math.inf)])


def stored(connection: sqlite3.Connection, incident: str) -> dict[str, Signal]:
    """The kept signals of an incident, by node."""
    found = {}
    for node, body in connection.execute(
        "SELECT node, body FROM incident_signal WHERE incident = ? ORDER BY place", (incident,)
    ):
        try:
            found[node] = Signal.unpack(body)
        except (Unreadable, KeyError):
            continue
    return found


def read(
    connection: sqlite3.Connection, incident: str, under_way: list[Block]
) -> tuple[dict[str, Any], dict[str, Signal]] | None:
    """Its latest record and the signals of its members: kept ones, stored ones, and those under way."""
    told = latest(records.of_incident(connection, incident))
    if told is None:
        return None
    since, until = span(told)
    there = stored(connection, incident)
    names = list(dict.fromkeys([*members(told), *there]))[: 2 * NODES]
    new = read_signals(connection, names, FINE, since, until)
    for block in under_way:
        if block.tier == FINE:
            for v, name in enumerate(block.names):
                if name in new:
                    new[name] = Signal.joined([new[name], of_block(block, v)]).between(since, until)
    kept = {} if _whole(connection, since) else there
    return told, {name: _joined(kept.get(name), new[name]).thinned(ROWS) for name in names}


def prune(connection: sqlite3.Connection, size: int) -> None:
    """Forget those of the oldest incidents beyond ``size`` bytes."""
    connection.execute(
        "DELETE FROM incident_signal WHERE incident IN (SELECT incident FROM (SELECT incident, "
        "sum(bytes) OVER (ORDER BY latest DESC, incident) AS total FROM (SELECT incident, "
        "max(until) AS latest, sum(length(body)) AS bytes FROM incident_signal GROUP BY incident)) "
        "WHERE total > ?)",
        (size,),
    )
