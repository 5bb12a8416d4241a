"""The `aftermath:` group of config.yaml: when case files are taken, how many are kept, who examines them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from pydantic import Field

from connectors.base import Settings as Model
from connectors.units import Duration


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


class AftermathSettings(Model):
    """What happens after an alarm."""

    early: int = Field(default=10, description=_HELP["early"], ge=1)
    settle: int = Field(default=64, description=_HELP["settle"], ge=1)
    keep: int = Field(
        default=1000, description="Case files kept; those of labelled incidents are kept for ever.", ge=1
    )
    time_limit: Duration = Field(
        default=20.0, description="Longest time that one examiner may take for one case file.", gt=0, le=600
    )
    course: Method = Field(
        default=Method(), description="Whether a change stays, grows, fades, or is over already."
    )
    explanation: ExplanationSettings = Field(
        default_factory=ExplanationSettings,
        description="Ranges of values that gained or lost mass, in the sensor's units.",
    )

    @property
    def cases(self) -> CaseSettings:
        return CaseSettings(self.early, self.settle)
