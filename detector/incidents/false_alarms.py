"""What people called a false alarm does not open an incident again: same nodes, same kind of change, as high.

Nobody is told of an incident for which one false alarm accounts: every node of it was in that one with this
kind of change, and its statistic is at most GROWTH times the highest of that time. Its nodes are held as in
any other, so that nothing is learnt from them. As soon as a node joins that did not belong, the change is of
another kind, direction or component, or it grows further, it is an event of its own and is opened for all.
"""

from __future__ import annotations

import msgspec

from detector.events.model import Change, Event
from detector.incidents.incident import Incident

GROWTH = 1.25  # times its highest statistic that a false alarm may reach again
MOST = 200  # false alarms remembered, the latest


class FalseAlarm(msgspec.Struct, frozen=True):
    """One of them: the kinds of change of each node, and its highest event statistic."""

    incident: str
    nodes: dict[str, list[str]]
    height: float


class FalseAlarms:
    """All that people told of, by incident."""

    def __init__(self) -> None:
        self.known: dict[str, FalseAlarm] = {}

    def learn(self, record: Event) -> None:
        """The incident of ``record`` was a false alarm."""
        nodes = {node.name: [kind(change) for change in node.change] for node in record.nodes}
        if record.incident is None or record.peak is None or not nodes:
            return
        self.known.pop(record.incident, None)
        self.known[record.incident] = FalseAlarm(record.incident, nodes, record.peak)
        for id in list(self.known)[: max(0, len(self.known) - MOST)]:
            del self.known[id]

    def forget(self, incident: str) -> None:
        """It was an event after all."""
        self.known.pop(incident, None)

    def account_for(self, incident: Incident) -> bool:
        """Whether ``incident``, which is about to open, is one of them again."""
        told = incident.changed or list(incident.members)
        return any(_same(incident, told, alarm) for alarm in self.known.values())

    def state(self) -> list[FalseAlarm]:
        return list(self.known.values())

    def restore(self, alarms: list[FalseAlarm]) -> None:
        self.known = {alarm.incident: alarm for alarm in alarms}


def _same(incident: Incident, told: list[str], alarm: FalseAlarm) -> bool:
    if incident.statistic is None or incident.statistic > GROWTH * alarm.height:
        return False
    for name in told:
        if name not in alarm.nodes:
            return False
        change, kinds = incident.members[name].change, alarm.nodes[name]
        # What cannot be described yet waits; it is asked again.
        if change and kinds and kind(change[0]) not in kinds:
            return False
    return True


def kind(change: Change) -> str:
    """Of what kind a change is: of what, in which direction, in which components.

    Examples
    --------
    >>> kind(Change(kind="mean", text="mean fell", components=["pressure"], effect=-2.0))
    'mean down pressure'
    >>> kind(Change(kind="spread", text="spread doubled", components=["flow"], effect=2.0))
    'spread up flow'
    """
    way = ""
    if change.effect is not None:
        way = "up" if change.effect > (1.0 if change.kind == "spread" else 0.0) else "down"
    return " ".join(part for part in (change.kind, way, *change.components) if part)
