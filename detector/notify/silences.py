"""Silences in the database: since when, for how long, for which nodes, by whom."""

from __future__ import annotations

import math
import sqlite3
import zlib
from datetime import datetime, timedelta

import msgspec

from detector.notify.settings import Every, time_zone

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
    zone: str = "UTC"  # in which it begins at the same time of each day or week
    reason: str = ""
    who: str = ""
    created: float | None = None  # by the clock
    ended: float | None = None  # before its time, by the stream
    configured: bool = False  # a maintenance window of the configuration

    def occurrence(self, time: float) -> float | None:
        """When the occurrence began that holds this time; None: it is not in force then."""
        if time < self.begin or (self.ended is not None and time >= self.ended):
            return None
        begin = self._latest(time)
        return begin if time < begin + self.lasts else None

    def _latest(self, time: float) -> float:
        """The latest begin of an occurrence until a time."""
        period = PERIOD.get(self.every)
        if period is None:
            return self.begin
        passed = math.floor((time - self.begin) / period)
        # A clock change makes some of the days longer or shorter, so that one more or less has begun.
        begins = (self._begin(number, period) for number in (passed + 1, passed, passed - 1) if number > 0)
        return next((begin for begin in begins if begin <= time), self.begin)

    def _begin(self, number: int, period: float) -> float:
        """Of that occurrence: the first is 0."""
        if self.zone == "UTC":
            return self.begin + number * period
        zone = time_zone(self.zone)
        first = datetime.fromtimestamp(self.begin, zone).replace(tzinfo=None)
        return (first + number * timedelta(seconds=period)).replace(tzinfo=zone).timestamp()

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
    """All, oldest first; damaged ones, and those of a zone that is not installed here, count as not there."""
    rows = connection.execute("SELECT crc, body FROM silence").fetchall()
    found = [msgspec.json.decode(body, type=Silence) for crc, body in rows if zlib.crc32(body) == crc]
    return sorted(filter(_usable, found), key=lambda one: (one.begin, one.id))


def _usable(one: Silence) -> bool:
    try:
        time_zone(one.zone)
    except ValueError:
        return False
    return True
