"""Which sinks were told of each open incident: its end is for them, and for nobody else.

A row without a sink says that nobody was told. An incident without rows was opened by an earlier release.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

KEPT = 1000  # incidents
NOBODY = ""
ENDS = "incident.resolved"
STATES = ("incident.opened", "incident.updated", ENDS)


def note(connection: sqlite3.Connection, incident: str, event: str, sinks: Iterable[str]) -> None:
    """One more record of an incident is addressed to these."""
    if event == ENDS:
        connection.execute("DELETE FROM told WHERE incident = ?", (incident,))
    elif event in STATES:
        connection.executemany(
            "INSERT OR IGNORE INTO told (incident, sink) VALUES (?, ?)",
            [(incident, sink) for sink in (NOBODY, *sinks)],
        )


def read(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """The sinks by incident, oldest incident first."""
    found: dict[str, set[str]] = {}
    for incident, sink in connection.execute("SELECT incident, sink FROM told ORDER BY number"):
        found.setdefault(incident, set()).update({sink} - {NOBODY})
    return found


def prune(connection: sqlite3.Connection) -> None:
    """Forget the oldest: incidents whose end never came, such as those of a state that was discarded."""
    connection.execute(
        "DELETE FROM told WHERE incident NOT IN "
        "(SELECT incident FROM told GROUP BY incident ORDER BY min(number) DESC LIMIT ?)",
        (KEPT,),
    )
