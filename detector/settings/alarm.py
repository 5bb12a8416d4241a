"""The `alarm:` group of config.yaml."""

from __future__ import annotations

from detector.settings.base import Group, setting
from detector.settings.budget import Budget, BudgetInWords


class AlarmSettings(Group):
    """The false-alarm budget: how many false incidents the whole network may open."""

    budget: BudgetInWords = setting(
        Budget(),
        'False incidents that the whole network may open: "1 per 30d", "2 per week", "1 per 10000 ticks".',
        applies="now",
    )
    learn: int = setting(
        3000,
        "Samples per node to learn from before the first decision; a change takes effect at the next "
        "learning.",
        applies="now",
        ge=200,
    )
    release: float = setting(
        0.7, "An alarmed node counts as calm below this share of its threshold.", applies="now", gt=0, le=1
    )
    seed: int = setting(
        0,
        "Seed of all random numbers while learning; a change takes effect at the next learning.",
        applies="now",
        ge=0,
    )
