"""Records, labels and outbox in the database: events made, labels given, records still to be sent."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from detector.events.model import Event

CHUNK = 500  # ids in one question: SQLite limits the number of parameters
TOLD = 1000  # incidents of which it is known whom they were told to
NOBODY = ""  # in place of a sink
ENDS = "incident.resolved"
STATES = ("incident.opened", "incident.updated", ENDS)
COLUMNS = "id, incident, event, time, body, crc"


class Record(NamedTuple):
    """One event as it is stored and sent."""

    id: str
    incident: str | None
    event: str
    time: float
    body: bytes  # JSON
    to: tuple[str, ...] | None = None  # the sinks that are to have it; None: all

    @classmethod
    def of(cls, event: Event) -> Record:
        return cls(event.id, event.incident, event.event, event.time, msgspec.json.encode(event))

    def content(self) -> dict[str, Any]:
        content: dict[str, Any] = msgspec.json.decode(self.body)
        return content

    def checksum(self) -> int:
        return zlib.crc32(self.body, zlib.crc32(msgspec.json.encode([self.id, self.incident])))


def unknown(connection: sqlite3.Connection, ids: Sequence[str]) -> set[str]:
    """Those of the ids that no stored record has."""
    missing = set(ids)
    for begin in range(0, len(ids), CHUNK):
        part = ids[begin : begin + CHUNK]
        marks = ",".join("?" * len(part))
        rows = connection.execute(f"SELECT id FROM record WHERE id IN ({marks})", list(part))
        missing -= {row[0] for row in rows}
    return missing


def insert(connection: sqlite3.Connection, records: Iterable[Record], sinks: Sequence[str]) -> int:
    """Store new records, address them to the sinks, and keep what people said; the newest one's number."""
    newest = 0
    for record in records:
        added = connection.execute(
            "INSERT OR IGNORE INTO record (id, incident, event, time, crc, body) VALUES (?,?,?,?,?,?)",
            (record.id, record.incident, record.event, record.time, record.checksum(), record.body),
        )
        if not added.rowcount:
            continue
        newest = added.lastrowid or newest
        address(connection, record if record.to is not None else record._replace(to=tuple(sinks)))
        if record.event == "incident.labelled" and record.incident is not None:
            connection.execute(
                "INSERT INTO label (incident, time, crc, body) VALUES (?,?,?,?)",
                (record.incident, record.time, record.checksum(), record.body),
            )
    return newest


def address(connection: sqlite3.Connection, record: Record) -> None:
    """Send a stored record to the sinks that are to have it, and note whom an incident was told to."""
    connection.executemany(
        "INSERT OR IGNORE INTO outbox (sink, id) VALUES (?, ?)",
        [(sink, record.id) for sink in record.to or ()],
    )
    if record.event == ENDS:
        connection.execute("DELETE FROM told WHERE incident = ?", (record.incident,))
    elif record.event in STATES:
        connection.executemany(
            "INSERT OR IGNORE INTO told (incident, sink) VALUES (?, ?)",
            [(record.incident, sink) for sink in (NOBODY, *(record.to or ()))],
        )


