"""From a quiet history to an engine with thresholds that keep the network's budget of false incidents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from detector.bootstrap import block_length, correlation_time, rows
from detector.engine import Choice, Engine
from detector.injection import Change, neighbourhood
from detector.rehearsal import Rehearsal
from detector.settings import Settings
from detector.tail import Tail, episodes
from detector.tuning import Tuning
from estimators.graph import Graph
from estimators.levels import Quiet

Floats = NDArray[np.float64]
Progress = Callable[[str, float], None]

NODE_RUN = 1000.0  # ticks a quiet node stays below its own threshold, on average
NODE_BLOCK = 250  # ticks of which the largest value is kept
PROMISE = 20.0  # the tail is trusted this many times beyond the history
IN_ORDER = 1000  # ticks of history, windows filled, from which its own moments are taken
WATCHED = 150  # ticks in which a put-in change must be found


@dataclass
class Report:
    """What was learnt, promised and checked; ``record`` for programs, ``text`` for people."""

    choice: Choice
    rank: int
    atoms: int
    n_ticks: int
    block: int
    step: float
    threshold: float
    event_threshold: float
    promised: float  # false incidents per tick
    budget: str
    tail: Tail
    validated: dict[str, float] = field(default_factory=dict)
    delays: list[dict[str, Any]] = field(default_factory=list)
    trials: list[dict[str, float]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        return {
            "choice": vars(self.choice) | {},
            "rank": self.rank,
            "atoms": self.atoms,
            "ticks": self.n_ticks,
            "block": self.block,
            "step_seconds": self.step,
            "threshold": self.threshold,
            "event_threshold": self.event_threshold,
            "budget": self.budget,
            "promised_per_tick": self.promised,
            "tail": vars(self.tail) | {},
            "validated": self.validated,
            "delays": self.delays,
            "trials": self.trials,
            "warnings": self.warnings,
        }

    @classmethod
    def of(cls, record: dict[str, Any]) -> Report:
        """The report a record was made from."""
        return cls(
            Choice(**record["choice"]),
            record["rank"],
            record["atoms"],
            record["ticks"],
            record["block"],
            record["step_seconds"],
            record["threshold"],
            record["event_threshold"],
            record["promised_per_tick"],
            record["budget"],
            Tail(**record["tail"]),
            record["validated"],
            record["delays"],
            record["trials"],
            record["warnings"],
        )

    def text(self) -> str:
        c, v = self.choice, self.validated
        lines = [f"learnt from {self.n_ticks} ticks of {self.step:g} s; blocks of {self.block} ticks"]
        if np.isfinite(self.promised):
            lines += [
                (
                    f"kernel width {c.sigma:g} × median distance, coupling {c.coupling:g}, "
                    f"ridge {c.ridge:g}, gains {c.gain:g} and {c.inside:g}; {self.atoms} atoms, "
                    f"rank {self.rank}"
                ),
                f"thresholds: event {self.event_threshold:.2f}, node {self.threshold:.2f}",
                f"promised: {self.budget}, the whole network",
                (
                    f"checked on {v['ticks']:.0f} ticks not used before: {v['incidents']:.0f} false "
                    f"incidents, expected {v['expected']:.2f}; 95 % interval {v['low']:.3g} to "
                    f"{v['high']:.3g} times that"
                ),
                "expected delay in ticks (median; found within 150):",
            ]
        lines += [
            f"  {d['change']:<18} on {d['nodes']:>3} node{'s' if d['nodes'] != 1 else ' '}: "
            + (f"{d['delay']:.0f}" if np.isfinite(d["delay"]) else "not found")
            + f" ({100 * d['found']:.0f} %)"
            for d in self.delays
        ]
        return "\n".join(lines + [f"warning: {w}" for w in self.warnings])


@dataclass
class Calibration:
    engine: Engine
    report: Report


def calibrate(
    Z: Floats, graph: Graph, settings: Settings, step: float, progress: Progress | None = None
) -> Calibration:
    """Z (T, N, d): the quiet history in units of quiet spread, NaN where a node had no sample in a tick.

    The first three quarters are resampled to choose and to set thresholds; the last checks the promise.
    """
    say = progress or (lambda _, __: None)
    T = len(Z)
    need = settings.windows.reference + settings.windows.tests[-1]
    if 2 * need > T:
        raise ValueError(f"history: {T} ticks; learning needs at least {2 * need} (twice all windows)")
    kept = 3 * T // 4
    learn, check = Z[:kept], Z[kept:]
    correlation = correlation_time(learn)
    block = block_length(correlation, kept)
    tuning = Tuning(learn, graph, settings, block)
    choice, features = tuning.choose(lambda what, share: say(what, 0.4 * share))
    engine = Engine(graph, features, settings, choice)
    n = graph.n_nodes
    # As long as the history can feed with new combinations, and a small core can bear.
    cost = n * len(settings.windows.tests) * features.rank**2
    quiet_ticks = int(min(np.clip(200_000 // n, 1500, 4000), max(2 * kept, 1500)))
    tail_ticks = int(min(np.clip(3_200_000_000 // cost, 3000, 20_000), max(6 * kept, 3000)))

    run = Rehearsal(engine, learn, rows(kept, block, settings.alarm.seed + 2))
    run.pulse = lambda share: say("what quiet looks like", 0.4 + 0.1 * share)
    run.warm_up()
    run.learn_quiet(quiet_ticks, correlation)
    run.pulse = lambda share: say("threshold", 0.5 + 0.3 * share)
    watch = Watch(engine, tail_ticks)
    run.play(tail_ticks, watch.look)
    # What is correlated for long stays over a threshold for long, and is one incident then.
    gap = max(settings.incidents.clear_after, round(2.0 * correlation))
    tail = watch.tail(graph, gap)
    budget = settings.alarm.budget.per_tick(step)
    report = Report(
        choice,
        features.rank,
        len(features.dictionary.atoms),
        T,
        block,
        step,
        watch.node_threshold(),
        tail.threshold(budget),
        budget,
        str(settings.alarm.budget),
        tail,
        trials=tuning.table,
    )
    _warn(report, kept, need, budget)
    if kept - need >= IN_ORDER:
        engine.quiet = _in_order(engine.fresh(settings), learn, need, correlation, say)
    run.pulse = lambda _: say("expected delays", 0.9)
    say("check on unused data", 0.8)
    report.validated = _validate(engine.fresh(settings), learn, check, report, gap)
    report.delays = _delays(run, graph, report, settings.alarm.seed, say)
    say("done", 1.0)
    return Calibration(engine.fresh(settings), report)


def _in_order(engine: Engine, learn: Floats, need: int, correlation: float, say: Progress) -> Quiet:
    """What quiet looks like in the history as it came.

    The joins of the bootstrap make scores a little smaller than they are, so its thresholds are found in its
    own units, and applied in these.
    """
    run = Rehearsal(engine, learn, chain(range(len(learn)), range(need, len(learn))))
    run.pulse = lambda share: say("what quiet looks like, in order", 0.8 + 0.02 * share)
    run.play(need)
    return run.learn_quiet(len(learn) - need, correlation)


class Watch:
    """Keeps of a long quiet run: exceedances of the event statistic, largest node values."""

    LOW = 2.5  # exceedances below this are of no use: every few ticks some node has one

    def __init__(self, engine: Engine, n_ticks: int) -> None:
        self.levels, self.n_ticks = engine.levels, n_ticks
        self._ticks: list[NDArray[np.int64]] = []
        self._nodes: list[NDArray[np.int32]] = []
        self._values: list[Floats] = []
        self._maxima: list[Floats] = []

    def look(self, t: int) -> None:
        event, node = self.levels.event, self.levels.node
        hot = np.flatnonzero(event > self.LOW).astype(np.int32)
        self._ticks.append(np.full(len(hot), t))
        self._nodes.append(hot)
        self._values.append(event[hot])
        if t % NODE_BLOCK == 0:
            self._maxima.append(np.full(len(node), -np.inf))
        np.fmax(self._maxima[-1], node, out=self._maxima[-1])

    def node_threshold(self) -> float:
        """The level that a quiet node passes once in NODE_RUN ticks: P(block quiet) = exp(-block/run)."""
        maxima = np.concatenate(self._maxima[: self.n_ticks // NODE_BLOCK])
        return float(np.quantile(maxima, np.exp(-NODE_BLOCK / NODE_RUN)))

    def peaks(self, base: float, graph: Graph, gap: int) -> Floats:
        ticks, nodes = np.concatenate(self._ticks), np.concatenate(self._nodes)
        values: Floats = np.concatenate(self._values)
        over: NDArray[np.bool_] = np.asarray(values > base)
        return episodes(ticks[over], nodes[over], values[over], graph, gap)

    def tail(self, graph: Graph, gap: int, wanted: int = 200) -> Tail:
        """A tail fitted to about ``wanted`` episodes, fewer if the run has no more."""
        values = np.sort(np.concatenate(self._values))[::-1]
        if not len(values):
            return Tail.fit(np.zeros(0), self.LOW, self.n_ticks)
        base, peaks = self.LOW, np.zeros(0)
        for count in (3 * wanted, 10 * wanted, 30 * wanted, 100 * wanted, len(values)):
            base = float(values[min(count, len(values)) - 1])
            peaks = self.peaks(base, graph, gap)
            if len(peaks) >= wanted:
                break
        if len(peaks) > wanted:
            base = float(np.sort(peaks)[-wanted - 1])
        return Tail.fit(peaks, base, self.n_ticks)


def _warn(report: Report, kept: int, need: int, budget: float) -> None:
    longest = PROMISE * kept
    if 1.0 / budget > longest:
        days = longest * report.step / 86400.0
        report.warnings.append(
            f"history too short for this promise: {kept} ticks can vouch for one false incident in about "
            f"{longest:.0f} ticks ({days:.3g} days); {report.budget} is extrapolated beyond that"
        )
    if kept < 6 * need:
        report.warnings.append(
            f"history of {report.n_ticks} ticks holds only {kept / need:.1f} times all windows: "
            "at least 6 are advised"
        )
    if report.tail.n < 30:
        report.warnings.append(f"threshold rests on {report.tail.n} quiet episodes only")


def _validate(engine: Engine, learn: Floats, check: Floats, report: Report, gap: int) -> dict[str, float]:
    """Count the incidents that the unused part of the history would have opened, as it came."""
    need = engine.bank.ref_z.shape[1] + engine.bank.test_z.shape[1]
    joined = np.concatenate([learn[-need:], check])
    run = Rehearsal(engine, joined, iter(range(len(joined))))
    run.play(min(need, len(learn)))
    watch = Watch(engine, len(check))
    run.play(len(check), watch.look)
    count = int(
        np.count_nonzero(watch.peaks(report.event_threshold, engine.graph, gap) > report.event_threshold)
    )
    expected = report.promised * len(check)
    low = gammaincinv(count, 0.025) if count else 0.0  # Poisson limits
    high = gammaincinv(count + 1, 0.975)
    if low > expected:
        report.warnings.append(
            f"the unused part of the history opened {count} incidents where {expected:.2g} were promised: "
            "it is not quiet, or differs from the part learnt from"
        )
    return {
        "ticks": float(len(check)),
        "incidents": float(count),
        "expected": expected,
        "low": float(low / expected),
        "high": float(high / expected),
    }


def _delays(run: Rehearsal, graph: Graph, report: Report, seed: int, say: Progress) -> list[dict[str, Any]]:
    """Median delay of put-in changes, on one node and on a tenth of the network, at the thresholds found."""
    changes = [
        Change("mean", 0.5),
        Change("mean", 1.0),
        Change("mean", 2.0),
        Change("spread", 2.0),
        Change("shape"),
    ]
    if run.Z.shape[2] > 1:
        changes.append(Change("correlation"))
    sizes = sorted({1, int(np.clip(graph.n_nodes // 10, 1, 10))})
    rng = np.random.default_rng(seed + 3)
    table = []
    for k, (change, size) in enumerate((c, s) for c in changes for s in sizes):
        found = []
        for repeat in range(3):
            nodes = neighbourhood(graph, int(rng.integers(graph.n_nodes)), size)
            twin = run.fork(rows(len(run.Z), report.block, seed + 1000 + 10 * k + repeat))
            found.append(_delay(twin, change, nodes, report.event_threshold))
        say(f"delay of {change}", 0.85 + 0.15 * (k + 1) / (len(changes) * len(sizes)))
        hit = np.isfinite(found)
        table.append(
            {
                "change": str(change),
                "nodes": size,
                "delay": float(np.median(found)),
                "found": float(hit.mean()),
            }
        )
    return table


def _delay(run: Rehearsal, change: Change, nodes: NDArray[np.int32], threshold: float) -> float:
    levels = run.engine.levels
    for t in range(WATCHED):
        run.play(1, None, change, nodes)
        if np.nanmax(levels.event[nodes], initial=-np.inf) > threshold:
            return t + 1.0
    return float("inf")
