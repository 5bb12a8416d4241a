"""Analysis at once, in the caller's thread: for replays, where nothing waits for detection."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from detector.diagnosis.analyzer import Analyzer, finding_event
from detector.diagnosis.registry import ANALYZERS, build_analyzer
from detector.diagnosis.repository import Repository
from detector.events.model import Event
from detector.settings.diagnosis import DiagnosisSettings
from detector.storage.database import StateError
from detector.storage.inspect import reading
from detector.storage.schema import SCHEMA

if TYPE_CHECKING:
    from detector.pipeline.pipeline import Pipeline

log = logging.getLogger("detector.diagnosis")
Result = TypeVar("Result")


class Inline:
    """The analyzers that a daemon with this state would have; the state is only read."""

    def __init__(self, settings: DiagnosisSettings, folder: Path) -> None:
        repository = Repository(_Reader(folder), settings=settings)
        self._analyzers: list[Analyzer] = []
        for kind in ANALYZERS:
            try:
                built = build_analyzer(kind, settings, repository)
            except Exception as error:
                log.error("analyzer %s cannot be built: %s", kind, error)
                continue
            self._analyzers += [built] if built is not None else []

    def __call__(self, pipeline: Pipeline) -> list[Event]:
        """Take the case files that the pipeline has captured; what is found in them."""
        cases, pipeline.cases = pipeline.cases or [], []
        found = []
        for case in cases:
            for analyzer in self._analyzers:
                if case.stage not in analyzer.stages:
                    continue
                try:
                    finding = analyzer.analyze(case)
                except Exception as error:
                    log.error("%s of %s, %s: %r", analyzer.kind, case.incident, case.stage, error)
                    continue
                found += [finding_event(case, finding)] if finding is not None else []
        return found


class _Reader:
    """A state folder that may not exist: then it holds nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, question: Callable[..., Result], *arguments: Any) -> Result:
        with contextlib.suppress(StateError), reading(self._folder) as connection:
            return question(connection, *arguments)
        with contextlib.closing(sqlite3.connect(":memory:")) as empty:
            empty.executescript(SCHEMA)
            return question(empty, *arguments)

    def write(self, change: Callable[..., Result], *arguments: Any) -> Result:
        raise StateError("a replay changes nothing")
