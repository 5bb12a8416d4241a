"""`detector adapt fit --report`: a page with the weights, the errors before and after, the path of lambda."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from detector.adaptation.refit import Adaptation
from detector.events.wording import number
from detector.report.html import Chart, Charts, Table, plain, render_page
from estimators.core.types import Floats

SHOWN = 6  # features with pictures of their own
POINTS = 1500  # in one picture
BINS = 40
DASH = [6, 4]


def adaptation_page(made: Adaptation, source: Sequence[tuple[str, str]] = ()) -> str:
    """HTML that needs nothing else; ``source`` says where the data came from."""
    charts = Charts()
    return render_page(
        "adaptation.html",
        f"Adaptation of {', '.join(made.pairs.targets)}",
        charts,
        summary=[*source, *_short(made)],
        warnings=_warnings(made),
        errors=_errors(made),
        errors_note=_errors_note(made),
        conclusion=_conclusion(made),
        weights=_weights(charts, made),
        predictions=_predictions(charts, made),
        path=_path(charts, made),
        shares=_shares(made),
    )


def _short(made: Adaptation) -> list[tuple[str, str]]:
    return [
        ("labelled pairs", f"{len(made.weights):,}"),
        ("effective sample size", number(made.size)),
        ("pairs among the values", f"{made.among:,}"),
        ("values since the change", f"{len(made.values):,}"),
        ("of them outside of the pairs", f"{made.outside:.1%}"),
        ("features", ", ".join(made.pairs.features)),
        ("model", "a line" if not made.model.centres else f"{len(made.model.centres)} kernels"),
    ]


def _warnings(made: Adaptation) -> list[str]:
    if made.outside <= 0.05:
        return []
    words = (
        f"{made.outside:.0%} of the values since the change lie where hardly any labelled pair is; "
        "there the model goes beyond what it was taught."
    )
    return [words]


def _errors(made: Adaptation) -> Table:
    present = made.pairs.present
    named = [
        *([("in use now", made.error(present))] if present is not None else []),
        ("without weights", made.error(made.before)), ("adapted", made.error(made.after)),
    ]  # fmt: skip
    if len(made.pairs.targets) == 1:
        return Table(["model", "error"], [[name, number(errors[0])] for name, errors in named])
    return Table(["model", *made.pairs.targets], [[name, *map(number, errors)] for name, errors in named])


def _errors_note(made: Adaptation) -> str:
    saved = "; ".join(
        f"{number(gain)}, standard error {number(doubt)}" + (f" ({target})" if len(made.gains) > 1 else "")
        for target, (gain, doubt) in zip(made.pairs.targets, made.gains, strict=True)
    )
    return (
        "Roots of the mean squared error of pairs that the fit had not seen, weighted, in units of "
        f"{', '.join(made.pairs.targets)}. Squared error saved: {saved}."
    )


def _conclusion(made: Adaptation) -> str:
    if len(made.verdicts) == 1:
        return f"{made.verdicts[0]}.".capitalize()
    told = zip(made.pairs.targets, made.verdicts, strict=True)
    return " ".join(f"{target}: {verdict}." for target, verdict in told)


def _weights(charts: Charts, made: Adaptation) -> list[Chart]:
    """Per feature: where pairs are, where weights put them, where the values are now."""
    parts = []
    for k, name in enumerate(made.pairs.features[:SHOWN]):
        x, now = made.pairs.x[:, k], made.values[:, k]
        both = np.concatenate([x, now])
        low, high = np.quantile(both, (0.002, 0.998)).tolist()
        edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
        series = [
            _density("labelled pairs", x, None, edges, "before"),
            _density("pairs, weighted", x, made.weights, edges, "good") | {"dash": DASH},
            _density("since the change", now, None, edges, "now"),
        ]
        middle = plain((edges[:-1] + edges[1:]) / 2.0)
        parts.append(charts.add(f"Where {name} is", x=middle, label=name, side="density", series=series))
    order = _some(made.pairs.x[:, 0])
    points = {"label": "weight", "y": plain(made.weights[order]), "colour": "before", "points": True}
    name = made.pairs.features[0]
    at, title = plain(made.pairs.x[order, 0]), f"Weights of the pairs against {name}"
    return [*parts, charts.add(title, x=at, label=name, side="weight", series=[points])]


def _density(label: str, x: Floats, weights: Floats | None, edges: Floats, colour: str) -> dict[str, Any]:
    counts, _ = np.histogram(x, edges, weights=weights)
    total = float(len(x) if weights is None else weights.sum())
    return {"label": label, "y": plain(counts / total / (edges[1] - edges[0])), "colour": colour}


def _predictions(charts: Charts, made: Adaptation) -> list[Chart]:
    """A chart per target."""
    found = []
    for k, target in enumerate(made.pairs.targets):
        y = made.pairs.y[:, k]
        order = _some(y)
        series = [
            {
                "label": "without weights",
                "y": plain(made.before[order, k]),
                "colour": "before",
                "points": True,
            },
            {"label": "adapted", "y": plain(made.after[order, k]), "colour": "now", "points": True},
            {"label": "right", "y": plain(y[order]), "colour": "good", "dash": DASH},
        ]
        title = "Predicted against labelled, of pairs left out"
        found.append(charts.add(title, x=plain(y[order]), label=f"{target}, labelled", side="predicted",
                                series=series))  # fmt: skip
    return found


def _path(charts: Charts, made: Adaptation) -> Chart:
    order = np.argsort(made.lams)
    final = float(np.sqrt(np.sum(np.square(np.array(made.error(made.after)) / made.unit))))
    side = "error" if len(made.pairs.targets) == 1 else "error, in spreads of the targets"
    return charts.add(
        "Held-out error of each λ alone, and of their mean", x=plain(np.log10(made.lams[order])),
        label="log10 of λ", side=side,
        series=[
            {"label": "one λ", "y": plain(made.errors[order]), "colour": "before"},
            {"label": "aggregate", "y": plain(np.full(len(order), final)), "colour": "good", "dash": DASH},
        ],
    )  # fmt: skip


def _shares(made: Adaptation) -> Table:
    order = np.argsort(made.lams)
    used = [[f"{made.lams[k]:.2e}", f"{made.shares[k]:.0%}"] for k in order if made.shares[k] > 0.005]
    return Table(["λ", "share in the aggregate"], used)


def _some(x: Floats) -> Any:
    """Rows in the order of x, at most as many as a picture bears."""
    order = np.argsort(x, kind="stable")
    return order[np.linspace(0, len(order) - 1, min(len(order), POINTS)).astype(np.intp)]
