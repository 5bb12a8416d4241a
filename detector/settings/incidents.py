"""The `incidents:` group of config.yaml."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator, model_validator

from detector.events.model import Severity
from detector.settings.base import Group, setting
from detector.settings.span import AUTO, Span, Ticks, seconds
from detector.settings.windows import WindowSettings

HOLD = 4  # times all windows, after which a change that stays is the new normal


class IncidentSettings(Group):
    """Life cycle of an incident. Ticks count decisions; durations refer to the time of the stream."""

    min_nodes: int = setting(
        1,
        "Number of individually alarmed nodes needed to open an incident; 1: evidence pooled over "
        "neighbours suffices.",
        applies="now",
        ge=1,
    )
    confirm: Ticks = setting(
        1,
        "Ticks for which a node must stay above its threshold before it opens an incident.",
        applies="now",
        ge=1,
    )
    join_after: Ticks = setting(
        1,
        "Ticks for which a node must be classified as a member before it joins an incident.",
        applies="now",
        ge=1,
    )
    # Calibration counts what lies closer together as one false incident: the promise rests on it.
    clear_after: Ticks = setting(
        25, "Ticks for which all nodes must be calm before an incident is cleared.", applies="relearn", ge=1
    )
    cool_down: Span = setting(
        AUTO,
        "Time after an end in which its nodes alone open no incident; auto: a quarter of the longest test "
        "window.",
        applies="now",
    )
    update_every: Span = setting(
        AUTO,
        "Shortest time between two updates of an incident, unless its severity rises; auto: an eighth of the "
        "longest test window.",
        applies="now",
    )
    hold_for: Span | None = setting(
        AUTO,
        "Time after which after_hold ends an incident that still fires; null: never; auto: four times "
        "reference and longest test window together.",
        applies="now",
    )
    after_hold: Literal["accept", "release"] = setting(
        "accept",
        "accept the present values as the new baseline, or release the nodes without learning them.",
        applies="now",
    )
    keep: int = setting(100, "Number of closed incidents that can still be labelled.", applies="now", ge=1)
    # A severity is reached by extent (share of the network that changed) or by size, whatever comes first.
    warning_share: float = setting(
        0.05, "Severity is warning from this share of the network's nodes on, two at least.", applies="now",
        gt=0, le=1,
    )  # fmt: skip
    warning_size: float = setting(
        3.0,
        "Severity is warning from this size on: a mean moved by so many standard deviations, or a spread "
        "changed by this factor.",
        applies="now", gt=0,
    )  # fmt: skip
    critical_share: float = setting(
        0.25, "Severity is critical from this share of the network's nodes on, two at least.", applies="now",
        gt=0, le=1,
    )  # fmt: skip
    critical_size: float = setting(
        10.0, "Severity is critical from this size on, as warning_size.", applies="now", gt=0
    )

    @field_validator("hold_for")
    @classmethod
    def _held_for_some_time(cls, value: float | str | None) -> float | str | None:
        if value not in (None, AUTO) and seconds(value, 1.0) == 0.0:
            raise ValueError("must be more than 0: an incident would end as soon as it opens; null: never")
        return value

    @model_validator(mode="after")
    def _critical_is_more(self) -> IncidentSettings:
        for critical, warning in (("critical_share", "warning_share"), ("critical_size", "warning_size")):
            least, given = getattr(self, warning), getattr(self, critical)
            if given < least:
                raise ValueError(f"{critical} must not be below {warning} ({given:g} is below {least:g})")
        return self

    def resolved(self, windows: WindowSettings) -> IncidentSettings:
        """The same with ticks for what follows from the windows."""
        longest = windows.tests[-1]
        auto = {
            "cool_down": f"{max(longest // 4, 1)} ticks",
            "update_every": f"{max(longest // 8, 1)} ticks",
            "hold_for": f"{HOLD * (windows.reference + longest)} ticks",
        }
        return self.model_copy(
            update={name: own for name, own in auto.items() if getattr(self, name) == AUTO}
        )

    def level(self, nodes: int, network: int, size: float) -> Severity:
        """Of an incident in which ``nodes`` of so many in the ``network`` changed, by ``size`` at most."""
        share = nodes / network if nodes > 1 else 0.0
        if share >= self.critical_share or size >= self.critical_size:
            return "critical"
        return "warning" if share >= self.warning_share or size >= self.warning_size else "info"
