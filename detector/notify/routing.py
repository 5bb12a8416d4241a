"""Which sinks a record goes to: by severity and groups, and to none while a silence covers all of its nodes.

Decided once, when the record is put into the outbox. An incident is silenced by the time of the stream, while
one silence names all of its nodes; its end is told unless that silence has been in force since it opened, so
that nothing that was told of stays open elsewhere.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from detector.events.model import is_unix
from detector.events.wording import split_nodes
from detector.notify.settings import NotifySettings, Route, moment
from detector.notify.silences import Silence
from detector.storage.records import Record

SEVERITIES = ("info", "warning", "critical")
REMEMBERED = 1000  # incidents whose nodes are known
STATES = ("incident.opened", "incident.updated", "incident.resolved")


def wanted(records: Iterable[Record], sink: str) -> list[Record]:
    """Those that are addressed to a sink."""
    return [record for record in records if record.to is None or sink in record.to]


class Routing:
    """Settings and silences as they are now."""

    def __init__(self, settings: NotifySettings | None = None, silences: Iterable[Silence] = ()) -> None:
        self.silences = {one.id: one for one in silences}
        self.muted: dict[str, Record] = {}  # open incidents whose latest record was sent to nobody
        self._nodes: OrderedDict[str, list[str]] = OrderedDict()  # of incidents, as last told
        self.adopt(settings or NotifySettings())

    def adopt(self, settings: NotifySettings) -> None:
        self.settings = settings
        self.windows = [
            Silence(
                id=f"maintenance-{number}", nodes=list(window.nodes), groups=list(window.groups),
                begin=moment(window.start), lasts=window.lasts, every=window.every, reason=window.reason,
                who="configuration", configured=True,
            )
            for number, window in enumerate(settings.maintenance, 1)
        ]  # fmt: skip

    def every(self) -> list[Silence]:
        """Those of the configuration first."""
        return [*self.windows, *self.silences.values()]

    def address(self, record: Record, sinks: Sequence[str]) -> Record:
        """The record with the sinks that are to have it."""
        if not record.event.startswith(("incident.", "node.")):
            return record._replace(
                to=tuple(name for name in sinks if self._wants(name, record.content(), []))
            )
        content = record.content()
        nodes = self._about(record, content)
        silenced = self._silenced(record, content, nodes)
        self._remember(record, silenced)
        if silenced:
            return record._replace(to=())
        return record._replace(to=tuple(name for name in sinks if self._wants(name, content, nodes)))

    def silence_of(self, time: float, nodes: Sequence[str]) -> Silence | None:
        """One that covers all of these nodes at that time."""
        if not nodes:
            return None
        for silence in self.every():
            if silence.occurrence(time) is not None and all(self.names(silence, node) for node in nodes):
                return silence
        return None

    def names(self, silence: Silence, node: str) -> bool:
        return self._in_groups(node, silence.groups) or any(fnmatchcase(node, one) for one in silence.nodes)

    def silenced(self, content: dict[str, Any]) -> bool:
        """Whether the opening of an incident, by one of its records, was told to nobody."""
        return self.silence_of(content.get("opened") or content["time"], certain(content)) is not None

    def released(self, now: float) -> list[Record]:
        """Open incidents that were told to nobody and are silenced no longer; what was last said of them."""
        found = []
        for incident, record in list(self.muted.items()):
            nodes = self._nodes.get(incident, [])
            if self.silence_of(now, nodes) is None:
                found.append(record)
                del self.muted[incident]
        return found

    def _silenced(self, record: Record, content: dict[str, Any], nodes: list[str]) -> bool:
        silence = self.silence_of(record.time, nodes)
        if silence is None or record.event != "incident.resolved":
            return silence is not None
        opened = content.get("opened")
        return opened is not None and silence.occurrence(opened) == silence.occurrence(record.time)

    def _remember(self, record: Record, silenced: bool) -> None:
        if record.incident is None or record.event not in STATES:
            return
        if silenced and record.event != "incident.resolved":
            self.muted[record.incident] = record
        else:
            self.muted.pop(record.incident, None)

    def _about(self, record: Record, content: dict[str, Any]) -> list[str]:
        """The nodes of a record; a finding is about those of its incident."""
        nodes = certain(content)
        if record.incident is None:
            return nodes
        if nodes:
            self._nodes[record.incident] = nodes
            self._nodes.move_to_end(record.incident)
            if len(self._nodes) > REMEMBERED:
                self._nodes.popitem(last=False)
        return nodes or self._nodes.get(record.incident, [])

    def _wants(self, sink: str, content: dict[str, Any], nodes: Sequence[str]) -> bool:
        route = self.settings.routes.get(sink, Route())
        if SEVERITIES.index(content.get("severity", "info")) < SEVERITIES.index(route.severity):
            return False
        return not route.groups or not nodes or any(self._in_groups(node, route.groups) for node in nodes)

    def _in_groups(self, node: str, groups: Sequence[str]) -> bool:
        return any(fnmatchcase(node, one) for group in groups for one in self.settings.groups.get(group, ()))


def certain(content: dict[str, Any]) -> list[str]:
    """Names of the nodes that changed; where none is certain, of those that possibly did."""
    changed, possibly = split_nodes(content.get("nodes") or ())
    return changed or possibly


def stream_time(watermark: float | None, clock: float) -> float:
    """By what silences are in force: the stream's time where that is a date, else the clock's."""
    return watermark if watermark is not None and is_unix(watermark) else clock
