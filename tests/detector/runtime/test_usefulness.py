"""The share of samples that cannot be used is that of the last minute, told once and until it falls (T26)."""

from __future__ import annotations

import logging

import pytest

from detector.runtime.metrics import Metrics
from detector.runtime.usefulness import HALF_S, Usefulness


def test_told_when_high_and_until_low(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    source = Usefulness("in", metrics, 0.0)
    with caplog.at_level(logging.INFO, "detector.source"):
        source.received(100, {})
        source.discarded("late", 9, "node 'a' at 1.000")
        source.look(1.0)
        assert not source.trouble
        source.received(100, {"malformed": 30})
        source.discarded("late", 20, "node 'b' at 2.000")
        source.look(2.0)
        source.look(3.0)
        assert set(source.trouble) == {"late", "malformed"}
        assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
        assert "14 % of its samples are late" in caplog.text
        assert "node 'b' at 2.000" in caplog.text
    page = metrics.page().decode()
    assert 'detector_source_useless_ratio{kind="malformed",source="in"} 0.15' in page
    source.received(10_000, {})
    source.look(4.0)
    assert not source.trouble


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    source = Usefulness("in", Metrics(), 0.0)
    source.received(30, {"malformed": 30})
    source.look(1.0)
    assert source.trouble
    for half in range(1, 4):
        source.received(10, {})
        source.look(half * HALF_S)
    assert not source.trouble


def test_few_are_not_worth_a_word() -> None:
    source = Usefulness("in", Metrics(), 0.0)
    source.received(10, {"malformed": 10})
    source.look(1.0)
    assert not source.trouble
