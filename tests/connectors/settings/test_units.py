"""Quantities in words."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from connectors.settings.units import (
    Duration,
    Size,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)


class Model(BaseModel):
    model_config = ConfigDict(strict=True)
    duration: Duration = 1.0
    size: Size = 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("500ms", 0.5), ("2h", 7200), ("1h 30m", 5400), ("1.5d", 129600), (3, 3), (0.25, 0.25),
     ("1w", 604800), ("2 days", 172800), ("5min", 300), ("0s", 0)],
)  # fmt: skip
def test_durations(text: Any, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)
    assert Model(duration=text).duration == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "s", "5", "5 parsecs", "-3s", "1h junk", "junk 1h", True, None, [], -1, math.nan, math.inf]
)
def test_no_durations(text: Any) -> None:
    with pytest.raises(ValidationError, match="duration"):
        Model.model_validate({"duration": text})


@given(st.integers(1, 10**7))
def test_format_round_trips(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)


@pytest.mark.parametrize(
    ("text", "size"), [("1MiB", 2**20), ("64KiB", 2**16), ("5kB", 5000), (7, 7), ("10B", 10)]
)
def test_sizes(text: Any, size: int) -> None:
    assert parse_size(text) == size
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize("text", ["", "MiB", "1 XiB", "-1B", 1.5, True, None])
def test_no_sizes(text: Any) -> None:
    with pytest.raises(ValidationError, match="size"):
        Model.model_validate({"size": text})
