"""Series to samples: selectors, nodes from labels, numbers of one moment joined; nothing is lost."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from connectors import Batch
from connectors.codec.series import Point, Series, SeriesReader, series_name

CPU = 'cpu{mode="user"}'


def read(points: list[Point], **config: object) -> tuple[Batch, str | None]:
    batch = Batch()
    remark = SeriesReader(Series.model_validate(config)).read(points, batch)
    return batch, remark


def test_every_series_is_a_node_unless_metrics_are_named() -> None:
    batch, _ = read([Point("load", {"job": "x", "host": "a"}, 5.0, 1.5), Point("up", {}, 6.0, 1.0)])
    assert [(s.node, s.time, s.values) for s in batch.samples] == [
        ('load{host="a",job="x"}', 5.0, (1.5,)), ("up", 6.0, (1.0,)),
    ]  # fmt: skip


def test_metrics_of_a_node_are_joined_in_their_order() -> None:
    points = [
        Point("mem", {"host": "a"}, 10.3, 7.0),
        Point("cpu", {"host": "a", "mode": "idle"}, 10.0, 90.0),
        Point("cpu", {"host": "a", "mode": "user"}, 10.0, 5.0),
        Point("cpu", {"host": "b", "mode": "user"}, 10.0, 6.0),
        Point("cpu", {"host": "a", "mode": "user"}, 20.0, 8.0),
        Point("disk", {"host": "a"}, 10.0, 1.0),
    ]
    batch, remark = read(points, metrics=[CPU, "mem"], node="{host}")
    found = {(s.node, s.time): s.values for s in batch.samples}
    assert found[("a", 10.0)] == (5.0, 7.0)
    assert found[("b", 10.0)][0] == 6.0
    assert math.isnan(found[("b", 10.0)][1])
    assert found[("a", 20.0)][0] == 8.0
    assert (len(found), batch.rejected, remark) == (3, {}, None)


def test_two_numbers_for_one_place_are_counted() -> None:
    same = [Point("load", {"host": "a", "core": str(i)}, 10.0, float(i)) for i in range(3)]
    batch, _ = read(same, metrics=["load"], node="{host}")
    assert [s.values for s in batch.samples] == [(0.0,)]
    assert batch.rejected == {"values": 2}


def test_what_cannot_be_a_sample_is_counted_with_its_reason() -> None:
    points = [
        Point("load", {}, 10.0, 1.0),  # no host
        Point("load", {"host": "a"}, 10.0, math.inf),
        Point("load", {"host": "b"}, 10.0, math.nan),
        Point("load", {"host": "c"}, 1e12, 1.0),
        Point("load", {"host": "d" * 300}, 10.0, 1.0),
    ]
    batch, _ = read(points, metrics=["load"], node="{host}")
    assert batch.samples == []
    assert batch.rejected == {"missing": 1, "values": 2, "time": 1, "node": 1}


def test_a_request_without_any_metric_that_is_asked_for_is_remarked() -> None:
    batch, remark = read([Point("other", {"host": "a"}, 1.0, 1.0)], metrics=["load"], node="{host}")
    assert (batch.received, remark) == (0, "other")
    assert read([], metrics=["load"], node="{host}")[1] is None


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"metrics": ["load"]}, "give both or neither"),
        ({"node": "{host}"}, "give both or neither"),
        ({"metrics": ["cpu{mode=user}"], "node": "{host}"}, "not a metric: 'cpu{mode=user}'"),
        ({"metrics": ["a", "a"], "node": "{host}"}, "names one twice"),
        ({"metrics": ["a"], "node": "host"}, "at least one label in braces"),
    ],
)
def test_wrong_settings_are_refused_with_words(config: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words.replace("{", r"\{").replace("}", r"\}")):
        Series.model_validate(config)


points = st.builds(
    Point,
    metric=st.sampled_from(["a", "b", "c"]),
    labels=st.fixed_dictionaries({}, optional={"host": st.sampled_from(["x", "y"])}),
    time=st.sampled_from([0.0, 0.5, 1.0, 7.0]),
    value=st.floats(allow_nan=False),
)


@given(st.lists(points, max_size=30))
def test_every_number_asked_for_is_in_a_sample_or_counted(given: list[Point]) -> None:
    batch, _ = read(given, metrics=["a", "b"], node="{host}")
    numbers = sum(not math.isnan(value) for sample in batch.samples for value in sample.values)
    assert numbers + sum(batch.rejected.values()) == sum(point.metric in "ab" for point in given)
    assert batch.received == len(batch.samples) + sum(batch.rejected.values())
    assert all(sample.time >= 0 for sample in batch.samples)


def test_names_of_series_do_not_depend_on_the_order_of_labels() -> None:
    assert series_name("m", {"b": "1", "a": "2"}) == series_name("m", {"a": "2", "b": "1"})
