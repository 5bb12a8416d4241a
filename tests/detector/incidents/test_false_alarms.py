"""A false alarm of the same kind at the same nodes does not come twice; an event of another kind comes."""

from __future__ import annotations

import msgspec
import pytest

from detector.events.model import Change, Event, NodeRecord
from detector.incidents.false_alarms import MOST, FalseAlarm, FalseAlarms
from detector.incidents.incident import Incident, Member
from tests.detector import learnt

UP = Change(kind="mean", text="rose", components=["flow"], effect=2.0)
DOWN = Change(kind="mean", text="fell", components=["flow"], effect=-2.0)
OTHER = Change(kind="mean", text="rose", components=["level"], effect=2.0)
WIDE = Change(kind="spread", text="doubled", components=["flow"], effect=2.0)
NARROW = Change(kind="spread", text="halved", components=["flow"], effect=0.5)


def record(id="i1", nodes=("a", "b"), change=UP, peak=8.0) -> Event:
    told = [NodeRecord(name=name, state="alarmed", change=[change]) for name in nodes]
    return Event(
        id=f"{id}-1", event="incident.labelled", time=1.0, summary="", incident=id, nodes=told, peak=peak
    )


def incident(nodes=("a",), change: Change | None = UP, statistic=8.0) -> Incident:
    members = {name: Member(since=9.0, suspected=False, change=[change] if change else []) for name in nodes}
    return Incident(id="new", opened=9.0, members=members, statistic=statistic)


@pytest.mark.parametrize(
    ("now", "known"),
    [
        (incident(), True),
        (incident(("a", "b")), True),
        (incident(("a", "c")), False),  # another node
        (incident(change=DOWN), False),  # the other way
        (incident(change=OTHER), False),  # another component
        (incident(change=WIDE), False),  # of another kind
        (incident(statistic=9.9), True),
        (incident(statistic=10.1), False),  # higher than it was, by more than a quarter
        (incident(change=None), True),  # cannot be told yet: it waits
    ],
)
def test_what_a_false_alarm_accounts_for(now, known):
    alarms = FalseAlarms()
    alarms.learn(record())
    assert alarms.account_for(now) is known
    alarms.forget("i1")
    assert not alarms.account_for(now)


def test_spreads_have_a_direction():
    alarms = FalseAlarms()
    alarms.learn(record(change=NARROW))
    assert alarms.account_for(incident(change=NARROW))
    assert not alarms.account_for(incident(change=WIDE))


def test_two_false_alarms_do_not_add_up():
    """An incident over nodes of both is larger than either."""
    alarms = FalseAlarms()
    alarms.learn(record("i1", ("a",)))
    alarms.learn(record("i2", ("b",)))
    assert alarms.account_for(incident(("b",)))
    assert not alarms.account_for(incident(("a", "b")))


def test_they_are_kept_as_json_and_the_oldest_go():
    alarms = FalseAlarms()
    for k in range(MOST + 3):
        alarms.learn(record(f"i{k}"))
    assert len(alarms.known) == MOST
    assert "i2" not in alarms.known
    back = FalseAlarms()
    back.restore([msgspec.convert(msgspec.to_builtins(one), FalseAlarm) for one in alarms.state()])
    assert back.known == alarms.known


def test_what_cannot_be_compared_is_not_learnt():
    alarms = FalseAlarms()
    alarms.learn(record(peak=None))
    alarms.learn(record(nodes=()))
    assert not alarms.known


# ------------------------------------------------------------------------------------------ in the pipeline

BURST = 40  # ticks that a disturbance lasts


class Stream:
    """The quiet stream of the learnt network, with disturbances of node 2."""

    def __init__(self) -> None:
        self.made = learnt.pipeline()
        self.at = learnt.NOW

    @property
    def time(self) -> float:
        return learnt.START + self.at

    def run(self, ticks: int, shift: float = 0.0) -> list[Event]:
        X = learnt.changed(self.at, self.at + ticks, self.at, [2], shift)
        self.at += ticks
        return self.made.push(learnt.samples(X, self.at - ticks))


def opened(events: list[Event]) -> list[Event]:
    return [event for event in events if event.event == "incident.opened"]


def clear(stream: Stream) -> None:
    for id in list(stream.made.incidents.open):
        stream.made.clear(id, stream.time)
    stream.run(300)
    for id in list(stream.made.incidents.open):
        stream.made.clear(id, stream.time)


@pytest.mark.parametrize("restart", [False, True])
def test_a_false_alarm_does_not_come_twice_and_another_event_does(restart):
    """The same burst at the same node opens nothing any more; the opposite one and one elsewhere do."""
    stream = Stream()
    first = opened(stream.run(BURST, 3.0))
    assert len(first) == 1
    stream.made.label(first[0].incident, stream.time, alarm="false")
    clear(stream)
    if restart:
        stream.made = learnt.thawed(learnt.frozen(stream.made))
    assert not opened(stream.run(BURST, 3.0))
    stream.run(300)
    assert len(opened(stream.run(BURST, -3.0))) == 1


def test_without_the_label_it_comes_again_and_after_a_true_one_too():
    stream = Stream()
    first = opened(stream.run(BURST, 3.0))
    stream.made.label(first[0].incident, stream.time, alarm="false")
    stream.made.label(first[0].incident, stream.time, alarm="true")
    clear(stream)
    assert len(opened(stream.run(BURST, 3.0))) == 1
