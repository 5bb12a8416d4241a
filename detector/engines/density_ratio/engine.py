"""Windows, refit and statistics of one network: preprocessed values in, two numbers per node out.

The same object runs live, in replay and in calibration, with the same sweep budget: a threshold found on
it holds for it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from detector.engines.base import Engine, Progress, Shared
from detector.engines.calibration_report import CalibrationReport, Choice
from detector.engines.density_ratio.boundary import Boundary
from detector.engines.density_ratio.common_change import CommonChange
from detector.engines.density_ratio.joint import JointStatistic
from detector.settings.core import Settings
from detector.stateful import Arrays, Meta, Rows, copies, part, take_rows, under
from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.core.partition import Cut, extended
from estimators.core.types import Nodes
from estimators.spectral.christoffel import Christoffel
from estimators.streaming.graph_statistics import OWN, GraphStatistics, NullMoments
from estimators.streaming.windows import WindowBank

LEAST_RATIO = 0.05  # estimates may fall below zero; a logarithm needs a floor
LEAST_VARIANCE = 1e-6
_NULL = ("score_mean", "score_spread", "mean", "spread", "skew")
SOME = 100  # values of the reference that tell its mean and spread well enough

Runner = Callable[[Sequence[Callable[[], None]]], object]  # jobs that touch nothing in common: in any order


def in_turn(jobs: Sequence[Callable[[], None]]) -> None:
    """One after the other."""
    for job in jobs:
        job()


def links(graph: Graph, settings: Settings) -> Graph:
    """Those over which nodes are coupled and pooled."""
    return Graph.empty(graph.n_nodes) if settings.estimator.name == "pool" else graph


class DensityRatioEngine:
    """`slide` layers of new values, then `finish` the tick."""

    def __init__(
        self,
        graph: Graph,
        features: Nystroem,
        settings: Settings,
        choice: Choice,
        level_dim: int = 0,
        cut: Cut | None = None,
    ) -> None:
        """``level_dim``: components of the plain levels, 0 where the values are levels themselves.

        ``cut``: of `links`, the parts that are swept by themselves; None: the network is one.
        """
        self.graph, self.settings, self.level_dim = graph, settings, level_dim
        self.fixed = settings.windows.mode == "fixed"
        self.run: Runner = in_turn
        self.cut, self._given = cut or Cut.whole(links(graph, settings)), cut is not None
        self._begin(features, choice)

    def _begin(self, features: Nystroem, choice: Choice) -> None:
        settings, graph, used = self.settings, self.graph, self.cut.graph
        self.choice = choice
        self._parts = self.cut.parts
        self._read = [np.isin(np.arange(used.ghosts), self.cut.read_by(part)) for part in self._parts]
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
        if self.fixed:
            self.bank.held[:] = 1
        self.statistics = GraphStatistics(used, len(settings.windows.tests), choice.gain, choice.inside)
        dim = features.dictionary.atoms.shape[1]
        dims = (dim, self.level_dim) if self.level_dim else (dim,)
        self.joint = JointStatistic(
            used, dims if settings.estimator.level_charts else (), settings.windows.reference, self.fixed
        )
        self.null: NullMoments | None = None
        self.known: Christoffel | None = None  # of the values that were learnt
        self.stamps = np.zeros((graph.n_nodes, settings.windows.tests[-1]))  # times of the recent values
        self.boundary = Boundary(self.cut, self.bank, self.statistics, self.joint.charts)
        self._moved = np.zeros(graph.n_nodes, np.bool_)
        self._waiting: tuple[Nodes, NDArray[Any], NDArray[Any] | None] | None = None

    @classmethod
    def empty(cls, graph: Graph, dim: int, settings: Settings, cut: Cut | None = None) -> Self:
        """With a dictionary of one point, until `restore` brings the one that was learnt."""
        point = Nystroem(Dictionary(np.zeros((1, dim)), 1.0), rank=1, outside=True)
        return cls(graph, point, settings, Choice(1.0, 0.0, 1.0, 1.0), cut=cut)

    @classmethod
    def calibrate(
        cls,
        Z: NDArray[np.float64],
        graph: Graph,
        settings: Settings,
        step: float,
        progress: Progress | None = None,
        levels: NDArray[np.float64] | None = None,
    ) -> tuple[DensityRatioEngine, CalibrationReport]:
        from detector.engines.density_ratio.calibrate import calibrate  # it plays histories through engines

        return calibrate(Z, graph, settings, step, progress, levels)

    @property
    def node(self) -> NDArray[np.float64]:
        return self.statistics.node

    @property
    def event(self) -> NDArray[np.float64]:
        return self.joint.event

    @property
    def inside(self) -> NDArray[np.float64]:
        return self.statistics.inside

    @property
    def scores(self) -> NDArray[np.float64]:
        return self.bank.scores

    @property
    def standard_scores(self) -> NDArray[np.float64]:
        return np.asarray(self.statistics.values[OWN])

    @property
    def residual(self) -> float:
        return self.bank.residual()

    @property
    def atoms(self) -> int:
        return len(self.bank.features.dictionary.atoms)

    def slide(self, nodes: Nodes, z: NDArray[Any], times: NDArray[Any] | None = None) -> None:
        """One new value for each of the distinct ``nodes``; ``times`` are kept beside them."""
        self._settle()
        self._waiting = nodes, z, times
        self._moved[nodes] = True
        self.joint.slide(0, nodes, z)

    def levels(self, nodes: Nodes, x: NDArray[Any]) -> None:
        """The plain levels of the samples that `slide` takes preprocessed."""
        self.joint.slide(1, nodes, x)
        self._moved[nodes] = True

    def _settle(self) -> None:
        """The values that still wait enter their windows: only the last ones before `finish` may wait."""
        if self._waiting is not None:
            for k in range(len(self._parts)):  # features of a part are made together, here as in a refit
                if waiting := self._waiting_in(k):
                    nodes, z, times = waiting
                    self.bank.slide(nodes, z)
                    self._stamp(nodes, times)
            self._waiting = None

    def _stamp(self, nodes: Nodes, times: NDArray[Any] | None) -> None:
        bank = self.bank
        if times is not None:  # a node whose reference is filling writes where the ring will write later
            slot = (bank.test_head[nodes] + bank.test_count[nodes] - 1) % self.stamps.shape[1]
            self.stamps[nodes, slot] = times

    def finish(self) -> None:
        """Refit where data or neighbours moved, and bring the statistics up to date there."""
        changed, stirred = self.boundary.take()
        moved, self._moved = self._moved, np.zeros(len(self._moved), np.bool_)
        jobs = []
        ticked = np.ones(len(moved), np.bool_)
        for k, (some, read) in enumerate(zip(self._parts, self._read, strict=True)):
            near = changed[read[changed]]
            here = some[moved[some]]
            if not (len(here) or len(near)):
                ticked[some] = False  # nothing happened here: no tick for its tails
                continue
            if len(stirred):
                here = np.concatenate([here, self.bank.n_nodes + stirred[read[stirred]]])
            jobs.append(partial(self._refit, k, here.astype(np.int32), near))
        if jobs:
            # By the tick before: what is shown now follows from the windows alone, also after a restart.
            occupied, memory = self.statistics.occupied, int(self.bank.lengths[-1])
            self.joint.follow(self.bank.silent == 0, occupied, memory, ticked)
            self.run(jobs)
            self._waiting = None
            self.joint.join(self.statistics.event)
        self.boundary.tell(moved)

    def _refit(self, k: int, moved: Nodes, changed: Nodes) -> None:
        """Part ``k`` after its nodes and ghosts ``moved`` and its ghosts ``changed``; no other is touched."""
        mine, statistics = self._parts[k], self.statistics
        rows = statistics.around(moved, mine)
        waiting = self._waiting_in(k)
        if waiting is not None:  # one pass over the sums for both
            nodes, z, times = waiting
            self.bank.step(nodes, z, rows)
            self._stamp(nodes, times)
        else:
            self.bank.refit(rows)
        if len(changed) and len(rows) < len(mine):  # refitted or not, what they pool has moved
            rows = np.union1d(rows, statistics.around(self.bank.n_nodes + changed, mine)).astype(np.int32)
        if self.null is not None:
            statistics.update(self.bank.scores, self.bank.exposure, self.null, rows, mine)
        self.joint.undecided[mine] = np.isnan(self.bank.scores[mine, 0])
        self.joint.chart(rows)

    def _waiting_in(self, k: int) -> tuple[Nodes, NDArray[Any], NDArray[Any] | None] | None:
        if self._waiting is None or len(self._parts) == 1:
            return self._waiting
        nodes, z, times = self._waiting
        here = self.cut.labels[nodes] == self.cut.labels[self._parts[k][0]]
        return (nodes[here], z[here], None if times is None else times[here]) if here.any() else None

    def restart(self, nodes: Nodes) -> None:
        """The windows of ``nodes`` start anew."""
        if len(nodes):
            self._settle()
            self.bank.restart(nodes)
            self.joint.restart(nodes)
            self._moved[nodes] = True

    def silence(self, silent: NDArray[np.bool_]) -> None:
        """Silent nodes leave the data term; their coupling stays."""
        changed = np.flatnonzero(self.bank.silent != silent).astype(np.int32)
        if len(changed):
            self.bank.silent[:] = silent
            self._moved[changed] = True

    def hold(self, nodes: list[int]) -> None:
        """Nodes of an incident: their references stay, and they speak for themselves only."""
        self.bank.held[nodes] = 1
        self.joint.hold(nodes)
        self._mute(nodes, True)

    def release(self, nodes: list[int]) -> None:
        self.joint.release(nodes)
        self._let_go(nodes)

    def _let_go(self, nodes: list[int]) -> None:
        self.bank.held[nodes] = 1 if self.fixed else 0
        if not self.fixed:
            self._moved[nodes] = True
        self._mute(nodes, False)

    def _mute(self, nodes: list[int], muted: bool) -> None:
        rows = self.statistics.mute(nodes, muted)
        if self.null is not None and len(rows):
            self.statistics.update(self.bank.scores, self.bank.exposure, self.null, rows)

    def forget(self, v: int, keep: int) -> None:
        self._settle()
        self.bank.forget(v, keep)
        self.joint.forget(v)
        self._moved[v] = True

    def refill(self, v: int, reference: NDArray[np.float32]) -> None:
        self._settle()
        self.bank.refill(v, reference)
        self.joint.restart(np.array([v], np.int32))
        self._moved[v] = True

    @property
    def shared(self) -> Shared:
        return Shared(self.boundary, self.bank.features, self.choice)

    @property
    def common(self) -> CommonChange:
        return CommonChange(self.graph, self.bank, self.count_since)

    def rebaseline(self, v: int, keep: int) -> None:
        self._settle()
        self.bank.rebaseline(v, keep)
        self.joint.adopt(v, keep)
        self._let_go([v])
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

    def count_since(self, nodes: Nodes, times: NDArray[np.float64]) -> NDArray[np.intp]:
        """How many recent values of each node came from its time on."""
        pairs = zip(nodes.tolist(), times.tolist(), strict=True)
        return np.array([np.count_nonzero(self.times(v) >= begin) for v, begin in pairs], np.intp)

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
        if self.null is None or not np.isfinite(scores).any() or len(reference) < 2:
            return np.zeros(len(recent))
        z = (scores - self.null.score_mean[v]) / self.null.score_spread[v]
        scale = int(np.nanargmax(z))

        def score(x: NDArray[Any]) -> NDArray[np.float64]:
            return np.asarray(np.log(np.maximum(self.bank.ratio(v, scale, x), LEAST_RATIO)))

        before = score(reference[:: max(1, len(reference) // SOME)])
        now = score(recent)
        low, high = before.mean(), now[-int(self.bank.lengths[scale]) :].mean()
        slope = max(high - low, 0.0) / max(before.var(), LEAST_VARIANCE)
        logs: NDArray[np.float64] = slope * (now - (low + high) / 2.0)
        return logs

    def ratio(self, v: int, x: NDArray[Any]) -> NDArray[np.float64]:
        """By the longest test window that is full."""
        return np.asarray(self.bank.ratio(v, self.widest_ready(v), x))

    def coverage(self, nodes: Nodes) -> NDArray[np.float64] | None:
        """Of the newest value of each node; NaN where there is none yet."""
        bank = self.bank
        if self.known is None:
            return None
        found, there = np.full(len(nodes), np.nan), bank.test_count[nodes] > 0
        if there.any():
            some = nodes[there]
            slot = (bank.test_head[some] + bank.test_count[some] - 1) % bank.test_z.shape[1]
            found[there] = self.known.coverage(bank.test_z[some, slot])
        return found

    def state(self) -> tuple[Arrays, Meta]:
        """Blocks are factorised here too, so that the restored engine and this one go on alike."""
        self._settle()
        arrays = self.bank.state() | {"stamps": self.stamps.copy(), "moved": self._moved.copy()}
        dictionary = self.bank.features.dictionary
        arrays |= {"atoms": dictionary.atoms.copy(), "projection": self.bank.features.projection.copy()}
        if dictionary.widths is not None:
            arrays["widths"] = dictionary.widths.copy()
        meta = {
            "sigma": dictionary.sigma,
            "kernel": dictionary.kernel,
            "outside": self.bank.features.outside,
            "choice": vars(self.choice) | {},
            # In absolute terms too: they follow from the graph, and must not move with nodes that come or go.
            "coupling": self.bank.coupling,
            "self_weight": self.statistics.self_weight,
        }
        if self.known is not None:
            arrays["known"] = self.known.B.copy()
            meta["lam"] = self.known.lam
        if self.null is not None:
            arrays |= under("null", copies(self.null, _NULL))
        if len(self._parts) > 1:
            arrays["parts"] = self.cut.labels.copy()
        if len(self.cut.nodes):
            arrays |= under("boundary", self.boundary.state())
        return arrays | under("joint", self.joint.state()), meta

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        dictionary = Dictionary(arrays["atoms"], meta["sigma"], meta["kernel"], arrays.get("widths"))
        features = Nystroem(dictionary, rank=1, outside=bool(meta["outside"]))
        features.projection = np.ascontiguousarray(arrays["projection"])
        if "parts" in arrays and not self._given:
            graph = links(self.graph, self.settings)
            self.cut = Cut.of(graph, extended(arrays["parts"], rows, graph))
        self._begin(features, Choice(**meta["choice"]))
        self.bank.coupling = float(meta["coupling"])
        self.statistics.self_weight = float(meta["self_weight"])
        if "known" in arrays:  # states of early versions have none
            self.known = Christoffel(dictionary, arrays["known"], float(meta["lam"]))
        if null := part("null", arrays):
            self.null = NullMoments(
                _row_or_mean(null["score_mean"], rows),
                _row_or_mean(null["score_spread"], rows),
                np.stack([_row_or_mean(level, rows) for level in null["mean"]]),
                np.stack([_row_or_mean(level, rows) for level in null["spread"]]),
                null["skew"],
            )
        self.bank.restore(arrays, rows)
        take_rows(self, ("stamps",), arrays, rows)
        self._moved[rows >= 0] = arrays["moved"][rows[rows >= 0]]
        self.joint = JointStatistic.restored(
            self.statistics.graph,
            self.settings.windows.reference,
            part("joint", arrays),
            rows,
            self.fixed,
            np.isnan(self.bank.scores[:, 0]),
        )
        self.level_dim = self.joint.dims[1] if len(self.joint.dims) > 1 else 0
        self.boundary = Boundary(self.cut, self.bank, self.statistics, self.joint.charts)
        if boundary := part("boundary", arrays):
            nodes = self.cut.nodes
            self.boundary.restore(boundary, rows[nodes] if self.cut.holds_all else nodes.astype(np.intp))
            self.joint.chart(np.arange(len(rows), dtype=np.int32))
        if self.null is not None:
            self.statistics.update(self.bank.scores, self.bank.exposure, self.null)
        if "joint.joint" not in arrays:  # a state of version 0.1
            self.joint.update(self.statistics.event, np.arange(len(rows), dtype=np.int32))

    @classmethod
    def of_parts(cls, cut: Cut, settings: Settings, arrays: Arrays, meta: Meta, rows: Rows) -> Self:
        """The nodes that ``cut`` holds, from a state of the whole network or of just these: ``rows`` in it.

        What parts held elsewhere tell is brought by `boundary.hear`.
        """
        point = Nystroem(Dictionary(np.zeros((1, arrays["atoms"].shape[1])), 1.0), rank=1, outside=True)
        made = cls(cut.graph, point, settings, Choice(**meta["choice"]), 0, cut)
        made.restore(arrays, meta, rows)
        return made

    def fresh(self, cut: Cut | None = None) -> DensityRatioEngine:
        """The same engine with empty windows; ``cut``: of the same nodes, to hear its ghosts otherwise."""
        made = DensityRatioEngine(
            self.graph, self.bank.features, self.settings, self.choice, self.level_dim, cut or self.cut
        )
        made.null, made.known, made.joint, made.run = self.null, self.known, self.joint.fresh(), self.run
        made.boundary = Boundary(made.cut, made.bank, made.statistics, made.joint.charts)
        return made

    def copy(self) -> DensityRatioEngine:
        """An engine that goes its own way from here; features, graph and null moments are shared."""
        self._settle()
        twin = copy.copy(self)
        twin.bank, twin.statistics = copy.copy(self.bank), copy.copy(self.statistics)
        twin.joint = self.joint.copy()
        for owner in (twin.bank, twin.statistics):
            for name, value in vars(owner).items():
                if isinstance(value, np.ndarray):
                    setattr(owner, name, value.copy())
        twin.boundary = self.boundary.copy(twin.bank, twin.statistics, twin.joint.charts)
        twin._moved, twin.stamps = self._moved.copy(), self.stamps.copy()
        return twin


def _row_or_mean(array: NDArray[Any], rows: Rows) -> NDArray[Any]:
    """A new node is taken to be as the others are, on average."""
    out = np.tile(array.mean(axis=0), (len(rows), 1))
    out[rows >= 0] = array[rows[rows >= 0]]
    return np.ascontiguousarray(out)


if TYPE_CHECKING:
    _checked: type[Engine] = DensityRatioEngine
