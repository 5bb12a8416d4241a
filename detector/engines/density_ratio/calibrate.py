"""From a quiet history to an engine with thresholds that keep the network's budget of false incidents."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from detector.engines.base import Progress
from detector.engines.calibration_report import CalibrationReport, Choice, to_learn_from
from detector.engines.coverage import known
from detector.engines.density_ratio.delays import delays
from detector.engines.density_ratio.engine import DensityRatioEngine, links
from detector.engines.density_ratio.null_run import NullRun
from detector.engines.density_ratio.playback import Playback, quiet
from detector.engines.density_ratio.tuning import Tuning
from detector.engines.exceedances import Exceedances
from detector.engines.runners.base import Workers, learners, local_runner
from detector.settings.core import Settings
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.core.partition import Cut, ghosts_per_node, partition
from estimators.core.types import Floats
from estimators.streaming.level_charts import TEST
from estimators.streaming.tail_scale import TailScale
from estimators.timeseries.block_bootstrap import block_length, correlation_time
from estimators.timeseries.extremes import Tail

ADVISED = 6  # times all windows that a history should hold; shorter ones are learnt from whole
STRETCHES = 300  # correlation times in a history that can vouch for a rate
DOUBT = 5.0  # episodes by which the promise is believed before its check
MANY_GHOSTS = 1.0  # copies per node that parts read of each other


@dataclass
class _Learnt:
    """An engine with its null distribution, the run that found it, and what would have alarmed in it."""

    engine: DensityRatioEngine
    run: Playback
    found: Exceedances
    gap: int  # ticks between two exceedances of one episode


def calibrate(
    Z: Floats,
    graph: Graph,
    settings: Settings,
    step: float,
    progress: Progress | None = None,
    levels: Floats | None = None,
    cut: Cut | None = None,
    given: tuple[Choice, Nystroem] | None = None,
) -> tuple[DensityRatioEngine, CalibrationReport]:
    """Z (T, N, d): the quiet history in units of baseline spread, NaN where a node had no sample in a tick.

    ``cut``: the parts, if they are not to be found here; ``given``: what else would be chosen.

    The first three quarters choose and set thresholds; the last checks the promise, and raises thresholds by
    how much more often it comes near them. Where it contradicts the promise, the whole history is learnt
    from, thresholds are as high as the last quarter needs, and less is promised.
    """
    tell = progress or (lambda _, __: None)
    T = len(Z)
    need = settings.windows.reference + settings.windows.tests[-1]
    least = settings.windows.reference + 2 * TEST
    if least > T:
        raise ValueError(
            f"history: {T} ticks; learning needs at least {least} (windows.reference and twice {TEST})"
        )
    kept = to_learn_from(T) if to_learn_from(T) >= ADVISED * need else T
    learn = Z[:kept]
    correlation = correlation_time(learn)
    block = block_length(correlation, kept)
    if cut is None:
        used = links(graph, settings)
        cut = Cut.of(used, partition(used, settings.engine.n_parts(graph.n_nodes)))
    with learners(settings, Z.size, _memory(Z, settings)) as processes:
        tuning = Tuning(learn, graph, settings, block, cut)
        choice, features = given or tuning.choose(lambda what, share: tell(what, 0.4 * share), processes)
        level_dim = 0 if levels is None else levels.shape[2]
        engine = DensityRatioEngine(graph, features, settings, choice, level_dim, cut)
        engine.run = local_runner(settings)
        engine.known = known(learn, features.dictionary, settings.alarm.seed)
        kept_levels = None if levels is None else levels[:kept]
        learnt = _learn(engine, learn, kept_levels, correlation, processes, tell)
        budget = settings.alarm.budget
        tail, near = _tail(learnt, budget.per_tick(step))
        report = CalibrationReport(
            choice,
            features.rank,
            len(features.dictionary.atoms),
            T,
            block,
            step,
            learnt.found.node_threshold(),
            tail,
            budget,
            str(budget),
            trials=tuning.table,
            near=near,
        )
        _warn(report, kept, need, correlation)
        if cut.holds_all:
            _warn_of_ghosts(report, cut, graph)
        if kept < T:
            tell("check on unused data", 0.8)
            report.validated = _validate(learnt, Z, levels, kept, report)
        if report.contradicted:
            tell("threshold, from the whole history", 0.8)
            learnt = _learn(engine.fresh(), Z, levels, correlation, processes, tell)
            report.threshold = learnt.found.node_threshold()
            report.tail, report.near = _tail(learnt, budget.per_tick(step))
            report.caution = _needed(learnt, kept, report)
            _warn_contradicted(report)
        learnt.run.pulse = quiet
        report.delays = delays(learnt.run, graph, report, settings.alarm.seed, processes, tell)
        tell("done", 1.0)
        return learnt.engine.fresh(), report


def _tail(learnt: _Learnt, budget: float) -> tuple[Tail, tuple[float, float]]:
    """Of the episodes of a quiet run, and a level near the threshold of a budget per tick."""
    graph = learnt.engine.graph
    tail = learnt.found.tail(graph, learnt.gap)
    return tail, learnt.found.near(budget, tail, graph, learnt.gap)


def _memory(Z: Floats, settings: Settings) -> int:
    """Bytes that an attempt takes for its windows, sums and parameters, and for a fork of them."""
    windows, r = settings.windows, settings.estimator.rank
    kept = windows.reference + windows.tests[-1]
    each = 2 * r + 4 * Z.shape[2] + 8  # features, values, times
    return 2 * int(Z.shape[1] * (kept * each + 4 * (len(windows.tests) + 3) * r * r))


def _learn(
    engine: DensityRatioEngine,
    Z: Floats,
    levels: Floats | None,
    correlation: float,
    processes: Workers,
    tell: Progress,
) -> _Learnt:
    settings = engine.settings
    need = settings.windows.reference + settings.windows.tests[-1]
    begin = settings.windows.reference + min(max(settings.windows.tests[0], TEST), settings.windows.tests[-1])
    null_run = NullRun(len(Z), need, block_length(correlation, len(Z)), settings.alarm.seed, begin)
    by = null_run.learn(
        engine,
        [Z] if levels is None else [Z, levels],
        correlation,
        processes,
        lambda share: tell("null distribution", 0.4 + 0.2 * share),
    )
    engine.joint.tails = TailScale.neutral(engine.graph.n_nodes)
    run, found = null_run.exceedances(
        engine.fresh(), Z, levels, by, lambda share: tell("threshold", 0.6 + 0.2 * share)
    )
    engine.joint.tails = found.tail_scale(settings.windows.tests[-1])
    run.engine.joint.tails = copy(engine.joint.tails)
    # What is correlated for long stays over a threshold for long, and is one incident then.
    return _Learnt(engine, run, found, max(settings.incidents.clear_after, round(2.0 * correlation)))


def _warn(report: CalibrationReport, kept: int, need: int, correlation: float) -> None:
    if kept == report.n_ticks:
        report.notes.append(
            f"history of {kept} ticks holds only {kept / need:.1f} times all windows, {ADVISED / 0.75:g} are "
            "advised: all of it was learnt from, and none is left to check the promise"
        )
    if correlation > 2.0 and kept < STRETCHES * correlation:
        report.notes.append(
            f"values stay correlated for about {correlation:.0f} ticks, so that the history holds "
            f"{kept / correlation:.0f} independent stretches; {STRETCHES} are advised, or "
            "preprocess.whiten: auto"
        )
    if report.tail.n < 30:
        report.notes.append(f"threshold rests on {report.tail.n} quiet episodes only")


def _warn_of_ghosts(report: CalibrationReport, cut: Cut, graph: Graph) -> None:
    ghosts = ghosts_per_node(graph, cut.labels)
    if ghosts > MANY_GHOSTS:
        report.notes.append(
            f"the network does not fall into {len(cut.parts)} parts: {ghosts:.1f} copies per node are read "
            "across cuts, one tick old. Changes are seen about a tick later, and workers mostly exchange: "
            "fewer engine.parts are advised"
        )


def _validate(
    learnt: _Learnt, Z: Floats, levels: Floats | None, kept: int, report: CalibrationReport
) -> dict[str, float]:
    """Count the incidents that the unused part of the history would have opened, as it came.

    How often it came near the threshold raises that: a lower level is passed so often that a few hundred
    ticks can tell.
    """
    engine = learnt.engine.fresh()
    need = engine.bank.ref_z.shape[1] + engine.bank.test_z.shape[1]
    run = Playback(engine, Z, iter(range(max(kept - need, 0), len(Z))), levels=levels)
    run.play(min(need, kept))
    found = Exceedances(engine, len(Z) - kept)
    run.play(found.n_ticks, found.look)

    def count(level: float) -> int:
        return int(np.count_nonzero(found.peaks(level, engine.graph, learnt.gap) > level))

    assert report.near is not None
    level, rate = report.near
    report.caution = max((count(level) + DOUBT) / (rate * found.n_ticks + DOUBT), 1.0)
    threshold = report.tail.threshold(report.asked)
    incidents, expected = count(threshold), report.asked * found.n_ticks
    low = gammaincinv(incidents, 0.025) if incidents else 0.0  # Poisson limits
    high = gammaincinv(incidents + 1, 0.975)
    return {
        "ticks": float(found.n_ticks),
        "incidents": float(incidents),
        "expected": expected,
        "low": float(low / expected),
        "high": float(high / expected),
    }


def _needed(learnt: _Learnt, kept: int, report: CalibrationReport) -> float:
    """How much rarer than the budget the tail must call a threshold that the last part of the history keeps.

    The whole history has been learnt from; that part may pass the threshold no more often than promised.
    """
    ticks = report.n_ticks - kept
    peaks = np.sort(learnt.found.peaks(report.tail.base, learnt.engine.graph, learnt.gap, last=ticks))[::-1]
    allowed = int(report.asked * ticks)
    if len(peaks) <= allowed:
        return 1.0
    return max(report.asked / report.tail.exceeded(float(peaks[allowed])), 1.0)


def _warn_contradicted(report: CalibrationReport) -> None:
    v = report.validated
    report.notes.append(
        f"the unused part of the history opened {v['incidents']:.0f} incidents where {v['expected']:.2g} "
        "were promised: it is not quiet, or differs from the part learnt from. Thresholds rest on the whole "
        f"history now and are raised until that part keeps the budget; promised is {report.promise} instead "
        f"of {report.budget}"
    )
