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

Two devices keep unchanged neighbours of an event out of it: ``exposure`` (estimators/windows.py) discounts
what coupled parameters carry over, and walks start from clipped values, so that one glaring neighbour counts
no more than a clear one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import estimators._levels as _levels
from estimators.graph import Graph
from estimators.kernels import Array

OWN, NEAR, WIDE, SURE, BACKED = range(5)
N_LEVELS = 5
LEAK = 0.5  # share of the exposure that counts
CLIP_EVENT, CLIP_NODE = 4.0, 3.0
SKEW = (0.05, 4.0)  # the cube root needs a positive skewness; sums of squares have one

Nodes = NDArray[np.int32]


@dataclass
class Quiet:
    """What quiet data do. ``score_*`` standardise the scores, the others each level."""

    score_mean: Array  # (N, S)
    score_spread: Array  # (N, S)
    mean: Array  # (5, N, S)
    spread: Array  # (5, N, S)
    skew: Array  # (5, S)


class Levels:
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
        self._clipped, self._two_steps = np.full((2, n, n_scales), np.nan)
        self._everyone: Nodes = np.arange(n, dtype=np.int32)

    def update(self, scores: Array, exposure: Array, quiet: Quiet, rows: Nodes | None = None) -> None:
        """Bring ``node`` and ``event`` up to date after the scores of ``rows`` (all by default) moved."""
        moved = self.pool(scores, exposure, quiet.score_mean, quiet.score_spread, rows)
        for k in range(N_LEVELS):
            _levels.largest(
                moved, self.values[k], quiet.mean[k], quiet.spread[k], quiet.skew[k], self.level[k]
            )
        level = self.level[:, moved]
        self.event[moved] = level[: WIDE + 1].max(axis=0)
        sure = level[SURE]
        self.node[moved] = node = np.maximum(sure, np.minimum(level[BACKED], self.gain * sure))
        self.inside[moved] = np.maximum(node, np.minimum(level[NEAR], self.inside_gain * sure))

    def pool(
        self, scores: Array, exposure: Array, mean: Array, spread: Array, rows: Nodes | None = None
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
        self._walk(near, clipped, values[BACKED])
        clipped[second] = np.minimum(values[OWN, second], CLIP_EVENT)
        self._walk(near, clipped, values[NEAR])
        self._walk(second, values[NEAR], self._two_steps)
        third = self.around(second)
        self._walk(third, self._two_steps, values[WIDE])
        return third

    def _walk(self, rows: Nodes, source: Array, target: Array) -> None:
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
