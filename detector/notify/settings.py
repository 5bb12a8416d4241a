"""The `notify:` group of config.yaml: which records go to which sinks, and when none do."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator, model_validator

from connectors.settings.units import Duration
from detector.settings.base import Group, setting

Least = Literal["info", "warning", "critical"]
Every = Literal["once", "day", "week"]


class Route(Group):
    """What one sink receives."""

    severity: Least = Field(default="info", description="The lowest severity that it receives.")
    groups: list[str] = Field(
        default_factory=list,
        description="Only incidents of nodes in these groups; empty: of any node. Records that name no node "
        "are always sent.",
    )


class MaintenanceWindow(Group):
    """A period, once or recurring, in which incidents of some nodes are not sent."""

    zone: str = Field(
        default="UTC",
        description="Time zone of `start`, such as Europe/Berlin. A window that repeats begins at the same "
        "local time before and after a clock change.",
    )
    start: str = Field(
        description="First start, in ISO 8601, such as 2026-11-22T02:00; in `zone` unless it has an offset."
    )
    lasts: Duration = Field(description="Duration.", gt=0, le=31 * 86400.0)
    every: Every = Field(default="once", description="once, or every day or week at the same time in `zone`.")
    nodes: list[str] = Field(default_factory=list, description="Names of nodes; * and ? are wildcards.")
    groups: list[str] = Field(default_factory=list, description="Groups of nodes.")
    reason: str = Field(default="", description="Reason, shown to people.", max_length=500)

    @field_validator("zone")
    @classmethod
    def _zone(cls, name: str) -> str:
        time_zone(name)
        return name

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
    """Which sinks receive which records. All records are stored and shown, whatever is set here."""

    groups: dict[str, list[str]] = setting(
        {},
        "Named groups of nodes, such as {boilers: [boiler-*, pump-3]}; * and ? are wildcards.",
        applies="now",
    )
    routes: dict[str, Route] = setting(
        {},
        "What each sink receives, by its name under `sinks`: `severity`, the lowest it receives, and "
        "`groups`, one of which must contain a node of the incident. Sinks not listed receive everything.",
        applies="now",
    )
    maintenance: list[MaintenanceWindow] = setting(
        [], "Maintenance windows: incidents during them are recorded but not sent.", applies="now"
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


def time_zone(name: str) -> ZoneInfo:
    """The zone of that name in the database of time zones; ValueError if there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"there is no time zone {name!r}; zones have names such as Europe/Berlin, and come with the "
            "package tzdata of the system"
        ) from None


def moment(text: str, zone: str = "UTC") -> float:
    """Unix seconds of a date and time, in that zone if it has no offset; ValueError if it is none."""
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=time_zone(zone))).timestamp()
