"""From statistics to a verdict: where an event may begin, who belongs to one, who is still warm."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detector.engine import Engine
from detector.incidents import Incidents, Verdict
from detector.learnt import Report
from detector.river_engine import RiverEngine
from detector.settings import Settings
from detector.ticks import Tick

Bools = NDArray[np.bool_]

JOINING = 50  # ticks after the opening in which neighbours may join on shared evidence


def judge(tick: Tick, engine: Engine | RiverEngine, report: Report, incidents: Incidents, settings: Settings,
          silent: Bools, stuck: Bools) -> Verdict:  # fmt: skip
    """The verdict at the end of ``tick``."""
    able = ~(silent | stuck)  # these have events of their own
    node, event = engine.node, engine.event
    with np.errstate(invalid="ignore"):  # NaN, no verdict, is over no threshold
        hot = event > report.event_threshold
        member = node > report.threshold
        warm = node > settings.alarm.release * report.threshold
        if incidents.open:
            certain = node > report.event_threshold
            youngest = tick.end - JOINING * report.step
            member = _joining(incidents, youngest, member, certain, engine.inside > report.threshold)
            settled = certain | ~_recovered(incidents, settings.incidents.clear_after)
            member, warm = member & settled, warm & settled
    return Verdict(
        tick.end, tick.index, hot & able, member & able, warm & able, node.copy(), event.copy(),
        report.threshold, report.event_threshold, silent.copy(), stuck.copy(), np.isfinite(node),
    )  # fmt: skip


def _joining(incidents: Incidents, youngest: float, member: Bools, certain: Bools, inside: Bools) -> Bools:
    """Who belongs, next to open incidents: neighbours count for more while an incident is young.

    Later only what would open an incident by itself joins. At the level of a single node, one in a thousand
    ticks, all neighbours of an incident that stays open for long would join it in the end.
    """
    graph = incidents.roster.graph
    young, old = np.zeros((2, graph.n_nodes), np.bool_)
    for v, owner in incidents.roster.owner.items():
        near = young if incidents.open[owner].opened >= youngest else old
        near[v] = True
        near[graph.neighbours(v)] = True
    return np.asarray(np.where(old & ~young, certain, member) | (young & inside))


def _recovered(incidents: Incidents, clear_after: int) -> Bools:
    """Nodes of incidents that came back to quiet. It is believed: else the many nodes of a large incident,
    each now and then over a bar meant for one, would keep each other from ever being all cool at once."""
    roster = incidents.roster
    owned = np.zeros(roster.graph.n_nodes, np.bool_)
    owned[list(roster.owner)] = True
    return np.asarray(owned & (roster.cool_row >= clear_after))
