"""The samples of a node before and after the onset, as analyzers take them: rows without missing values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from detector.incidents.case import Case
from estimators.core.types import Floats


class Samples(NamedTuple):
    """Of one node, in time order."""

    before: Floats  # (n, d) the reference
    after: Floats  # (m, d) from the onset on
    times: Floats  # (m,) of these


def samples_of(case: Case, name: str) -> Samples:
    """Of a node whose windows are in the case; rows with a value that is not finite are left out."""
    since = case.times[name] >= case.begin
    before, after = case.reference[name].astype(np.float64), case.recent[name][since].astype(np.float64)
    kept = np.isfinite(after).all(axis=1)
    return Samples(before[np.isfinite(before).all(axis=1)], after[kept], case.times[name][since][kept])
