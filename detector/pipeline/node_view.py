"""What the windows show of a node: evidence for incidents, and the view for pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from detector.engines.base import Engine
from estimators.core.types import Nodes
from estimators.streaming.membership import Membership

if TYPE_CHECKING:
    from detector.pipeline.pipeline import Pipeline

# Of a node, the first two by readiness; a later one counts for more.
STATES = ("learning", "watching", "out_of_range", "suspected", "alarmed", "stuck", "silent")
SHOWN = (*STATES, "held")  # what pages show of a node


class WindowEvidence:
    """The pipeline's windows as `detector.incidents.decision.Evidence`."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    @property
    def components(self) -> tuple[str, ...]:
        assert self._pipeline.preprocess is not None
        return self._pipeline.preprocess.components(self._pipeline.components)

    def units(self, v: int) -> tuple[str, ...]:
        pipeline = self._pipeline
        units = pipeline.network.units.get(pipeline.names[v], pipeline.units)
        return units * (len(self.components) // pipeline.dim)

    def reference(self, v: int) -> NDArray[np.float32]:
        return self._engine.reference(v)

    def recent(self, v: int) -> NDArray[np.float32]:
        return self._engine.recent(v)

    def sample_times(self, v: int) -> NDArray[np.float64]:
        return self._engine.times(v)

    def scale(self, v: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """To original units; NaN for a differenced or whitened level, which has no way back."""
        assert self._pipeline.preprocess is not None
        centre, scale = self._pipeline.preprocess.to_units()
        return centre[v], scale[v]

    def log_ratio(self, v: int) -> NDArray[Any]:
        return self._engine.log_ratio(v)

    def log_ratios(self, nodes: Nodes, since: float) -> dict[int, NDArray[np.float64]]:
        common = self._engine.common
        return {} if common is None else common.log_ratios(nodes, since)

    def membership(self, nodes: Nodes, since: float, seeds: NDArray[np.bool_]) -> Membership | None:
        common = self._engine.common
        return None if common is None else common.membership(nodes, since, seeds)

    def between(self, nodes: Nodes, first: float, second: float) -> tuple[float, float] | None:
        common = self._engine.common
        return None if common is None else common.between(nodes, first, second)

    def returned(self, nodes: Nodes, since: NDArray[np.float64], latest: int) -> NDArray[np.bool_]:
        common = self._engine.common
        return np.zeros(len(nodes), np.bool_) if common is None else common.returned(nodes, since, latest)

    def earlier(self, v: int, latest: int) -> bool:
        assert self._pipeline.preprocess is not None
        return self._pipeline.relearning.is_earlier(v, latest, self._pipeline.preprocess)

    @property
    def _engine(self) -> Engine:
        assert self._pipeline.engine is not None
        return self._pipeline.engine


def shown_states(pipeline: Pipeline) -> NDArray[np.uint8]:
    """Index into `SHOWN`, per node: ``held`` is a member of an open incident that is calm again."""
    states = pipeline.state_numbers().astype(np.uint8)
    tracked = pipeline.incidents.states
    for v in tracked.owner:
        if SHOWN[states[v]] in ("alarmed", "suspected") and tracked.cool_row[v] > 0:
            states[v] = len(STATES)
    return states


def node_view(pipeline: Pipeline, v: int) -> dict[str, Any]:
    """JSON-ready: signal with its windows, statistics, scores per scale, ratio over values, neighbours."""
    names, engine = pipeline.names, pipeline.engine
    view: dict[str, Any] = {
        "name": names[v],
        "state": SHOWN[shown_states(pipeline)[v]],
        "components": list(pipeline.components),
        "neighbours": [names[u] for u in pipeline.network.graph.neighbours(v)],
        "incident": pipeline.incidents.states.owner.get(v),
    }
    if engine is None or pipeline.preprocess is None:
        return view | {"learning": pipeline.progress_learning}
    number = _number
    view |= {
        "statistic": number(engine.node[v]),
        "event_statistic": number(engine.event[v]),
        "threshold": number(pipeline.threshold),
        "event_threshold": number(pipeline.event_threshold),
        "preprocess": pipeline.preprocess.describe(v),
        **_units(pipeline, v),
        **_membership(pipeline, v),
        "reference": np.round(engine.reference(v), 4).tolist(),
        "recent": np.round(engine.recent(v), 4).tolist(),
        "times": engine.times(v).tolist(),
        "scales": _scales(pipeline, engine, v),
    }
    if (curves := _ratio(engine, v)) is not None:
        view["ratio"] = curves
    return view


def _units(pipeline: Pipeline, v: int) -> dict[str, Any]:
    """How to come from units of spread to those of the sensor; null where there is no way back."""
    centre, scale = pipeline.evidence.scale(v)
    return {"centre": [_number(x) for x in centre], "scale": [_number(x) for x in scale]}


def _membership(pipeline: Pipeline, v: int) -> dict[str, Any]:
    """Its part in an open incident: whether the reference is frozen, and since when it changed."""
    owner = pipeline.incidents.states.owner.get(v)
    if owner is None:
        return {"held": False, "onset": None}
    member = pipeline.incidents.open[owner].members[pipeline.names[v]]
    return {"held": True, "onset": member.onset.time if member.onset else None}


def _scales(pipeline: Pipeline, engine: Engine, v: int) -> list[dict[str, Any]]:
    """The score of each test window, and how many null spreads it is above its null mean."""
    scores, level = engine.scores[v], engine.standard_scores[v]
    if not np.isfinite(pipeline.promised_rate):  # no null distribution is known
        level = np.full(len(scores), np.nan)
    return [
        {"length": int(n), "score": _number(score), "level": _number(z)}
        for n, score, z in zip(pipeline.settings.windows.tests, scores, level, strict=False)
    ]


def _ratio(engine: Engine, v: int) -> list[dict[str, Any]] | None:
    """The estimated ratio along each component, the others at their median: which values became likelier."""
    seen = np.concatenate([engine.reference(v), engine.recent(v)])
    if engine.ratio(v, seen[:0]) is None:
        return None
    curves: list[dict[str, Any]] = []
    for c in range(seen.shape[1] if len(seen) > 1 else 0):
        grid = np.linspace(seen[:, c].min(), seen[:, c].max(), 61)
        x = np.tile(np.median(seen, axis=0), (len(grid), 1))
        x[:, c] = grid
        ratio = engine.ratio(v, x)
        assert ratio is not None
        curves.append(
            {"z": np.round(grid, 4).tolist(), "ratio": np.round(np.maximum(ratio, 0.0), 4).tolist()}
        )
    return curves


def _number(x: Any) -> float | None:
    return round(float(x), 6) if np.isfinite(x) else None