def told(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """The sinks that each open incident was told to, oldest incident first; its end is for them alone.

    Incidents that an earlier release opened are not known.
    """
    found: dict[str, set[str]] = {}
    for incident, sink in connection.execute("SELECT incident, sink FROM told ORDER BY number"):
        found.setdefault(incident, set()).update({sink} - {NOBODY})
    return found


def prune_told(connection: sqlite3.Connection) -> None:
    """Forget the oldest: incidents whose end never came, such as those of a state that was discarded."""
    connection.execute(
        "DELETE FROM told WHERE incident NOT IN "
        "(SELECT incident FROM told GROUP BY incident ORDER BY min(number) DESC LIMIT ?)",
        (TOLD,),
    )


def delivered(connection: sqlite3.Connection, done: Iterable[tuple[str, str]]) -> None:
    """Forget (sink, id) pairs."""
    connection.executemany("DELETE FROM outbox WHERE sink = ? AND id = ?", list(done))


def pending(connection: sqlite3.Connection, sink: str) -> list[Record]:
    """What a sink has not taken yet, oldest first; a record that does not match its checksum is left out."""
    rows = connection.execute(
        "SELECT r.id, r.incident, r.event, r.time, r.body, r.crc FROM outbox o JOIN record r ON r.id = o.id "
        "WHERE o.sink = ? AND o.since IS NULL ORDER BY r.number",
        (sink,),
    )
    return _sound(rows)


class SetAside(NamedTuple):
    """A record that a sink would not take, kept until somebody sends it again or drops it."""

    sink: str
    id: str
    since: float
    tries: int
    error: str


def set_aside(connection: sqlite3.Connection, given_up: Iterable[SetAside]) -> None:
    """Keep these, but do not send them again. Those of incidents told of at a start wait nowhere before."""
    connection.executemany(
        "INSERT INTO outbox (sink, id, since, tries, error) VALUES (?, ?, ?, ?, ?) ON CONFLICT (sink, id) "
        "DO UPDATE SET since = excluded.since, tries = excluded.tries, error = excluded.error",
        list(given_up),
    )


def list_set_aside(connection: sqlite3.Connection) -> list[tuple[SetAside, Record]]:
    """What is set aside, in the order in which that happened."""
    rows = connection.execute(
        "SELECT o.sink, o.id, o.since, o.tries, o.error, r.incident, r.event, r.time, r.body, r.crc "
        "FROM outbox o JOIN record r ON r.id = o.id WHERE o.since IS NOT NULL ORDER BY o.since, r.number"
    )
    found = [(SetAside(*row[:5]), Record(row[1], *row[5:9]), row[9]) for row in rows]
    return [(one, record) for one, record, crc in found if record.checksum() == crc]


def send_again(connection: sqlite3.Connection, chosen: Iterable[tuple[str, str]]) -> list[Record]:
    """What was set aside waits for its sink again, by (sink, id); the records, in their order."""
    numbered = {}
    for sink, id in chosen:
        changed = connection.execute(
            "UPDATE outbox SET since = NULL, tries = NULL, error = NULL "
            "WHERE sink = ? AND id = ? AND since IS NOT NULL",
            (sink, id),
        )
        if changed.rowcount:
            row = connection.execute(
                "SELECT number, id, incident, event, time, body FROM record WHERE id = ?", (id,)
            ).fetchone()
            numbered[row[0]] = Record(*row[1:])
    return [numbered[number] for number in sorted(numbered)]


def drop_set_aside(connection: sqlite3.Connection, chosen: Iterable[tuple[str, str]]) -> int:
    """Forget these, by (sink, id); how many."""
    return sum(
        connection.execute(
            "DELETE FROM outbox WHERE sink = ? AND id = ? AND since IS NOT NULL", pair
        ).rowcount
        for pair in chosen
    )


def count_set_aside(connection: sqlite3.Connection) -> dict[str, int]:
    """How many records are set aside, by sink."""
    return dict(
        connection.execute(
            "SELECT sink, count(*) FROM outbox WHERE since IS NOT NULL GROUP BY sink"
        ).fetchall()
    )


def prune_set_aside(connection: sqlite3.Connection, size: int) -> list[str]:
    """Give up the oldest that are set aside beyond ``size`` bytes of each sink; the sink of every one."""
    rows = connection.execute(
        "SELECT sink, id FROM (SELECT o.sink AS sink, o.id AS id, sum(length(r.body)) OVER "
        "(PARTITION BY o.sink ORDER BY o.since DESC, r.number DESC) AS total "
        "FROM outbox o JOIN record r ON r.id = o.id WHERE o.since IS NOT NULL) WHERE total > ?",
        (size,),
    ).fetchall()
    connection.executemany("DELETE FROM outbox WHERE sink = ? AND id = ?", rows)
    return [sink for sink, _ in rows]


def prune(connection: sqlite3.Connection, keep: int, size: int, labelled_size: int) -> None:
    """Forget the oldest records beyond ``keep`` or ``size`` bytes, but none that is still to be sent.

    Records of labelled incidents count by themselves, by ``labelled_size`` only.
    """
    connection.execute(
        "DELETE FROM record WHERE number IN (SELECT number FROM (SELECT number, id, labelled, "
        "row_number() OVER newest AS place, sum(bytes) OVER newest AS total FROM "
        "(SELECT number, id, length(body) AS bytes, "
        "incident IS NOT NULL AND incident IN (SELECT incident FROM label) AS labelled FROM record) "
        "WINDOW newest AS (PARTITION BY labelled ORDER BY number DESC)) "
        "WHERE (NOT labelled AND place > ? OR total > CASE labelled WHEN 1 THEN ? ELSE ? END) "
        "AND id NOT IN (SELECT id FROM outbox))",
        (keep, labelled_size, size),
    )


def prune_labels(connection: sqlite3.Connection, size: int) -> None:
    """Forget the oldest labels beyond ``size`` bytes; their incidents count as unlabelled then."""
    connection.execute(
        "DELETE FROM label WHERE number IN (SELECT number FROM (SELECT number, "
        "sum(length(body)) OVER (ORDER BY number DESC) AS total FROM label) WHERE total > ?)",
        (size,),
    )


def latest(connection: sqlite3.Connection, limit: int, before: int | None = None) -> list[Record]:
    """The last record of each incident, newest incident first."""
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM record WHERE number IN "
        "(SELECT max(number) FROM record WHERE incident IS NOT NULL AND event LIKE 'incident.%' "
        "AND event <> 'incident.analyzed' "
        "GROUP BY incident) AND number < ? ORDER BY number DESC LIMIT ?",
        (before or 2**62, limit),
    )
    return _sound(rows)


