"""Silences in the database: since when, for how long, for which nodes, by whom."""

from __future__ import annotations

import math
import sqlite3
import zlib

import msgspec

from detector.settings.notify import Every

PERIOD = {"day": 86400.0, "week": 7 * 86400.0}
KEPT = 500  # that have ended


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing about these nodes is sent from ``begin`` on, for so long; times are those of the stream."""

    id: str
    nodes: list[str] = []  # names; * and ? stand for any letters
    groups: list[str] = []
    begin: float
    lasts: float
    every: Every = "once"
    reason: str = ""
    who: str = ""
    created: float | None = None  # by the clock
    ended: float | None = None  # before its time, by the stream
    configured: bool = False  # a maintenance window of the configuration

    def occurrence(self, time: float) -> float | None:
        """When the occurrence began that holds this time; None: it is not in force then."""
        if time < self.begin or (self.ended is not None and time >= self.ended):
            return None
        period = PERIOD.get(self.every)
        begin = (
            self.begin if period is None else self.begin + math.floor((time - self.begin) / period) * period
        )
        return begin if time < begin + self.lasts else None

    def over(self, time: float) -> bool:
        """Whether it will never be in force again."""
        return (self.ended is not None and time >= self.ended) or (
            self.every == "once" and time >= self.begin + self.lasts
        )


def put(connection: sqlite3.Connection, silence: Silence) -> None:
    """Store it, in the place of an earlier one of that id; the oldest ended ones are forgotten."""
    body = msgspec.json.encode(silence)
    connection.execute(
        "INSERT OR REPLACE INTO silence (id, crc, body) VALUES (?,?,?)", (silence.id, zlib.crc32(body), body)
    )
    done = sorted(
        (one for one in read(connection) if one.ended is not None), key=lambda one: one.ended or 0.0
    )
    connection.executemany("DELETE FROM silence WHERE id = ?", [(one.id,) for one in done[:-KEPT]])


def read(connection: sqlite3.Connection) -> list[Silence]:
    """All, oldest first; damaged ones count as not there."""
    rows = connection.execute("SELECT crc, body FROM silence").fetchall()
    found = [msgspec.json.decode(body, type=Silence) for crc, body in rows if zlib.crc32(body) == crc]
    return sorted(found, key=lambda one: (one.begin, one.id))
