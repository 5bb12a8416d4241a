"""Records: shipped schema, documentation, ids, times, and that whatever is produced validates."""

from __future__ import annotations

import datetime
import importlib.machinery
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detector.events import model
from detector.events.model import (
    Change,
    Event,
    clock,
    detector_event,
    incident_id,
    iso,
    node_events,
    rounded,
)
from detector.events.schema import (
    FIELDS,
    KINDS,
    RECORDS,
    SCHEMA_FILE,
    published_schema,
    schema,
    schema_text,
)

ROOT = Path(__file__).parents[3]


def load_reference() -> ModuleType:
    """The script that writes the page; it has no .py ending."""
    loader = importlib.machinery.SourceFileLoader(
        "events_reference", str(ROOT / "scripts" / "events-reference")
    )
    specification = importlib.util.spec_from_loader(loader.name, loader)
    assert specification is not None
    module = importlib.util.module_from_spec(specification)
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return load_reference()


@pytest.fixture(scope="module")
def validator() -> Any:
    jsonschema.Draft202012Validator.check_schema(published_schema())
    return jsonschema.Draft202012Validator(published_schema())


def test_the_shipped_schema_is_the_generated_one() -> None:
    """After a change: python -m detector.events.schema > detector/events/event.schema.json"""
    assert (ROOT / "detector" / SCHEMA_FILE).read_text(encoding="utf-8") == schema_text()
    assert published_schema() == schema()


def test_every_field_has_its_meaning_and_no_other() -> None:
    assert {struct.__name__: list(struct.__struct_fields__) for struct in RECORDS} == {
        name: list(words) for name, words in FIELDS.items()
    }


def test_a_run_gives_every_kind_and_all_validate(reference: ModuleType, validator: Any) -> None:
    examples = reference.examples()
    assert set(examples) == set(KINDS)
    for event in examples.values():
        text = json.dumps(event.record(), allow_nan=False)
        validator.validate(json.loads(text))
        assert msgspec.convert(json.loads(text), Event) == event


def test_the_schema_refuses_what_is_wrong(reference: ModuleType, validator: Any) -> None:
    good = reference.examples()["incident.resolved"].record()
    for field, wrong in (
        ("severity", "terrible"),
        ("nodes", [{"name": "a"}]),
        ("time", "now"),
        ("event", "?"),
    ):
        assert list(validator.iter_errors(good | {field: wrong})), field
    for field in good:
        assert list(validator.iter_errors({key: value for key, value in good.items() if key != field})), field


def test_the_page_documents_every_kind_and_field_with_valid_examples(
    reference: ModuleType, validator: Any
) -> None:
    page = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    for kind in KINDS:
        assert f"\n### {kind}\n" in page
    for words in FIELDS.values():
        for field, meaning in words.items():
            assert f"| `{field}` | {meaning} |" in page
    blocks = [block.split("```")[0] for block in page.split("```json\n")[1:]]
    assert [json.loads(block)["event"] for block in blocks] == list(KINDS)
    for block in blocks:
        validator.validate(json.loads(block))
    # Numbers may differ in the last digit from machine to machine; the rest is what the script writes.
    prose = [line for line in page.splitlines() if not line.startswith((" ", "{", "}", ">"))]
    written = [line for line in reference.page().splitlines() if not line.startswith((" ", "{", "}", ">"))]
    assert prose == written


def test_ids_are_stable_and_tell_records_apart() -> None:
    assert incident_id(5.0, ["b", "a"]) == incident_id(5.0, ["a", "b"])
    assert incident_id(5.0, ["ab", "c"]) != incident_id(5.0, ["a", "bc"])
    assert incident_id(1.8e9, ["a"]).startswith("20270115-")
    assert incident_id(-3.5, ["a"]).startswith("t-4-")
    events = [
        *node_events("node.silent", ["a"], 5.0),
        *node_events("node.returned", ["a"], 6.0),
        *node_events("node.silent", ["b"], 5.0),
        detector_event("detector.warning", 5.0, "one"),
        detector_event("detector.warning", 5.0, "two"),
    ]
    assert len({event.id for event in events}) == len(events)
    assert node_events("node.silent", ["a"], 5.0) == events[:1]


def test_what_many_nodes_do_together_is_few_records() -> None:
    """A gateway that dies is not a thousand alerts, and no record is too large for a broker."""
    names = [f"n{k}" for k in range(1200)]
    events = node_events("node.silent", names, 5.0, "i-1")
    assert [node.name for event in events for node in event.nodes] == names
    assert len(events) == 3
    assert {event.incident for event in events} == {"i-1"}
    assert len({event.id for event in events}) == 3
    assert events[0].summary == "n0, n1, n2 (+497) send no more data"
    assert node_events("node.stuck", ["a", "b"], 5.0)[0].summary == "a, b are stuck at one value each"
    assert max(len(msgspec.json.encode(event)) for event in events) < 2**18


def test_times_in_words() -> None:
    assert iso(1.8e9) == "2027-01-15T08:00:00.000Z"
    assert iso(1250.0) is None
    assert iso(None) is None
    assert iso(1e300) is None
    assert clock(1.8e9, 1.8e9 + 60) == "08:00:00 UTC"
    assert clock(1.8e9, 1.8e9 + 86400) == "2027-01-15 08:00:00 UTC"
    assert clock(1250.0, 1300.0) == "1250"


def test_numbers_are_short_and_finite() -> None:
    assert rounded(1 / 3) == 0.333333
    assert rounded(float("nan")) is None
    assert rounded(float("inf")) is None
    assert rounded(None) is None


def test_records_do_not_share_their_lists() -> None:
    first = Change(kind="mean", text="", components=[])
    record = detector_event("detector.warning", 1.0, "x").record()
    record["nodes"].append(first)
    assert detector_event("detector.warning", 1.0, "x").record()["nodes"] == []


@given(st.floats(model.FIRST_UNIX_TIME, model.LAST_UNIX_TIME), st.floats(-1e5, 1e5))
def test_times_are_those_of_the_calendar(time: float, later: float) -> None:
    """By arithmetic, and yet what the calendar of the standard library says."""
    moment = datetime.datetime.fromtimestamp(time, datetime.UTC)
    assert model.iso(time) == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert model.date_prefix(time) == moment.strftime("%Y%m%d")
    now = min(max(time + later, model.FIRST_UNIX_TIME), model.LAST_UNIX_TIME)
    today = datetime.datetime.fromtimestamp(now, datetime.UTC).date() == moment.date()
    assert model.clock(time, now) == moment.strftime("%H:%M:%S UTC" if today else "%Y-%m-%d %H:%M:%S UTC")
