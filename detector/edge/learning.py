"""Learning in one box: thresholds with the coupling over the cuts in place, without a sample from elsewhere.

What a ghost will be is not known while a box plays its own history: its neighbours' history is elsewhere.
So each ghost is played by a *twin*, a node of this box that is not near those who read the ghost. Quiet nodes
are alike in units of their own spread, so a twin's parameters and scores vary as the ghost's will, one tick
late as they will. What twins lack is what a ghost and its readers have in common.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from detector.edge.dictionary import SharedDictionary
from detector.engines.base import Progress, Shared
from detector.engines.calibration_report import CalibrationReport
from detector.engines.density_ratio.calibrate import calibrate
from detector.engines.density_ratio.engine import DensityRatioEngine
from detector.network.network import Network
from detector.settings.core import Settings
from estimators.core.partition import Cut
from estimators.core.types import Floats

AWAY = 3  # links between a reader and the twin of what it reads, if there is such a node


def learn(
    Z: Floats,
    network: Network,
    settings: Settings,
    step: float,
    progress: Progress | None,
    levels: Floats | None,
) -> tuple[DensityRatioEngine, CalibrationReport]:
    """As `Engine.calibrate`, for a network with surroundings."""
    around = network.surroundings
    assert around is not None
    given, shared = None, around.dictionary
    if shared is not None:
        shared.check(settings, Z.shape[2])
        given = shared.chosen(), shared.features()
    played = with_twins(around.cut, settings.alarm.seed)
    engine, report = calibrate(Z, network.graph, settings, step, progress, levels, played, given)
    if around.box is not None:
        report.notes += _warnings(around.cut, played)
        engine = engine.fresh(around.cut)
    return engine, report


def with_twins(cut: Cut, seed: int = 0) -> Cut:
    """The same cut with nodes held here in the place of those held elsewhere."""
    far = np.flatnonzero(cut.source < 0)
    if not len(far) or len(cut.held) < 2:
        return cut
    rng, g, source = np.random.default_rng(seed), cut.graph, cut.source.copy()
    everyone = np.arange(g.n_nodes, dtype=np.int32)
    taken = np.zeros(g.n_nodes, np.int64)
    for ghost in far.tolist():
        readers = g.neighbours(g.n_nodes + ghost)
        near, free = set(readers.tolist()), everyone
        for _ in range(AWAY):
            rest = np.setdiff1d(everyone, np.fromiter(near, np.int32, len(near)))
            if not len(rest):
                break
            free = rest
            near |= {int(u) for v in near for u in g.neighbours(v) if u < g.n_nodes}
        if len(free) == g.n_nodes:  # all of them read it: the least that it must not be is one reader
            free = everyone[everyone != readers[0]]
        free = free[taken[free] == taken[free].min()]
        source[ghost] = twin = int(rng.choice(free))
        taken[twin] += 1
    boundary = np.union1d(cut.boundary, source[source >= 0]).astype(np.int32)
    return replace(cut, source=source, boundary=boundary)


def _warnings(cut: Cut, played: Cut) -> list[str]:
    if played is cut and len(cut.nodes):
        return ["this box has a single node: thresholds rest on its own history without any neighbour"]
    ghosts = len(cut.nodes) / len(cut.held)
    if ghosts <= 1.0:
        return []
    text = f"this box reads {ghosts:.1f} nodes of others per node of its own: changes are seen about a tick"
    return [f"{text} later than in one process, messages are large. Boxes with fewer links are advised"]


def unlearnt(network: Network, dim: int, settings: Settings) -> DensityRatioEngine:
    """As `Engine.empty`, for a network with surroundings."""
    around = network.surroundings
    assert around is not None
    return DensityRatioEngine.empty(network.graph, dim, settings, around.cut)


def spec_of(shared: Shared, settings: Settings) -> str:
    """What the numbers in a row mean, and of which grid ticks are: alike in boxes that talk to each other."""
    align = settings.align
    parts = (SharedDictionary.of(shared, settings).fingerprint, repr(align.step), repr(align.origin))
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]
