"""The `align:` group of config.yaml."""

from __future__ import annotations

from typing import Literal

from pydantic import ValidationInfo, field_validator

from connectors.settings.units import Duration
from detector.settings.base import Group, setting
from detector.settings.span import Time

MAX_TIME = 1e11  # seconds either side of 1970, the year 5138: tick numbers stay far inside int64


class AlignSettings(Group):
    """How samples of all nodes are put on one grid of ticks."""

    step: Duration = setting(
        1.0,
        "Length of a tick, the grid on which samples of all nodes meet; about the time between two samples "
        "of a node.",
        applies="relearn",
        ge=1e-6,
        le=MAX_TIME,
    )
    origin: float = setting(
        0.0,
        "Start time of any tick, in unix seconds.",
        applies="now",
        ge=-MAX_TIME,
        le=MAX_TIME,
    )
    lateness: Time | None = setting(
        None,
        "How long a tick waits for late samples; null: 2 steps.",
        applies="now",
        le=MAX_TIME,
    )
    idle_after: Duration | None = setting(
        None,
        "How long the others wait for a source or partition (stream, topic partition, file) that is behind "
        "and gives nothing; null: 5 steps, but at least 2 s and at most 30 s; 0: not at all. At a start a "
        "source has a minute to connect first.",
        applies="now",
    )
    max_skew: Time | None = setting(
        None,
        "How far a source or partition may be behind the others, by the time of its samples, and is still "
        "waited for; null: 60 steps.",
        applies="now",
    )
    max_gap: Time | None = setting(
        None,
        "A pause of a node longer than this restarts its windows, so that values before and after "
        "are not mixed; null: 60 steps.",
        applies="now",
    )
    silent_after: Time | None = setting(
        None, "A node without samples for this long counts as silent; null: 60 steps.", applies="now"
    )
    max_ahead: Time | None = setting(
        None,
        "Timestamps further ahead of the stream are accepted only when confirmed; null: an hour, but at "
        "least 100 steps.",
        applies="now",
    )
    confirm: int = setting(
        5,
        "Number of agreeing samples that confirm a time beyond max_ahead.",
        applies="now",
        ge=1,
    )
    stuck_after: int = setting(
        60,
        "Number of equal samples in a row after which a node whose values used to vary counts as stuck.",
        applies="now",
        ge=2,
    )
    missing: Literal["hold", "drop"] = setting(
        "hold",
        "How samples with a missing component are handled: hold its last value, or drop the sample.",
        applies="now",
    )
    max_hold: int = setting(
        5, "Samples in a row over which a missing component may be held.", applies="now", ge=0
    )
    max_waiting: int = setting(
        1_000_000,
        "Largest number of samples waiting for their tick; beyond it the oldest tick is closed early.",
        applies="now",
        ge=1,
    )

    @field_validator("max_gap", "silent_after", "max_ahead")
    @classmethod
    def _a_step_at_least(cls, value: float | None, info: ValidationInfo) -> float | None:
        step = info.data.get("step")  # not there: it is wrong itself, and nothing is measured against it
        if value is not None and step is not None and value < step:
            raise ValueError(f"must be at least align.step, {step:g} s")
        return value

    def seconds(
        self, name: Literal["lateness", "idle_after", "max_skew", "max_gap", "silent_after", "max_ahead"]
    ) -> float:
        """The setting of that name, default filled in."""
        value: float | None = getattr(self, name)
        if value is not None:
            return value
        if name == "max_ahead":
            return max(3600.0, 100.0 * self.step)
        if name == "idle_after":
            return min(max(2.0, 5.0 * self.step), 30.0)
        return (2.0 if name == "lateness" else 60.0) * self.step
