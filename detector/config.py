"""The configuration: one top-level key per room of the house, read strictly, and what is built from it."""

from __future__ import annotations

import os
import re
from collections import Counter
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field, PrivateAttr, ValidationError

import connectors
from connectors import Sink, Source, letters
from connectors.base import Settings as Model
from connectors.stdio import StdoutSink
from detector.aftermath.settings import AftermathSettings
from detector.config_errors import ConfigError, Problem, dotted, problems_of
from detector.config_graph import build_network, node_names, simulated
from detector.config_groups import Group
from detector.config_model import Doors, GraphConfig
from detector.config_paths import anchored, secret_files
from detector.pretty import PrettyStdout, is_terminal
from detector.quiet import PreprocessSettings
from detector.service_settings import HttpSettings, StateSettings
from detector.settings import AlarmSettings, EstimatorSettings, Settings, WindowSettings
from detector.ticks import AlignSettings
from detector.verdict import IncidentSettings
from detector.yaml_guard import Document, KeyPath, YamlRefused, parse_yaml, read_yaml

if TYPE_CHECKING:
    from detector.network import Network

__all__ = ["Config", "ConfigError", "Problem"]


def _door_name(name: str) -> str:
    # It becomes a label of metrics and a key of the database.
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        raise ValueError("a door's name has 1 to 64 letters, digits, dots, dashes or underscores")
    return name


DoorName = Annotated[str, AfterValidator(_door_name)]
SourceConfig = Annotated[Model, Doors("source")]
SinkConfig = Annotated[Model, Doors("sink")]


