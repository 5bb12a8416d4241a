"""Who belongs to an incident: nodes that are linked to it, changed by their own data, and at the same time.

Two classes. *changed*: named so that at most one in twenty of those named did not change. *possibly*: likely,
but not certain enough to be counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from detector.incidents.decision import Evidence
from detector.incidents.incident import Incident
from detector.incidents.node_states import NodeStates
from detector.incidents.onset import Onset, onset, pooled_onset
from estimators.core.graph import Graph
from estimators.streaming.membership import discoveries

FALSE_SHARE = 0.05  # of the nodes called changed that did not, in expectation
UNLIKELY = 0.1  # below, it is let go
REACH = 2  # links from a member within which nodes may belong
MOST = 300  # candidates that are looked at
AGE = 0.15  # of its age, after which an incident is looked at again: soon while it is young
JOINING = 50  # ticks after the opening in which nodes may join, and as many as it took to open
APART = 2.0  # standard errors by which the time between two onsets must differ from one of them
SLACK = 5.0  # ticks by which onsets of one event may differ at least


@dataclass(frozen=True)
class Standing:
    """What the data of one node say about its part in an incident."""

    probability: float
    p_value: float
    changed: bool  # named, with the share of false names under control


def around(graph: Graph, nodes: Iterable[int], links: int = REACH) -> set[int]:
    """``nodes`` and those at most so many links away."""
    found = set(nodes)
    edge = found
    for _ in range(links):
        edge = {u for v in edge for u in graph.neighbours(v).tolist()} - found
        found |= edge
    return found


def assess(incident: Incident, states: NodeStates, evidence: Evidence) -> dict[int, Standing] | None:
    """The standing of the incident's nodes and of the free nodes near it; None where nothing can be told."""
    members = {states.index[name] for name in incident.members}
    free = [
        v for v in around(states.graph, members) - members
        if v not in states.owner and not states.silent[v] and not np.isnan(states.statistic[v])
        and states.names[v] not in incident.returned
    ]  # fmt: skip
    if len(members) + len(free) > MOST:
        free.sort(key=lambda v: (-states.statistic[v], v))
    nodes = sorted(members | set(free[: max(MOST - len(members), 0)]))
    # All that may have changed are asked for the direction of the change: a false one hardly turns it.
    seeds = np.array([v in members or states.hot[v] or states.firing[v] for v in nodes], np.bool_)
    told = evidence.membership(np.array(nodes, np.int32), incident.begin, seeds)
    if told is None:
        return None
    known = np.flatnonzero(np.isfinite(told.probability))
    named = np.zeros(len(nodes), np.bool_)
    named[known] = discoveries(told.probability[known], FALSE_SHARE)
    return {
        nodes[k]: Standing(float(told.probability[k]), float(told.p_value[k]), bool(named[k]))
        for k in known.tolist()
    }  # fmt: skip


def linked(graph: Graph, members: Iterable[int], likely: set[int], links: int = REACH) -> set[int]:
    """Those of ``likely`` that members reach, in steps of at most so many links from one to the next."""
    reached, edge = set[int](), set(members)
    while edge := (around(graph, edge, links) & likely) - reached:
        reached |= edge
    return reached


def grows(incident: Incident, time: float, step: float) -> bool:
    """Whether nodes may still join: it is not ending, and what changes now did not change when it began."""
    return not incident.returned and time <= incident.opened + JOINING * step + (
        incident.opened - incident.begin
    )


def back_since(nodes: Sequence[int], incident: Incident, evidence: Evidence) -> dict[int, float]:
    """When nodes of the incident came back to before, as their own data say."""
    told = evidence.log_ratios(np.array(nodes, np.int32), incident.begin)
    found = {v: onset(-ratio, evidence.sample_times(v)) for v, ratio in told.items()}
    return {v: begin.time for v, begin in found.items() if begin is not None}


def onset_of(nodes: Iterable[int], evidence: Evidence) -> Onset | None:
    """One onset for several nodes, by their own data."""
    return pooled_onset([(evidence.log_ratio(v), evidence.sample_times(v)) for v in nodes])


def together(incident: Incident, nodes: Sequence[int], evidence: Evidence, step: float) -> bool:
    """Whether ``nodes`` changed when the incident began, as far as can be told.

    A difference of onsets counts only if it is seen in the data of the time between: nodes that were still as
    before, or had changed already.
    """
    own, begin = onset_of(nodes, evidence), incident.begin
    if own is None or agrees(incident, own, step):
        return True
    first, second = sorted((own.time, begin))
    seen = evidence.between(np.array(nodes, np.int32), first, second)
    if seen is None:
        return False
    place, error = seen
    return place - APART * error < 0.5 if own.time < begin else place + APART * error > 0.5


def agrees(incident: Incident, other: Onset, step: float) -> bool:
    """Whether two onsets may be one: what is seen late is dated loosely, too."""
    slack = max(SLACK * step, incident.opened - incident.begin)
    mine = incident.onset
    first = incident.begin if mine is None or mine.earliest is None else mine.earliest
    last = incident.begin if mine is None else mine.latest
    earliest = -np.inf if other.earliest is None else other.earliest
    return bool(earliest <= last + slack and other.latest >= first - slack)
