"""An engine fed with resampled quiet data, into which changes can be put."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detector.engines.density_ratio.engine import DensityRatioEngine
from detector.engines.density_ratio.injection import Change
from estimators.core.types import Floats, Nodes
from estimators.streaming.graph_statistics import N_LEVELS, SKEW, NullMoments
from estimators.streaming.level_charts import NullLevels

PULSE = 100
SHRINK = 50.0  # independent windows at which a node's own moments count for half
PARTS = 10  # of the history, each judged by moments of the others


def quiet(_: float) -> None:
    """Nobody is told."""


@dataclass(frozen=True)
class CrossFitted:
    """The null distribution for each part of the history by the rest of it.

    A tick that is judged by moments to which its own windows have contributed looks quieter than new data
    will: on short or correlated histories thresholds found that way are passed several times too often.
    """

    rest: list[NullMoments]  # without that part, and without those that share samples with it
    n_rows: int
    levels: list[list[NullLevels]] | None = None  # of the level charts of each view, likewise

    def judge(self, engine: DensityRatioEngine, row: int) -> None:
        """Let ``engine`` judge by what is not near ``row`` of the history."""
        k = row * len(self.rest) // self.n_rows
        engine.null = self.rest[k]
        if self.levels is not None:
            engine.joint.null = [view[k] for view in self.levels]


class Playback:
    """Z (T, N, d) is the quiet history, NaN where a node had no sample; ``rows`` says what comes next."""

    def __init__(
        self,
        engine: DensityRatioEngine,
        Z: Floats,
        rows: Iterator[int],
        pulse: Callable[[float], None] = quiet,
        levels: Floats | None = None,
    ) -> None:
        self.engine, self.Z, self.rows, self.levels = engine, Z, rows, levels
        self.pulse = pulse  # told every PULSE ticks how much of a play is done: long ones must show life
        self.row = 0  # of the history, played last
        self.cross_fitted: CrossFitted | None = (
            None  # if set, every tick is judged by the rest of the history
        )
        self._seen: NDArray[np.bool_] = np.asarray(np.isfinite(Z).all(axis=2))

    def play(
        self,
        n_ticks: int,
        each: Callable[[int], None] | None = None,
        change: Change | None = None,
        changed: Nodes | None = None,
    ) -> None:
        """Run ``n_ticks``; with a change, the nodes ``changed`` suffer it."""
        T = len(self.Z)
        for t in range(n_ticks):
            self.row = row = next(self.rows)
            z, seen = self.Z[row], self._seen[row]
            if change is not None and changed is not None:
                z, other = z.copy(), self.Z[(row + T // 2) % T, changed]
                z[changed] = change.apply(z[changed], np.where(np.isfinite(other), other, z[changed]))
            nodes = np.flatnonzero(seen).astype(np.int32)
            if len(nodes):
                if self.levels is not None:
                    self.engine.levels(nodes, self.levels[row, nodes])
                self.engine.slide(nodes, z[nodes])
            if self.cross_fitted is not None:
                self.cross_fitted.judge(self.engine, row)
            self.engine.finish()
            if each is not None:
                each(t)
            if t % PULSE == 0:
                self.pulse(t / n_ticks)

    def fork(self, rows: Iterator[int]) -> Playback:
        """Another run from here."""
        twin = object.__new__(Playback)
        twin.engine, twin.Z, twin.rows = self.engine.copy(), self.Z, rows
        twin._seen, twin.pulse, twin.row, twin.cross_fitted = self._seen, self.pulse, self.row, None
        twin.levels = self.levels
        return twin

    def warm_up(self) -> None:
        """Fill all windows."""
        bank = self.engine.bank
        share = max(float(self._seen.mean()), 0.05)
        self.play(int((bank.ref_z.shape[1] + bank.test_z.shape[1]) / share) + 10)

    def learn_null(self, n_ticks: int, correlation: float = 1.0) -> CrossFitted:
        """Mean, spread and skewness of scores, then of the levels built on them, ``n_ticks`` each.

        Each node's own moments are drawn towards those of all nodes, the more so the fewer independent
        windows they rest on: errors of single nodes are what false alarms are made of.
        """
        bank, statistics, T = self.engine.bank, self.engine.statistics, len(self.Z)
        scores = Moments(bank.scores.shape)
        self.play(n_ticks, lambda _: scores.add(bank.scores))

        def trust(ticks: float) -> Floats:
            return np.asarray(ticks / (ticks + SHRINK * (bank.lengths + 2.0 * correlation)))

        mean, spread = scores.mean(trust(n_ticks)), scores.spread(trust(n_ticks))
        parts = [Moments((N_LEVELS, *bank.scores.shape)) for _ in range(PARTS)]

        def add(_: int) -> None:
            statistics.pool(bank.scores, bank.exposure, mean, spread)
            self.engine.boundary.tell()
            parts[self.row * PARTS // T].add(statistics.values)

        self.play(n_ticks, add)

        def without(k: int, reach: int) -> NullMoments:
            rest = [part for j, part in enumerate(parts) if abs(j - k) > reach]
            sums = Moments.sum(rest)
            share = trust(n_ticks * len(rest) / PARTS)
            return NullMoments(mean, spread, sums.mean(share), sums.spread(share), sums.skewness())

        # Windows reach back into earlier parts, and those of later ones into this; half must remain.
        need = bank.ref_z.shape[1] + bank.test_z.shape[1]
        reach = int(np.clip(round(need * PARTS / T), 1, (PARTS // 2 - 1) // 2))
        self.engine.null = without(0, -1)
        return CrossFitted([without(k, reach) for k in range(PARTS)], T)


class Moments:
    """Running sums of the powers of an array (..., N, S) with NaN for no decision."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.count, self.first, self.second, self.third = np.zeros((4, *shape))

    @classmethod
    def sum(cls, parts: list[Moments]) -> Moments:
        total = cls(parts[0].count.shape)
        for part in parts:
            for name, value in vars(part).items():
                getattr(total, name).__iadd__(value)
        return total

    def add(self, x: Floats) -> None:
        seen = np.isfinite(x)
        y = np.where(seen, x, 0.0)
        self.count += seen
        self.first += y
        self.second += y * y
        self.third += y * y * y

    def mean(self, share: Floats) -> Floats:
        """Each node's own mean, drawn towards that of all nodes where ``share`` (S,) of it is trusted."""
        own = self.first / np.maximum(self.count, 1.0)
        return self._shrink(own, share)

    def spread(self, share: Floats) -> Floats:
        own = np.sqrt(np.maximum(self._variance(), 1e-300))
        return np.maximum(self._shrink(own, share), 1e-12)

    def skewness(self) -> Floats:
        """Over all nodes (..., S), within the range that the cube root can use."""
        n, m = np.maximum(self.count, 1.0), self.first / np.maximum(self.count, 1.0)
        v = self._variance()
        moves = v > 1e-12 * np.maximum(self.second / n, 1e-100)  # others have no shape, but rounding
        v = np.where(moves, v, 1.0)
        third = self.third / n - 3.0 * m * self.second / n + 2.0 * m**3
        weight = self.count / np.maximum(self.count.sum(axis=-2, keepdims=True), 1.0)
        return np.asarray(np.clip((weight * np.where(moves, third / v**1.5, 0.0)).sum(axis=-2), *SKEW))

    def _variance(self) -> Floats:
        n = np.maximum(self.count, 1.0)
        return np.asarray(self.second / n - (self.first / n) ** 2)

    def _shrink(self, own: Floats, share: Floats) -> Floats:
        seen = self.count > 0
        total = np.maximum(seen.sum(axis=-2, keepdims=True), 1)
        everyone = np.where(seen, own, 0.0).sum(axis=-2, keepdims=True) / total
        return np.asarray(np.where(seen, share * own + (1.0 - share) * everyone, everyone))
