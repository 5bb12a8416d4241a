"""Windows, refit and statistics of one network: preprocessed values in, two numbers per node out.

The same object runs live, in replay and in calibration, with the same sweep budget: a threshold found on
it holds for it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector.settings import Settings
from estimators.christoffel import Christoffel
from estimators.features import Nystroem
from estimators.graph import Graph
from estimators.levels import Levels, Quiet
from estimators.windows import WindowBank

Nodes = NDArray[np.int32]
LEAST_RATIO = 0.05  # estimates may fall below zero; a logarithm needs a floor
LEAST_VARIANCE = 1e-6
SOME = 100  # values of the reference that tell its mean and spread well enough


@dataclass(frozen=True)
class Choice:
    """Hyper-parameters, given or chosen while learning."""

    sigma: float  # kernel width, in units of the nodes' median distance
    coupling: float  # N lam mean degree
    ridge: float  # N lam gamma
    gain: float  # how far neighbours lower the bar of the node statistic
    inside: float = 2.0  # the same next to an open incident


class Engine:
    """`slide` layers of new values, then `finish` the tick."""

    def __init__(self, graph: Graph, features: Nystroem, settings: Settings, choice: Choice) -> None:
        self.graph, self.choice = graph, choice
        used = Graph.empty(graph.n_nodes) if settings.estimator.name == "pool" else graph
        self.bank = WindowBank(
            used,
            features,
            reference=settings.windows.reference,
            tests=settings.windows.tests,
            alpha=settings.estimator.alpha,
            coupling=choice.coupling / used.mean_degree,
            ridge=choice.ridge,
            sweeps=settings.estimator.sweeps,
        )
        if settings.windows.mode == "fixed":
            self.bank.held[:] = 1
        self.fixed = settings.windows.mode == "fixed"
        self.levels = Levels(used, len(settings.windows.tests), choice.gain, choice.inside)
        self.quiet: Quiet | None = None
        self.known: Christoffel | None = None  # of the values that were learnt
        self.stamps = np.zeros((graph.n_nodes, settings.windows.tests[-1]))  # times of the recent values
        self._moved = np.zeros(graph.n_nodes, np.bool_)
        self._waiting: tuple[Nodes, NDArray[Any], NDArray[Any] | None] | None = None

    @property
    def node(self) -> NDArray[np.float64]:
        return self.levels.node

    @property
    def event(self) -> NDArray[np.float64]:
        return self.levels.event

    @property
    def inside(self) -> NDArray[np.float64]:
        return self.levels.inside

    @property
    def scores(self) -> NDArray[np.float64]:
        return self.bank.scores

    @property
    def residual(self) -> float:
        return self.bank.residual

    @property
    def atoms(self) -> int:
        return len(self.bank.features.dictionary.atoms)

    def slide(self, nodes: Nodes, z: NDArray[Any], times: NDArray[Any] | None = None) -> None:
        """One new value for each of the distinct ``nodes``; ``times`` are kept beside them."""
        self._settle()
        self._waiting = nodes, z, times
        self._moved[nodes] = True

    def _settle(self) -> None:
        """The values that still wait enter their windows: only the last ones before `finish` may wait."""
        if self._waiting is not None:
            nodes, z, _ = self._waiting
            self.bank.slide(nodes, z)
            self._stamp()

    def _stamp(self) -> None:
        assert self._waiting is not None
        nodes, _, times = self._waiting
        self._waiting = None
        bank = self.bank
        if times is not None:  # a node whose reference is filling writes where the ring will write later
            slot = (bank.test_head[nodes] + bank.test_count[nodes] - 1) % self.stamps.shape[1]
            self.stamps[nodes, slot] = times

    def finish(self) -> None:
        """Refit where data or neighbours moved, and bring the statistics up to date there."""
        moved = np.flatnonzero(self._moved).astype(np.int32)
        self._moved[:] = False
        if not len(moved):
            return
        rows = self.levels.around(moved)
        if self._waiting is not None:  # one pass over the sums for both
            self.bank.step(self._waiting[0], self._waiting[1], rows)
            self._stamp()
        else:
            self.bank.refit(rows)
        if self.quiet is not None:
            self.levels.update(self.bank.scores, self.bank.exposure, self.quiet, rows)

    def restart(self, nodes: Nodes) -> None:
        """The windows of ``nodes`` start anew."""
        if len(nodes):
            self._settle()
            self.bank.restart(nodes)
            self._moved[nodes] = True

    def silence(self, silent: NDArray[np.bool_]) -> None:
        """Silent nodes leave the data term; their coupling stays."""
        changed = np.flatnonzero(self.bank.silent != silent).astype(np.int32)
        if len(changed):
            self.bank.silent[:] = silent
            self._moved[changed] = True

    def hold(self, nodes: list[int]) -> None:
        self.bank.held[nodes] = 1

    def release(self, nodes: list[int]) -> None:
        self.bank.held[nodes] = 1 if self.fixed else 0

    def rebaseline(self, v: int, keep: int) -> None:
        self._settle()
        self.bank.rebaseline(v, keep)
        self.release([v])
        self._moved[v] = True

    def reference(self, v: int) -> NDArray[np.float32]:
        return self.bank.window(v)

    def recent(self, v: int) -> NDArray[np.float32]:
        """Values of the longest test window, in time order."""
        return self.bank.window(v, len(self.bank.lengths) - 1)

    def times(self, v: int) -> NDArray[np.float64]:
        bank = self.bank
        at = (bank.test_head[v] + np.arange(bank.test_count[v])) % self.stamps.shape[1]
        return np.asarray(self.stamps[v, at])

    def time_of_latest(self, nodes: NDArray[np.intp], k: int) -> NDArray[np.float64]:
        """When the k-th latest value of each node came; NaN where fewer are in the window."""
        bank = self.bank
        slot = (bank.test_head[nodes] + bank.test_count[nodes] - k) % self.stamps.shape[1]
        return np.where(bank.test_count[nodes] >= k, self.stamps[nodes, slot], np.nan)

    def widest_ready(self, v: int) -> int:
        """The longest scale whose window is full."""
        return max(int(np.count_nonzero(self.bank.lengths <= self.bank.test_count[v])) - 1, 0)

    def log_ratio(self, v: int) -> NDArray[np.float64]:
        """What each recent value says for "after" against "before", by the scale that stands out most.

        The logarithm of an estimated ratio is drawn towards zero, and need not fall on average before a
        change and rise after it. So it is taken for a normal score, with its mean before (reference) and
        after (test window) and its spread before: their log ratio does.
        """
        scores = self.bank.scores[v]
        recent, reference = self.recent(v), self.reference(v)
        if self.quiet is None or not np.isfinite(scores).any() or len(reference) < 2:
            return np.zeros(len(recent))
        z = (scores - self.quiet.score_mean[v]) / self.quiet.score_spread[v]
        scale = int(np.nanargmax(z))

        def score(x: NDArray[Any]) -> NDArray[np.float64]:
            return np.asarray(np.log(np.maximum(self.bank.ratio(v, scale, x), LEAST_RATIO)))

        before = score(reference[:: max(1, len(reference) // SOME)])
        now = score(recent)
        low, high = before.mean(), now[-int(self.bank.lengths[scale]) :].mean()
        slope = max(high - low, 0.0) / max(before.var(), LEAST_VARIANCE)
        logs: NDArray[np.float64] = slope * (now - (low + high) / 2.0)
        return logs

    def coverage(self, nodes: Nodes) -> float | None:
        """How much the newest values of ``nodes`` have in common with those that were learnt, on average."""
        bank = self.bank
        some = nodes[bank.test_count[nodes] > 0][:100]
        if not len(some) or self.known is None:
            return None
        slot = (bank.test_head[some] + bank.test_count[some] - 1) % bank.test_z.shape[1]
        return float(self.known.coverage(bank.test_z[some, slot]).mean())

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays for `restore`; blocks are factorised here too, so that both go on alike."""
        self._settle()
        return self.bank.state() | {"stamps": self.stamps.copy(), "moved": self._moved.copy()}

    def restore(self, arrays: dict[str, NDArray[Any]], rows: NDArray[np.intp]) -> None:
        self.bank.restore(arrays, rows)
        self.stamps[rows >= 0] = arrays["stamps"][rows[rows >= 0]]
        self._moved[rows >= 0] = arrays["moved"][rows[rows >= 0]]
        if self.quiet is not None:
            self.levels.update(self.bank.scores, self.bank.exposure, self.quiet)

    def fresh(self, settings: Settings) -> Engine:
        """The same engine with empty windows."""
        made = Engine(self.graph, self.bank.features, settings, self.choice)
        made.quiet, made.known = self.quiet, self.known
        return made

    def copy(self) -> Engine:
        """An engine that goes its own way from here; features, graph and quiet values are shared."""
        self._settle()
        twin = copy.copy(self)
        twin.bank, twin.levels = copy.copy(self.bank), copy.copy(self.levels)
        for part in (twin.bank, twin.levels):
            for name, value in vars(part).items():
                if isinstance(value, np.ndarray):
                    setattr(part, name, value.copy())
        twin._moved, twin.stamps = self._moved.copy(), self.stamps.copy()
        return twin
