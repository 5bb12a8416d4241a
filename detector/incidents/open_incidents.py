"""The open incidents with their nodes: joining and leaving, ending, records, and the state on disk."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from detector.events.model import By, Event, IncidentKind, Resolution
from detector.incidents.decision import Actions
from detector.incidents.false_alarms import FalseAlarm, FalseAlarms
from detector.incidents.incident import Incident, Member, node_record, node_state
from detector.incidents.node_states import NodeStates
from detector.incidents.reopening import Reopening
from detector.settings.incidents import IncidentSettings
from detector.settings.span import seconds
from detector.settings.windows import WindowSettings
from detector.stateful import Arrays, Meta, Rows
from estimators.core.graph import Graph

POSSIBLE = 0.3  # probability from which on a node is possibly changed


class IncidentError(ValueError):
    """A command named an incident that is unknown or has ended, or a node that is unknown."""


class OpenIncidents:
    """The open incidents of a network and the memory they need."""

    def __init__(self, names: Sequence[str], graph: Graph, settings: IncidentSettings | None = None) -> None:
        self.settings = (settings or IncidentSettings()).resolved(WindowSettings())
        self.states = NodeStates(names, graph)
        self.open: dict[str, Incident] = {}  # in the order of opening
        self.records: dict[str, Event] = {}  # latest record of every open and lately ended incident
        self.actions = Actions()
        self.false_alarms = FalseAlarms()
        self.reopening = Reopening()

    @property
    def held(self) -> set[int]:
        """The nodes whose reference is frozen: those of the open incidents."""
        return set(self.states.owner)

    def _find(self, id: str) -> Incident:
        if id in self.open and self.open[id].told:
            return self.open[id]
        if id in self.records:
            raise IncidentError(f"incident {id} has ended already ({self.records[id].resolution})")
        told = [one.id for one in self.open.values() if one.told]
        raise IncidentError(f"incident {id} is not known; open: {', '.join(told) or 'none'}")

    def members(self, incident: Incident) -> list[int]:
        return [self.states.index[name] for name in incident.members]

    def _ranked(self, incident: Incident) -> list[str]:
        """Its nodes, largest peak first."""
        peak = np.nan_to_num(self.states.peak, nan=-np.inf)
        return sorted(incident.members, key=lambda name: (-peak[self.states.index[name]], name))

    def firing(self, incident: Incident) -> list[str]:
        """The nodes worth a look: not back, not silent, and changed if any is."""
        at, states = self.states.index, self.states
        names = [
            name for name in self._ranked(incident)
            if not states.silent[at[name]]
            and (states.cool_row[at[name]] == 0 or incident.members[name].probability is not None)
        ]  # fmt: skip
        return [name for name in names if not incident.members[name].suspected] or names

    def recovered(self, v: int) -> bool:
        return bool(self.states.cool_row[v] >= self.settings.clear_after)

    def join(self, incident: Incident, v: int, time: float, suspected: bool) -> None:
        name = self.states.names[v]
        incident.returned.pop(name, None)
        incident.members[name] = Member(since=time, suspected=suspected)
        self.states.join(v, incident.id)
        if v in self.actions.release:  # from one incident to another within a tick: it stays held
            self.actions.release.remove(v)
        else:
            self.actions.hold.append(v)
        incident.settled = False

    def leave(self, incident: Incident, v: int, since: float | None = None) -> None:
        """A node leaves: it never was in it, or, with ``since``, is back to before from then on."""
        member = incident.members.pop(self.states.names[v])
        del self.states.owner[v]
        if v in self.actions.hold:
            self.actions.hold.remove(v)
        else:
            self.actions.release.append(v)
        if since is not None:
            incident.returned[self.states.names[v]] = member
            self.actions.forget[v] = since
            self._cool(v, since)

    def resolve(self, incident: Incident, time: float, resolution: Resolution, by: By) -> Event:
        record = self.record(incident, "incident.resolved", time, resolution=resolution, by=by)
        for name, member in incident.members.items():
            v = self.states.index[name]
            del self.states.owner[v]
            self._cool(v, time)
            if v in self.actions.restore:
                self.reopening.restore([name])
                continue
            unlikely = member.suspected and (member.probability or 0.0) < POSSIBLE
            if resolution == "accepted" and not (unlikely and self.recovered(v)):
                self.actions.rebaseline[v] = member.onset.time if member.onset else member.since
                self.reopening.accept([name], time)
                self.actions.forget.pop(v, None)
            else:  # a node that is as before needs no new reference
                self.actions.release.append(v)
                if by == "operator":  # what is over must not be found again in the windows
                    self.actions.forget[v] = time
        self.close(incident)
        return record

    def _cool(self, v: int, time: float) -> None:
        cool_down = seconds(self.settings.cool_down, self.states.step)
        if cool_down > 0.0:
            self.states.cooling[v] = time + cool_down

    def close(self, incident: Incident) -> None:
        del self.open[incident.id]
        ended = [id for id in self.records if id not in self.open]
        for id in ended[: max(0, len(ended) - self.settings.keep)]:
            del self.records[id]

    def record(self, incident: Incident, kind: IncidentKind, time: float, *, by: By = "detector",
                resolution: Resolution | None = None, into: str | None = None) -> Event:  # fmt: skip
        nodes, over = [], resolution in ("cleared", "restored")
        for name in self._ranked(incident):
            v, member = self.states.index[name], incident.members[name]
            silent, stuck = bool(self.states.silent[v]), bool(self.states.stuck[v])
            state = node_state(member, silent, stuck, self.recovered(v))
            statistic, peak = self.states.statistic[v], self.states.peak[v]
            nodes.append(node_record(name, member, state, statistic, peak, incident.counts(name, over)))
        for name, member in incident.returned.items():
            statistic = self.states.statistic[self.states.index[name]]
            changed = incident.counts(name, over)
            nodes.append(node_record(name, member, "recovered", statistic, np.nan, changed))
        record = incident.record(kind, time, nodes, by, resolution, into)
        self.records.pop(incident.id, None)  # the latest goes to the end: the first ended is forgotten first
        self.records[incident.id] = record
        return record

    def state(self) -> tuple[Arrays, Meta]:
        """Everything as JSON, by node name; after `restore` the later events are identical."""
        returned = [name for incident in self.open.values() for name in incident.returned]
        return {}, {
            "version": 1,
            "open": [msgspec.to_builtins(incident) for incident in self.open.values()],
            "records": [record.record() for record in self.records.values()],
            "nodes": self.states.state(returned),
            "false_alarms": [msgspec.to_builtins(alarm) for alarm in self.false_alarms.state()],
            "reopening": {name: list(one) for name, one in self.reopening.nodes.items()},
        }

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        """Take over a `state`. Indices that the network no longer has are left out."""
        if meta.get("version") != 1:
            raise ValueError(f"incidents: state of version {meta.get('version')!r} cannot be read, only 1")
        self.actions = Actions()
        self.states = states = NodeStates(self.states.names, self.states.graph)
        states.restore(meta["nodes"] if "nodes" in meta else meta["roster"])  # as states of 0.1 call it
        incidents = [msgspec.convert(raw, Incident) for raw in meta["open"]]
        for incident in incidents:
            for group in (incident.members, incident.returned):
                for name in [name for name in group if name not in states.index]:
                    del group[name]
            states.owner |= {states.index[name]: incident.id for name in incident.members}
        self.open = {incident.id: incident for incident in incidents}
        self.false_alarms.restore([msgspec.convert(raw, FalseAlarm) for raw in meta.get("false_alarms", ())])
        reopening = {name: one for name, one in meta.get("reopening", {}).items() if name in states.index}
        self.reopening.nodes = msgspec.convert(reopening, dict[str, tuple[int, float]])
        records = [msgspec.convert(raw, Event) for raw in meta["records"]]
        self.records = {str(record.incident): record for record in records}
