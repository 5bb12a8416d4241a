"""A pipeline as named arrays and JSON, and back: exact, without pickle.

Nodes are matched by name, so a network may gain or lose nodes between; what is left keeps its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from detector.edge import learning as edge_learning
from detector.engines.base import engine_class
from detector.engines.calibration_report import CalibrationReport
from detector.engines.runners.base import started
from detector.network.network import Network
from detector.pipeline.migration import VERSION, migrated, settings_of
from detector.pipeline.pipeline import Pipeline
from detector.preprocessing.preprocessor import Preprocessor
from detector.settings.changes import Change, RelearnNeeded, learnt_with, relearn_needed
from detector.settings.core import Settings
from detector.stateful import Arrays, Meta, part, take_rows, under
from estimators.core.graph import Graph


def take(pipeline: Pipeline) -> tuple[Arrays, Meta]:
    """Everything of ``pipeline``, which goes on as the restored one does: engines may tidy up on the way."""
    arrays: Arrays = {"silent": pipeline.silent.copy(), "stuck": pipeline.stuck.copy()}
    meta: Meta = {
        "version": VERSION,
        "names": list(pipeline.names),
        "dim": pipeline.dim,
        "settings": learnt_with(pipeline.settings),
        "learns_graph": pipeline.learns_graph,
        "ticks": pipeline.ticks,
        "learnt_until": pipeline.learnt_until,
        "phase": pipeline.phase,
    }
    for name, made in pipeline.parts.items():
        of_part, meta[name] = made.state()
        arrays |= under(name, of_part)
    if pipeline.report is not None:
        meta["report"] = pipeline.report.record()
    if pipeline.preprocess is not None:
        meta["dim_out"] = pipeline.preprocess.dim_out
    if pipeline.engine is not None:
        graph = pipeline.network.graph
        links: Arrays = {"indptr": graph.indptr, "indices": graph.indices, "weights": graph.weights}
        arrays |= under("graph", {name: array.copy() for name, array in links.items()})
    return arrays, meta


def put_back(
    network: Network | None,
    dim: int,
    settings: Settings,
    arrays: Arrays,
    meta: Meta,
    *,
    names: Sequence[str] | None = None,
    components: Sequence[str] | None = None,
) -> Pipeline:
    """The pipeline that `take` saw, for the same or a changed network and settings."""
    if meta.get("version") not in range(1, VERSION + 1):
        raise ValueError(f"state: version {meta.get('version')!r}, this program reads 1 to {VERSION}")
    arrays, meta = migrated(arrays, meta)
    pipeline = Pipeline(network, dim, settings, names=names or meta["names"], components=components)
    old = {name: k for k, name in enumerate(meta["names"])}
    rows = np.array([old.get(name, -1) for name in pipeline.names], np.intp)
    take_rows(pipeline, ("silent", "stuck"), arrays, rows)
    pipeline.ticks, pipeline.learnt_until = int(meta["ticks"]), meta["learnt_until"]
    if meta["phase"] == "watching":
        if other := changed(settings, meta, network is None):
            raise RelearnNeeded(other)
        if network is None and meta["learns_graph"]:
            pipeline.adopt(Network.of(pipeline.names, _links(arrays, rows, len(old))))
        _watch(pipeline, meta)
    if _moved_away(pipeline, meta):
        arrays = {name: array for name, array in arrays.items() if not name.startswith("engine.boundary.")}
    for name, made in pipeline.parts.items():
        if name in meta:  # early versions had not all of them
            made.restore(part(name, arrays), meta[name], rows)
        if name == "engine":
            pipeline.meet_neighbours()
    if pipeline.neighbours is not None and "neighbours" in meta:
        pipeline.neighbours.restore(part("neighbours", arrays), meta["neighbours"], rows)
    pipeline.out_of_range = pipeline.cover.outside
    pipeline.out_of_range[list(pipeline.incidents.states.owner)] = False
    if pipeline.engine is not None:
        pipeline.engine.hold(sorted(pipeline.incidents.held))
        pipeline.engine = started(pipeline.engine, pipeline.network.graph, settings)
    return pipeline


def _watch(pipeline: Pipeline, meta: Meta) -> None:
    """The parts of a pipeline that has learnt, as they are before they are restored."""
    settings, graph = pipeline.settings, pipeline.network.graph
    pipeline.history = None
    pipeline.preprocess = Preprocessor(settings.preprocess, settings.windows.tests[-1])
    pipeline.preprocess.link(graph)
    around, dim = pipeline.network.surroundings, int(meta["dim_out"])
    if around is None:
        pipeline.engine = engine_class(settings.estimator.name).empty(graph, dim, settings)
    else:
        pipeline.engine = edge_learning.unlearnt(pipeline.network, dim, settings)
    pipeline.report = CalibrationReport.of(_finite_or_not(meta["report"]), settings.alarm.budget)
    if around is not None and len(meta["names"]) == around.whole.n_nodes > len(pipeline.names):
        pipeline.report = pipeline.report.of_share(around.share)


def _moved_away(pipeline: Pipeline, meta: dict[str, Any]) -> bool:
    """Whether other boxes own other nodes than when the state was written."""
    around = pipeline.network.surroundings
    return around is not None and "neighbours" in meta and meta["neighbours"]["network"] != around.fingerprint


def changed(settings: Settings, meta: dict[str, Any], learns_graph: bool) -> list[Change]:
    """Settings on which the state rests and that are others now: it cannot be taken over."""
    other = relearn_needed(settings, settings_of(meta))
    if learns_graph and not meta["learns_graph"]:
        other.append(Change(("graph", "learn"), False, True, "relearn"))
    return other


def _finite_or_not(report: dict[str, Any]) -> dict[str, Any]:
    """JSON has no words for NaN and infinity; strict writers put null for both."""
    report = report | {"delays": [dict(row) for row in report["delays"]]}
    if report["promised_per_tick"] is None:
        report["promised_per_tick"] = float("nan")
    for row in report["delays"]:
        if row["delay"] is None:
            row["delay"] = float("inf")
    return report


def _links(arrays: Arrays, rows: NDArray[np.intp], n_old: int) -> Graph:
    """The learnt graph among the nodes that are left; a new node has no links yet."""
    weights, indices, indptr = (arrays[f"graph.{part}"] for part in ("weights", "indices", "indptr"))
    W = sp.csr_array((weights, indices, indptr), shape=(n_old, n_old))
    kept = np.flatnonzero(rows >= 0)
    place = sp.csr_array((np.ones(len(kept)), (kept, rows[kept])), shape=(len(rows), n_old))
    return Graph.of(sp.csr_array(place @ W @ place.T))
