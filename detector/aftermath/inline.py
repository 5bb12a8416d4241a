"""Examining at once, in the caller's thread: for replays, where nobody waits for detection."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from detector.aftermath.examiner import Examiner, finding_event
from detector.aftermath.kinds import KINDS, build_examiner
from detector.aftermath.settings import AftermathSettings
from detector.aftermath.shelf import Shelf
from detector.database import SCHEMA, StateError
from detector.events import Event
from detector.state_view import reading

if TYPE_CHECKING:
    from detector.pipeline import Pipeline

log = logging.getLogger("detector.aftermath")
Result = TypeVar("Result")


class Inline:
    """The examiners that a daemon with this state would have; the state is only read."""

    def __init__(self, settings: AftermathSettings, folder: Path) -> None:
        shelf = Shelf(_Reader(folder), settings=settings)
        self._examiners: list[Examiner] = []
        for kind in KINDS:
            try:
                built = build_examiner(kind, settings, shelf)
            except Exception as error:
                log.error("%s cannot examine: %s", kind, error)
                continue
            self._examiners += [built] if built is not None else []

    def __call__(self, pipeline: Pipeline) -> list[Event]:
        """Take the case files that the pipeline has put down; what is found in them."""
        cases, pipeline.cases = pipeline.cases or [], []
        found = []
        for case in cases:
            for examiner in self._examiners:
                if case.stage not in examiner.stages:
                    continue
                try:
                    finding = examiner.examine(case)
                except Exception as error:
                    log.error("%s of %s, %s: %r", examiner.kind, case.incident, case.stage, error)
                    continue
                found += [finding_event(case, finding)] if finding is not None else []
        return found


class _Reader:
    """A state folder that may be there or not, or be older than case files: then it holds nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, question: Callable[..., Result], *arguments: Any) -> Result:
        with contextlib.suppress(StateError), reading(self._folder) as connection:
            if connection.execute("PRAGMA user_version").fetchone()[0] >= 2:
                return question(connection, *arguments)
        with contextlib.closing(sqlite3.connect(":memory:")) as empty:
            empty.executescript(SCHEMA)
            return question(empty, *arguments)

    def write(self, change: Callable[..., Result], *arguments: Any) -> Result:
        raise StateError("a replay changes nothing")
