"""The rooms of the configuration that are not settings of the core: the graph and the doors."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal, Union

from pydantic import Field, GetCoreSchemaHandler, create_model, model_validator
from pydantic_core import core_schema

import connectors
from connectors.base import Settings as Model
from connectors.secrets import FilePath

GRAPH_WORDS = ("simulate", "complete", "learn", "empty")
GRAPH_WAYS = (*GRAPH_WORDS, "edges", "graphml", "adjacency", "positions")

Edge = Annotated[list[str | float], Field(min_length=2, max_length=3)]


class Positions(Model):
    """Nodes at places: each is linked to its nearest ones."""

    file: FilePath = Field(description="CSV file with a line name,x,y for each node.")
    k: int | None = Field(default=None, description="Link each node to its k nearest.", ge=1)
    radius: float | None = Field(default=None, description="Link all nodes at most so far apart.", gt=0)

    @model_validator(mode="after")
    def _one_rule(self) -> Positions:
        if (self.k is None) == (self.radius is None):
            raise ValueError("give exactly one of k and radius")
        return self


class GraphConfig(Model):
    """The sensors and who is next to whom: one word (simulate, complete, learn, empty) or one of the ways
    below, and the names of the nodes where the way does not bring them."""

    simulate: bool = Field(default=False, description="Take the network of the simulate source.")
    complete: bool = Field(default=False, description="Link every node to every other.")
    learn: bool = Field(default=False, description="Link nodes that are correlated while learning.")
    empty: bool = Field(default=False, description="No links: each node on its own.")
    edges: FilePath | list[Edge] | None = Field(
        default=None,
        description="CSV file with lines u,v or u,v,weight, or a list such as [[a, b], [b, c, 0.5]].",
    )
    graphml: FilePath | None = Field(default=None, description="GraphML file.")
    adjacency: FilePath | None = Field(
        default=None, description="CSV matrix of weights with names in the first row."
    )
    positions: Positions | None = Field(default=None, description="Places of the nodes, and who is near.")
    nodes: FilePath | list[str] | None = Field(
        default=None, description="Names of the nodes: a list, or a file with one name a line."
    )
    components: list[str] | None = Field(
        default=None, description="Names of the components of a sample, such as [temperature, humidity].",
        min_length=1,
    )  # fmt: skip
    dim: int | None = Field(
        default=None, description="Number of components of a sample; null: as many as components, else 1.",
        ge=1, le=64,
    )  # fmt: skip

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


class Doors:
    """Marks the values of `sources` and `sinks`: a ``type``, and the keys of the door of that type."""

    def __init__(self, side: Literal["source", "sink"]) -> None:
        self.side = side

    def __get_pydantic_core_schema__(
        self, kind: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        types = connectors.SOURCES if self.side == "source" else connectors.SINKS
        entries = tuple(door_model(self.side, name) for name in types)
        return handler.generate_schema(Annotated[Union[entries], Field(discriminator="type")])  # noqa: UP007


@cache
def door_model(side: Literal["source", "sink"], name: str) -> type[Model]:
    """The configuration of a door, with its ``type``. Needs no client library."""
    door = connectors.source(name) if side == "source" else connectors.sink(name)
    kind: Any = Literal[name]
    return create_model(
        f"{door.__name__}Config", __base__=door.Config, __doc__=(door.__doc__ or "").split("\n")[0],
        type=(kind, Field(description="Kind of door.")),
    )  # fmt: skip
