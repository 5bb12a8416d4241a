"""Baselines that follow a new normal: after accept, and where values have left what was learnt.

A node keeps its latest raw samples, as many as fill all its windows. When its normal is another one, centre
and scale are learnt again from those that belong to it, and the windows are filled from the same samples in
the new units: values lie again where the dictionary is, and changes are seen as they were before.

The earlier normal of an accepted change is kept for a while. Should it come back, it is put back as it was.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detector.alignment.samples import Columns
from detector.engines.base import Engine
from detector.preprocessing.lag_buffer import LagBuffer
from detector.preprocessing.preprocessor import Preprocessor
from detector.stateful import Arrays, Meta, Rows, part, places, under
from estimators.core.types import Floats, Nodes

KEEP = 10  # times all windows, for which an earlier normal is kept
NEAR = 1.0  # earlier standard deviations within which the median is back
SPREAD = 2.0  # factor within which the spread is
SURE_LOG = 5.0  # log-likelihood ratio of the earlier normal to the new one, from which on it is back
MOST_LOG = 3.0  # of one sample
LEAST_SPREAD = 0.1  # by which densities are compared: a stuck sensor has none


@dataclass(frozen=True, eq=False)
class Earlier:
    """The normal of a node before a change was accepted."""

    baseline: Floats  # of the preprocessor
    reference: NDArray[np.float32]  # (n, d') values of the reference window, in the units of `baseline`
    samples: int  # of the node, for which it is still kept


class Relearning:
    """The raw samples of N nodes, those that learn a new normal, and the earlier ones."""

    def __init__(self, n_nodes: int, dim: int, reference: int, tests: tuple[int, ...]) -> None:
        self.need = reference + tests[0]
        self.raw = LagBuffer(n_nodes, reference + tests[-1], dim + 1)  # the last column is the time
        self.since: dict[int, float] = {}  # node that learns: its new normal began then
        self.earlier: dict[int, Earlier] = {}
        self.learnt: dict[int, int] = {}  # node that was learnt again: samples until it may be once more

    def take(self, layer: Columns) -> None:
        """Samples as they come."""
        layer = layer.kept(np.asarray(np.isfinite(layer.values).all(axis=1)))
        self.raw.push(layer.nodes, np.column_stack([layer.values, layer.times]))
        for v in self.learnt.keys() & set(layer.nodes.tolist()):
            self.learnt[v] -= 1
        self.learnt = {v: left for v, left in self.learnt.items() if left > 0}
        for v in self.earlier.keys() & set(layer.nodes.tolist()):
            kept = self.earlier[v]
            self.earlier[v] = Earlier(kept.baseline, kept.reference, kept.samples - 1)
        for v in [v for v, kept in self.earlier.items() if kept.samples <= 0]:
            del self.earlier[v]

    def begin(self, v: int, since: float, preprocess: Preprocessor, reference: NDArray[np.float32]) -> None:
        """What node v shows from ``since`` on is its new normal."""
        if v not in self.since and len(reference):
            self.earlier[v] = Earlier(preprocess.normal(v), reference.copy(), KEEP * self.raw.length)
        self.since[v] = since

    def ripe(self) -> list[int]:
        """The nodes that have seen enough of their new normal."""
        return [v for v, since in sorted(self.since.items()) if len(self.samples(v, since)) >= self.need]

    def given_up(self, latest: int, preprocess: Preprocessor) -> list[int]:
        """Nodes that learn a new normal, but are back to the earlier one before they have learnt it."""
        return [v for v in sorted(self.since) if self.is_earlier(v, latest, preprocess)]

    def strays(self, outside: NDArray[np.bool_], owner: Container[int]) -> list[int]:
        """Nodes outside of what was learnt that are to be learnt again: in no incident, not all the time."""
        found = []
        for v in np.flatnonzero(outside).tolist():
            fresh = self.learnt.get(v, 0) > 0
            if not fresh and v not in owner and v not in self.since and self.raw.count[v] >= self.need:
                found.append(v)
        return found

    def samples(self, v: int, since: float = -np.inf) -> Floats:
        """(k, d + 1) raw samples of node v from a time on, oldest first, their times in the last column."""
        rows = self.raw.latest(np.array([v], np.int32))[0, : self.raw.count[v]][::-1]
        return np.asarray(rows[rows[:, -1] >= since])

    def learn(self, v: int, engine: Engine, preprocess: Preprocessor) -> None:
        """Baseline and windows of node v from the samples of its new normal."""
        rows = self.samples(v, self.since.pop(v, -np.inf))
        preprocess.restandardise(v, rows[:, :-1], rows[:, -1])
        engine.restart(np.array([v], np.int32))
        fill(v, rows, engine, preprocess)
        self.learnt[v] = KEEP * self.raw.length

    def is_earlier(self, v: int, latest: int, preprocess: Preprocessor) -> bool:
        """Whether the ``latest`` samples of node v are of its earlier normal, and not of the new one."""
        kept = self.earlier.get(v)
        rows = self.samples(v, self.since.get(v, -np.inf))
        if kept is None or len(rows) < latest + latest // 2:
            return False
        z = preprocess.standard(v, kept.baseline, rows[:, :-1], rows[:, -1])
        before = kept.reference[:, : z.shape[1]].astype(np.float64)
        changed, now = (part[np.isfinite(part).all(axis=1)] for part in (z[:-latest], z[-latest:]))
        if min(len(changed), len(now)) < latest // 2:
            return False
        off = np.abs(np.median(now, axis=0) - np.median(before, axis=0)).max()
        spread = now.std(axis=0) / np.maximum(before.std(axis=0), 1e-9)
        near = off < NEAR and spread.max() < SPREAD and spread.min() > 1.0 / SPREAD
        logs = np.clip(_log_density(now, before) - _log_density(now, changed), -MOST_LOG, MOST_LOG)
        return bool(near and logs.sum() > SURE_LOG)

    def restore_earlier(self, v: int, since: float, engine: Engine, preprocess: Preprocessor) -> None:
        """Node v is back to its earlier normal since then: baseline and reference of that time."""
        kept = self.earlier.pop(v)
        self.since.pop(v, None)
        preprocess.put_normal(v, kept.baseline)
        engine.refill(v, kept.reference)
        fill(v, self.samples(v, since), engine, preprocess)

    def restart(self, nodes: Nodes) -> None:
        """After a gap, samples begin anew."""
        self.raw.restart(nodes)

    def state(self) -> tuple[Arrays, Meta]:
        arrays = under("raw", self.raw.state())
        for v, kept in self.earlier.items():
            arrays |= under(f"earlier.{v}", {"baseline": kept.baseline, "reference": kept.reference.copy()})
        return arrays, {
            "since": {str(v): since for v, since in self.since.items()},
            "earlier": {str(v): kept.samples for v, kept in self.earlier.items()},
            "learnt": {str(v): left for v, left in self.learnt.items()},
        }

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        self.raw.restore(part("raw", arrays), rows)
        now = places(rows, len(arrays["raw.count"])).tolist()
        self.since, self.learnt = (
            {now[int(v)]: value for v, value in meta[name].items() if now[int(v)] >= 0}
            for name in ("since", "learnt")
        )
        for v, samples in meta["earlier"].items():
            if now[int(v)] >= 0:
                kept = part(f"earlier.{v}", arrays)
                self.earlier[now[int(v)]] = Earlier(kept["baseline"], kept["reference"], samples)


def _log_density(x: Floats, of: Floats) -> Floats:
    """(n,) of x (n, d) under normal laws with median and spread of the samples ``of``."""
    spread = np.maximum(of.std(axis=0), LEAST_SPREAD)
    return np.asarray((-0.5 * np.square((x - np.median(of, axis=0)) / spread) - np.log(spread)).sum(axis=1))


def fill(v: int, rows: Floats, engine: Engine, preprocess: Preprocessor) -> None:
    """Samples (k, d + 1) of node v through the preprocessor, whose lags begin anew, into the windows."""
    node = np.array([v], np.int32)
    preprocess.restart(node)
    for row in rows:
        values, levels = preprocess.views(Columns(node, row[-1:], row[None, :-1]), cleaned=True)
        for made in levels:
            engine.levels(made.nodes, made.values)
        for made in values:
            engine.slide(made.nodes, made.values, made.times)
