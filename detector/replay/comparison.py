"""Two recordings of one network compared: which nodes differ, by p-values (`detector compare`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from detector.network.files import from_adjacency_file, from_edge_file, from_graphml_file
from detector.network.network import Network
from detector.replay.recordings import Grid, Recording
from estimators.core.base import Progress
from estimators.core.types import Floats
from estimators.ratio.two_sample_test import CollaborativeTwoSampleTest, Control
from estimators.timeseries.robust_scale import centre_and_scale


@dataclass(frozen=True)
class Recorded:
    """The samples of one file: all nodes at the same times, NaN where one has none."""

    where: str
    names: tuple[str, ...]
    components: tuple[str, ...]  # empty if not known
    values: Floats  # (T, N, d)
    refused: int  # samples that could not be read

    def of(self, names: Sequence[str]) -> Floats:
        """Values (N, T, d) of these nodes."""
        places = [self.names.index(name) for name in names]
        return np.ascontiguousarray(np.swapaxes(self.values[:, places], 0, 1))


@dataclass(frozen=True)
class Comparison:
    """What a test found, with the samples in their own units for pictures."""

    network: Network
    components: tuple[str, ...]
    before: Floats  # (N, n, d)
    after: Floats  # (N, m, d)
    centre: Floats  # (N, d)
    scale: Floats  # (N, d)
    test: CollaborativeTwoSampleTest
    level: float
    control: Control

    def changed(self) -> list[int]:
        """Numbers of the nodes that differ, the strongest first."""
        nodes = np.flatnonzero(self.test.changed(self.level, self.control))
        return sorted(nodes.tolist(), key=lambda v: -float(self.test.scores_[v]))

    def sets(self) -> list[list[str]]:
        """Their names, in sets that are linked."""
        names = self.network.names
        return [[names[v] for v in found] for found in self.test.sets(self.level, self.control)]

    def conclusion(self) -> str:
        """In one sentence."""
        nodes, p = len(self.changed()), self.test.p_network_
        if p > self.level:
            return f"no difference is shown (p = {p:.3g})"
        if not nodes:
            return f"the network as a whole differs (p = {p:.3g}), but no node by itself is shown to"
        return f"the recordings differ (p = {p:.3g}): {nodes} of {self.network.n_nodes} nodes"

    def facts(self) -> dict[str, Any]:
        """JSON-ready."""
        test = self.test
        return {
            "conclusion": self.conclusion(),
            "p_network": test.p_network_,
            "level": self.level,
            "control": self.control,
            "rows_before": test.rows_[0],
            "rows_after": test.rows_[1],
            "block": test.block_,
            "permutations": test.permutations,
            "links": len(self.network.graph.weights) // 2,
            "warnings": test.warnings_,
            "sets": self.sets(),
            "nodes": [self.node(v) for v in range(self.network.n_nodes)],
        }

    def node(self, v: int) -> dict[str, Any]:
        """What was found at one node; numbers that are not known are None."""
        test = self.test

        def known(x: float) -> float | None:
            return float(x) if np.isfinite(x) else None

        new, old = test.directions_[:, v]
        return {
            "name": self.network.names[v],
            "changed": bool(test.changed(self.level, self.control)[v]),
            "score": known(test.scores_[v]),
            "new": known(new),
            "old": known(old),
            "p": known(test.p_values_[v]),
            "p_family": known(test.p_family_[v]),
            "p_fdr": known(test.p_fdr_[v]),
            "p_own": known(test.p_own_[v]),
        }


def read_samples(path: Path, step: float | None = None) -> Recorded:
    """A recording as a table of times and nodes; with ``step`` times are rounded down to it, in seconds."""
    recording = Recording(path)
    grid, refused = Grid(None, None), 0
    for part in recording:
        grid.add(part.batch.samples)
        refused += sum(part.batch.rejected.values())
    if not len(grid.times):
        why = f": {recording.problems[0]}" if recording.problems else ""
        raise ValueError(f"{path}: there is no sample in it{why}")
    if len(grid.dims) > 1:
        raise ValueError(f"{path}: samples have different numbers of values: {sorted(grid.dims)}")
    values, _ = grid.rows(step) if step is not None else grid.distinct()
    return Recorded(str(path), tuple(grid.names), tuple(recording.layout.components), values, refused)


def read_graph(path: Path) -> Network:
    """Links from a list of edges or a matrix (CSV) or GraphML."""
    if path.suffix.lower() in (".graphml", ".xml"):
        return from_graphml_file(path)
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    if first.count(",") in (1, 2) and not first.startswith(","):
        return from_edge_file(path)
    return from_adjacency_file(path)


def compare(before: Recorded, after: Recorded, network: Network, *, level: float, control: Control,
            progress: Progress | None = None, **settings: Any) -> Comparison:  # fmt: skip
    """The test over nodes that both recordings have, in units of each node's spread over both.

    Over both, because a scale that knew which sample is which would favour the truth over its permutations.
    """
    X, X_ = before.of(network.names), after.of(network.names)
    if X.shape[2] != X_.shape[2]:
        raise ValueError(f"{after.where}: {X_.shape[2]} values a sample, but {before.where} has {X.shape[2]}")
    centre, scale, _ = centre_and_scale(np.swapaxes(np.concatenate([X, X_], axis=1), 0, 1))
    centre = np.where(np.isfinite(centre), centre, 0.0)
    scale = np.where(np.isfinite(scale) & (scale > 0.0), scale, 1.0)
    own, other = ((x - centre[:, None]) / scale[:, None] for x in (X, X_))
    test = CollaborativeTwoSampleTest(**settings).fit(own, other, network.graph, progress=progress)
    return Comparison(network, before.components, X, X_, centre, scale, test, level, control)