def of_incident(connection: sqlite3.Connection, incident: str) -> list[Record]:
    """All stored records of one incident, in order."""
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM record WHERE incident = ? ORDER BY number",
        (incident,),
    )
    return _sound(rows)


def findings(connection: sqlite3.Connection, incidents: Sequence[str]) -> list[Record]:
    """What was found out about these incidents, in order."""
    rows: list[tuple[Any, ...]] = []
    for begin in range(0, len(incidents), CHUNK):
        part = incidents[begin : begin + CHUNK]
        marks = ",".join("?" * len(part))
        rows += connection.execute(
            f"SELECT {COLUMNS} FROM record WHERE incident IN ({marks}) AND event = 'incident.analyzed' "
            "ORDER BY number",
            list(part),
        )
    return _sound(rows)


def after(connection: sqlite3.Connection, id: str, limit: int) -> list[Record]:
    """The records stored after the one with that id; none if it is not known."""
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM record "
        "WHERE number > (SELECT number FROM record WHERE id = ?) ORDER BY number LIMIT ?",
        (id, limit),
    )
    return _sound(rows)


def first_time(connection: sqlite3.Connection, event: str) -> float | None:
    """The time of the first stored record of that kind."""
    row = connection.execute("SELECT min(time) FROM record WHERE event = ?", (event,)).fetchone()
    return None if row[0] is None else float(row[0])


def labelled_false(connection: sqlite3.Connection) -> set[str]:
    """The incidents whose latest label calls them a false alarm."""
    verdicts: dict[str, Any] = {}
    for incident, body in connection.execute("SELECT incident, body FROM label ORDER BY number"):
        try:
            labels = msgspec.json.decode(body).get("labels") or {}
        except (msgspec.MsgspecError, AttributeError):
            continue
        verdicts[incident] = labels.get("alarm")
    return {incident for incident, alarm in verdicts.items() if alarm == "false"}


def everything(connection: sqlite3.Connection) -> list[Record]:
    return _sound(connection.execute(f"SELECT {COLUMNS} FROM record ORDER BY number"))


def _sound(rows: Iterable[tuple[Any, ...]]) -> list[Record]:
    found = ((Record(*row[:5]), row[5]) for row in rows)
    return [record for record, crc in found if record.checksum() == crc]
