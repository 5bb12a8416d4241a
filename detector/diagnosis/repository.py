"""The store as analyzers and actions see it: labelled cases, models and settings, from any thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from numpy.typing import NDArray

from detector.diagnosis.registry import settings_of
from detector.events.model import Labels
from detector.incidents.case import STAGES, Case, Stage
from detector.settings.diagnosis import DiagnosisSettings
from detector.storage import cases as tables
from detector.storage.arrays import Unreadable
from detector.storage.cases import Model

if TYPE_CHECKING:
    from detector.diagnosis.exchange.peers import PeerExchange

Result = TypeVar("Result")


class Readable(Protocol):
    """A store, or anything that reads and writes like one."""

    def read(self, question: Callable[..., Result], *arguments: Any) -> Result: ...

    def write(self, change: Callable[..., Result], *arguments: Any) -> Result: ...


def _directly(question: Callable[..., Result], *arguments: Any) -> Result:
    return question(*arguments)


class Repository:
    """``ask`` carries each question to the thread that may use the store; without it, it is this one."""

    def __init__(
        self, store: Readable, ask: Callable[..., Any] = _directly, settings: DiagnosisSettings | None = None
    ) -> None:
        self._store, self._ask = store, ask
        self.settings = settings or DiagnosisSettings()
        self.exchange: PeerExchange | None = None  # with other daemons

    def settings_of(self, name: str) -> Any:
        """The settings of one analyzer; None if it has none."""
        return settings_of(self.settings, name)

    def labelled_cases(self, stage: Stage | None = None) -> Iterator[tuple[Case, Labels]]:
        """Case files of incidents that people labelled, one at a time; damaged ones are left out."""
        labelled: dict[str, Labels] = self._ask(self._store.read, tables.labels)
        for incident, labels in labelled.items():
            for wanted in STAGES if stage is None else (stage,):
                if (case := self.case(incident, wanted)) is not None:
                    yield case, labels

    def cases(self, stage: Stage) -> Iterator[Case]:
        """All case files of a stage, labelled or not, oldest first."""
        for incident, kept in self._ask(self._store.read, tables.case_keys):
            if kept == stage and (case := self.case(incident, stage)) is not None:
                yield case

    def case(self, incident: str, stage: Stage) -> Case | None:
        try:
            found: Case | None = self._ask(self._store.read, tables.read_case, incident, stage)
        except Unreadable:
            return None
        return found

    def models(self, kind: str) -> list[Model]:
        """The newest version of each model of a kind, by name."""
        found: list[Model] = self._ask(self._store.read, tables.read_models, kind)
        return found

    def model(self, kind: str, name: str) -> Model | None:
        return next((model for model in self.models(kind) if model.name == name), None)

    def save_model(
        self, kind: str, name: str, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None
    ) -> int:
        """Keep a model under the next version number, which is returned."""
        version: int = self._ask(
            self._store.write, tables.write_model, kind, name, time.time(), meta, arrays or {}
        )
        return version

    def forget_model(self, kind: str, name: str) -> bool:
        gone: bool = self._ask(self._store.write, tables.forget_model, kind, name)
        return gone
