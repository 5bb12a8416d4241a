"""The tables of the database, their version, and how a file of an earlier version is brought up to date."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable

import msgspec

from detector.settings.renamed import ANALYZERS
from detector.storage import cases, records

VERSION = 7
TABLES = (
    "journal", "snapshot", "snapshot_piece", "record", "label", "outbox", "case_file", "model",
    "node_layout", "node_history", "incident_signal", "comment", "silence", "audit", "override",
    "told",
)  # fmt: skip

FIRST = """
CREATE TABLE journal (
    seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, source TEXT, position TEXT, count INTEGER NOT NULL,
    crc INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE snapshot (
    seq INTEGER PRIMARY KEY, created REAL NOT NULL, pieces INTEGER NOT NULL, positions TEXT NOT NULL,
    meta TEXT NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE snapshot_piece (
    seq INTEGER NOT NULL, number INTEGER NOT NULL, name TEXT NOT NULL, dtype TEXT NOT NULL,
    shape TEXT NOT NULL, crc INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (seq, number));
CREATE TABLE record (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, incident TEXT, event TEXT NOT NULL,
    time REAL NOT NULL, crc INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX record_incident ON record (incident, number);
CREATE TABLE label (
    number INTEGER PRIMARY KEY AUTOINCREMENT, incident TEXT NOT NULL, time REAL NOT NULL,
    crc INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX label_incident ON label (incident);
CREATE TABLE outbox (sink TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (sink, id)) WITHOUT ROWID;
"""
CASES = """
CREATE TABLE case_file (
    number INTEGER PRIMARY KEY AUTOINCREMENT, incident TEXT NOT NULL, stage TEXT NOT NULL, time REAL NOT NULL,
    crc INTEGER NOT NULL, meta BLOB NOT NULL, body BLOB NOT NULL, examined INTEGER NOT NULL DEFAULT 0,
    UNIQUE (incident, stage));
CREATE INDEX case_file_waiting ON case_file (number) WHERE examined = 0;
CREATE TABLE model (
    kind TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, created REAL NOT NULL,
    crc INTEGER NOT NULL, meta BLOB NOT NULL, body BLOB NOT NULL, PRIMARY KEY (kind, name, version));
"""
# A name that tells one database from another, and when entries were committed: to say what damage has cost.
IDENTITY = """
CREATE TABLE identity (id TEXT NOT NULL);
INSERT INTO identity VALUES (lower(hex(randomblob(16))));
ALTER TABLE journal ADD COLUMN time REAL;
"""
# What the console shows: signals of nodes and incidents; and what people do there: comments, silences,
# settings in place of those of the configuration, each with the name of who did it.
CONSOLE = """
CREATE TABLE node_layout (id INTEGER PRIMARY KEY, names BLOB NOT NULL);
CREATE TABLE node_history (
    tier INTEGER NOT NULL, chunk INTEGER NOT NULL, begin REAL NOT NULL, until REAL NOT NULL,
    layout INTEGER NOT NULL, body BLOB NOT NULL, UNIQUE (tier, chunk, begin));
CREATE TABLE incident_signal (
    incident TEXT NOT NULL, node TEXT NOT NULL, place INTEGER NOT NULL, until REAL NOT NULL,
    body BLOB NOT NULL, UNIQUE (incident, node));
CREATE TABLE comment (
    number INTEGER PRIMARY KEY AUTOINCREMENT, incident TEXT NOT NULL, time REAL NOT NULL, who TEXT NOT NULL,
    crc INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX comment_incident ON comment (incident);
CREATE TABLE silence (id TEXT NOT NULL PRIMARY KEY, crc INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, who TEXT NOT NULL, action TEXT NOT NULL,
    subject TEXT NOT NULL, crc INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX audit_subject ON audit (subject);
CREATE TABLE override (key TEXT NOT NULL PRIMARY KEY, crc INTEGER NOT NULL, body BLOB NOT NULL);
"""
# Records that a sink refused again and again are set aside: since when, after how many tries, and why.
SET_ASIDE = """
ALTER TABLE outbox ADD COLUMN since REAL;
ALTER TABLE outbox ADD COLUMN tries INTEGER;
ALTER TABLE outbox ADD COLUMN error TEXT;
"""
# The end of an incident is for the sinks that were told of it.
TOLD = """
CREATE TABLE told (
    number INTEGER PRIMARY KEY, incident TEXT NOT NULL, sink TEXT NOT NULL, UNIQUE (incident, sink));
"""
SCHEMA = FIRST + CASES + IDENTITY + CONSOLE + SET_ASIDE + TOLD


def wrong_table(connection: sqlite3.Connection) -> str | None:
    """The first table that has not the columns it should have.

    To SQLite, a flipped bit in the name of a column is no damage.
    """
    with contextlib.closing(sqlite3.connect(":memory:")) as right:
        right.executescript(SCHEMA)
        for table in (*TABLES, "identity", "sqlite_sequence"):
            there, wanted = (
                [row[1] for row in db.execute(f"PRAGMA table_info({table})")] for db in (connection, right)
            )
            if sorted(there) != sorted(wanted):
                return table
    return None


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """One version after the other, each in one transaction with its number."""
    for step in range(version, VERSION):
        connection.execute("BEGIN IMMEDIATE")
        try:
            MIGRATIONS[step](connection)
            connection.execute(f"PRAGMA user_version = {step + 1}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


def add_cases(connection: sqlite3.Connection) -> None:
    """Version 1 to 2: tables of case files and models."""
    for statement in CASES.split(";"):
        connection.execute(statement)


def add_identity(connection: sqlite3.Connection) -> None:
    """Version 3 to 4: what high-water mark and backups need to know."""
    for statement in IDENTITY.split(";"):
        connection.execute(statement)


def add_console(connection: sqlite3.Connection) -> None:
    """Version 4 to 5: what the console shows and what people do there."""
    for statement in CONSOLE.split(";"):
        connection.execute(statement)


def add_set_aside(connection: sqlite3.Connection) -> None:
    """Version 5 to 6: records that a sink would not take."""
    for statement in SET_ASIDE.split(";"):
        connection.execute(statement)


def add_told(connection: sqlite3.Connection) -> None:
    """Version 6 to 7: which sinks were told of each open incident."""
    connection.execute(TOLD)


def rename(connection: sqlite3.Connection) -> None:
    """Version 2 to 3: models and findings under the present names of analyzers and events.

    Ids of records stay: sinks know records by them. A row that does not match its checksum stays as it is,
    and counts as not there.
    """
    _rename_models(connection)
    _rename_findings(connection)


def _rename_models(connection: sqlite3.Connection) -> None:
    marks = ",".join("?" * len(ANALYZERS))
    rows = connection.execute(
        f"SELECT kind, name, version, crc, meta, body FROM model WHERE kind IN ({marks})", list(ANALYZERS)
    ).fetchall()
    for old, name, version, crc, meta, body in rows:
        if cases.checksum(meta, body, old, name, version) == crc:
            new = ANALYZERS[old]
            connection.execute(
                "UPDATE OR IGNORE model SET kind = ?, crc = ? WHERE kind = ? AND name = ? AND version = ?",
                (new, cases.checksum(meta, body, new, name, version), old, name, version),
            )


def _rename_findings(connection: sqlite3.Connection) -> None:
    # By number: the rows are too many to hold, and must not change under a cursor that reads them.
    numbers = connection.execute("SELECT number FROM record WHERE event = 'incident.examined'").fetchall()
    for (number,) in numbers:
        row = connection.execute(
            "SELECT id, incident, event, time, body, crc FROM record WHERE number = ?", (number,)
        ).fetchone()
        record = records.Record(*row[:5])
        if record.checksum() != row[5]:
            continue
        content = record.content()
        details = content.get("details") or {}
        kind = str(details.get("kind"))
        renamed = content | {
            "event": "incident.analyzed",
            "details": details | {"kind": ANALYZERS.get(kind, kind)},
        }
        record = record._replace(event="incident.analyzed", body=msgspec.json.encode(renamed))
        connection.execute(
            "UPDATE record SET event = ?, body = ?, crc = ? WHERE number = ?",
            (record.event, record.body, record.checksum(), number),
        )


MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {
    1: add_cases,
    2: rename,
    3: add_identity,
    4: add_console,
    5: add_set_aside,
    6: add_told,
}  # by the version before
