"""The `diagnosis:` group of config.yaml: case files, how many are kept, time limit, other daemons to ask.

Each analyzer has a key of its own in this group; its settings are in its own module (detector.diagnosis).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from connectors.settings.units import Duration, Size
from detector.settings.base import Group as Model
from detector.settings.span import Ticks

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


class CaseSettings(Model):
    """When the pipeline takes case files: the part that decides what a replay finds."""

    early: Ticks = Field(
        default=10, description="Ticks after the opening at which the early case file is taken.", ge=1
    )
    settle: int = Field(
        default=64,
        description="Samples after the onset at which an incident counts as settled; at most the longest "
        "test "
        "window.",
        ge=1,
    )


class ExchangeSettings(Model):
    """Other daemons that know regimes and footprints or share labels, and the connectors to them: a source
    and a sink on one topic of a broker, which are set aside for this and bring no samples and take no
    records."""

    name: Name = Field(description="Name of this daemon among the others.")
    peers: list[Name] = Field(
        description="Names of the others; messages from anyone else are ignored.", min_length=1
    )
    source: str = Field(description="Name of the source that receives messages: mqtt, kafka, redis, nats.")
    sink: str = Field(description="Name of the sink that sends messages.")
    timeout: Duration = Field(
        default=5.0,
        description="How long to wait for answers; less than diagnosis.time_limit.",
        gt=0,
        le=60,
    )
    per_minute: int = Field(
        default=60, description="Questions answered per minute, at most.", ge=1, le=10_000
    )

    @model_validator(mode="after")
    def _others(self) -> ExchangeSettings:
        if self.name in self.peers:
            raise ValueError(f"peers: {self.name!r} is the name of this daemon")
        if len(set(self.peers)) < len(self.peers):
            raise ValueError("peers: a name is given twice")
        return self


class DiagnosisSettings(CaseSettings):
    """Analysis of incidents after the alarm, independent of detection; one key per analyzer."""

    keep: int = Field(default=1000, description="Number of case files kept for unlabelled incidents.", ge=1)
    keep_size: Size = Field(
        default=6 * 2**20, description="Largest total size of case files of unlabelled incidents.", ge=2**20
    )
    keep_labelled_size: Size = Field(
        default=12 * 2**20, description="Largest total size of case files of labelled incidents.", ge=2**20
    )
    time_limit: Duration = Field(
        default=20.0,
        description="CPU time limit of one analyzer for one case file; ten times as much in real time.",
        gt=0,
        le=600,
    )
    exchange: ExchangeSettings | None = Field(
        default=None, description="Other daemons that are asked about what is unknown here; null: none."
    )

    @property
    def cases(self) -> CaseSettings:
        return CaseSettings(early=self.early, settle=self.settle)
