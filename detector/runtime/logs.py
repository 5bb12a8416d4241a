"""Log lines on stderr: text or JSON, one event per line, no secrets, no floods.

A record with ``extra={"repeat": KEY}`` is written at most once per ten seconds and key; the next line says
how many were left out. Registered secrets are blotted out of everything, tracebacks included.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Literal, TextIO

from pydantic import BaseModel

from connectors.base import ConnectorError
from connectors.settings.secrets import WithSecrets

Format = Literal["text", "json"]
REPEAT_S = 10.0
MAX_LINE = 8000  # characters; a longer line is cut
MAX_KEYS = 1000  # repeat keys remembered
SHORTEST_SECRET = 4  # shorter ones cannot be blotted out without blotting out half of every line
# Levels of syslog, as journald reads them from the beginning of a line.
PRIORITIES = {"CRITICAL": 2, "ERROR": 3, "WARNING": 4, "INFO": 6, "DEBUG": 7}

_secrets: set[str] = set()


def hide(values: Iterable[str]) -> None:
    """Blot these out of every line from now on."""
    _secrets.update(value for value in values if len(value) >= SHORTEST_SECRET)


def secrets_of(settings: Any) -> set[str]:
    """Every secret that a tree of settings holds or names; files that cannot be read are left out."""
    found: set[str] = set()
    if isinstance(settings, WithSecrets):
        for name in settings.secret_names():
            try:
                value = settings.secret(name)
            except ConnectorError:
                continue
            if value:
                found.add(value)
    if isinstance(settings, BaseModel):
        settings = dict(settings)
    if isinstance(settings, dict):
        for value in settings.values():
            found |= secrets_of(value)
    elif isinstance(settings, (list, tuple)):
        for value in settings:
            found |= secrets_of(value)
    return found


def redact(text: str) -> str:
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def one_line(text: str) -> str:
    """Control characters as escapes, so that no name from outside can forge a line or move a cursor."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


class Repeats(logging.Filter):
    """Lets one record per key and ten seconds through."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[str, tuple[float, int]] = {}  # key -> when last written, how many left out since

    def filter(self, record: logging.LogRecord) -> bool:
        key = getattr(record, "repeat", None)
        if key is None and not record.name.startswith("detector"):
            key = record.name  # libraries write a line per hostile request, or per attempt to connect
        if key is None:
            return True
        now = self._clock()
        written, skipped = self._seen.get(key, (-REPEAT_S, 0))
        if now - written < REPEAT_S:
            self._seen[key] = (written, skipped + 1)
            return False
        if len(self._seen) >= MAX_KEYS:
            self._seen.clear()
        self._seen[key] = (now, 0)
        if skipped:
            record.skipped = skipped
        return True


class Formatter(logging.Formatter):
    """One line per record."""

    def __init__(self, kind: Format, priorities: bool) -> None:
        super().__init__()
        self._kind, self._priorities = kind, priorities

    def format(self, record: logging.LogRecord) -> str:
        skipped = getattr(record, "skipped", 0)
        message = record.getMessage() + (f" ({skipped} more like this left out)" if skipped else "")
        trace = self.formatException(record.exc_info) if record.exc_info else None
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        stamp = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self._kind == "json":
            content = {"time": stamp, "level": record.levelname.lower(), "logger": record.name,
                       "message": message}  # fmt: skip
            if trace:
                content["trace"] = trace
            # Secrets are looked for before quoting, which could change how they are spelled.
            clean = {name: redact(value)[:MAX_LINE] for name, value in content.items()}
            line = json.dumps(clean, ensure_ascii=True)
        else:
            text = one_line(redact(message))[:MAX_LINE]
            line = f"{record.levelname.lower():8} {record.name}: {text}"
            if not self._priorities:  # journald has a clock of its own
                line = f"{stamp} {line}"
            if trace:
                line += " | " + one_line(redact(trace).replace("\n", " | "))[:MAX_LINE]
        return f"<{PRIORITIES.get(record.levelname, 6)}>{line}" if self._priorities else line


def setup(kind: Format = "text", level: str = "info", stream: TextIO | None = None) -> logging.Handler:
    """Send everything to stderr (or `stream`) in this form; replaces an earlier set-up."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Formatter(kind, stream is None and under_journald()))
    handler.addFilter(Repeats())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("asyncio", "aiohttp.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    return handler


def under_journald() -> bool:
    """Whether stderr really goes to the journal: systemd says which file that would be."""
    device, _, inode = os.environ.get("JOURNAL_STREAM", "").partition(":")
    try:
        stat = os.fstat(2)
        return (stat.st_dev, stat.st_ino) == (int(device), int(inode))
    except (OSError, ValueError):
        return False
