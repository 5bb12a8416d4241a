"""`detector compare --report`: a page with the network, all p-values, and ratios of the strongest nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from detector.events.wording import number
from detector.replay.comparison import Comparison
from detector.report.figures import NetworkFigure
from detector.report.html import Chart, Charts, Facts, Table, plain, render_page
from estimators.core.types import Floats

STRONGEST = 6
LISTED = 200
BINS = 40
DASH = [6, 4]


def comparison_page(made: Comparison, before: str, after: str) -> str:
    """HTML that needs nothing else."""
    charts = Charts()
    return render_page(
        "comparison.html",
        f"{before} and {after} compared",
        charts,
        conclusion=f"{made.conclusion()}.".capitalize(),
        summary=_summary(made),
        warnings=made.test.warnings_,
        network=_network(made).svg(),
        level=f"{made.level:g}",
        sets=_sets(made),
        nodes=_nodes(made),
        cut=max(made.network.n_nodes - LISTED, 0),
        ratios=_ratios(charts, made),
    )


def _summary(made: Comparison) -> Facts:
    test = made.test
    graph = made.network.graph
    words = {"family": "any false node", "fdr": "share of false nodes", "none": "each node by itself"}
    return [
        ("p-value of the network", number(test.p_network_)),
        ("nodes that differ", f"{len(made.changed()):,} of {made.network.n_nodes:,}"),
        ("rows before and after", f"{test.rows_[0]:,} and {test.rows_[1]:,}"),
        ("rows moved together", f"{test.block_:,}"),
        ("permutations", f"{test.permutations:,}"),
        ("links", f"{len(graph.weights) // 2:,}"),
        ("level", f"{made.level:g} for {words[made.control]}"),
    ]


def _network(made: Comparison) -> NetworkFigure:
    """Darker the smaller the p-value; triangles differ."""
    p = made.test.p_family_
    names = made.network.names
    with np.errstate(divide="ignore", invalid="ignore"):
        strength = -np.log(np.maximum(p, 1e-12))
    words = [f"p-value {number(float(one))}" for one in p]
    return NetworkFigure(made.network, strength, float(-np.log(made.level)),
                         {names[v] for v in made.changed()}, words, "differ")  # fmt: skip


def _sets(made: Comparison) -> Table | None:
    found = made.sets()
    if not found:
        return None
    rows = [[f"{k}", f"{len(names)}", ", ".join(names[:30]) + (" …" if len(names) > 30 else "")]
            for k, names in enumerate(found, 1)]  # fmt: skip
    return Table(["set", "nodes", "which"], rows)


def _nodes(made: Comparison) -> Table:
    rows = [made.node(v) for v in range(made.network.n_nodes)]
    rows.sort(key=lambda one: (one["p_family"] is None, one["p_family"], -(one["score"] or 0.0)))
    keys = ("new", "old", "p", "p_family", "p_fdr", "p_own")
    head = [
        "node",
        "differs",
        "new values",
        "vanished values",
        "p",
        "p among all",
        "p, false discoveries",
        "p, own samples",
    ]
    cells = [
        [one["name"], "yes" if one["changed"] else "no", *(number(one[key]) for key in keys)]
        for one in rows[:LISTED]
    ]
    return Table(head, cells)


def _ratios(charts: Charts, made: Comparison) -> list[tuple[Chart, ...]]:
    """Densities and both ratios of the strongest nodes; of several components the one that moved most."""
    test = made.test
    strongest = [v for v in np.argsort(-np.nan_to_num(test.scores_, nan=-np.inf))[:STRONGEST].tolist()
                 if np.isfinite(test.scores_[v])]  # fmt: skip
    return [_pictures(charts, made, v) for v in strongest]


def _pictures(charts: Charts, made: Comparison, v: int) -> tuple[Chart, ...]:
    x, y = (part[v][np.isfinite(part[v]).all(axis=1)] for part in (made.before, made.after))
    k = int(np.argmax([_distance(x[:, j], y[:, j]) for j in range(x.shape[1])]))
    both = np.concatenate([x[:, k], y[:, k]])
    low, high = np.quantile(both, (0.002, 0.998)).tolist()
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    middle = (edges[:-1] + edges[1:]) / 2.0
    name = made.network.names[v]
    unit = made.components[k] if made.components else "value"
    series = [_density("before", x[:, k], edges, "before"), _density("after", y[:, k], edges, "now")]
    densities = charts.add(f"{name}: where {unit} is", x=plain(middle), label=unit, side="density",
                           series=series)  # fmt: skip
    # Along one component, the others at their median.
    points = np.tile(np.median(np.concatenate([x, y]), axis=0), (len(middle), 1))
    points[:, k] = middle
    z = (points - made.centre[v]) / made.scale[v]
    lines = [
        {"label": "after / mixture", "y": plain(made.test.ratio(v, z, "new")), "colour": "now"},
        {"label": "before / mixture", "y": plain(made.test.ratio(v, z, "old")), "colour": "before"},
        {"label": "equal", "y": plain(np.ones(len(middle))), "colour": "soft", "dash": DASH},
    ]
    ratios = charts.add(f"{name}: relative ratios", x=plain(middle), label=unit, side="ratio", series=lines)
    return densities, ratios


def _density(label: str, x: Floats, edges: Floats, colour: str) -> dict[str, Any]:
    counts, _ = np.histogram(x, edges)
    return {"label": label, "y": plain(counts / len(x) / (edges[1] - edges[0])), "colour": colour}


def _distance(x: Floats, y: Floats) -> float:
    """Largest difference of the distribution functions."""
    at = np.sort(np.concatenate([x, y]))
    below = [np.searchsorted(np.sort(part), at, side="right") / len(part) for part in (x, y)]
    return float(np.abs(below[0] - below[1]).max())