class Config(Model):
    """Everything the daemon is told, in the order in which a sample meets it."""

    graph: GraphConfig = Field(description="The sensors and who is next to whom.")
    sources: dict[DoorName, SourceConfig] = Field(
        description="Where samples come from: a name of your choice, a type, and the keys of that type.",
        min_length=1,
    )
    align: Annotated[AlignSettings, Group()] = Field(default=AlignSettings(), description="Samples to ticks.")
    preprocess: Annotated[PreprocessSettings, Group()] = Field(
        default=PreprocessSettings(), description="Values to units of quiet spread."
    )
    windows: Annotated[WindowSettings, Group()] = Field(
        default=WindowSettings(), description="What stands for before and for now, in samples of a node."
    )
    estimator: Annotated[EstimatorSettings, Group()] = Field(
        default=EstimatorSettings(), description="How before and now are compared."
    )
    alarm: Annotated[AlarmSettings, Group()] = Field(
        default=AlarmSettings(), description="When a difference is an alarm."
    )
    incidents: Annotated[IncidentSettings, Group()] = Field(
        default=IncidentSettings(), description="How alarms become incidents, and how these end."
    )
    aftermath: AftermathSettings = Field(
        default=AftermathSettings(), description="What is examined after an alarm."
    )
    sinks: dict[DoorName, SinkConfig] = Field(
        default_factory=dict,
        description="Where records go: a name of your choice, a type, and the keys of that type.",
    )
    state: StateSettings = Field(default=StateSettings(), description="What survives a restart.")
    http: HttpSettings = Field(default=HttpSettings(), description="Status page, metrics, health, incidents.")

    _path: Path | None = PrivateAttr(default=None)
    _document: Document = PrivateAttr(default_factory=Document)

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
        try:
            config: Config = anchored(cls.model_validate(document.data), folder)
        except ValidationError as error:
            raise ConfigError(problems_of(error, cls, document, file)) from None
        config._path, config._document = file, document
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
        types = Counter(_type(given) for given in self.sources.values())
        if types["stdin"] > 1:
            problems.append(self.problem(("sources",), "only one source can read stdin"))
        prefixes: dict[str, str] = {}
        for name, given in self.sources.items():
            if _type(given) == "http":
                prefix = str(getattr(given, "prefix", ""))
                if prefix in prefixes:
                    message = f"has the same prefix as {prefixes[prefix]}: {prefix!r}"
                    problems.append(self.problem(("sources", name, "prefix"), message))
                prefixes.setdefault(prefix, name)
                if not self.http.enabled:
                    problems.append(self.problem(("sources", name), "needs http.enabled: true"))
        problems += self._exchange_problems()
        if self.graph.simulate and self.graph.components is not None:
            try:
                self.dim  # noqa: B018
            except ConfigError as error:
                problems += error.problems
        return problems

    def _exchange_problems(self) -> list[Problem]:
        exchange, problems = self.aftermath.regime.exchange, []
        if exchange is None:
            return []
        for key, name, doors, able in (
            ("source", exchange.source, self.sources, letters.SOURCES),
            ("sink", exchange.sink, self.sinks, letters.SINKS),
        ):
            path = ("aftermath", "regime", "exchange", key)
            if name not in doors:
                known = ", ".join(doors) or "none"
                problems.append(self.problem(path, f"there is no {key} {name!r}; known: {known}"))
            elif _type(doors[name]) not in able:
                message = f"{name} is of type {_type(doors[name])}; must be one of {', '.join(able)}"
                problems.append(self.problem(path, message))
        if len(self.sources) == 1 and exchange.source in self.sources:
            problems.append(self.problem(("sources",), "the only source is set aside for the exchange"))
        return problems

    def doubts(self) -> list[Problem]:
        """What is allowed, and yet may not be meant."""
        doubts = []
        if not self.sinks:
            doubts.append(self.problem(("sinks",), "there are none: incidents are only kept and shown"))
        for path, file in secret_files(self):
            if not os.access(file, os.R_OK):
                doubts.append(self.problem(path, f"{file} cannot be read by this user"))
        if not self.http.loopback and self.http.authenticated and self.http.tls is None:
            message = "a token without TLS can be overheard: give tls, or listen on loopback behind a proxy"
            doubts.append(self.problem(("http",), message))
        return doubts

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
        """The settings of the streaming core."""
        try:
            return Settings(
                self.align,
                self.preprocess,
                self.windows,
                self.estimator,
                self.alarm,
                self.incidents,
                self.aftermath.cases,
            )
        except ValueError as error:
            raise ConfigError(
                [self.problem(("alarm", "learn"), str(error).removeprefix("alarm.learn: "))]
            ) from None

    def network(self) -> Network | None:
        """The network; None if it is to be learnt. Reads the files that `graph` names."""
        try:
            return build_network(self.graph, self.sources)
        except (ValueError, OSError) as error:
            raise ConfigError([self.problem(("graph", self.graph.way), str(error))]) from None

    def names(self) -> list[str] | None:
        """The nodes in their order; None if the graph brings them."""
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
        exchange = self.aftermath.regime.exchange
        return {
            name: connectors.source(_type(given))(given)
            for name, given in self.sources.items()
            if everything or exchange is None or name != exchange.source
        }

    def sink_objects(self, everything: bool = False) -> dict[str, Sink]:
        """The sinks of records by name, or all there are; connected to nothing yet. A terminal gets readable
        lines."""
        exchange = self.aftermath.regime.exchange
        sinks: dict[str, Sink] = {}
        for name, given in self.sinks.items():
            if not everything and exchange is not None and name == exchange.sink:
                continue
            kind = connectors.sink(_type(given))
            if kind is StdoutSink and is_terminal(getattr(given, "descriptor", 1)):
                kind = PrettyStdout
            sinks[name] = kind(given)
        return sinks

    def exchange_doors(self) -> tuple[Source, Sink] | None:
        """The doors to other daemons; connected to nothing yet."""
        exchange = self.aftermath.regime.exchange
        if exchange is None:
            return None
        return self.source_objects(True)[exchange.source], self.sink_objects(True)[exchange.sink]


def _type(door: Any) -> str:
    return str(door.type)
