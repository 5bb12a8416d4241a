"""The keys of the configuration that are not settings of the core: the graph, the sources, the sinks."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal, Union

from pydantic import (
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError, PydanticKnownError, core_schema

import connectors
from connectors.base import Settings as Model
from connectors.settings.secrets import FilePath
from detector.diagnosis.registry import ANALYZERS, diagnosis_model
from detector.settings.base import setting
from detector.settings.diagnosis import DiagnosisSettings

GRAPH_WORDS = ("simulate", "complete", "learn", "empty")
GRAPH_WAYS = (*GRAPH_WORDS, "edges", "graphml", "adjacency", "positions")

Side = Literal["source", "sink"]
Edge = Annotated[list[str | float], Field(min_length=2, max_length=3)]


class Positions(Model):
    """Coordinates of the nodes; each node is linked to its nearest neighbours."""

    file: FilePath = Field(description="CSV file with one line name,x,y per node.")
    k: int | None = Field(default=None, description="Link each node to its k nearest.", ge=1)
    radius: float | None = Field(default=None, description="Link all nodes within this distance.", gt=0)

    @model_validator(mode="after")
    def _one_rule(self) -> Positions:
        if (self.k is None) == (self.radius is None):
            raise ValueError("give exactly one of k and radius")
        return self


class GraphConfig(Model):
    """The sensors and their links: one word (simulate, complete, learn, empty) or one of the ways
    below, and the names of the nodes where the way does not bring them."""

    simulate: bool = Field(default=False, description="Take the network of the simulate source.")
    complete: bool = Field(default=False, description="Link every node to every other.")
    learn: bool = setting(False, "Link nodes whose signals are correlated while learning.", applies="relearn")
    empty: bool = Field(default=False, description="No links: each node is watched by itself.")
    edges: FilePath | list[Edge] | None = Field(
        default=None,
        description="CSV file with lines u,v or u,v,weight, or a list such as [[a, b], [b, c, 0.5]].",
    )
    graphml: FilePath | None = Field(default=None, description="GraphML file.")
    adjacency: FilePath | None = Field(
        default=None, description="CSV matrix of weights with names in the first row."
    )
    positions: Positions | None = Field(
        default=None, description="Coordinates of the nodes, and the rule that links them."
    )
    nodes: FilePath | list[str] | None = Field(
        default=None, description="Names of the nodes: a list, or a file with one name per line."
    )
    components: list[str] | None = Field(
        default=None, description="Names of the components of a sample, such as [temperature, humidity].",
        min_length=1,
    )  # fmt: skip
    units: list[str] | dict[str, str | list[str]] | None = Field(
        default=None,
        description="Units of the components, such as [°C, %], or of each node: {pump-1: bar, flow-2: l/s}.",
    )
    dim: int | None = setting(
        None,
        "Number of components of a sample; null: as many as components, else 1.",
        applies="relearn",
        ge=1,
        le=64,
    )

    @model_validator(mode="before")
    @classmethod
    def _one_word(cls, data: Any) -> Any:
        if isinstance(data, str):
            if data not in GRAPH_WORDS:
                raise ValueError(f"must be {', '.join(GRAPH_WORDS)}, or a mapping")
            return {data: True}
        return data

    @model_validator(mode="after")
    def _one_way(self) -> GraphConfig:
        given = [way for way in GRAPH_WAYS if getattr(self, way) not in (None, False)]
        if len(given) != 1:
            found = f"got {' and '.join(given)}" if given else "got none"
            raise ValueError(f"give exactly one of {', '.join(GRAPH_WAYS)}; {found}")
        if given[0] in ("complete", "learn", "empty") and self.nodes is None:
            raise ValueError(f"{given[0]} needs the names of the nodes: nodes: [a, b, c] or nodes: FILE")
        if given[0] == "simulate" and (self.nodes is not None or self.dim is not None):
            raise ValueError("simulate brings its own nodes and dimension: leave nodes and dim out")
        if self.dim is not None and self.components is not None and self.dim != len(self.components):
            raise ValueError(f"dim is {self.dim}, but components names {len(self.components)}")
        if isinstance(self.nodes, list) and not self.nodes:
            raise ValueError("nodes names no node")
        return self

    @property
    def way(self) -> str:
        """Which of GRAPH_WAYS was chosen."""
        return next(way for way in GRAPH_WAYS if getattr(self, way) not in (None, False))


class Connectors:
    """Marks the values of `sources` and `sinks`: a ``type``, and the keys of the connector of that type.

    Only the types that a configuration names are imported: a plug-in that is installed and not used costs
    nothing, and cannot break anything.
    """

    def __init__(self, side: Side) -> None:
        self.side = side

    def __get_pydantic_core_schema__(
        self, kind: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        models = tuple(connector_models(self.side).values())
        union: Any = Annotated[Union[models], Field(discriminator="type")]  # noqa: UP007
        return handler(TypeAdapter(union).core_schema)

    def _validate(self, data: Any) -> Model:
        if isinstance(data, Model):
            return data
        if not isinstance(data, dict):
            raise PydanticKnownError("dict_type")
        given = data.get("type")
        known = registry(self.side)
        if given is None:
            raise PydanticCustomError("type_missing", "is needed")
        if not isinstance(given, str) or given not in known:
            raise PydanticCustomError("type_unknown", f"must be one of {', '.join(sorted(known))}")
        try:
            model = connector_model(self.side, given)
        except connectors.PluginError as error:
            raise PydanticCustomError("type_broken", "{why}", {"why": str(error)}) from None
        return model.model_validate(data)


def registry(side: Side) -> connectors.Registry:
    """All types of sources, or of sinks."""
    return connectors.SOURCES if side == "source" else connectors.SINKS


class Analyzers:
    """Marks the group `diagnosis`: its own keys, and one for each analyzer.

    The module of an analyzer is loaded if its key is given, and for the schema: most files name none.
    """

    def __get_pydantic_core_schema__(
        self, kind: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        def build(value: Any) -> DiagnosisSettings:
            if isinstance(value, DiagnosisSettings):
                return value
            named = ANALYZERS.keys() & value.keys() if isinstance(value, dict) else ()
            return diagnosis_model(named).model_validate(value)

        return core_schema.no_info_plain_validator_function(build)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return handler(diagnosis_model().__pydantic_core_schema__)


@cache
def connector_model(side: Side, name: str) -> type[Model]:
    """The configuration of a type of source or sink, with its ``type``. Needs no client library."""
    kind = connectors.source(name) if side == "source" else connectors.sink(name)
    literal: Any = Literal[name]
    return create_model(
        f"{kind.__name__}Config", __base__=kind.Config, __doc__=(kind.__doc__ or "").split("\n")[0],
        type=(literal, Field(description=f"Type of the {side}.")),
    )  # fmt: skip


def connector_models(side: Side) -> dict[str, type[Model]]:
    """Those of all types, except plug-ins that cannot be loaded: `detector check` tells of them."""
    models = {}
    for name in registry(side):
        try:
            models[name] = connector_model(side, name)
        except connectors.PluginError:
            continue
    return models
