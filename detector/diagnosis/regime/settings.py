"""Settings of the regime analyzer: how sure it has to be, and which other daemons it may ask."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from connectors.settings.units import Duration
from detector.diagnosis.analyzer import AnalyzerSettings
from detector.settings.base import Group

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


class ExchangeSettings(Group):
    """Other daemons that know regimes, and the connectors to them: a source and a sink on one topic of a
    broker, which are set aside for this and bring no samples and take no records."""

    name: Name = Field(description="Name of this daemon among the others.")
    peers: list[Name] = Field(
        description="Names of the others; messages of anybody else are ignored.", min_length=1
    )
    source: str = Field(
        description="Name of the source through which messages come: mqtt, kafka, redis, nats."
    )
    sink: str = Field(description="Name of the sink through which they go.")
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


class Settings(AnalyzerSettings):
    """Which known regime nodes have turned to, or that it is novel."""

    alpha: float = Field(
        default=0.05, description="Share of windows of a known regime that may be called novel.", gt=0, le=0.5
    )
    enrol: bool = Field(
        default=True, description="Whether a type is enrolled by itself once labels give it enough windows."
    )
    exchange: ExchangeSettings | None = Field(
        default=None, description="Other daemons to ask, by distances alone; null: none."
    )
