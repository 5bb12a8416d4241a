"""A site of the story with all that its daemon has, in this process: source, pipeline, store, diagnosis."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import networkx as nx
import yaml

from connectors.simulation.source import SimulateSource, Truth
from detector.config.config import Config
from detector.diagnosis.actions import ActionError
from detector.diagnosis.exchange import messages
from detector.diagnosis.exchange.peers import Answers, Respond
from detector.diagnosis.registry import relearning
from detector.diagnosis.repository import Repository
from detector.events.model import Event
from detector.incidents.case import Case
from detector.pipeline.pipeline import Pipeline
from detector.settings.diagnosis import DiagnosisSettings
from detector.storage.records import Record
from detector.storage.store import Bundle, Store

EXAMPLES = Path(__file__).parents[1] / "examples" / "story"
SITES = ("east", "west")
SPIKES = 0.08  # share of the readings of a corrupt sensor


def _load(name: str) -> Any:
    """A script among the examples, as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


operator = _load("scripted_operator")


@dataclass(frozen=True, eq=False)
class Told:
    """An incident: its case files, what the operator said of it, and what really happened."""

    site: Site
    opened: float
    cases: tuple[Case, ...]
    label: Event | None
    truth: Truth | None

    @property
    def settled(self) -> Case | None:
        return next((case for case in self.cases if case.stage == "settled"), None)


class Site:
    """Runs the configuration that is shipped, with other seeds, patterns and corrupt sensors."""

    def __init__(self, name: str, seed: int, corrupt: bool, screen: bool) -> None:
        self.name = name
        self._data: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
        self._plant: dict[str, Any] = self._data["sources"]["plant"]
        self._plant |= {"speed": 0, "seed": 10 * seed + SITES.index(name), "changes": []}
        self._data["preprocess"] = {"screen": "on" if screen else "off"}
        if corrupt:
            self._plant["corrupt"] = {"at": self._plant["first"], "share": SPIKES}
        config = self.config = Config.of(self._data)
        self.pipeline = Pipeline(
            config.network(), config.dim, config.settings(), components=config.components
        )
        self.pipeline.cases = []
        self.truths: list[Truth] = []
        self.incidents: dict[str, Told] = {}
        self._latest: dict[str, Event] = {}
        self._tick = 0

    @property
    def patterns(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._plant["patterns"]
        return found

    def run(self, events: int, patterns: Sequence[dict[str, Any]]) -> None:
        """Let so many events happen, each with the quiet time before the next; label what has ended."""
        source = self._source(patterns)
        every, first = source.config.every or 0.0, source.config.first or 0.0
        begin = max(self._tick, int(first))
        for k in range(1, events + 1):
            self._read(self._source(patterns, int(begin + k * every)))
            self._label()

    def _source(self, patterns: Sequence[dict[str, Any]], ticks: int | None = None) -> SimulateSource:
        """The simulation from here on, until ``ticks``."""
        data = {
            **self._data,
            "sources": {"plant": {**self._plant, "patterns": list(patterns), "ticks": ticks}},
        }
        del data["diagnosis"]  # the exchange needs connectors that nothing opens here
        source = Config.of(data).source_objects()["plant"]
        assert isinstance(source, SimulateSource)
        return source

    def _read(self, source: SimulateSource) -> None:
        async def samples() -> None:
            await source.open({"tick": self._tick, "start": source.config.start})
            while (batch := await source.read()) is not None:
                self._hear(self.pipeline.push(batch.samples))

        asyncio.run(samples())
        self.source, before = source, (source.config.start or 0.0) + self._tick * source.config.period
        assert source.config.ticks is not None
        self._tick = source.config.ticks
        self.truths += [one for one in source.truth(self._tick) if one.begin >= before]

    def _hear(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.incident is not None:
                self._latest[event.incident] = event

    def _label(self) -> None:
        """Of the incidents that have ended and have case files, as the scripted operator does."""
        cases, self.pipeline.cases = self.pipeline.cases or [], []
        for case in cases:
            held = self.incidents.setdefault(case.incident, Told(self, case.opened, (), None, None))
            self.incidents[case.incident] = replace(held, cases=(*held.cases, case))
        for incident, held in self.incidents.items():
            latest = self._latest[incident]
            if latest.resolution in (None, "merged") or held.label is not None:
                continue
            said = operator.label_for(latest.record(), self.truths)
            label = self.pipeline.label(incident, latest.time, **said)[0] if said is not None else None
            truth = operator.truth_of(latest.record(), self.truths)
            self.incidents[incident] = replace(held, label=label, truth=truth)

    def shift(self, truth: Truth, node: str) -> float:
        """By how much the mean of a node moved, in quiet spreads."""
        pattern = next(one for one in self.source.config.patterns if one.type == truth.type)
        if pattern.kind != "mean" or node not in truth.nodes:
            return 0.0
        hops: int = nx.shortest_path_length(self.source.graph(), truth.nodes[0], node)
        return pattern.size * pattern.fade**hops

    def units(self, node: str) -> tuple[float, float]:
        """Offset and gain of a sensor."""
        v = self.source.names.index(node)
        return float(self.source.offset[v]), float(self.source.gain[v])


class Memory:
    """A daemon's store with some incidents, and what is learnt from their labels."""

    def __init__(self, folder: Path, incidents: Iterable[Told], line: Line | None = None) -> None:
        # Sites may have an incident of the same name: each gets that of its site, too.
        self._store, records, cases = Store(folder), [], []
        for one in incidents:
            cases += [renamed(case, one.site.name) for case in one.cases]
            if one.label is not None:
                name = f"{one.site.name}-{one.label.incident}"
                label = msgspec.structs.replace(
                    one.label, id=f"{one.site.name}-{one.label.id}", incident=name
                )
                records.append(Record.of(label))
        self._store.commit(Bundle(cases=cases, records=records))
        self.repository = Repository(self._store, settings=DiagnosisSettings())
        self.repository.exchange = line  # type: ignore[assignment]  # it has what analyzers use of an exchange

    def learn(self) -> None:
        """What the diagnosis service does after a label."""
        for action in relearning(self.repository.settings).values():
            with contextlib.suppress(ActionError):  # too few labels yet
                action.run(self.repository, action.arguments())

    def close(self) -> None:
        self._store.close()


def renamed(case: Case, site: str) -> Case:
    return replace(case, incident=f"{site}-{case.incident}")


class Line:
    """An exchange without a broker: the same messages, as bytes, answered at once."""

    def __init__(self, name: str) -> None:
        self.name, self.bytes = name, 0
        self._others: list[Line] = []
        self._respond: dict[type[messages.Question], Respond] = {}

    def meet(self, other: Line) -> None:
        self._others.append(other)

    @property
    def peers(self) -> list[str]:
        return [other.name for other in self._others]

    def hold(self, kind: type[messages.Question], respond: Respond) -> None:
        self._respond[kind] = respond

    def ask(self, kind: type[messages.Question], **asked: Any) -> Answers:
        question = kind(id=f"{self.name}-{self.bytes}", sender=self.name, until=0.0, **asked)
        body = msgspec.json.encode(messages.record(question))
        self.bytes += len(body)
        return {other.name: messages.parse(other.answer(body)) for other in self._others}

    def answer(self, body: bytes) -> bytes:
        question = messages.parse(body)
        assert isinstance(question, messages.Question)
        respond = self._respond.get(type(question))
        said = question.nothing()
        if respond is not None:
            with contextlib.suppress(messages.OtherSpec):
                said = respond(question)
        return msgspec.json.encode(messages.record(messages.answer(question, self.name, said)))
