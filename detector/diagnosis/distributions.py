"""How values of members were distributed before an incident, and how since: histograms on common edges."""

from __future__ import annotations

import msgspec
import numpy as np

from detector.incidents.case import Case

MEMBERS = 8  # the strongest
BINS = 24
LEAST = 5  # samples on either side


class Distribution(msgspec.Struct):
    """One component of one node: shares of the samples per bin, before and since the onset."""

    node: str
    component: str
    original: bool  # in the sensor's own unit, else in standard deviations of the baseline
    edges: list[float]
    before: list[float]
    after: list[float]


def distributions(case: Case) -> list[Distribution]:
    """Of the members whose windows the case holds."""
    found = []
    for node in [name for name in (*case.certain, *case.suspected) if name in case.recent][:MEMBERS]:
        before, after = case.reference[node], case.after(node)
        if min(len(before), len(after)) < LEAST:
            continue
        for c, component in enumerate(case.components):
            centre, scale = float(case.centre[node][c]), float(case.scale[node][c])
            original = case.plain and bool(np.isfinite([centre, scale]).all())
            a, b = before[:, c].astype(float), after[:, c].astype(float)
            if original:
                a, b = centre + scale * a, centre + scale * b
            both = np.concatenate([a, b])
            both = both[np.isfinite(both)]
            if not len(both):
                continue
            edges = np.histogram_bin_edges(both, BINS)
            shares = [np.histogram(x, edges)[0] / max(len(x), 1) for x in (a, b)]
            found.append(Distribution(
                node, component, original, [float(f"{x:.6g}") for x in edges],
                np.round(shares[0], 4).tolist(), np.round(shares[1], 4).tolist(),
            ))  # fmt: skip
    return found
