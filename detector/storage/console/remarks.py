"""What people did and said at the console: comments on incidents, and the audit trail. Both are bounded."""

from __future__ import annotations

import sqlite3
import zlib
from typing import Any

import msgspec

COMMENTS, AUDIT = 10_000, 10_000  # kept
SIZE = 2**20  # bytes of each that are kept


class Comment(msgspec.Struct, frozen=True):
    """Somebody's words about an incident."""

    number: int
    incident: str
    time: float  # of the clock, unix seconds
    who: str
    text: str


class Deed(msgspec.Struct, frozen=True):
    """Something that somebody did."""

    number: int
    time: float
    who: str
    action: str  # accept, clear, label, comment, silence, ...
    subject: str  # id of the incident or the silence, name of the setting
    details: dict[str, Any]


def add_comment(connection: sqlite3.Connection, incident: str, time: float, who: str, text: str) -> Comment:
    body = msgspec.json.encode(text)
    number = connection.execute(
        "INSERT INTO comment (incident, time, who, crc, body) VALUES (?,?,?,?,?)",
        (incident, time, who, checksum(body, incident, who), body),
    ).lastrowid
    assert number is not None
    return Comment(number, incident, time, who, text)


def comments(connection: sqlite3.Connection, incident: str) -> list[Comment]:
    """Of one incident, oldest first."""
    rows = connection.execute(
        "SELECT number, incident, time, who, crc, body FROM comment WHERE incident = ? ORDER BY number",
        (incident,),
    )
    return [
        Comment(number, about, time, who, msgspec.json.decode(body, type=str))
        for number, about, time, who, crc, body in rows
        if checksum(body, about, who) == crc
    ]


def add_deed(
    connection: sqlite3.Connection, time: float, who: str, action: str, subject: str, details: dict[str, Any]
) -> None:
    body = msgspec.json.encode(details)
    connection.execute(
        "INSERT INTO audit (time, who, action, subject, crc, body) VALUES (?,?,?,?,?,?)",
        (time, who, action, subject, checksum(body, who, action, subject), body),
    )


def deeds(connection: sqlite3.Connection, limit: int, subject: str | None = None) -> list[Deed]:
    """The latest, newest first; of one subject or of all."""
    rows = connection.execute(
        "SELECT number, time, who, action, subject, crc, body FROM audit "
        "WHERE ? IS NULL OR subject = ? ORDER BY number DESC LIMIT ?",
        (subject, subject, limit),
    )
    return [
        Deed(number, time, who, action, about, msgspec.json.decode(body))
        for number, time, who, action, about, crc, body in rows
        if checksum(body, who, action, about) == crc
    ]


def prune(connection: sqlite3.Connection) -> None:
    """Forget the oldest beyond the bounds."""
    for table, kept in (("comment", COMMENTS), ("audit", AUDIT)):
        connection.execute(
            f"DELETE FROM {table} WHERE number IN (SELECT number FROM (SELECT number, "
            "row_number() OVER newest AS place, sum(length(body)) OVER newest AS total "
            f"FROM {table} WINDOW newest AS (ORDER BY number DESC)) WHERE place > ? OR total > ?)",
            (kept, SIZE),
        )


def checksum(body: bytes, *head: str) -> int:
    """Of a row: ``head`` is who said it, and about what."""
    return zlib.crc32(body, zlib.crc32(msgspec.json.encode(head)))
