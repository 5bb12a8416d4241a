"""When a case file is due, and what goes into it. Pure, as the pipeline is: no clock, no file.

    early     some ticks after the opening
    settled   when the typical member has ``settle`` samples past the onset, or, while nobody is certain,
              the opening is as many ticks ago

or at the end of the incident, whichever comes first. An incident that is merged into another gets none: the
other one speaks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from detector.events.model import Event
from detector.incidents.case import Case, Stage
from detector.incidents.incident import Incident
from detector.stateful import Arrays, Meta, Rows, places, take_rows
from estimators.core.graph import Graph
from estimators.core.types import Floats32, Nodes

if TYPE_CHECKING:
    from detector.pipeline.pipeline import Pipeline

BEFORE = 32  # ticks between two looks at the statistic: the one before the opening is 32 to 63 ticks old
MOST_NODES = 2000  # of a case file; of a larger network only those around the incident
MOST_WINDOWS = 50  # members whose values are kept, and as many neighbours outside


@dataclass
class Pending:
    """An open incident whose case files are not all taken."""

    incident: Incident
    nodes: Nodes  # the part of the network around it, when it opened
    before: Floats32  # their statistic before that
    ticks: int = 0  # since it opened
    early: bool = False  # taken


class CaseCapture:
    """Counts for each open incident what is still to be taken."""

    def __init__(self, n_nodes: int, find: Callable[[str], Incident | None]) -> None:
        self._find = find  # an open incident by its id
        self.pending: dict[str, Pending] = {}
        self.older, self.newer = np.full((2, n_nodes), np.nan, np.float32)  # statistic of earlier ticks

    def step(self, pipeline: Pipeline, events: Sequence[Event], time: float) -> None:
        """After the incidents have moved on, and before the windows act on it."""
        settings = pipeline.settings.diagnosis
        for pending in self.pending.values():
            pending.ticks += 1
        for event in events:
            if event.event == "incident.opened" and event.incident is not None:
                self._open(pipeline, pipeline.incidents.open[event.incident])
        self.end(pipeline, events, time)
        for id, pending in list(self.pending.items()):
            if not pending.early and pending.ticks >= settings.early:
                self._take(pipeline, pending, "early", time)
                pending.early = True
            if self._settled(pipeline, pending):
                self._finish(pipeline, id, time)
        if pipeline.ticks % BEFORE == 0:
            self.older, self.newer = self.newer, pipeline.statistic.astype(np.float32)

    def end(self, pipeline: Pipeline, events: Iterable[Event], time: float) -> None:
        """Take what is still due of the incidents that these events end."""
        for event in events:
            if event.event == "incident.resolved" and event.incident in self.pending:
                if event.resolution == "merged":
                    del self.pending[event.incident]
                else:
                    self._finish(pipeline, event.incident, time)

    def _open(self, pipeline: Pipeline, incident: Incident) -> None:
        nodes = around(pipeline.network.graph, _members(pipeline, incident), pipeline.statistic)
        before = np.where(np.isnan(self.older), self.newer, self.older)[nodes]
        self.pending[incident.id] = Pending(incident, nodes, before)

    def _settled(self, pipeline: Pipeline, pending: Pending) -> bool:
        """Whether the typical certain member has enough samples past the onset.

        As long as no node is certain the onset is not either, and time passes from the opening on.
        """
        assert pipeline.engine is not None
        incident = pending.incident
        if incident.returned:
            return True  # nodes are back, and their windows are about to forget what happened
        certain = [name for name, member in incident.members.items() if not member.suspected]
        nodes = pipeline.incidents.states.nodes(certain or incident.members)
        present = nodes[~pipeline.silent[nodes]]
        if not len(present):
            return False
        wanted = min(pipeline.settings.diagnosis.settle, pipeline.settings.windows.tests[-1])
        if not certain and pending.ticks < wanted:
            return False
        onset = incident.onset.time if incident.onset else incident.opened
        past = pipeline.engine.time_of_latest(present, wanted) >= onset  # NaN, too few samples: not past
        return bool(2 * np.count_nonzero(past) > len(past))

    def _finish(self, pipeline: Pipeline, id: str, time: float) -> None:
        pending = self.pending.pop(id)
        if not pending.early:
            self._take(pipeline, pending, "early", time)
        self._take(pipeline, pending, "settled", time)

    def _take(self, pipeline: Pipeline, pending: Pending, stage: Stage, time: float) -> None:
        if pipeline.cases is not None:
            pipeline.cases.append(take(pipeline, pending, stage, time))

    def state(self) -> tuple[Arrays, Meta]:
        arrays: Arrays = {"older": self.older.copy(), "newer": self.newer.copy()}
        for k, pending in enumerate(self.pending.values()):
            arrays |= {f"{k}.nodes": pending.nodes.copy(), f"{k}.before": pending.before.copy()}
        pending_meta = [
            {"incident": id, "ticks": pending.ticks, "early": pending.early}
            for id, pending in self.pending.items()
        ]
        return arrays, {"pending": pending_meta}

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        """After the incidents themselves."""
        if not arrays:  # a state from before there were case files
            return
        take_rows(self, ("older", "newer"), arrays, rows)
        now = places(rows, len(arrays["older"]))
        for k, said in enumerate(meta["pending"]):
            if (incident := self._find(said["incident"])) is None:
                continue
            nodes = now[arrays[f"{k}.nodes"]]
            left = nodes >= 0
            self.pending[incident.id] = Pending(
                incident, nodes[left], arrays[f"{k}.before"][left], said["ticks"], said["early"]
            )


def _members(pipeline: Pipeline, incident: Incident) -> Nodes:
    """Largest peak first."""
    states = pipeline.incidents.states
    nodes = states.nodes({**incident.members, **incident.returned}).astype(np.int32)
    peak = np.nan_to_num(states.peak[nodes], nan=-np.inf)
    return nodes[np.argsort(-peak, kind="stable")]


def around(graph: Graph, seeds: Nodes, statistic: NDArray[Any], most: int = MOST_NODES) -> Nodes:
    """``seeds`` and the nodes next to them, hop by hop, at most ``most``; the whole network if it fits."""
    if graph.n_nodes <= most:
        return np.arange(graph.n_nodes, dtype=np.int32)
    found = seeds[:most]
    inside = np.zeros(graph.n_nodes, np.bool_)
    inside[found] = True
    edge = found
    while len(edge) and len(found) < most:
        near = np.zeros(graph.n_nodes, np.bool_)
        for v in edge.tolist():
            near[graph.neighbours(v)] = True
        edge = np.flatnonzero(near & ~inside).astype(np.int32)
        if len(found) + len(edge) > most:  # the last hop: the strongest of it
            edge = strongest(edge, statistic)[: most - len(found)]
        inside[edge] = True
        found = np.concatenate([found, edge])
    return np.flatnonzero(inside).astype(np.int32)


def strongest(nodes: Nodes, statistic: NDArray[Any]) -> Nodes:
    return nodes[np.argsort(-np.nan_to_num(statistic[nodes], nan=-np.inf), kind="stable")]


def take(pipeline: Pipeline, pending: Pending, stage: Stage, time: float) -> Case:
    """Copy everything about one incident as it is now."""
    engine, report, evidence = pipeline.engine, pipeline.report, pipeline.evidence
    assert engine is not None
    assert report is not None
    incident, graph, all_names = pending.incident, pipeline.network.graph, pipeline.names
    members = _members(pipeline, incident)
    nodes = around(graph, members, pipeline.statistic)
    row = np.full(graph.n_nodes, -1, np.int32)
    row[nodes] = np.arange(len(nodes))
    members = members[row[members] >= 0]
    before = np.full(graph.n_nodes, np.nan, np.float32)
    before[pending.nodes] = pending.before
    W = graph.matrix()[nodes][:, nodes].tocoo()
    once = W.row < W.col
    levels = engine.standard_scores
    kept = members[:MOST_WINDOWS]
    names = [all_names[v] for v in members]
    known = {**incident.members, **incident.returned}
    windows = {all_names[v]: int(v) for v in [*kept, *_outside(graph, kept, members, pipeline.statistic)]}
    scales = {name: evidence.scale(v) for name, v in windows.items()}
    return Case(
        incident=incident.id, stage=stage, time=float(time), opened=incident.opened,
        onset=incident.onset.time if incident.onset else None, step=report.step,
        names=tuple(all_names[v] for v in nodes),
        edges=np.stack([W.row[once], W.col[once]], axis=1).astype(np.int32),
        weights=np.asarray(W.data[once], np.float64),
        members=tuple(names), suspected=tuple(n for n in names if known[n].suspected),
        onsets={n: begin.time for n in names if (begin := known[n].onset) is not None},
        statistic=engine.node[nodes].astype(np.float32),
        event_statistic=engine.event[nodes].astype(np.float32),
        levels=levels[nodes].astype(np.float32),
        lengths=pipeline.settings.windows.tests[: levels.shape[1]],
        increments=(engine.node[nodes] - before[nodes]).astype(np.float32),
        threshold=float(report.threshold), event_threshold=float(report.event_threshold),
        components=tuple(evidence.components),
        reference={name: np.array(evidence.reference(v), np.float32) for name, v in windows.items()},
        recent={name: np.array(evidence.recent(v), np.float32) for name, v in windows.items()},
        times={name: np.array(evidence.sample_times(v), np.float64) for name, v in windows.items()},
        centre={name: np.array(centre, np.float64) for name, (centre, _) in scales.items()},
        scale={name: np.array(scale, np.float64) for name, (_, scale) in scales.items()},
        plain=pipeline.preprocess is not None and pipeline.preprocess.plain,
    )  # fmt: skip


def _outside(graph: Graph, kept: Nodes, members: Nodes, statistic: NDArray[Any]) -> Nodes:
    """Neighbours that are no members, strongest first: to compare with."""
    near = np.zeros(graph.n_nodes, np.bool_)
    for v in kept.tolist():
        near[graph.neighbours(v)] = True
    near[members] = False
    return strongest(np.flatnonzero(near).astype(np.int32), statistic)[:MOST_WINDOWS]
