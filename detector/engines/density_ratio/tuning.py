"""Kernel width and coupling by power: which setting sees known small changes soonest, without leaking.

Held-out loss cannot choose here: a daemon has quiet history only, where both windows have one distribution
and the loss favours the trivial answer. So changes are put into the network's own data, on linked nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaincinv

from detector.engines.calibration_report import Choice
from detector.engines.density_ratio.engine import DensityRatioEngine, in_turn
from detector.engines.density_ratio.injection import Change, community, kinds
from detector.engines.density_ratio.playback import Playback
from detector.engines.runners.base import Alone, Workers, local_runner
from detector.settings.core import Settings
from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.core.kernels import median_distance
from estimators.core.partition import Cut
from estimators.core.types import Floats, Nodes
from estimators.sparse.dictionary import SparseDictionary
from estimators.streaming.graph_statistics import BACKED, NEAR, SURE
from estimators.timeseries.block_bootstrap import rows

Progress = Callable[[str, float], None]

SPARSE_ATOMS = (32, 64)  # most, of one component and of more
SIGMAS = (0.6, 1.0)
COUPLINGS = (0.3, 0.1, 1.0)  # the width is chosen at the first
RIDGE_SHARE, LEAST_RIDGE = 0.01, 0.002  # of the coupling: the document's gamma is of this order
GAINS = (2.0, 1.5, 1.25, 1.0)
INSIDE_GAINS = (8.0, 4.0, 2.0)
GLARING = Change("mean", 3.0)  # seen at once, by any setting: it shows what leaks into neighbours
INSIDE_AT = 20  # ticks after a change at which membership is judged
PRECISION = 0.95
HORIZON = 40  # ticks a put-in change is watched
BAR = 4.2  # event statistic taken for an alarm while choosing; nearly normal, so about one network's budget
NODE_BAR = 3.3
LEAK_LIMIT = 2.0  # unchanged neighbours of an event may be alarmed so much more often than in quiet


def features(Z: Floats, sigma: float, settings: Settings, tol: float = 1e-3) -> Nystroem:
    """Dictionary (Algorithm 3, or sparse) and Nystroem features of the quiet values."""
    picked = np.linspace(0, Z.shape[1] - 1, min(Z.shape[1], 200)).astype(int)
    points = [z[np.isfinite(z).all(axis=1)][:500] for z in (Z[:, v] for v in picked)]
    points = [p for p in points if len(p) > 1]
    if not points:
        raise ValueError("history: no node has two complete samples, so there is nothing to learn from")
    width = sigma * float(np.median([median_distance(p, max_points=250) for p in points]))
    if settings.estimator.dictionary == "sparse":
        dictionary = _sparse(np.concatenate(points), width, settings.estimator.atoms)
    else:
        dictionary = Dictionary.build(points, sigma=width, budget=settings.estimator.atoms)
    return Nystroem(dictionary, tol=tol, rank=settings.estimator.rank - 1, outside=True)


def _sparse(points: Floats, width: float, budget: int) -> Dictionary:
    """Atoms of many widths; the one that is being tried is that of the coarse cover."""
    spread = float(points.std(axis=0).max()) or 1.0
    most = min(budget, SPARSE_ATOMS[points.shape[1] > 1])
    atoms = SparseDictionary(cover=width / spread, max_atoms=most).fit(points)
    return Dictionary(atoms.centers, width, widths=atoms.widths)


@dataclass
class Seen:
    """What one put-in change led to."""

    delay: float  # ticks until the event statistic saw it
    crossed: Floats  # unchanged neighbours alarmed, per gain
    right: Floats  # changed nodes that would count as members, per inside gain
    wrong: Floats  # unchanged neighbours that would


class Tuning:
    """Tries settings on a history Z (T, N, d) with block length ``block``."""

    def __init__(
        self, Z: Floats, graph: Graph, settings: Settings, block: int, cut: Cut | None = None
    ) -> None:
        self.Z, self.graph, self.settings, self.block, self.cut = Z, graph, settings, block, cut
        self.seed, self.run = settings.alarm.seed, local_runner(settings)
        rng = np.random.default_rng(self.seed)
        size = int(np.clip(Z.shape[1] // 5, 1, 20))
        centres = rng.choice(graph.n_nodes, min(3, graph.n_nodes), replace=False)
        self.sets = [community(graph, int(c), size) for c in centres]
        self.table: list[dict[str, float]] = []  # what was tried, and what it gave

    def choose(self, progress: Progress, processes: Workers | None = None) -> tuple[Choice, Nystroem]:
        """Width, coupling, ridge and gains, and the features; attempts are shared among ``processes``."""
        processes = processes or Alone()
        if processes.workers > 1:
            self.run = in_turn  # cores are taken
        given = self.settings.estimator
        sigmas = (given.sigma,) if given.sigma is not None else SIGMAS
        couplings = (given.coupling,) if given.coupling is not None else COUPLINGS
        if given.name == "pool":
            couplings = (0.0,)
        first = couplings[0]
        best = self._with(Choice(sigmas[0], first, 0.0, GAINS[0]), first)
        trials = len(sigmas) + len(couplings) - 1
        best = self._best((replace(best, sigma=s) for s in sigmas), progress, 0, trials, processes)
        others = [self._with(best, c) for c in couplings[1:]]
        if others:
            best = self._best([best, *others], progress, len(sigmas) - 1, trials, processes)
        tried = self._of(best)
        assert tried is not None
        gain = next((g for g in GAINS if tried[f"leak {g}"] <= LEAK_LIMIT), GAINS[-1])
        inside = next((g for g in INSIDE_GAINS if tried[f"precision {g}"] >= PRECISION), INSIDE_GAINS[-1])
        return replace(best, gain=gain, inside=inside), features(self.Z, best.sigma, self.settings)

    def _with(self, choice: Choice, coupling: float) -> Choice:
        """``choice`` with that coupling, and the ridge that goes with it unless one is given."""
        given = self.settings.estimator.ridge
        ridge = given if given is not None else max(RIDGE_SHARE * coupling, LEAST_RIDGE)
        return replace(choice, coupling=coupling, ridge=ridge)

    def _of(self, choice: Choice) -> dict[str, float] | None:
        key = (choice.sigma, choice.coupling, choice.ridge)
        return next((t for t in self.table if (t["sigma"], t["coupling"], t["ridge"]) == key), None)

    def _best(
        self,
        choices: Iterable[Choice],
        progress: Progress,
        done: int,
        total: int,
        processes: Workers,
    ) -> Choice:
        choices = list(choices)
        new = [choice for choice in choices if self._of(choice) is None]
        shares = [0.0] * len(new)

        def pulse(k: int, share: float) -> None:
            shares[k] = share
            what = f"kernel width {new[k].sigma:g}, coupling {new[k].coupling:g}"
            progress(what, (done + len(choices) - len(new) + sum(shares)) / total)

        self.table += processes.map(self.attempt, new, pulse)
        scored: list[tuple[float, Choice]] = []
        for choice in choices:
            tried = self._of(choice)
            assert tried is not None
            # Beyond the limit on leakage a setting competes only with others beyond it.
            over = max(tried[f"leak {GAINS[-1]}"] - LEAK_LIMIT, 0.0)
            scored.append((tried["delay"] + 10.0 * over, choice))
        return min(scored, key=lambda pair: pair[0])[1]

    def attempt(self, choice: Choice, pulse: Callable[[float], None]) -> dict[str, float]:
        """What ``choice`` gives: a row of the table. One attempt knows nothing of another."""
        pulse(0.0)
        engine = DensityRatioEngine(
            self.graph, features(self.Z, choice.sigma, self.settings), self.settings, choice, cut=self.cut
        )
        engine.run = self.run
        null = Playback(engine, self.Z, rows(len(self.Z), self.block, self.seed + 1), pulse)
        null.warm_up()
        null.learn_null(500)
        delays: list[float] = []
        crossed, watched = np.zeros(len(GAINS)), 0
        right, wrong = np.zeros((2, len(INSIDE_GAINS)))
        for k, nodes in enumerate(self.sets):
            beside = [self.graph.neighbours(v) for v in nodes.tolist()] if self.cut else []
            near = np.setdiff1d(np.concatenate([engine.statistics.around(nodes), *beside]), nodes)
            for i, change in enumerate([*kinds(self.Z.shape[2]), GLARING]):
                seen = self._watch(null.fork(self._rows(k, i)), change, nodes, near)
                if change is not GLARING:
                    delays.append(seen.delay)
                crossed += seen.crossed
                right += seen.right
                wrong += seen.wrong
                watched += len(near)
        # Few neighbours for a few ticks: only what cannot be chance counts, against one alarm in 1000 ticks.
        expected = max(watched * HORIZON / 1000.0, 1e-9)
        surely = np.where(crossed > 0, gammaincinv(np.maximum(crossed, 0.5), 0.05), 0.0)
        tried = {
            "sigma": choice.sigma,
            "coupling": choice.coupling,
            "ridge": choice.ridge,
            "delay": float(np.exp(np.mean(np.log(delays)))),
            "rank": float(engine.bank.features.rank),
        }
        tried |= {f"leak {g}": float(x) for g, x in zip(GAINS, surely / expected, strict=True)}
        precision = (right + 1.0) / (right + wrong + 1.0)
        tried |= {f"precision {g}": float(x) for g, x in zip(INSIDE_GAINS, precision, strict=True)}
        pulse(1.0)
        return tried

    def _rows(self, k: int, i: int) -> Iterator[int]:
        return rows(len(self.Z), self.block, self.seed + 100 + 10 * k + i)

    def _watch(self, run: Playback, change: Change, nodes: Nodes, near: Nodes) -> Seen:
        statistics = run.engine.statistics
        seen = Seen(float(2 * HORIZON), np.zeros(len(GAINS)), np.zeros(0), np.zeros(0))
        crossed = np.zeros((len(GAINS), len(near)), np.bool_)

        def inside(rows: Nodes) -> Floats:
            """How many would count as members, per gain."""
            sure, beside = statistics.level[SURE, rows], statistics.level[NEAR, rows]
            return np.array([np.count_nonzero(np.minimum(beside, g * sure) > NODE_BAR) for g in INSIDE_GAINS])

        def look(t: int) -> None:
            if seen.delay > HORIZON and np.nanmax(statistics.event[nodes], initial=-np.inf) > BAR:
                seen.delay = t + 1.0
            sure, backed = statistics.level[SURE, near], statistics.level[BACKED, near]
            for k, gain in enumerate(GAINS):
                crossed[k] |= np.maximum(sure, np.minimum(backed, gain * sure)) > NODE_BAR
            if t + 1 == INSIDE_AT:
                seen.right, seen.wrong = inside(nodes), inside(near)

        run.play(HORIZON, look, change, nodes)
        seen.crossed = crossed.sum(axis=1).astype(float)
        return seen
