"""What the incidents remember about every node: rows of ticks, flags, owner, cool-down; and who is connected.

A tick without a decision (NaN) neither lengthens nor breaks a row: it says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector.incidents.decision import Decision
from estimators.core.graph import Graph
from estimators.core.types import Bools, Floats, Indices


class NodeStates:
    """Arrays over the N nodes, moved by each decision."""

    def __init__(self, names: Sequence[str], graph: Graph) -> None:
        n = graph.n_nodes
        if len(names) != n or len(set(names)) != n:
            raise ValueError(f"names: {n} different names expected, got {len(set(names))} of {len(names)}")
        self.names = list(names)
        self.index = {name: v for v, name in enumerate(names)}
        self.graph = graph
        self.time: float | None = None
        self.step = 1.0  # time between ticks
        self.silent: Bools = np.zeros(n, bool)
        self.stuck: Bools = np.zeros(n, bool)
        self.hot: Bools = np.zeros(n, bool)  # at the latest decision
        self.member: Bools = np.zeros(n, bool)
        self.firing: Bools = np.zeros(n, bool)  # by its own statistic, at the latest decision
        self.hot_row: NDArray[np.int64] = np.zeros(n, np.int64)
        self.member_row: NDArray[np.int64] = np.zeros(n, np.int64)
        self.cool_row: NDArray[np.int64] = np.zeros(n, np.int64)
        self.statistic: Floats = np.full(n, np.nan)
        self.peak: Floats = np.full(n, np.nan)  # since the node joined
        self.owner: dict[int, str] = {}  # node: the open incident it is in
        self.cooling: dict[int, float] = {}  # node: until when it opens nothing by itself

    def take(self, decision: Decision) -> Bools:
        """Move on by one decision; returns which nodes are active (hot or member)."""
        self._check(decision)
        self.time, self.step = decision.time, decision.step
        self.cooling = {v: until for v, until in self.cooling.items() if self.time < until}
        seen, pooled_seen = ~np.isnan(decision.statistic), ~np.isnan(decision.event_statistic)
        self.hot, self.member = decision.hot & pooled_seen, decision.member & seen
        self.firing = self.member | (decision.warm & seen)
        cool = seen & decision.ready & ~decision.silent & ~decision.stuck & ~self.firing
        self.hot_row = np.where(self.hot, self.hot_row + 1, np.where(pooled_seen, 0, self.hot_row))
        self.member_row = np.where(self.member, self.member_row + 1, np.where(seen, 0, self.member_row))
        self.cool_row = np.where(self.firing, 0, self.cool_row + cool)
        self.silent, self.stuck = decision.silent.copy(), decision.stuck.copy()
        self.statistic = decision.statistic.astype(np.float64)
        self.peak = np.fmax(self.peak, self.statistic)
        active: Bools = self.hot | self.member
        return active

    def _check(self, decision: Decision) -> None:
        for name in ("hot", "member", "warm", "statistic", "event_statistic", "silent", "stuck", "ready"):
            if (shape := getattr(decision, name).shape) != (len(self.names),):
                raise ValueError(f"decision.{name}: expected {len(self.names)} nodes, got shape {shape}")
        if self.time is not None and not decision.time > self.time:
            raise ValueError(f"decision.time: {decision.time} does not come after {self.time}")

    def join(self, v: int, incident: str) -> None:
        self.owner[v] = incident
        self.peak[v], self.cool_row[v] = self.statistic[v], 0

    def nodes(self, names: Iterable[str]) -> Indices:
        return np.array(sorted(self.index[name] for name in names), dtype=np.intp)

    def groups(self, active: Bools) -> list[Indices]:
        """Connected sets of active nodes that are in no incident, ordered by their first node."""
        nodes = set(np.flatnonzero(active).tolist()) - self.owner.keys()
        groups, seen = [], set()
        for start in sorted(nodes):
            if start in seen:
                continue
            group, queue = [], [start]
            seen.add(start)
            while queue:
                group.append(v := queue.pop())
                found = [u for u in self.graph.neighbours(v).tolist() if u in nodes and u not in seen]
                seen.update(found)
                queue += found
            groups.append(np.array(sorted(group), dtype=np.intp))
        return groups

    def state(self, returned: Iterable[str] = ()) -> dict[str, Any]:
        """JSON-ready, by node name; what records tell only of nodes in an incident, ``returned`` ones too."""
        name = self.names
        rows = {"hot_row": self.hot_row, "member_row": self.member_row}
        owned = sorted(self.owner.keys() | {self.index[one] for one in returned})
        values = {"statistic": self.statistic, "peak": self.peak}
        return {
            "time": self.time,
            "step": self.step,
            "silent": [name[v] for v in np.flatnonzero(self.silent)],
            "stuck": [name[v] for v in np.flatnonzero(self.stuck)],
            "cooling": {name[v]: until for v, until in self.cooling.items()},
            "cool_row": {name[v]: int(self.cool_row[v]) for v in owned},
            **{key: {name[v]: int(row[v]) for v in np.flatnonzero(row)} for key, row in rows.items()},
            **{
                key: {name[v]: float(row[v]) for v in owned if not np.isnan(row[v])}
                for key, row in values.items()
            },
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a `state` into fresh states. Owners come with the incidents; unknown nodes go."""
        self.time, self.step = state["time"], float(state.get("step", 1.0))
        self.cooling = {
            self.index[name]: until for name, until in state["cooling"].items() if name in self.index
        }
        for key in ("silent", "stuck"):
            getattr(self, key)[[self.index[name] for name in state[key] if name in self.index]] = True
        for key in ("hot_row", "member_row", "cool_row", "statistic", "peak"):
            for name, value in state[key].items():
                if name in self.index:
                    getattr(self, key)[self.index[name]] = value
