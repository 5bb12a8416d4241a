"""Which sinks a record goes to: by severity and groups, and to none while a silence covers all of its nodes.

Decided once, when the record is put into the outbox. An incident is silenced by the time of the stream, while
one silence names all of its nodes. Which sinks were told of an incident is remembered until it ends, over
restarts as well: they get its updates and its end whatever nodes it has by then and however severe it is.
During a silence they get the end only. No other sink gets the end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from detector.events.model import is_unix
from detector.events.wording import split_nodes
from detector.notify.settings import NotifySettings, Route, moment
from detector.notify.silences import Silence
from detector.storage.records import ENDS, STATES, TOLD, Record

Known = TypeVar("Known")
SEVERITIES = ("info", "warning", "critical")


def wanted(records: Iterable[Record], sink: str) -> list[Record]:
    """Those that are addressed to a sink."""
    return [record for record in records if record.to is None or sink in record.to]


class Routing:
    """Settings and silences as they are now; `known`: the sinks that were told of each open incident."""

    def __init__(
        self, settings: NotifySettings | None = None, silences: Iterable[Silence] = (),
        known: Mapping[str, set[str]] | None = None,
    ) -> None:  # fmt: skip
        self.silences = {one.id: one for one in silences}
        self.muted: dict[str, Record] = {}  # open incidents whose latest record was sent to nobody
        self._told: OrderedDict[str, set[str]] = OrderedDict(known or {})
        self._nodes: OrderedDict[str, list[str]] = OrderedDict()  # of incidents, as last told
        self.adopt(settings or NotifySettings())

    def adopt(self, settings: NotifySettings) -> None:
        self.settings = settings
        self.windows = [
            Silence(
                id=f"maintenance-{number}", nodes=list(window.nodes), groups=list(window.groups),
                begin=moment(window.start, window.zone), lasts=window.lasts, every=window.every,
                zone=window.zone, reason=window.reason,
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
        if record.event not in STATES or record.incident is None:
            silenced = self.silence_of(record.time, nodes) is not None
            chosen = [] if silenced else [name for name in sinks if self._wants(name, content, nodes)]
        elif record.event == ENDS:
            chosen = self._of_the_end(record.incident, content, nodes, sinks)
        else:
            chosen = self._of_the_state(record, record.incident, content, nodes, sinks)
        return record._replace(to=tuple(chosen))

    def greet(self, record: Record, sinks: Sequence[str]) -> Record:
        """The latest record of an open incident, addressed to sinks that begin.

        If it is known that nobody has heard of it, it is released to all sinks once no silence covers it: one
        may have ended while the daemon was stopped.
        """
        incident = record.incident or ""
        known = incident in self._told
        addressed = self.address(record, sinks)
        if not known:
            self._told.pop(incident, None)  # opened by an earlier release: others may have heard of it
        elif not self._told[incident]:
            self.muted[incident] = record
        return addressed

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
        """Whether an incident, by one of its records, was told to nobody because of a silence."""
        if self._told.get(content["incident"]):
            return False
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

    def _of_the_state(
        self, record: Record, incident: str, content: dict[str, Any], nodes: Sequence[str],
        sinks: Sequence[str],
    ) -> list[str]:  # fmt: skip
        heard = _latest(self._told, incident, self._told.get(incident, set()))
        if self.silence_of(record.time, nodes) is not None:
            self.muted[incident] = record
            return []
        self.muted.pop(incident, None)
        chosen = [name for name in sinks if name in heard or self._wants(name, content, nodes)]
        heard.update(chosen)
        return chosen

    def _of_the_end(
        self, incident: str, content: dict[str, Any], nodes: Sequence[str], sinks: Sequence[str]
    ) -> list[str]:
        self.muted.pop(incident, None)
        heard = self._told.pop(incident, None)
        if heard is None:  # it was opened by an earlier release: better an end too many than one too few
            return [name for name in sinks if self._wants(name, content, nodes)]
        return [name for name in sinks if name in heard]

    def _about(self, record: Record, content: dict[str, Any]) -> list[str]:
        """The nodes of a record; a finding is about those of its incident."""
        nodes = certain(content)
        if record.incident is None:
            return nodes
        if nodes:
            _latest(self._nodes, record.incident, nodes)
        return nodes or self._nodes.get(record.incident, [])

    def _wants(self, sink: str, content: dict[str, Any], nodes: Sequence[str]) -> bool:
        route = self.settings.routes.get(sink, Route())
        if SEVERITIES.index(content.get("severity", "info")) < SEVERITIES.index(route.severity):
            return False
        return not route.groups or not nodes or any(self._in_groups(node, route.groups) for node in nodes)

    def _in_groups(self, node: str, groups: Sequence[str]) -> bool:
        return any(fnmatchcase(node, one) for group in groups for one in self.settings.groups.get(group, ()))


def _latest(memory: OrderedDict[str, Known], incident: str, known: Known) -> Known:
    """Remember it as the latest, and forget the oldest."""
    memory[incident] = known
    memory.move_to_end(incident)
    if len(memory) > TOLD:
        memory.popitem(last=False)
    return known


def certain(content: dict[str, Any]) -> list[str]:
    """Names of the nodes that changed; where none is certain, of those that possibly did."""
    changed, possibly = split_nodes(content.get("nodes") or ())
    return changed or possibly


def stream_time(watermark: float | None, clock: float) -> float:
    """By what silences are in force: the stream's time where that is a date, else the clock's."""
    return watermark if watermark is not None and is_unix(watermark) else clock
