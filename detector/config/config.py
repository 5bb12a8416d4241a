"""The configuration: one top-level key per group of settings, read strictly, and what is built from it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field, PrivateAttr, ValidationError

import connectors
from connectors import Sink, Source
from connectors.base import Connector
from connectors.base import Settings as Model
from connectors.stdio import StdoutSink
from detector.config.edge import edge_problems, surrounded
from detector.config.errors import ConfigError, Problem, problems_of
from detector.config.graph import build_network, node_names, simulated
from detector.config.model import Analyzers, Connectors, GraphConfig, Side, connector_models
from detector.config.paths import anchored, secret_files
from detector.config.renamed import Renamed, present_names
from detector.config.workers import idle_workers
from detector.config.yaml_reader import Document, KeyPath, YamlRefused, parse_yaml, read_yaml
from detector.diagnosis.registry import ANALYZERS
from detector.events.terminal import PrettyStdout, is_terminal
from detector.notify.settings import NotifySettings
from detector.settings.alarm import AlarmSettings
from detector.settings.alignment import AlignSettings
from detector.settings.base import setting
from detector.settings.core import Settings
from detector.settings.diagnosis import DiagnosisSettings, ExchangeSettings
from detector.settings.estimator import EngineSettings, EstimatorSettings
from detector.settings.incidents import IncidentSettings
from detector.settings.preprocessing import PreprocessSettings
from detector.settings.registries import ENGINES, RUNNERS, STEPS
from detector.settings.service import EdgeSettings, HttpSettings, StateSettings
from detector.settings.span import by_step
from detector.settings.windows import WindowSettings
from detector.settings.wording import dotted

if TYPE_CHECKING:
    from detector.network.network import Network

__all__ = ["Config", "ConfigError", "Problem"]


def _connector_name(name: str) -> str:
    # It becomes a label of metrics and a key of the database.
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        raise ValueError("a name has 1 to 64 letters, digits, dots, dashes or underscores")
    return name


ConnectorName = Annotated[str, AfterValidator(_connector_name)]
# Where a configuration names members of the extension points.
REGISTRIES: tuple[tuple[KeyPath, connectors.Registry], ...] = (
    (("sources",), connectors.SOURCES),
    (("preprocess", "steps"), STEPS),
    (("estimator", "name"), ENGINES),
    (("engine", "type"), RUNNERS),
    (("diagnosis",), ANALYZERS),
    (("sinks",), connectors.SINKS),
)
SourceConfig = Annotated[Model, Connectors("source")]
SinkConfig = Annotated[Model, Connectors("sink")]


class Config(Model):
    """Everything the daemon is told, in the order in which a sample meets it."""

    graph: GraphConfig = setting(..., "The sensors and the links between them.", applies="now")
    sources: dict[ConnectorName, SourceConfig] = setting(
        ...,
        "Where samples come from: a name of your choice, a type, and the keys of that type.",
        applies="now",
        min_length=1,
    )
    align: AlignSettings = Field(default=AlignSettings(), description="How samples are aligned to ticks.")
    preprocess: PreprocessSettings = Field(
        default=PreprocessSettings(), description="How values are scaled to units of their baseline spread."
    )
    windows: WindowSettings = Field(
        default=WindowSettings(),
        description="Lengths of the reference and test windows, in samples per node.",
    )
    estimator: EstimatorSettings = Field(
        default=EstimatorSettings(), description="How the reference and test windows are compared."
    )
    engine: EngineSettings = Field(
        default=EngineSettings(), description="Cores and machines that do the work."
    )
    edge: EdgeSettings | None = setting(
        None,
        "One network watched by several daemons that tell each other parameters, never samples; null: this "
        "daemon watches all of it by itself.",
        applies="restart",
    )
    alarm: AlarmSettings = Field(default=AlarmSettings(), description="When a difference raises an alarm.")
    incidents: IncidentSettings = Field(
        default=IncidentSettings(), description="How alarms form incidents, and how incidents end."
    )
    diagnosis: Annotated[DiagnosisSettings, Analyzers()] = setting(
        DiagnosisSettings(), "Analysis of incidents after the alarm.", applies="now"
    )
    sinks: dict[ConnectorName, SinkConfig] = setting(
        {},
        "Where records go: a name of your choice, a type, and the keys of that type.",
        applies="now",
    )
    notify: NotifySettings = setting(
        NotifySettings(), "Which records go to which sinks; silences and maintenance windows.", applies="now"
    )
    state: StateSettings = setting(StateSettings(), "What is stored and survives a restart.", applies="now")
    http: HttpSettings = setting(HttpSettings(), "Console, metrics, health and HTTP API.", applies="now")

    _path: Path | None = PrivateAttr(default=None)
    _document: Document = PrivateAttr(default_factory=Document)
    _renamed: list[Renamed] = PrivateAttr(default_factory=list)

    # ------------------------------------------------------------------------------------- reading

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Config:
        """From a file. ConfigError with all that is wrong; OSError if the file cannot be read."""
        file = Path(path)
        try:
            document = read_yaml(file)
        except YamlRefused as refused:
            raise ConfigError([Problem("", str(refused), refused.place, file)]) from None
        return cls._checked(document, file, file.absolute().parent)

    @classmethod
    def parse(cls, text: str, folder: Path = Path()) -> Config:
        """From YAML text; relative paths are seen from ``folder``."""
        try:
            document = parse_yaml(text.encode())
        except YamlRefused as refused:
            raise ConfigError([Problem("", str(refused), refused.place)]) from None
        return cls._checked(document, None, folder.absolute())

    @classmethod
    def of(cls, data: dict[str, Any], folder: Path = Path()) -> Config:
        """From plain data with the keys of the file."""
        return cls._checked(Document(data), None, folder.absolute())

    @classmethod
    def _checked(cls, document: Document, file: Path | None, folder: Path) -> Config:
        if not isinstance(document.data, dict):
            raise ConfigError([Problem("", "must be a mapping with the keys " + ", ".join(cls.model_fields),
                                       document.place(()), file)])  # fmt: skip
        document, renamed = present_names(document)
        try:
            config: Config = anchored(cls.model_validate(by_step(document.data)), folder)
        except ValidationError as error:
            raise ConfigError(problems_of(error, cls, document, file)) from None
        config._path, config._document, config._renamed = file, document, renamed
        problems = config._together()
        if problems:
            raise ConfigError(problems)
        return config

    def _together(self) -> list[Problem]:
        """What no key alone can be blamed for."""
        problems = []
        if self.graph.simulate:
            try:
                simulated(self.sources)
            except ValueError as error:
                problems.append(self.problem(("graph",), str(error)))
        taken: dict[tuple[str, Any], str] = {}
        for name, given in self.sources.items():
            kind = connectors.source(_type(given))
            if kind.exclusive is not None:
                value = getattr(given, kind.exclusive)
                other = taken.setdefault((kind.name, value), name)
                if other != name:
                    message = f"has the same {kind.exclusive} as {other}: {value!r}"
                    problems.append(self.problem(("sources", name, kind.exclusive), message))
            if kind.listens and not self.http.enabled:
                problems.append(self.problem(("sources", name), "needs http.enabled: true"))
        problems += self._exchange_problems() + edge_problems(self)
        for name in self.notify.routes:
            if name not in self.sinks:
                known = ", ".join(self.sinks) or "none"
                problems.append(
                    self.problem(("notify", "routes", name), f"there is no such sink; known: {known}")
                )
        if self.graph.simulate and self.graph.components is not None:
            try:
                self.dim  # noqa: B018
            except ConfigError as error:
                problems += error.problems
        return problems

    def _exchange_problems(self) -> list[Problem]:
        exchange = self.exchange
        if exchange is None:
            return []
        problems = self.reserved_problems(("diagnosis", "exchange"), exchange.source, exchange.sink)
        if exchange.timeout >= self.diagnosis.time_limit:
            path = ("diagnosis", "exchange", "timeout")
            message = f"must be less than diagnosis.time_limit, {self.diagnosis.time_limit:g} s"
            problems.append(self.problem(path, message))
        return problems

    def reserved_problems(self, group: KeyPath, source: str, sink: str) -> list[Problem]:
        """Of a source and a sink that are set aside for messages between daemons."""
        problems = []
        sides: tuple[tuple[Side, str, dict[str, Model]], ...] = (
            ("source", source, self.sources),
            ("sink", sink, self.sinks),
        )
        for side, name, given in sides:
            path: KeyPath = (*group, side)
            if name not in given:
                known = ", ".join(given) or "none"
                problems.append(self.problem(path, f"there is no {side} {name!r}; known: {known}"))
            elif not _class(side, _type(given[name])).raw:
                able = ", ".join(kind for kind in connector_models(side) if _class(side, kind).raw)
                message = f"{name} is of type {_type(given[name])}; must be one of {able}"
                problems.append(self.problem(path, message))
        if self.sources and self._reserved("source") >= self.sources.keys():
            problems.append(
                self.problem(
                    ("sources",), "the only source is set aside for the exchange: none brings samples"
                )
            )
        return problems

    def _reserved(self, side: Side) -> set[str]:
        """Names of the connectors that are set aside for messages between daemons."""
        return {getattr(group, side) for group in (self.exchange, self.edge) if group is not None}

    def doubts(self) -> list[Problem]:
        """What is allowed, and yet may not be meant."""
        doubts = self.old_names()
        for path, found in REGISTRIES:
            doubts += [self.problem(path, problem) for problem in found.problems]
        if not self.sinks:
            doubts.append(self.problem(("sinks",), "there are none: incidents are only kept and shown"))
        for path, file in secret_files(self):
            if not os.access(file, os.R_OK):
                doubts.append(self.problem(path, f"{file} cannot be read by this user"))
        if not self.http.loopback and self.http.authenticated and self.http.tls is None:
            message = "a token without TLS can be overheard: give tls, or listen on loopback behind a proxy"
            doubts.append(self.problem(("http",), message))
        network = self.network()
        n_nodes = network.n_nodes if network is not None else len(self.names() or ())
        boxed = self.edge is not None and self.edge.box is not None
        idle = idle_workers(self.engine, n_nodes, boxed)
        return doubts if idle is None else [*doubts, self.problem(*idle)]

    def old_names(self) -> list[Problem]:
        """Keys that have another name now, with a warning for each."""
        return [self.problem(one.path, one.message) for one in self._renamed]

    def problem(self, path: KeyPath, message: str) -> Problem:
        """A problem at that key of this configuration."""
        place = self._document.place(path) if self._document.keys else None
        return Problem(dotted(path), message, place, self._path)

    @property
    def path(self) -> Path | None:
        """The file it came from."""
        return self._path

    # ------------------------------------------------------------------------------------- building

    def settings(self) -> Settings:
        """The settings of the streaming core; a box of several has its share of the budget."""
        alarm, network = self.alarm, None if self.edge is None else self.network()
        if network is not None and network.surroundings is not None:
            alarm = alarm.model_copy(update={"budget": alarm.budget.of_share(network.surroundings.share)})
        try:
            return Settings.of(
                align=self.align,
                preprocess=self.preprocess,
                windows=self.windows,
                estimator=self.estimator,
                engine=self.engine,
                alarm=alarm,
                incidents=self.incidents,
                diagnosis=self.diagnosis.cases,
            )
        except ValueError as error:
            raise ConfigError(
                [self.problem(("alarm", "learn"), str(error).removeprefix("alarm.learn: "))]
            ) from None

    def network(self) -> Network | None:
        """The network, of a box of several its own part; None if it is to be learnt. Reads the files that
        `graph` and `edge` name."""
        try:
            network = build_network(self.graph, self.sources)
        except (ValueError, OSError) as error:
            raise ConfigError([self.problem(("graph", self.graph.way), str(error))]) from None
        if network is None:
            return None
        return surrounded(self, replace(network, units=self._units(network.names)))

    def _units(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Units of the components of each node that has some."""
        given = self.graph.units
        if given is None:
            return {}
        if isinstance(given, list):
            given = dict.fromkeys(names, given)
        units = {name: (unit,) if isinstance(unit, str) else tuple(unit) for name, unit in given.items()}
        for name, found in units.items():
            if name not in names:
                message = f"{name!r} is no node of the network"
                raise ConfigError([self.problem(("graph", "units"), message)])
            if len(found) != self.dim:
                message = f"{len(found)} units for {self.dim} components"
                raise ConfigError([self.problem(("graph", "units"), message)])
        return units

    def names(self) -> list[str] | None:
        """The nodes in their order; None if the graph brings them."""
        if self.edge is not None:
            return None
        try:
            return node_names(self.graph)
        except (ValueError, OSError) as error:
            raise ConfigError([self.problem(("graph", "nodes"), str(error))]) from None

    @property
    def components(self) -> list[str] | None:
        """Names of the components of a sample, if they have any."""
        return self.graph.components

    @property
    def dim(self) -> int:
        """Number of components of a sample."""
        named = len(self.components) if self.components else None
        if self.graph.simulate:
            dim = simulated(self.sources).dimension
            if named not in (None, dim):
                message = f"{named} names, but the simulate source has dimension {dim}"
                raise ConfigError([self.problem(("graph", "components"), message)])
            return dim
        return self.graph.dim or named or 1

    def source_objects(self, everything: bool = False) -> dict[str, Source]:
        """The sources of samples by name, or all there are; connected to nothing yet."""
        reserved = self._reserved("source")
        return {
            name: connectors.source(_type(given))(given)
            for name, given in self.sources.items()
            if everything or name not in reserved
        }

    def sink_objects(self, everything: bool = False) -> dict[str, Sink]:
        """The sinks of records by name, or all there are; connected to nothing yet. A terminal gets readable
        lines."""
        reserved = self._reserved("sink")
        sinks: dict[str, Sink] = {}
        for name, given in self.sinks.items():
            if not everything and name in reserved:
                continue
            kind = connectors.sink(_type(given))
            if kind is StdoutSink and is_terminal(getattr(given, "descriptor", 1)):
                kind = PrettyStdout
            sinks[name] = kind(given)
        return sinks

    @property
    def exchange(self) -> ExchangeSettings | None:
        """Other daemons to ask."""
        return self.diagnosis.exchange

    def exchange_connectors(self) -> tuple[Source, Sink] | None:
        """The connectors to other daemons; connected to nothing yet."""
        return None if self.exchange is None else self._pair(self.exchange.source, self.exchange.sink)

    def edge_connectors(self) -> tuple[Source, Sink] | None:
        """Those to the boxes that watch the rest of the network."""
        edge = self.edge
        if edge is None or edge.source is None or edge.sink is None:
            return None
        return self._pair(edge.source, edge.sink)

    def _pair(self, source: str, sink: str) -> tuple[Source, Sink]:
        return self.source_objects(True)[source], self.sink_objects(True)[sink]


def _type(given: Any) -> str:
    return str(given.type)


def _class(side: Side, kind: str) -> type[Connector]:
    return connectors.source(kind) if side == "source" else connectors.sink(kind)
