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
        self.self_weight = float(graph.weights.mean()) if len(graph.weights) else 1.0
        self.values = np.full((N_LEVELS, n, n_scales), np.nan)
        self.level = np.full((N_LEVELS, n), np.nan)
        self.node = np.full(n, np.nan)
        self.inside = np.full(n, np.nan)
        self.event = np.full(n, np.nan)
        self.muted: Bools = np.zeros(n, np.bool_)
        self._beside: Bools = np.zeros(n, np.bool_)  # neighbours of muted nodes
        self._clipped, self._two_steps = np.full((2, n, n_scales), np.nan)
        self._everyone: Nodes = np.arange(n, dtype=np.int32)

    def update(self, scores: Floats, exposure: Floats, quiet: NullMoments, rows: Nodes | None = None) -> None:
        """Bring ``node`` and ``event`` up to date after the scores of ``rows`` (all by default) moved."""
        moved = self.pool(scores, exposure, quiet.score_mean, quiet.score_spread, rows)
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
        self, scores: Floats, exposure: Floats, mean: Floats, spread: Floats, rows: Nodes | None = None
    ) -> Nodes:
        """Standardise the scores of ``rows`` and walk on from there; returns all rows that moved."""
        rows = self._everyone if rows is None else rows
        values, clipped = self.values, self._clipped
        excess, spread = scores[rows] - mean[rows], spread[rows]
        values[OWN, rows] = excess / spread
        values[SURE, rows] = excess / np.sqrt(spread * spread + LEAK * exposure[rows])
        near = self.around(rows)
        second = self.around(near)  # a step at `near` reads from here
        clipped[second] = np.minimum(values[SURE, second], CLIP_NODE)
        self._mute(second)
        self._walk(near, clipped, values[BACKED])
        clipped[second] = np.minimum(values[OWN, second], CLIP_EVENT)
        self._mute(second)
        self._walk(near, clipped, values[NEAR])
        self._walk(second, values[NEAR], self._two_steps)
        third = self.around(second)
        self._walk(third, self._two_steps, values[WIDE])
        return third

    @property
    def occupied(self) -> Bools:
        """Muted nodes and their neighbours."""
        return np.asarray(self.muted | self._beside)

    def mute(self, nodes: Sequence[int], muted: bool) -> Nodes:
        """Let ``nodes`` speak for themselves only, or again for their neighbours; the rows this concerns."""
        self.muted[list(nodes)] = muted
        everyone = np.flatnonzero(self.muted).astype(np.int32)
        self._beside[:] = False
        if len(everyone):
            _levels.mark(everyone, self.graph.indptr, self.graph.indices, self._beside.view(np.uint8))
            self._beside &= ~self.muted
        return self.around(np.array(sorted(nodes), np.int32))

    def _mute(self, rows: Nodes) -> None:
        if self._beside.any() or self.muted.any():
            beside = rows[self._beside[rows]]
            self._clipped[beside] = np.minimum(self.values[SURE, beside], CLIP_NODE)
            quiet = rows[self.muted[rows]]
            self._clipped[quiet] = np.minimum(self._clipped[quiet], 0.0)

    def _walk(self, rows: Nodes, source: Floats, target: Floats) -> None:
        g = self.graph
        _levels.walk(rows, g.indptr, g.indices, g.weights, self.self_weight, source, target)

    def around(self, rows: Nodes) -> Nodes:
        """``rows`` and their neighbours."""
        g = self.graph
        if 4 * len(rows) >= g.n_nodes:
            return self._everyone
        near = np.zeros(g.n_nodes, np.bool_)
        near[rows] = True
        _levels.mark(rows, g.indptr, g.indices, near.view(np.uint8))
        return np.flatnonzero(near).astype(np.int32)
