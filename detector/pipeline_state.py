"""A pipeline as named arrays and JSON, and back: exact, without pickle.

Nodes are matched by name, so a network may gain or lose nodes between; what is left keeps its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from detector.engine import Choice, Engine
from detector.history import History
from detector.learnt import Report
from detector.network import Network
from detector.pipeline import Pipeline
from detector.preprocess import Preprocess
from detector.river_engine import RIVER, RiverEngine
from detector.screen import Screen
from detector.settings import Settings
from estimators.christoffel import Christoffel
from estimators.dictionary import Dictionary
from estimators.features import Nystroem
from estimators.graph import Graph
from estimators.levels import Quiet

VERSION = 2  # 1 had the features of windows in single precision, which the windows take over
Arrays = dict[str, NDArray[Any]]


def take(pipeline: Pipeline) -> tuple[Arrays, dict[str, Any]]:
    """Everything of ``pipeline``, whose blocks are factorised on the way: it goes on as the restored one."""
    arrays, align = pipeline.aligner.state()
    arrays = _prefixed("align", arrays) | {"silent": pipeline.silent, "stuck": pipeline.stuck}
    meta: dict[str, Any] = {
        "version": VERSION,
        "names": list(pipeline.names),
        "dim": pipeline.dim,
        "estimator": asdict(pipeline.settings.estimator),
        "windows": asdict(pipeline.settings.windows),
        "learns_graph": pipeline.learns_graph,
        "align": align,
        "incidents": pipeline.incidents.state(),
        "ticks": pipeline.ticks,
        "learnt_until": pipeline.learnt_until,
        "coverage": pipeline.cover.state(),
        "phase": pipeline.phase,
    }
    cases, meta["cases"] = pipeline.clerk.state()
    arrays |= _prefixed("cases", cases)
    if pipeline.history is not None:
        arrays |= _prefixed("history", pipeline.history.state())
    if pipeline.newcomers is not None and pipeline.preprocess is not None:
        meta["unlearnt"] = np.flatnonzero(~pipeline.preprocess.quiet_.learnt).tolist()
        arrays |= _prefixed("newcomers", pipeline.newcomers.state())
    if pipeline.preprocess is not None:
        made, meta["preprocess"] = pipeline.preprocess.state()
        arrays |= _prefixed("preprocess", made)
    if pipeline.screen is not None:
        arrays |= _prefixed("screen", pipeline.screen.state())
    if pipeline.report is not None:
        meta["report"] = pipeline.report.record()
    if pipeline.engine is not None:
        arrays |= _prefixed("engine", pipeline.engine.state())
        graph = pipeline.network.graph
        arrays |= {
            "graph.indptr": graph.indptr,
            "graph.indices": graph.indices,
            "graph.weights": graph.weights,
        }
    if isinstance(pipeline.engine, Engine):
        features, quiet = pipeline.engine.bank.features, pipeline.engine.quiet
        arrays |= {"features.atoms": features.dictionary.atoms, "features.projection": features.projection}
        if features.dictionary.widths is not None:
            arrays["features.widths"] = features.dictionary.widths
        meta["features"] = {"sigma": features.dictionary.sigma, "kernel": features.dictionary.kernel}
        if pipeline.engine.known is not None:
            arrays["features.known"] = pipeline.engine.known.B
            meta["features"]["lam"] = pipeline.engine.known.lam
        meta["choice"] = vars(pipeline.engine.choice) | {}
        # In absolute terms too: they follow from the graph, and must not move with a node that comes or goes.
        meta["coupling"] = pipeline.engine.bank.coupling
        meta["self_weight"] = pipeline.engine.levels.self_weight
        assert quiet is not None
        arrays |= _prefixed("quiet", vars(quiet))
    return {name: np.array(array) for name, array in arrays.items()}, meta


def put_back(
    network: Network | None,
    dim: int,
    settings: Settings,
    arrays: Arrays,
    meta: dict[str, Any],
    *,
    names: Sequence[str] | None = None,
    components: Sequence[str] | None = None,
) -> Pipeline:
    """The pipeline that `take` saw, for the same or a changed network and settings."""
    if meta.get("version") not in (1, VERSION):
        raise ValueError(f"state: version {meta.get('version')!r}, this program reads 1 and {VERSION}")
    pipeline = Pipeline(network, dim, settings, names=names or meta["names"], components=components)
    old = {name: k for k, name in enumerate(meta["names"])}
    rows = np.array([old.get(name, -1) for name in pipeline.names], np.intp)
    pipeline.aligner.restore(_part("align", arrays), meta["align"])
    pipeline.silent[rows >= 0] = arrays["silent"][rows[rows >= 0]]
    pipeline.stuck[rows >= 0] = arrays["stuck"][rows[rows >= 0]]
    pipeline.ticks, pipeline.learnt_until = int(meta["ticks"]), meta["learnt_until"]
    pipeline.cover.restore(meta["coverage"])
    if meta["phase"] == "learning":
        history = _part("history", arrays)
        pipeline.history = History.of(_pick_nodes(history["values"], rows), history["times"])
        pipeline.incidents.restore(meta["incidents"])
        return pipeline
    if other := changed(settings, meta):
        raise ValueError(f"state: learnt with another {', '.join(other)}; learn again")
    pipeline.history = None
    pipeline.preprocess = Preprocess.restore(_part("preprocess", arrays), meta["preprocess"], rows)
    if screen := _part("screen", arrays):
        pipeline.screen = Screen(len(rows), dim, settings.windows.tests[-1])
        pipeline.screen.restore(screen, rows)
    pipeline.newcomers = _newcomers(pipeline, _part("newcomers", arrays), rows, meta)
    pipeline.report = Report.of(_finite_or_not(meta["report"]))
    if network is None and meta["learns_graph"]:
        pipeline._adopt(Network.of(pipeline.names, _links(arrays, rows, len(old))))
    pipeline.engine = _engine(pipeline, arrays, meta, rows)
    pipeline.incidents.restore(meta["incidents"])
    pipeline.clerk.restore(_part("cases", arrays), meta.get("cases", ()), rows, pipeline.incidents.open)
    for v in pipeline.incidents.held:
        pipeline.engine.hold([v])
    return pipeline


def _engine(
    pipeline: Pipeline, arrays: Arrays, meta: dict[str, Any], rows: NDArray[np.intp]
) -> Engine | RiverEngine:
    settings, graph = pipeline.settings, pipeline.network.graph
    assert pipeline.preprocess is not None
    if settings.estimator.name in RIVER:
        river = RiverEngine(graph.n_nodes, pipeline.preprocess.dim_out, settings)
        river.restore(_part("engine", arrays), rows)
        return river
    dictionary = Dictionary(
        arrays["features.atoms"],
        meta["features"]["sigma"],
        meta["features"]["kernel"],
        arrays.get("features.widths"),
    )
    features = Nystroem(dictionary, rank=1, outside=True)
    features.projection = np.ascontiguousarray(arrays["features.projection"])
    engine = Engine(graph, features, settings, Choice(**meta["choice"]))
    if "features.known" in arrays:  # a state from before has none
        engine.known = Christoffel(dictionary, arrays["features.known"], float(meta["features"]["lam"]))
    engine.bank.coupling = float(meta["coupling"])
    engine.levels.self_weight = float(meta["self_weight"])
    quiet = _part("quiet", arrays)
    engine.quiet = Quiet(
        _pick_or_mean(quiet["score_mean"], rows),
        _pick_or_mean(quiet["score_spread"], rows),
        np.stack([_pick_or_mean(part, rows) for part in quiet["mean"]]),
        np.stack([_pick_or_mean(part, rows) for part in quiet["spread"]]),
        quiet["skew"],
    )
    engine.restore(_part("engine", arrays), rows)
    return engine


def changed(settings: Settings, meta: dict[str, Any]) -> list[str]:
    """Settings under which the state was learnt and that have changed since: it cannot be taken over."""
    groups: dict[str, Any] = {"estimator": settings.estimator, "windows": settings.windows}
    return [
        f"{group}.{key}"
        for group, now in groups.items()
        for key, value in asdict(now).items()
        if _plain(value) != _plain(meta[group].get(key, getattr(type(now)(), key)))  # a key that came later
    ]


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


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _prefixed(prefix: str, arrays: dict[str, Any]) -> Arrays:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _part(prefix: str, arrays: Arrays) -> Arrays:
    return {name.removeprefix(f"{prefix}."): a for name, a in arrays.items() if name.startswith(f"{prefix}.")}


def _pick_nodes(values: NDArray[Any], rows: NDArray[np.intp]) -> NDArray[Any]:
    """Columns (T, N', d) of a history (T, N, d); NaN for a new node."""
    out = np.full((len(values), len(rows), values.shape[2]), np.nan)
    out[:, rows >= 0] = values[:, rows[rows >= 0]]
    return out


def _newcomers(
    pipeline: Pipeline, kept: Arrays, rows: NDArray[np.intp], meta: dict[str, Any]
) -> History | None:
    """Samples of nodes not learnt yet; their columns follow the order of those nodes, now and then."""
    if not kept:
        return None
    assert pipeline.preprocess is not None
    then = {int(v): k for k, v in enumerate(meta["unlearnt"])}
    now = np.flatnonzero(~pipeline.preprocess.quiet_.learnt)
    return History.of(
        _pick_nodes(kept["values"], np.array([then.get(int(rows[v]), -1) for v in now])), kept["times"]
    )


def _pick_or_mean(array: NDArray[Any], rows: NDArray[np.intp]) -> NDArray[Any]:
    """A new node is taken to be quiet as the others are, on average."""
    out = np.tile(array.mean(axis=0), (len(rows), 1))
    out[rows >= 0] = array[rows[rows >= 0]]
    return np.ascontiguousarray(out)
