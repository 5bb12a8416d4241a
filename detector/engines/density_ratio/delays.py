"""How soon changes are seen: put into the quiet history, found at the thresholds that were learnt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from detector.engines.base import Progress
from detector.engines.calibration_report import CalibrationReport
from detector.engines.density_ratio.engine import in_turn
from detector.engines.density_ratio.injection import Change, neighbourhood
from detector.engines.density_ratio.playback import Playback
from detector.engines.runners.base import Workers
from estimators.core.graph import Graph
from estimators.core.types import Nodes
from estimators.timeseries.block_bootstrap import rows

WATCHED = 150  # ticks in which a put-in change must be found
REPEATS = 3


def delays(
    run: Playback, graph: Graph, report: CalibrationReport, seed: int, processes: Workers, tell: Progress
) -> list[dict[str, Any]]:
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
    kinds = [(change, size) for change in changes for size in sizes]
    jobs = [
        _Job(change, neighbourhood(graph, int(rng.integers(graph.n_nodes)), size), seed + 1000 + 10 * k + i)
        for k, (change, size) in enumerate(kinds)
        for i in range(REPEATS)
    ]
    whole = run.fork(iter(()))
    if processes.workers > 1:
        whole.engine.run = in_turn  # cores are taken

    def pulse(k: int, _: float) -> None:
        tell(f"delay of {jobs[k].change}", 0.85 + 0.15 * k / len(jobs))

    found = processes.map(_Delay(whole, report.block, report.event_threshold), jobs, pulse)
    return [
        {
            "change": str(change),
            "nodes": size,
            "delay": float(np.median(some)),
            "found": float(np.isfinite(some).mean()),
        }
        for (change, size), some in zip(kinds, np.reshape(found, (-1, REPEATS)), strict=True)
    ]


@dataclass(frozen=True)
class _Job:
    change: Change
    nodes: Nodes
    seed: int


@dataclass(frozen=True)
class _Delay:
    """Ticks from a change to the first of its nodes over the threshold; infinity: not found."""

    run: Playback
    block: int
    threshold: float

    def __call__(self, job: _Job, pulse: Callable[[float], None]) -> float:
        twin = self.run.fork(rows(len(self.run.Z), self.block, job.seed))
        for t in range(WATCHED):
            pulse(t / WATCHED)
            twin.play(1, None, job.change, job.nodes)
            if np.nanmax(twin.engine.event[job.nodes], initial=-np.inf) > self.threshold:
                return t + 1.0
        return float("inf")
