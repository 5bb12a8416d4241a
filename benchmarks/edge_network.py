"""Network, data and changes of benchmarks/edge.py: sensors at random places, correlated in space and time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.signal import lfilter

from connectors.base import Sample
from detector.events.model import Event
from detector.network.network import Network
from detector.network.surroundings import Surroundings
from detector.pipeline.pipeline import Pipeline
from detector.settings.core import Settings
from estimators.core.partition import partition

N, PHI, SHARED, START = 96, 0.5, 0.6, 1_700_000_000.0
LEARN, EVERY, LASTS, SIZE, CHANGED = 2500, 120, 40, 1.2, 6
BUDGET = "1 per 250 ticks"
GROUPS: dict[str, Any] = {
    "align": {"step": 1.0, "lateness": 0.0},
    "windows": {"reference": 100, "tests": [5, 10, 25, 50]},
    "estimator": {"sigma": 1.0, "coupling": 0.3, "rank": 16, "atoms": 128},
    "alarm": {"learn": LEARN, "budget": BUDGET},
    "incidents": {"clear_after": 10, "cool_down": 5.0},
}


@cache
def network() -> Network:
    """Each sensor is linked with its 4 nearest."""
    places = np.random.default_rng(0).random((N, 2))
    return Network.from_positions([f"s{v:02d}" for v in range(N)], places, k=4)


@cache
def boxes(k: int) -> dict[str, list[str]]:
    labels = partition(network().graph, k)
    return {f"box-{b:02d}": [network().names[v] for v in np.flatnonzero(labels == b)] for b in range(k)}


def around(k: int, box: str | None) -> Surroundings:
    return replace(Surroundings.of(network(), boxes(k), box), budget=BUDGET)


def settings(share: float = 1.0) -> Settings:
    made = Settings.of(**GROUPS)
    return made.model_copy(
        update={"alarm": made.alarm.model_copy(update={"budget": made.alarm.budget.of_share(share)})}
    )


@cache
def quiet(ticks: int, seed: int) -> np.ndarray:
    """(ticks, N): AR(1) in time, and what a node shares with its neighbours; each of variance one."""
    rng = np.random.default_rng(seed)
    own = lfilter([np.sqrt(1 - PHI**2)], [1.0, -PHI], rng.normal(size=(ticks + 50, N)), axis=0)[50:]
    W = network().graph.matrix()
    mixed = own + SHARED * (own @ (W / W.sum(axis=1)[:, None]).T)
    found: np.ndarray = mixed / mixed.std(axis=0)
    return found


@dataclass(frozen=True)
class Truth:
    """A shift of some nodes astride a cut."""

    begin: int
    nodes: tuple[int, ...]
    near: frozenset[str]  # and their neighbours, by name


def changes(k: int, first: int, last: int) -> list[Truth]:
    """One every so often, around a link that is cut where there are ``k`` boxes."""
    cut = around(k, None)
    graph, rng = network().graph, np.random.default_rng(k)
    row = np.repeat(np.arange(N), np.diff(graph.indptr))
    across = np.flatnonzero(cut.labels[row] != cut.labels[graph.indices])
    made = []
    for begin in range(first, last - EVERY + 1, EVERY):
        edge = rng.choice(across)
        nodes = [int(row[edge]), int(graph.indices[edge])]
        for v in nodes:
            nodes += [int(u) for u in graph.neighbours(v) if u not in nodes]
            if len(nodes) >= CHANGED:
                break
        near = {network().names[u] for v in nodes[:CHANGED] for u in (v, *graph.neighbours(v).tolist())}
        made.append(Truth(begin, tuple(nodes[:CHANGED]), frozenset(near)))
    return made


def with_changes(X: np.ndarray, truths: list[Truth]) -> np.ndarray:
    X = X.copy()
    for truth in truths:
        X[truth.begin : truth.begin + LASTS, list(truth.nodes)] += SIZE
    return X


def samples(X: np.ndarray, t: int, names: tuple[str, ...]) -> list[Sample]:
    index = network().node_index.index
    return [Sample(START + t, name, (float(X[t, index[name]]),)) for name in names]


def learnt(k: int, box: str | None, dictionary: Any = None) -> Pipeline:
    """A pipeline that has learnt from its own nodes; ``box`` None: from all, cut as the boxes are."""
    here = replace(around(k, box), dictionary=dictionary)
    return learnt_on(here.network, here.share)


def learnt_on(watched: Network, share: float = 1.0) -> Pipeline:
    made = Pipeline(watched, 1, settings(share))
    columns = [network().node_index.index[name] for name in watched.names]
    made.learn(quiet(LEARN, 1)[:, columns, None], START - LEARN + np.arange(LEARN, dtype=float))
    return made


@dataclass
class Score:
    """What records say, counted as one network: by common id."""

    found: list[float]
    missed: int
    false: int


def score(events: list[Event], truths: list[Truth]) -> Score:
    """Delay of the first incident near each change; incidents near none are false, one per common id."""
    opened = [event for event in events if event.event == "incident.opened"]
    common = {event.incident: event.common for event in events if event.common}
    delays, explained = [], set()
    for truth in truths:
        times = []
        for event in opened:
            tick = event.time - START - truth.begin  # end of the tick in which it was opened
            if 0 < tick <= EVERY - 10 and truth.near & {node.name for node in event.nodes}:
                explained.add(event.incident)
                times += [tick] if tick <= LASTS else []
        if times:
            delays.append(min(times))
    rest = {common.get(event.incident, event.incident) for event in opened if event.incident not in explained}
    rest -= {common.get(id) for id in explained}
    return Score(delays, len(truths) - len(delays), len(rest))
