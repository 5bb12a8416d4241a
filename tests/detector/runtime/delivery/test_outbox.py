"""What waits for a sink is bounded in records and bytes; the policy says what goes, and all is told (T10)."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detector.runtime.delivery.outbox import Outbox
from detector.storage.records import Record

Policy = Literal["drop_oldest", "drop_newest"]


def record(number: int, size: int = 10) -> Record:
    return Record(str(number), None, "detector.warning", 0.0, b"x" * size)


def ids(records: list[Record]) -> list[int]:
    return [int(one.id) for one in records]


@pytest.mark.parametrize(
    ("policy", "kept", "given_up"),
    [("drop_oldest", range(6, 10), range(6)), ("drop_newest", range(4), range(4, 10))],
)
@pytest.mark.parametrize("bound", ["records", "bytes"])
def test_the_policy_decides(policy: Policy, kept: range, given_up: range, bound: str) -> None:
    outbox = Outbox(*((4, 10**6) if bound == "records" else (10**6, 49)), policy)
    dropped = outbox.add([record(number) for number in range(10)])
    assert ids(dropped) == list(given_up)
    assert ids(outbox.hold(100)) == list(kept)
    assert outbox.bytes == 40


def test_what_is_being_sent_stays() -> None:
    """Else it would be dropped, counted, and yet delivered; beside a full outbox one more may wait."""
    outbox = Outbox(4, 10**6, "drop_oldest")
    outbox.add([record(number) for number in range(4)])
    outbox.hold(4)
    assert ids(outbox.add([record(4), record(5), record(6)])) == [4, 5]
    for number in range(4):
        outbox.take(str(number))
    assert ids(outbox.hold(4)) == [6]


@given(
    st.sampled_from(["drop_oldest", "drop_newest"]),
    st.lists(st.one_of(st.integers(1, 30), st.sampled_from(["hold", "taken", "failed"])), max_size=60),
)
def test_nothing_is_unbounded_and_nothing_vanishes(policy: Policy, script: list[int | str]) -> None:
    """Whatever comes and goes: each record was sent, was told as dropped, or waits, in its order."""
    outbox = Outbox(5, 60, policy)
    sent: list[int] = []
    dropped: list[int] = []
    held: list[Record] = []
    number = 0
    for what in script:
        if isinstance(what, int):
            dropped += ids(outbox.add([record(number, what)]))
            number += 1
        elif what == "hold":
            held = outbox.hold(3)
        else:
            for one in held if what == "taken" else ():
                outbox.take(one.id)
            outbox.release()
            sent += ids(held) if what == "taken" else []
            held = []
        assert len(outbox) <= 5
        assert outbox.bytes <= 60 + 30
    waiting = ids(outbox.records)
    assert sorted([*sent, *dropped, *waiting]) == list(range(number))
    assert waiting == sorted(waiting)
    assert sent == sorted(sent)


def test_keys_that_are_left_out_keep_their_order() -> None:
    """What rests holds back the records of its own incident, and no others."""
    outbox = Outbox(10, 10**6, "drop_oldest")
    records = [Record(str(n), "ab"[n % 2], "incident.updated", 0.0, b"x") for n in range(6)]
    outbox.add(records)
    assert ids(outbox.hold(10, {"a"})) == [1, 3, 5]
    assert ids(outbox.hold_behind(records[2])) == [4]
    assert ids(outbox.hold_behind(records[5])) == []
