"""Settings that people changed at the console, in the place of those of the configuration file."""

from __future__ import annotations

import sqlite3
import zlib

import msgspec

BUDGET = "alarm.budget"


class BudgetOverride(msgspec.Struct, frozen=True):
    """The budget that somebody chose; it counts as long as the file has the one that it took the place of."""

    budget: str
    instead_of: str
    who: str
    time: float  # of the clock, unix seconds


def read_budget(connection: sqlite3.Connection) -> BudgetOverride | None:
    """None: nobody chose one, or what was stored is damaged."""
    row = connection.execute("SELECT crc, body FROM override WHERE key = ?", (BUDGET,)).fetchone()
    if row is None or zlib.crc32(row[1]) != row[0]:
        return None
    return msgspec.json.decode(row[1], type=BudgetOverride)


def put_budget(connection: sqlite3.Connection, override: BudgetOverride | None) -> None:
    """None: that of the file counts again."""
    connection.execute("DELETE FROM override WHERE key = ?", (BUDGET,))
    if override is not None:
        body = msgspec.json.encode(override)
        connection.execute(
            "INSERT INTO override (key, crc, body) VALUES (?,?,?)", (BUDGET, zlib.crc32(body), body)
        )
