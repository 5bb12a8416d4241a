"""The windows of a case file as points: those that lie wholly past the onset, of nodes that changed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from detector.incidents.case import Case
from estimators.core.types import Floats
from estimators.regimes.window_features import NAMES, FeatureSpec

SPEC = FeatureSpec()
LATER = SPEC.window // 8  # samples: a node's own onset that is no later is taken for that of the incident
MOST = 3  # windows of one node, one after the other, the latest last
# A component whose points lie nearer to its node's own reference than this has not changed: incidents hold
# some neighbours that only leaked. Of independent normal values one quiet window in forty is farther.
UNCHANGED = 0.9


def spec_of(case: Case) -> str:
    """Which points compare: the features, the number of components, and whether values are residuals."""
    residual = any(not np.isfinite(scale).all() for scale in case.scale.values())
    return f"{SPEC.spec_id}-{len(case.components)}{'-residual' if residual else ''}"


def dimension(spec: str) -> int:
    """Features of a point."""
    return len(NAMES) * int(spec.split("-")[2])


def points_of(case: Case, names: Iterable[str] | None = None) -> dict[str, Floats]:
    """(k, 10 d) points of each node; of ``names``, or of the members over the threshold that changed."""
    if names is not None:
        found = {name: _points(case, name) for name in names if name in case.recent}
        return {name: points for name, points in found.items() if len(points)}
    members = [name for name in case.certain or case.members if name in case.recent]
    over = [name for name in members if case.statistic[case.index[name]] >= case.threshold]
    found = {name: _points(case, name) for name in over or members[:1]}  # strongest first
    return {name: points for name, points in found.items() if len(points) and _changed(case, name, points)}


def _points(case: Case, name: str) -> Floats:
    own = case.onsets.get(name, case.begin)
    onset = own if own > case.begin + LATER * case.step else case.begin
    return _cut(case.recent[name][case.times[name] >= onset], case.reference[name], MOST)


def _cut(values: NDArray[np.float32], reference: NDArray[np.float32], most: int) -> Floats:
    """The last windows of ``values`` as points; none where something is missing."""
    W = SPEC.window
    quiet = reference[np.isfinite(reference).all(axis=1)].astype(np.float64)
    starts = range(len(values) % W if len(values) < most * W else len(values) - most * W, len(values), W)
    windows = [values[i : i + W].astype(np.float64) for i in starts]
    whole = [x for x in windows if len(x) == W and np.isfinite(x).all()] if len(quiet) else []
    points = [SPEC.transform(x, quiet) for x in whole]
    return np.array(points).reshape(len(points), len(NAMES) * values.shape[1])


def _changed(case: Case, name: str, points: Floats) -> bool:
    reference = case.reference[name]
    quiet = _cut(reference, reference, len(reference) // SPEC.window)
    if not len(quiet):
        return True
    moved = (points.mean(axis=0) - quiet.mean(axis=0)).reshape(-1, len(NAMES))
    return bool(np.linalg.norm(moved, axis=1).max() > UNCHANGED)
