"""Isolated corrupt readings are held back before the windows; a change is, for two readings at most.

Despiking, causally: each node follows a level with capped influence, one step of the resilient fit per
reading,

    level += gain clip(w - level, +-3 noise)

and a reading further than 3 + 5 noises from it *stands out*. Noise and gain are learnt; the gain is the one
of three that predicts best. A reading that stands out is held back, at most two in a row:

    the next reading is at the level again      what was held was corrupt: masked, counted, gone
    a third one stands out                      a change: what was held goes on now, before it
    a linked node stands out in the same tick   it is not isolated: passes at once
    a tenth of the last test window is masked   passes at once

So of any three readings in a row one passes, of any longest test window nine tenths, and what passes is what
was read. Values are those of the step `scale`: units of spread, the season removed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from detector.alignment.samples import Columns
from detector.preprocessing.base import Shape, Step
from detector.preprocessing.blocks import Blocks
from detector.settings.preprocessing import PreprocessSettings
from estimators.core.graph import Graph
from estimators.core.types import Bools, Floats, Nodes

IN_A_ROW, SHARE = 2, 0.1
TOLERANCE, LEVEL = 3.0, 5.0  # noises: of the fit, and of relaxation beyond it
GAINS = (1 / 32, 1 / 4, 1.0)  # nearly white, wandering, a random walk


class Screen(Step):
    """At most a tenth of the readings of the longest test window is masked."""

    name = "screen"
    keeps_level = True
    plain = True
    cleans = True
    learnt_arrays = ("noise", "gain")
    stream_arrays = ("level", "count", "run", "held", "held_values", "held_times", "marks", "masked")

    def __init__(self, settings: PreprocessSettings, shape: Shape) -> None:
        super().__init__(settings, shape)
        _, dim, window = shape
        n_nodes = shape.n_nodes if self.active else 0  # no memory for what is off
        self.graph = Graph.empty(shape.n_nodes)
        self.window, self.most = window, int(SHARE * window)
        self.noise: Floats = np.full((n_nodes, dim), np.nan)  # NaN: nothing learnt, everything passes
        self.gain: Floats = np.ones((n_nodes, 1))
        self.level: Floats = np.full((n_nodes, dim), np.nan)
        self.count: NDArray[np.int64] = np.zeros(n_nodes, np.int64)  # readings seen
        self.run: NDArray[np.int8] = np.zeros(n_nodes, np.int8)  # that stand out, in a row; at most 3
        self.held: NDArray[np.int8] = np.zeros(n_nodes, np.int8)
        self.held_values: Floats = np.zeros((n_nodes, IN_A_ROW, dim))
        self.held_times: Floats = np.zeros((n_nodes, IN_A_ROW))
        self.marks: NDArray[np.int64] = np.full((n_nodes, self.most), -window, np.int64)  # latest masked
        self.masked: NDArray[np.int64] = np.zeros(n_nodes, np.int64)

    @property
    def active(self) -> bool:
        return self.settings.screen == "on"

    def link(self, graph: Graph) -> None:
        self.graph = graph

    def fit(self, blocks: Blocks, like: Self | None = None) -> None:
        """Noise and gain of each node."""
        if self.active:
            self._learn(blocks.rows())

    def _learn(self, W: Floats) -> None:
        tried = np.stack([_noise(W, gain) for gain in GAINS])  # (gains, N, d)
        best = np.log(tried).sum(axis=2).argmin(axis=0)
        self.noise = tried[best, np.arange(len(best))]
        self.gain = np.array(GAINS)[best][:, None]

    def clean(self, blocks: Blocks) -> Floats:
        """Learn; the history (T, N, d) without what is masked. The stream goes on from its end.

        What is undecided at the end is held back as it was read: see `rescale`.
        """
        W, X = blocks.rows(), blocks.x.copy()
        self._learn(W)
        everyone = np.arange(X.shape[1], dtype=np.int32)
        for t, now in enumerate(blocks.clock):
            # A row of its own number instead of values: what comes out tells what was held back, and when.
            numbers = np.full((len(everyone), X.shape[2]), float(t))
            layer = Columns(everyone, np.full(len(everyone), now), numbers)
            before = self.held.copy()
            self.take(layer, W[t])
            for v in np.flatnonzero((before > 0) & (self.held == 0) & (self.run == 0)):
                X[self.held_values[v, : before[v], 0].astype(int), v] = np.nan
        for v in np.flatnonzero(self.held):  # undecided: they enter with the stream, if at all
            rows = self.held_values[v, : self.held[v], 0].astype(int)
            self.held_values[v, : self.held[v]] = X[rows, v]
            X[rows, v] = np.nan
        return X

    def rescale(self, scaled: Callable[[Columns], Columns]) -> None:
        """What is held back was held as it was read; from now on as the steps before this one leave it."""
        for slot in range(IN_A_ROW):
            nodes = np.flatnonzero(self.held > slot).astype(np.int32)
            if len(nodes):
                self.held_values[nodes, slot] = scaled(self._held(nodes, slot)).values

    def apply(self, layer: Columns) -> list[Columns]:
        return self.take(layer, layer.values)

    def take(self, layer: Columns, w: Floats) -> list[Columns]:
        """What goes on after this layer, in order; ``w`` (k, d) are its levels."""
        nodes = layer.nodes
        noise, level = self.noise[nodes], self.level[nodes]
        known: Bools = np.asarray(np.isfinite(w).all(axis=1) & np.isfinite(noise).all(axis=1))
        level = np.where(np.isnan(level), w, level)
        away = w - level
        with np.errstate(invalid="ignore"):
            out: Bools = known & (np.abs(away) > (TOLERANCE + LEVEL) * noise).any(axis=1)
            step = np.clip(away, -TOLERANCE * noise, TOLERANCE * noise)
        moved = np.where(known[:, None], level + self.gain[nodes] * step, self.level[nodes])
        self.level[nodes] = moved
        self.count[nodes] += known
        if not out.any() and not self.held[nodes].any():
            self.run[nodes[known]] = 0
            return [layer]
        hold, passed = self._sort(layer, known, out)
        self.level[nodes[hold]] = level[hold]  # only what passes moves the level
        change = self.run[nodes] > IN_A_ROW
        self.level[nodes[change]] = w[change]
        return [part for part in (*passed, layer.take(~hold)) if len(part)]

    def _sort(self, layer: Columns, known: Bools, out: Bools) -> tuple[Bools, list[Columns]]:
        """Who of the layer is held back, and what was held until now and may pass."""
        nodes = layer.nodes
        held = self.held[nodes]
        run = np.where(
            out, np.minimum(self.run[nodes] + 1, IN_A_ROW + 1), np.where(known, 0, self.run[nodes])
        )
        self.run[nodes] = run
        recent = (self.marks[nodes] > self.count[nodes, None] - self.window).sum(axis=1)
        below_limit = recent + held < self.most
        hold = out & (run <= IN_A_ROW) & (held == run - 1) & below_limit & ~self._beside(nodes[out], nodes)
        release = out & ~hold & (held > 0)
        passed = [self._held(nodes[release & (held > slot)], slot) for slot in range(IN_A_ROW)]
        self._mask(nodes[known & ~out & (held > 0)])
        self.held[nodes[release]] = 0
        slot = held[hold]
        self.held_values[nodes[hold], slot] = layer.values[hold]
        self.held_times[nodes[hold], slot] = layer.times[hold]
        self.held[nodes[hold]] += 1
        return hold, passed

    def _beside(self, out: Nodes, nodes: Nodes) -> Bools:
        """(k,) whether a neighbour is among ``out``."""
        near = np.zeros(self.graph.n_nodes, np.bool_)
        if len(out) > 1:
            for u in out.tolist():
                near[self.graph.neighbours(u)] = True
        return near[nodes]

    def _held(self, nodes: Nodes, slot: int) -> Columns:
        return Columns(nodes, self.held_times[nodes, slot], self.held_values[nodes, slot])

    def _mask(self, nodes: Nodes) -> None:
        """What is held of ``nodes`` was corrupt; the reading that tells has been counted already."""
        for v in nodes.tolist():
            for back in range(int(self.held[v]), 0, -1):
                self.marks[v, self.masked[v] % self.most] = self.count[v] - back
                self.masked[v] += 1
        self.held[nodes] = 0

    def restart(self, nodes: Nodes) -> None:
        """After a gap: levels begin anew; what was held is gone with the windows it would have entered."""
        self.masked[nodes] += self.held[nodes]
        for array in (self.run, self.held):
            array[nodes] = 0
        self.level[nodes] = np.nan

    def describe(self, v: int) -> dict[str, Any]:
        return {"readings masked": int(self.masked[v])}

    @property
    def counts(self) -> Mapping[str, int]:
        return {"masked": int(self.masked.sum())}


def _noise(W: Floats, gain: float) -> Floats:
    """(k, d) deviation of what a level with this gain does not predict.

    Where most of it is 0, as of a signal that is mostly constant, the baseline spread stands in: 1.
    """
    residual = np.full_like(W, np.nan)
    level = np.zeros(W.shape[1:])
    for now, left in zip(W, residual, strict=True):
        left[:] = now - level
        level += gain * np.nan_to_num(np.clip(left, -TOLERANCE, TOLERANCE))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # nodes without a single reading
        spread = 1.4826 * np.nanmedian(np.abs(residual), axis=0)
    return np.where(spread > 0.0, spread, np.where(np.isnan(spread), np.nan, 1.0))
