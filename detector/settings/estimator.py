"""The `estimator:` and `engine:` groups of config.yaml."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from connectors.registry import Registry
from connectors.settings.units import Duration
from detector.settings.base import Group, setting
from detector.settings.registries import ENGINES, RUNNERS

LEAST_PART = 500  # nodes, below which a part of its own gains nothing
MOST_PARTS = 4  # more cost more than they bring on the few cores of most machines


def _one_of(registry: Registry) -> AfterValidator:
    def known(name: str) -> str:
        if name not in registry.builtin and name not in registry:  # plug-ins are looked for only if need be
            raise ValueError(f"must be one of {', '.join(registry)}")
        return name

    return AfterValidator(known)


def _names(registry: Registry) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": list(registry.builtin)})


EstimatorName = Annotated[str, _one_of(ENGINES), _names(ENGINES)]
RunnerName = Annotated[str, _one_of(RUNNERS), _names(RUNNERS)]


class EstimatorSettings(Group):
    """`None` is chosen while learning, by the power to see injected changes under a limit on leakage."""

    name: EstimatorName = setting(
        "grulsif",
        "grulsif: density ratios coupled over the graph; pool: the same without the graph; adwin, kswin, "
        "page-hinkley: one classic detector per node.",
        applies="relearn",
    )
    alpha: float = setting(
        0.1,
        'Share of "now" mixed into "before", which bounds the ratio by its inverse.',
        applies="relearn",
        ge=0,
        lt=1,
    )
    sigma: float | None = setting(
        None,
        "Kernel width, in units of the median distance between values; null: chosen while learning.",
        applies="relearn",
        gt=0,
    )
    coupling: float | None = setting(
        None,
        "Weight of the neighbours relative to a node's own data; null: chosen while learning.",
        applies="relearn",
        ge=0,
    )
    ridge: float | None = setting(
        None, "Weight of the ridge penalty; null: chosen while learning.", applies="relearn", gt=0
    )
    dictionary: Literal["coherence", "sparse"] = setting(
        "coherence",
        "coherence: many points, one kernel width; sparse: few points with widths of their own, for values "
        "with modes of very different width.",
        applies="relearn",
    )
    rank: int = setting(32, "Largest number of features.", applies="relearn", ge=2)
    atoms: int = setting(
        256, "Largest number of dictionary points from which features are made.", applies="relearn", ge=1
    )
    level_charts: bool = setting(
        True,
        "Watch levels beside the density ratio: what nodes share with their neighbours and what they do not.",
        applies="relearn",
    )
    sweeps: int = setting(1, "Passes of the solver over the nodes, per tick.", applies="relearn", ge=1)


NumberOrAuto = Annotated[int, Field(ge=1, le=100_000)] | Literal["auto"]


class EngineSettings(Group):
    """Where the engine runs. Parts affect the result, workers only the speed."""

    type: RunnerName = setting(
        "inline",
        "inline: one core; threads: the cores of this machine; ray: a cluster (extra `ray`).",
        applies="restart",
    )
    workers: NumberOrAuto = setting(
        "auto",
        "Threads, actors of a cluster, and processes that share the work of learning; auto: as many as there "
        "are cores, one for learning.",
        applies="restart",
    )
    parts: NumberOrAuto = setting(
        "auto",
        "Parts of the network that are swept independently, reading each other's parameters of one tick ago; "
        "auto: one when inline, else up to four with 500 nodes or more each. Cut while learning, kept.",
        applies="relearn",
    )

    address: str | None = setting(
        None,
        "Of a Ray cluster, as host:port, of which this machine is a member; null: one of this machine only, "
        "started for the purpose.",
        applies="restart",
        min_length=1,
    )
    storage: str | None = setting(
        None,
        "Folder for snapshots of what actors hold, which all machines of the cluster share; needed with an "
        "address. Only this service may write to it.",
        applies="restart",
        min_length=1,
    )
    deadline: Duration = setting(
        10.0,
        "An actor that has not answered for this long is restarted; all must be back within six times that, "
        "counted from the request.",
        applies="restart",
        ge=0.1,
    )

    @model_validator(mode="after")
    def _shared(self) -> EngineSettings:
        if self.address is not None and self.storage is None:
            raise ValueError(
                "storage: needed with an address: a folder that all machines of the cluster share"
            )
        return self

    def n_parts(self, n_nodes: int) -> int:
        """Into how many parts a network is cut: the same on every machine."""
        if self.parts != "auto":
            return min(self.parts, max(n_nodes, 1))
        return 1 if self.type == "inline" else min(MOST_PARTS, max(n_nodes // LEAST_PART, 1))
