"""Boxes that hear each other in time are one network; what is late, lost or garbled does no harm."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from detector.edge.messages import MAX_BYTES, Refused, Told, cut_up, pack, record, unpack
from detector.network.surroundings import Surroundings
from detector.pipeline.pipeline import Pipeline
from tests.detector.edge.boxes import (
    BOXES,
    KEY,
    LEARN,
    NAMES,
    START,
    WHOLE,
    Boxes,
    changed,
    frozen,
    learnt_whole,
    row,
    samples,
    settings,
    thawed,
)

PATIENCE = 5


def started(**other: object) -> Boxes:
    return Boxes({name: thawed(learnt_whole(), name, **other) for name in BOXES})


def test_boxes_that_hear_in_time_give_the_bits_of_one_process() -> None:
    whole, boxes = thawed(learnt_whole(), None), started()
    for t in range(LEARN, LEARN + 120):
        values = changed(t, LEARN + 60, [3, 4])
        if t % 7 == 0:
            values[t % 12] = np.nan  # a sample that is missing
        whole.push(samples(values, t))
        boxes.tick(values, t)
        if not whole.incidents.open:
            for name in ("event_statistic", "statistic", "scores"):
                np.testing.assert_array_equal(
                    boxes.statistic(name), getattr(whole, name), err_msg=f"{t} {name}"
                )
    assert set(boxes.outcomes) == {"heard"}
    assert whole.incidents.open
    assert all(boxes.all[name].incidents.open for name in ("north", "south"))


def test_incidents_of_one_event_come_to_one_common_id() -> None:
    boxes, events = started(), []
    for t in range(LEARN, LEARN + 120):
        for name, some in boxes.tick(changed(t, LEARN + 60, [3, 4]), t).items():
            events += [(name, event) for event in some if event.incident]
    common = {event.common for _, event in events if event.common}
    opened = [(event.opened, event.incident) for _, event in events if event.event == "incident.opened"]
    told = {name for name, event in events if event.common}
    assert told == {"north", "south"}
    assert common == {min(opened)[1]}
    for name in told:
        records = [event for one, event in events if one == name and event.incident and event.common]
        assert [event.sequence for event in records] == sorted({event.sequence for event in records})
        assert boxes.all[name].incidents.records[records[-1].incident].common in common


def test_changes_at_other_times_are_not_one_event() -> None:
    boxes, events = started(), []
    for t in range(LEARN, LEARN + 220):
        values = changed(t, LEARN + 40, [3])
        values[4] += 4.0 * (t >= LEARN + 160)
        events += [event for some in boxes.tick(values, t).values() for event in some if event.incident]
    assert {event.nodes[0].name for event in events if event.event == "incident.opened"} >= {"n3", "n4"}
    north = [e.common for e in events if any(node.name == "n3" for node in e.nodes)]
    south = [e.common for e in events if any(node.name == "n4" for node in e.nodes)]
    assert not {id for id in north if id} & {id for id in south if id}


def test_what_is_missing_is_bridged_then_quiet_and_told() -> None:
    boxes, events = started(), []
    cut = range(LEARN + 10, LEARN + 40)
    for t in range(LEARN, LEARN + 60):
        told = boxes.tick(row(t), t, lambda sender, to, t=t: t not in cut or sender != "south")  # type: ignore[misc]
        events += [(t, name, event) for name, some in told.items() for event in some]
        south = boxes.all["north"].neighbours.all["south"]
        ghosts = boxes.all["north"].engine.boundary.heard[south.ghosts]
        if t == LEARN + 14:
            assert south.up
            assert ghosts[:, 0].any()
        if t == LEARN + 30:
            assert not south.up
            assert not np.nan_to_num(ghosts).any()
    warned = [
        (name, t, e.severity) for t, name, e in events
        if e.event == "detector.warning" and e.details.get("neighbour") == "south"
    ]  # fmt: skip
    # Told of ticks up to LEARN + 8 (samples of the next tick close one); lost when that is 6 ticks too old.
    lost, back = LEARN + 9 + PATIENCE + 2, LEARN + 41
    assert warned == [("north", lost, "warning"), ("west", lost, "warning"), ("north", back, "info"),
                      ("west", back, "info")]  # fmt: skip
    assert boxes.all["north"].neighbours.all["south"].up


def test_late_messages_and_such_in_any_order_do_no_harm() -> None:
    boxes, held = started(), list[tuple[int, str, bytes]]()
    rng = np.random.default_rng(0)
    for t in range(LEARN, LEARN + 60):
        boxes.tick(row(t), t, lambda sender, to: False)
        for sender, bodies in boxes.sent.items():
            held += [(t + int(rng.integers(0, 12)), sender, body) for body in bodies]
        for due, sender, body in held:
            for name in BOXES if due == t else ():
                if name != sender:
                    boxes.hear(boxes.all[name], body)
        for one in boxes.all.values():
            for there in one.neighbours.all.values():
                assert there.age(one.neighbours.tick or 0) <= PATIENCE or not there.up
            assert np.isfinite(one.event_statistic).all()
    assert set(boxes.outcomes) == {"heard", "late"}


def test_a_box_that_is_restored_goes_on_alike() -> None:
    one, other = started(), started()
    for t in range(LEARN, LEARN + 30):
        for boxes in (one, other):
            boxes.tick(row(t), t, lambda sender, to, t=t: t % 5 > 0)  # type: ignore[misc]
        if t == LEARN + 15:
            for name in BOXES:
                other.all[name] = thawed(frozen(other.all[name]), name)
                frozen(one.all[name])  # writing a state factorises, here as there
    np.testing.assert_array_equal(one.statistic(), other.statistic())


def test_after_nodes_moved_to_another_box_everybody_is_heard_anew() -> None:
    boxes = started()
    for t in range(LEARN, LEARN + 5):
        boxes.tick(row(t), t)
    moved = Surroundings.of(WHOLE, BOXES | {"south": NAMES[4:9], "west": NAMES[9:]}, "north")
    arrays, meta = frozen(boxes.all["north"])
    north = Pipeline.from_state(moved.network, 1, settings(moved.share), arrays, msgspec.json.decode(meta))
    assert not any(there.used for there in north.neighbours.all.values())
    with pytest.raises(Refused, match="another graph"):
        north.hear(boxes.sent["south"][0])


def told_by_south() -> tuple[Boxes, Told]:
    boxes = started()
    for t in range(LEARN, LEARN + 3):
        boxes.tick(row(t), t, lambda sender, to: False)
    return boxes, unpack(boxes.sent["south"][0])


@pytest.mark.parametrize(
    ("outcome", "other"),
    [
        ("stranger", {"sender": "nobody"}),
        ("other", {"sender": "north"}),
        ("network", {"network": "0"}),
        ("budget", {"budget": "1 per 2 ticks"}),
        ("spec", {"spec": "0"}),
        ("malformed", {"first": 10_000}),
        ("malformed", {"width": 1, "count": 1, "rows": b"\0" * 4}),
        ("malformed", {"count": 400}),
        ("malformed", {"rows": b""}),
    ],
)
def test_what_does_not_fit_is_refused(outcome: str, other: dict[str, object]) -> None:
    boxes, told = told_by_south()
    with pytest.raises(Refused) as refused:
        boxes.all["north"].hear(pack(replace(told, **other)))
    assert refused.value.outcome == outcome
    assert boxes.all["north"].hear(pack(told)) == "south"


def test_numbers_out_of_all_bounds_are_refused() -> None:
    boxes, told = told_by_south()
    rows = told.boxes()
    for value in (np.inf, -1e30):
        rows[0, 0] = value
        with pytest.raises(Refused, match="beyond"):
            boxes.all["north"].hear(pack(replace(told, rows=rows.tobytes())))


def test_parameters_that_are_no_numbers_are_refused() -> None:
    boxes, told = told_by_south()
    rows = told.boxes()
    rows[0, 3] = np.nan
    with pytest.raises(Refused, match="no numbers"):
        boxes.all["north"].hear(pack(replace(told, rows=rows.tobytes())))


def test_a_clock_that_is_set_back_begins_a_new_epoch() -> None:
    boxes = started()
    for t in range(LEARN, LEARN + 10):
        boxes.tick(row(t), t)
    south, north = boxes.all["south"], boxes.all["north"]
    south.set_back(START + LEARN + 7, START + LEARN + 10)
    for t in range(LEARN + 7, LEARN + 9):
        south.push(samples(row(t), t, south.names))
    told = south.told[-1]
    assert (told.epoch, told.tick) == (1, START + LEARN + 7)
    assert north.hear(pack(told)) == "south"  # of an earlier tick than the last, and said later
    with pytest.raises(Refused, match="this box is at"):
        north.hear(pack(replace(told, epoch=2, tick=told.tick - 50)))


def test_thresholds_of_the_whole_hold_in_its_parts() -> None:
    whole, boxes = thawed(learnt_whole(), None), started()
    for one in boxes.all.values():
        assert one.event_threshold == pytest.approx(whole.event_threshold)
        assert one.report.asked == pytest.approx(whole.report.asked / 3)
        assert one.report.near[1] == pytest.approx(whole.report.near[1] / 3)
    again = thawed(frozen(boxes.all["north"]), "north")
    assert again.report.near == boxes.all["north"].report.near  # a share is taken once


def test_messages_of_many_nodes_are_cut_up() -> None:
    _, told = told_by_south()
    rows = np.random.default_rng(0).normal(size=(1234, 30)).astype(np.float32)
    parts = cut_up(told, rows)
    assert [part.first for part in parts] == [0, 500, 1000]
    np.testing.assert_array_equal(np.concatenate([unpack(pack(part)).boxes() for part in parts]), rows)
    assert all(len(msgspec.json.encode(record(part, KEY))) < MAX_BYTES for part in parts)
