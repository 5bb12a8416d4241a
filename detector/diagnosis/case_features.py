"""A case file as one vector, the same at every site: what classifiers of incidents learn from.

Each feature lies between -1 and 1 and has constants that are part of its definition, so that sites need not
agree on a scaling. Whoever changes a line here changes `VERSION`: models and messages of another are refused.

    strength      largest statistic of a member, against the threshold
    pooled        largest event statistic, against its threshold
    neighbours    mean statistic of the nodes next to members
    size          members
    doubtful      share of the members that only pooled evidence names
    level         signed shift of the mean, in baseline spreads
    spread        spread after against before
    persistence   deviation at the end of the window against its begin
    width         of the range of values that changed most (estimators/sparse/ratio.py)
    mass          that this range gained, or lost
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detector.diagnosis.samples import samples_of
from detector.incidents.case import Case
from estimators.core.types import Floats
from estimators.sparse.grid import MultiScaleGrid
from estimators.sparse.ratio import SparseRatioExplainer

VERSION = "case features 1"
NAMES = ("strength", "pooled", "neighbours", "size", "doubtful", "level", "spread", "persistence", "width",
         "mass")  # fmt: skip
LOOKED_AT = 5  # members whose values are summed up
LEAST = 8  # values past the onset
RANGE_PLACES = 101  # coarse: how wide a range is, not where
PLACES, WIDTHS = 256, (0.7, 1.2, 2.0, 3.5)  # of the grid; points of the cube are about 2.6 apart


def shared_grid() -> MultiScaleGrid:
    """The grid of all sites: centres that fill the cube evenly, by Halton's sequence, and four widths."""
    from scipy.stats import qmc  # megabytes, for those alone who have labels

    places = 2.0 * qmc.Halton(len(NAMES), scramble=False).random(PLACES) - 1.0
    return MultiScaleGrid.candidates(places, WIDTHS)


def features(case: Case) -> Floats:
    """(10,), finite: what is not known is 0."""
    values = np.array([*_network(case), *_values(case)])
    known: Floats = np.clip(np.nan_to_num(values, nan=0.0, posinf=1.0, neginf=-1.0), -1.0, 1.0)
    return known


def _network(case: Case) -> tuple[float, ...]:
    rows = np.array([case.index[name] for name in case.members], np.intp)
    near = np.zeros(len(case.names), np.bool_)
    for v in rows.tolist():
        near[case.graph.neighbours(v)] = True
    near[rows] = False
    beside = case.statistic[near & np.isfinite(case.statistic)]
    return (
        _log_ratio(_largest(case.statistic[rows]), case.threshold, 2.0),
        _log_ratio(_largest(case.event_statistic[rows]), case.event_threshold, 2.0),
        2.0 * float(beside.mean()) / case.threshold - 1.0 if len(beside) and case.threshold else 0.0,
        float(np.tanh(np.log2(max(len(rows), 1)) / 3.0)),
        2.0 * len(case.suspected) / max(len(rows), 1) - 1.0,
    )


def _values(case: Case) -> tuple[float, ...]:
    """Medians over the strongest members, each by the component whose mean moved most."""
    told: list[tuple[float, ...]] = []
    for name in [name for name in case.certain or case.members if name in case.recent][:LOOKED_AT]:
        before, after, _ = samples_of(case, name)
        if len(before) < LEAST or len(after) < LEAST:
            continue
        spread = np.maximum(before.std(axis=0), 1e-9)
        shift = (after.mean(axis=0) - before.mean(axis=0)) / spread
        c = int(np.abs(shift).argmax())
        away = np.abs(after[:, c] - before[:, c].mean()) / spread[c]
        third = max(len(away) // 3, 1)
        told.append((
            float(np.tanh(shift[c] / 2.0)),
            _log_ratio(float(after[:, c].std()), spread[c], 1.0),
            _log_ratio(float(away[-third:].mean()), float(away[:third].mean()), 1.0),
            *(_range(before[:, c] / spread[c], after[:, c] / spread[c]) if not told else told[0][3:]),
        ))  # fmt: skip
    return tuple(np.median(told, axis=0).tolist()) if told else (0.0,) * 5


def _range(before: Floats, after: Floats) -> tuple[float, float]:
    """Width and mass of the largest part of the change, of the strongest member alone: it takes its time."""
    parts = SparseRatioExplainer(places=RANGE_PLACES).fit(before, after).components_
    if not parts:
        return 0.0, 0.0
    return float(np.tanh(0.5 * np.log2(parts[0].width) + 1.0)), float(np.tanh(parts[0].mass))


def _largest(values: NDArray[np.float32]) -> float:
    return float(np.nanmax(values)) if np.isfinite(values).any() else float("nan")


def _log_ratio(value: float, unit: float, doublings: float) -> float:
    """0 at the unit, 0.76 at so many doublings of it."""
    if not (np.isfinite(value) and np.isfinite(unit)) or unit <= 0.0:
        return float("nan")
    return float(np.tanh(np.log2(max(value, 1e-9) / unit) / doublings))
