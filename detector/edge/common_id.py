"""One id for incidents of several boxes that are one event: linked over a cut, and begun together.

Each box tells what is open near its cuts. Whoever sees two that belong together takes the older common id, so
that along a chain of boxes all come to the id of the one that opened first, a tick or two per box.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from detector.edge.messages import MOST_INCIDENTS, OpenThere, numbers
from detector.events.model import Event
from detector.incidents.belonging import REACH, agrees, around
from detector.incidents.incident import Incident
from detector.incidents.onset import Onset
from detector.incidents.tracker import IncidentTracker
from detector.network.surroundings import Surroundings


class Common:
    """Of the incidents of one box."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.cut, self.graph = surroundings.cut, surroundings.whole.graph
        self._near = np.zeros(self.graph.n_nodes, np.bool_)  # nodes of ours that others may be near to
        self._near[sorted(around(self.graph, self.cut.nodes.tolist(), REACH))] = True

    def near_the_cut(self, incidents: IncidentTracker) -> list[OpenThere]:
        """What is open and may reach into another box, the latest if there are too many."""
        found = []
        for incident in list(incidents.open.values())[::-1]:
            members = self._numbers(incidents, incident)
            near = members[self._near[members]]
            if not incident.told or not len(near):
                continue
            onset, id, opened = incident.onset, incident.common or incident.id, incident.common_opened
            first = incident.begin if onset is None or onset.earliest is None else onset.earliest
            last = incident.opened if onset is None else onset.latest
            opened = incident.opened if opened is None else opened
            found.append(OpenThere(id, opened, float(first), float(last), numbers(near)))
        return found[:MOST_INCIDENTS]

    def join(
        self, incidents: IncidentTracker, events: list[Event], there: Iterable[OpenThere], step: float
    ) -> list[Event]:
        """Give those of ours that belong to one of ``there`` the older of the two ids.

        The ``events`` of this tick are given back with it; of others that have it now a record will tell.
        """
        others, joined = list(there), set()
        if not others:
            return events
        for incident in incidents.open.values():
            reach: set[int] | None = None
            for other in others:
                mine = (incident.opened if incident.common_opened is None else incident.common_opened,
                        incident.common or incident.id)  # fmt: skip
                theirs = (other.opened, other.common)
                if theirs >= mine and incident.common is not None:
                    continue
                if reach is None:
                    reach = around(self.graph, self._numbers(incidents, incident).tolist(), REACH)
                if reach.isdisjoint(other.nodes) or not agrees(
                    incident, Onset(other.first, other.first, other.last), step
                ):
                    continue
                older = min(mine, theirs)
                incident.common_opened, incident.common = older
                joined.add(incident.id)
        for k, event in enumerate(events):
            if event.incident in joined:
                events[k] = replace(event, common=incidents.open[event.incident].common)
                incidents.records[event.incident] = events[k]
        for id in joined - {event.incident for event in events}:
            incidents.open[id].urgent = True
        return events

    def _numbers(self, incidents: IncidentTracker, incident: Incident) -> NDArray[np.int32]:
        return self.cut.held[np.array(sorted(incidents.members(incident)), np.intp)]
