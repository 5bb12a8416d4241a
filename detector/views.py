"""What the windows show of a node: evidence for incidents, and the view for pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from detector.engine import Engine
from detector.river_engine import RiverEngine

if TYPE_CHECKING:
    from detector.pipeline import Pipeline


class WindowEvidence:
    """The pipeline's windows as `detector.verdict.Evidence`."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    @property
    def components(self) -> tuple[str, ...]:
        lags = self._pipeline.settings.preprocess.embed
        names = self._pipeline.components
        return names if lags == 1 else tuple(f"{name}, lag {k}" for k in range(lags) for name in names)

    def reference(self, v: int) -> NDArray[np.float32]:
        return self._engine.reference(v)

    def recent(self, v: int) -> NDArray[np.float32]:
        return self._engine.recent(v)

    def sample_times(self, v: int) -> NDArray[np.float64]:
        return self._engine.times(v)

    def scale(self, v: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """To original units; NaN for a differenced or whitened level, which has no way back."""
        pre = self._pipeline.preprocess
        assert pre is not None
        lags = self._pipeline.settings.preprocess.embed
        return np.tile(pre.centre_[v], lags), np.tile(pre.level_per_z_[v], lags)

    def log_ratio(self, v: int) -> NDArray[Any]:
        return self._engine.log_ratio(v)

    @property
    def _engine(self) -> Engine | RiverEngine:
        assert self._pipeline.engine is not None
        return self._pipeline.engine


def shown_states(pipeline: Pipeline) -> list[str]:
    """The states of the nodes, where ``held`` is a member of an open incident that is calm again."""
    states = pipeline.node_states
    roster = pipeline.incidents.roster
    for v in roster.owner:
        if states[v] in ("alarmed", "suspected") and roster.cool_row[v] > 0:
            states[v] = "held"
    return states


def node_view(pipeline: Pipeline, v: int) -> dict[str, Any]:
    """JSON-ready: signal with its windows, statistics, scores per scale, ratio over values, neighbours."""
    names, engine = pipeline.names, pipeline.engine
    view: dict[str, Any] = {
        "name": names[v],
        "state": shown_states(pipeline)[v],
        "components": list(pipeline.components),
        "neighbours": [names[u] for u in pipeline.network.graph.neighbours(v)],
        "incident": pipeline.incidents.roster.owner.get(v),
    }
    if engine is None or pipeline.preprocess is None:
        return view | {"learning": pipeline.progress_learning}
    number = _number
    view |= {
        "statistic": number(engine.node[v]),
        "event_statistic": number(engine.event[v]),
        "threshold": number(pipeline.threshold),
        "event_threshold": number(pipeline.event_threshold),
        "preprocess": pipeline.preprocess.inspect(v) | _screened(pipeline, v),
        **_units(pipeline, v),
        **_membership(pipeline, v),
        "reference": np.round(engine.reference(v), 4).tolist(),
        "recent": np.round(engine.recent(v), 4).tolist(),
        "times": engine.times(v).tolist(),
        "scales": _scales(pipeline, engine, v),
    }
    if isinstance(engine, Engine):
        view["ratio"] = _ratio(engine, v)
    return view


def _screened(pipeline: Pipeline, v: int) -> dict[str, Any]:
    return {} if pipeline.screen is None else {"readings masked": int(pipeline.screen.masked[v])}


def _units(pipeline: Pipeline, v: int) -> dict[str, Any]:
    """How to come from units of quiet spread to those of the sensor; null where there is no way back."""
    centre, scale = pipeline.evidence.scale(v)
    return {"centre": [_number(x) for x in centre], "scale": [_number(x) for x in scale]}


def _membership(pipeline: Pipeline, v: int) -> dict[str, Any]:
    """Its part in an open incident: whether the reference is frozen, and since when it changed."""
    owner = pipeline.incidents.roster.owner.get(v)
    if owner is None:
        return {"held": False, "onset": None}
    member = pipeline.incidents.open[owner].members[pipeline.names[v]]
    return {"held": True, "onset": member.onset.time if member.onset else None}


def _scales(pipeline: Pipeline, engine: Engine | RiverEngine, v: int) -> list[dict[str, Any]]:
    """The score of each test window, and how many quiet spreads it is above its quiet mean."""
    scores = engine.scores[v]
    quiet = engine.quiet if isinstance(engine, Engine) else None
    level = np.full(len(scores), np.nan)
    if quiet is not None:
        level = (scores - quiet.score_mean[v]) / quiet.score_spread[v]
    return [
        {"length": int(n), "score": _number(score), "level": _number(z)}
        for n, score, z in zip(pipeline.settings.windows.tests, scores, level, strict=False)
    ]


def _ratio(engine: Engine, v: int) -> list[dict[str, Any]]:
    """The estimated ratio along each component, the others at their median: which values became likelier."""
    seen = np.concatenate([engine.reference(v), engine.recent(v)])
    if len(seen) < 2:
        return []
    scale = engine.widest_ready(v)
    curves = []
    for c in range(seen.shape[1]):
        grid = np.linspace(seen[:, c].min(), seen[:, c].max(), 61)
        x = np.tile(np.median(seen, axis=0), (len(grid), 1))
        x[:, c] = grid
        curves.append(
            {
                "z": np.round(grid, 4).tolist(),
                "ratio": np.round(np.maximum(engine.bank.ratio(v, scale, x), 0.0), 4).tolist(),
            }
        )
    return curves


def _number(x: Any) -> float | None:
    return round(float(x), 6) if np.isfinite(x) else None
