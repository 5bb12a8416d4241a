"""The `windows:` group of config.yaml."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from detector.settings.base import AsTuple, Group, setting


class WindowSettings(Group):
    """Lengths in samples of a node."""

    reference: int = setting(
        250, 'Samples per node in the reference window ("before").', applies="relearn", ge=20, le=1_000_000
    )
    mode: Literal["sliding", "fixed"] = setting(
        "sliding",
        "sliding: the reference follows the stream; fixed: it stays the first one, which shows slow drift.",
        applies="relearn",
    )
    tests: Annotated[tuple[Annotated[int, Field(ge=2, le=1_000_000)], ...], AsTuple] = setting(
        (5, 10, 25, 100, 200),
        'Lengths of the test windows ("now"): short ones are fast, long ones see small changes.',
        applies="relearn",
        min_length=1,
    )

    @field_validator("tests")
    @classmethod
    def _increasing(cls, tests: tuple[int, ...]) -> tuple[int, ...]:
        if list(tests) != sorted(set(tests)):
            raise ValueError(f"lengths must be increasing (got {list(tests)})")
        return tests
