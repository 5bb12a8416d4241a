"""From a quiet history to an engine with thresholds that keep the network's budget of false incidents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from detector.bootstrap import block_length, correlation_time, rows
from detector.coverage import known
from detector.engine import Engine
from detector.injection import Change, neighbourhood
from detector.learnt import Report
from detector.quiet_course import Course, Watch
from detector.rehearsal import Rehearsal
from detector.settings import Settings
from detector.tuning import Tuning
from estimators.graph import Graph

Floats = NDArray[np.float64]
Progress = Callable[[str, float], None]

PROMISE = 20.0  # the tail is trusted this many times beyond the history
STRETCHES = 300  # correlation times in a history that can vouch for a rate
WATCHED = 150  # ticks in which a put-in change must be found


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
    engine.known = known(learn, features.dictionary, settings.alarm.seed)
    course = Course(kept, need, block, settings.alarm.seed)
    honest = course.learn_quiet(
        engine, learn, correlation, lambda share: say("what quiet looks like", 0.4 + 0.2 * share)
    )
    run, watch = course.watch(
        engine.fresh(settings), learn, honest, lambda share: say("threshold", 0.6 + 0.2 * share)
    )
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
    _warn(report, kept, need, budget, correlation)
    run.pulse = lambda _: say("expected delays", 0.9)
    say("check on unused data", 0.8)
    report.validated = _validate(engine.fresh(settings), learn, check, report, gap)
    report.delays = _delays(run, graph, report, settings.alarm.seed, say)
    say("done", 1.0)
    return Calibration(engine.fresh(settings), report)


def _warn(report: Report, kept: int, need: int, budget: float, correlation: float) -> None:
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
    if correlation > 2.0 and kept < STRETCHES * correlation:
        report.warnings.append(
            f"values stay correlated for about {correlation:.0f} ticks, so that the history holds "
            f"{kept / correlation:.0f} independent stretches; {STRETCHES} are advised, or "
            "preprocess.whiten: auto"
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
