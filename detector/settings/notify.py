"""The `notify:` group of config.yaml: which records go to which sinks, and when none do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import Field, field_validator, model_validator

from connectors.settings.units import Duration
from detector.settings.base import Group, setting

Least = Literal["info", "warning", "critical"]
Every = Literal["once", "day", "week"]


class Route(Group):
    """What one sink gets."""

    severity: Least = Field(default="info", description="The least severity of what it gets.")
    groups: list[str] = Field(
        default_factory=list,
        description="Only records about nodes of these groups; empty: about any. Records that name no node "
        "are always sent.",
    )


class MaintenanceWindow(Group):
    """A stretch of time, once or again and again, in which nothing about some nodes is sent."""

    start: str = Field(
        description="When it begins the first time, in ISO 8601: 2026-11-22T02:00; UTC if no zone."
    )
    lasts: Duration = Field(description="How long it lasts.", gt=0, le=31 * 86400.0)
    every: Every = Field(default="once", description="once, or at the same time of each day or week (UTC).")
    nodes: list[str] = Field(
        default_factory=list, description="Names of nodes; * and ? stand for any letters."
    )
    groups: list[str] = Field(default_factory=list, description="Groups of nodes.")
    reason: str = Field(default="", description="Why, for people.", max_length=500)

    @field_validator("start")
    @classmethod
    def _moment(cls, text: str) -> str:
        try:
            moment(text)
        except ValueError:
            raise ValueError(f"{text!r} is no date and time as in 2026-11-22T02:00") from None
        return text

    @model_validator(mode="after")
    def _of_something(self) -> MaintenanceWindow:
        if not self.nodes and not self.groups:
            raise ValueError('name the nodes or groups; nodes: ["*"] is all of them')
        longest = {"once": None, "day": 86400.0, "week": 7 * 86400.0}[self.every]
        if longest is not None and self.lasts >= longest:
            raise ValueError(f"lasts as long as the time between two of them, one {self.every}")
        return self


class NotifySettings(Group):
    """Who is told of what; records are stored and shown whatever stands here."""

    groups: dict[str, list[str]] = setting(
        {},
        "Names for groups of nodes: {boilers: [boiler-*, pump-3]}; * and ? stand for any letters.",
        applies="now",
    )
    routes: dict[str, Route] = setting(
        {}, "What a sink gets, by its name under sinks; one that is not named gets everything.", applies="now"
    )
    maintenance: list[MaintenanceWindow] = setting(
        [], "Maintenance windows: incidents in them are recorded, and sent to no sink.", applies="now"
    )

    @model_validator(mode="after")
    def _groups_are_known(self) -> NotifySettings:
        named: list[list[str]] = [one.groups for one in self.routes.values()]
        named += [one.groups for one in self.maintenance]
        for groups in named:
            for name in groups:
                if name not in self.groups:
                    raise ValueError(f"there is no group {name!r}; known: {', '.join(self.groups) or 'none'}")
        return self


def moment(text: str) -> float:
    """Unix seconds of a date and time; ValueError if it is none."""
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
