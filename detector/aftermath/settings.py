"""The `aftermath:` group of config.yaml: when case files are taken, how many are kept, who examines them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, Literal

from pydantic import Field, model_validator

from connectors.base import Settings as Model
from connectors.units import Duration, Size


@dataclass(frozen=True)
class CaseSettings:
    """When the pipeline takes case files: the part that decides what a replay finds."""

    early: int = field(
        default=10, metadata={"help": "Ticks after the opening at which the early case file is taken."}
    )
    settle: int = field(
        default=64,
        metadata={
            "help": "Samples past the onset from which on an incident is settled; at most the longest test "
            "window.",
        },
    )

    def __post_init__(self) -> None:
        for name in ("early", "settle"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")


_HELP = {key.name: key.metadata["help"] for key in fields(CaseSettings)}


class Method(Model):
    """What every kind of finding can be told."""

    enabled: bool = Field(default=True, description="Whether case files are examined for this.")


class ExplanationSettings(Method):
    """Where in the values the nodes of an incident changed: ranges that gained or lost mass."""

    nodes: int = Field(default=3, description="Members that are explained, strongest first.", ge=1, le=50)


class FootprintSettings(Method):
    """How the nodes of an incident are learnt from labelled ones."""

    min_events: int = Field(
        default=5,
        ge=2,
        description="Labelled incidents before anything is learnt; until then thresholds serve.",
    )
    use: Literal["better", "always", "never"] = Field(
        default="better",
        description="When to trust what was learnt: if it names nodes of incidents left out better than "
        "thresholds do, always, or never.",
    )
    retrain: bool = Field(default=True, description="Whether to learn anew after each new label.")
    miss_cost: float = Field(
        default=2.0, gt=0, le=100, description="What a missed node costs; one named in error costs 1."
    )
    one_type: bool = Field(
        default=True, description="Whether all nodes of an incident are affected by the same type of event."
    )
    edge_weight: float = Field(
        default=0.0, ge=0, lt=1,
        description="Share of linked nodes being affected together in the decision; 0 does not couple them.",
    )  # fmt: skip
    node_identity: float = Field(
        default=0.0, ge=0, le=1000,
        description="How much more a node tells of itself than of others; 0 serves nodes never seen as well.",
    )  # fmt: skip


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


class ExchangeSettings(Model):
    """Other daemons that know regimes, and the doors to them: a source and a sink on one topic of a broker,
    which are set aside for this and bring no samples and take no records."""

    name: Name = Field(description="Name of this daemon among the others.")
    peers: list[Name] = Field(
        description="Names of the others; nobody else is answered or heard.", min_length=1
    )
    source: str = Field(
        description="Name of the source through which messages come: mqtt, kafka, redis, nats."
    )
    sink: str = Field(description="Name of the sink through which they go.")
    timeout: Duration = Field(
        default=5.0,
        description="How long answers are waited for; less than aftermath.time_limit.",
        gt=0,
        le=60,
    )
    per_minute: int = Field(default=60, description="Most questions answered in a minute.", ge=1, le=10_000)

    @model_validator(mode="after")
    def _others(self) -> ExchangeSettings:
        if self.name in self.peers:
            raise ValueError(f"peers: {self.name!r} is the name of this daemon")
        if len(set(self.peers)) < len(self.peers):
            raise ValueError("peers: a name stands there twice")
        return self


class RegimeSettings(Method):
    """Which known regime nodes have turned to."""

    alpha: float = Field(
        default=0.05, description="Share of windows of a known regime that may be called novel.", gt=0, le=0.5
    )
    enrol: bool = Field(
        default=True, description="Whether a type is enrolled by itself once labels give it enough windows."
    )
    exchange: ExchangeSettings | None = Field(
        default=None, description="Other daemons to ask, by distances alone; null: none."
    )


class AftermathSettings(Model):
    """What happens after an alarm."""

    early: int = Field(default=10, description=_HELP["early"], ge=1)
    settle: int = Field(default=64, description=_HELP["settle"], ge=1)
    keep: int = Field(
        default=1000, description="Case files kept; those of labelled incidents are kept for ever.", ge=1
    )
    keep_size: Size = Field(
        default=256 * 2**20, description="Most bytes of case files that nobody labelled.", ge=2**20
    )
    time_limit: Duration = Field(
        default=20.0,
        description="Most CPU time of one examiner for one case file; ten times as long by the clock.",
        gt=0,
        le=600,
    )
    course: Method = Field(
        default=Method(), description="Whether a change stays, grows, fades, or is over already."
    )
    explanation: ExplanationSettings = Field(
        default_factory=ExplanationSettings,
        description="Ranges of values that gained or lost mass, in the sensor's units.",
    )
    footprint: FootprintSettings = Field(
        default=FootprintSettings(),
        description="Which nodes are really affected, and by which type of event.",
    )
    novelty: Method = Field(
        default=Method(), description="Whether the values since the onset are new, or were seen before."
    )
    verdict: Method = Field(
        default=Method(), description="Real or false, and of which type, by a model learnt from labels."
    )
    regime: RegimeSettings = Field(
        default=RegimeSettings(), description="Which known regime nodes have turned to, or that it is novel."
    )

    @model_validator(mode="after")
    def _times(self) -> AftermathSettings:
        exchange = self.regime.exchange
        if exchange is not None and exchange.timeout >= self.time_limit:
            raise ValueError(f"regime.exchange.timeout: must be less than time_limit, {self.time_limit:g} s")
        return self

    @property
    def bounds(self) -> tuple[int, int]:
        """Number and bytes of the case files that are kept."""
        return self.keep, self.keep_size

    @property
    def cases(self) -> CaseSettings:
        return CaseSettings(self.early, self.settle)
