"""From scores per node and scale to two numbers per node: has an event begun here, and is this node in it?

    own       z = (score - mean) / spread                      the node by itself
    near      one step of a walk over the graph from z         its neighbourhood
    wide      three steps
    sure      (score - mean) / sqrt(spread^2 + exposure/2)     discounted by what neighbours may have leaked
    backed    one step of a walk from `sure`

Each is standardised again by what it does on quiet data, brought to a nearly normal shape, and its largest
value over scales taken. Then

    event statistic = max(own, near, wide)                      fast: pools what neighbours see
    node statistic  = max(sure, min(backed, gain sure))         neighbours lower the bar, cannot replace it
    inside          = max(node, min(near, inside_gain sure))    for nodes next to an event that is certain

Nodes may be *muted*, those of an event that is known: they speak for nobody but themselves, so that the next
event beside the first is seen for what it is. Their neighbours, whose own scores the coupling has raised,
count by `sure` and `backed` alone.

Two devices keep unchanged neighbours of an event out of it: ``exposure`` (streaming/windows.py) discounts
what coupled parameters carry over, and walks start from clipped values, so that one glaring neighbour counts
no more than a clear one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import estimators.streaming._graph_statistics as _levels
from estimators.core.graph import Graph
from estimators.core.types import Bools, Floats, Nodes

OWN, NEAR, WIDE, SURE, BACKED = range(5)
N_LEVELS = 5
LEAK = 0.5  # share of the exposure that counts
CLIP_EVENT, CLIP_NODE = 4.0, 3.0
SKEW = (0.05, 4.0)  # the cube root needs a positive skewness; sums of squares have one


@dataclass
class NullMoments:
    """What quiet data do. ``score_*`` standardise the scores, the others each level."""

    score_mean: Floats  # (N, S)
    score_spread: Floats  # (N, S)
    mean: Floats  # (5, N, S)
    spread: Floats  # (5, N, S)
    skew: Floats  # (5, S)


class GraphStatistics:
    """Keeps the levels up to date where scores moved."""

    def __init__(self, graph: Graph, n_scales: int, gain: float = 2.0, inside_gain: float = 2.0) -> None:
        self.graph, self.gain, self.inside_gain = graph, gain, inside_gain
        n = graph.n_nodes
        # The node itself weighs as much as one average link, whatever the unit of the weights.
        self.self_weight = graph.mean_weight
        wide = n + graph.ghosts
        self._values = np.full((N_LEVELS, wide, n_scales), np.nan)
        self.level = np.full((N_LEVELS, n), np.nan)
        self.node = np.full(n, np.nan)
        self.inside = np.full(n, np.nan)
        self.event = np.full(n, np.nan)
        self.muted: Bools = np.zeros(wide, np.bool_)
        self._beside: Bools = np.zeros(wide, np.bool_)  # neighbours of muted nodes
        # What walks start from, of BACKED and of NEAR, and what the last step of WIDE starts from.
        self._backed_from, self._near_from, self._two_steps = np.full((3, wide, n_scales), np.nan)
        self._everyone: Nodes = np.arange(n, dtype=np.int32)

    @property
    def values(self) -> Floats:
        """(5, N, S) of each level, before it is standardised again."""
        return self._values[:, : self.graph.n_nodes]

    def update(
        self,
        scores: Floats,
        exposure: Floats,
        quiet: NullMoments,
        rows: Nodes | None = None,
        part: Nodes | None = None,
    ) -> None:
        """Bring ``node`` and ``event`` up to date after the scores of ``rows`` (all by default) moved.

        ``part``: only nodes of this part, which holds all the ``rows``, are touched; None: any.
        """
        moved = self.pool(scores, exposure, quiet.score_mean, quiet.score_spread, rows, part)
        for k in range(N_LEVELS):
            _levels.largest(
                moved, self.values[k], quiet.mean[k], quiet.spread[k], quiet.skew[k], self.level[k]
            )
        level = self.level[:, moved]
        self.event[moved] = level[: WIDE + 1].max(axis=0)
        if self._beside.any():
            beside = moved[self._beside[moved]]
            self.event[beside] = self.level[[SURE, BACKED]][:, beside].max(axis=0)
        sure = level[SURE]
        self.node[moved] = node = np.maximum(sure, np.minimum(level[BACKED], self.gain * sure))
        self.inside[moved] = np.maximum(node, np.minimum(level[NEAR], self.inside_gain * sure))

    def pool(
        self,
        scores: Floats,
        exposure: Floats,
        mean: Floats,
        spread: Floats,
        rows: Nodes | None = None,
        part: Nodes | None = None,
    ) -> Nodes:
        """Standardise the scores of ``rows`` and walk on from there; returns all rows that moved."""
        part = self._everyone if part is None else part
        rows = part if rows is None else rows
        values = self._values
        excess, spread = scores[rows] - mean[rows], spread[rows]
        values[OWN, rows] = excess / spread
        values[SURE, rows] = excess / np.sqrt(spread * spread + LEAK * exposure[rows])
        near = self.around(rows, part)
        second = self.around(near, part)  # a step at `near` reads from here
        self._backed_from[second] = np.minimum(values[SURE, second], CLIP_NODE)
        self._mute(second, self._backed_from)
        self._walk(near, self._backed_from, values[BACKED])
        self._near_from[second] = np.minimum(values[OWN, second], CLIP_EVENT)
        self._mute(second, self._near_from)
        self._walk(near, self._near_from, values[NEAR])
        self._walk(second, values[NEAR], self._two_steps)
        third = self.around(second, part)
        self._walk(third, self._two_steps, values[WIDE])
        return third

    @property
    def occupied(self) -> Bools:
        """Muted nodes and their neighbours."""
        return np.asarray(self.muted | self._beside)[: self.graph.n_nodes]

    def mute(self, nodes: Sequence[int], muted: bool) -> Nodes:
        """Let ``nodes`` speak for themselves only, or again for their neighbours; the rows this concerns."""
        self.muted[list(nodes)] = muted
        self._find_beside()
        return self.around(np.array(sorted(nodes), np.int32))

    def _find_beside(self) -> None:
        everyone = np.flatnonzero(self.muted).astype(np.int32)
        self._beside[:] = False
        if len(everyone):
            _levels.mark(everyone, self.graph.indptr, self.graph.indices, self._beside.view(np.uint8))
            self._beside &= ~self.muted

    def _mute(self, rows: Nodes, source: Floats) -> None:
        if self._beside.any() or self.muted.any():
            beside = rows[self._beside[rows]]
            source[beside] = np.minimum(self._values[SURE, beside], CLIP_NODE)
            quiet = rows[self.muted[rows]]
            source[quiet] = np.minimum(source[quiet], 0.0)

    def told(self, nodes: Nodes) -> Floats:
        """What walks read of ``nodes`` (k, 4 S + 1): four levels on their way, and whether muted."""
        values = (self._backed_from, self._near_from, self._values[NEAR], self._two_steps)
        return np.column_stack([*(value[nodes] for value in values), self.muted[nodes]])

    def hear(self, ghosts: Nodes, told: Floats) -> None:
        """What was `told` of the nodes of which ``ghosts`` are copies."""
        at, S = self.graph.n_nodes + ghosts, self._two_steps.shape[1]
        targets = (self._backed_from, self._near_from, self._values[NEAR], self._two_steps)
        for k, target in enumerate(targets):
            target[at] = told[:, k * S : (k + 1) * S]
        muted = told[:, -1] > 0.0
        if (self.muted[at] != muted).any():
            self.muted[at] = muted
            self._find_beside()

    def _walk(self, rows: Nodes, source: Floats, target: Floats) -> None:
        g = self.graph
        _levels.walk(rows, g.indptr, g.indices, g.weights, self.self_weight, source, target)

    def around(self, rows: Nodes, part: Nodes | None = None) -> Nodes:
        """``rows``, which may be ghosts (from N on), and their neighbours: nodes of the ``part`` only."""
        g, part = self.graph, self._everyone if part is None else part
        if 4 * len(rows) >= len(part):
            return part
        near = np.zeros(g.n_nodes + g.ghosts, np.bool_)
        near[rows] = True
        _levels.mark(rows, g.indptr, g.indices, near.view(np.uint8))
        return part[near[part]]
