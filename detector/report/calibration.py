"""Content of a calibration's report: promise and check, null distribution, tail, delays, settings tried."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from detector.engines.calibration_report import CalibrationReport
from detector.events.wording import duration, number
from detector.report.html import Bar, Chart, Charts, Table, plain
from detector.report.null_histogram import EDGES, NullHistogram

DASH = [6, 4]


def promise(report: CalibrationReport) -> str:
    return f"at most {report.promise}" if math.isfinite(report.promised) else report.budget


def calibration_content(
    charts: Charts, report: CalibrationReport, null: NullHistogram | None
) -> dict[str, Any]:
    """What `calibration_sections.html` shows."""
    if not math.isfinite(report.promised):
        return {"promised": None, "budget": report.budget}
    return {
        "promised": [
            ("promised, whole network", promise(report)),
            ("per tick", number(report.promised)),
            ("budget", report.budget),
            ("learnt from", f"{report.n_ticks:,} ticks in blocks of {report.block}"),
            *(("preprocessing", text) for text in report.preprocessing),
            ("event threshold", number(report.event_threshold)),
            ("node threshold", number(report.threshold)),
        ],
        "checked": _checked(report.validated),
        "charts": _charts(charts, report, null),
        "tail": _tail(report),
        "delays": _delays(report) if report.delays else None,
        "trials": _trials(report) if report.trials else None,
    }


def _checked(checked: Mapping[str, float] | None) -> str | None:
    if not checked:
        return None
    return (
        f"Checked on {checked['ticks']:,.0f} ticks not used before: {checked['incidents']:.0f} false "
        f"incidents where {number(checked['expected'])} were expected; by a 95 % interval the true "
        f"rate is {number(checked['low'])} to {number(checked['high'])} times the promise."
    )


def _charts(charts: Charts, report: CalibrationReport, null: NullHistogram | None) -> list[Chart]:
    parts = []
    if null is not None and null.event.sum():
        middle = (EDGES[:-1] + EDGES[1:]) / 2.0
        keep = slice(0, int(np.flatnonzero(null.event + null.node)[-1]) + 2)
        width = EDGES[1] - EDGES[0]
        shares = [counts[keep] / max(counts.sum(), 1.0) / width for counts in (null.event, null.node)]
        parts.append(
            charts.add(
                "Distribution of the statistics without a change",
                x=plain(middle[keep]),
                label="statistic",
                side="density",
                series=[
                    {"label": "event statistic", "y": plain(shares[0]), "colour": "before"},
                    {"label": "node statistic", "y": plain(shares[1]), "colour": "now", "dash": DASH},
                ],
                marks=[[report.event_threshold, "event threshold"], [report.threshold, "node threshold"]],
            )
        )
    tail = report.tail
    x = np.linspace(tail.base, max(report.event_threshold * 1.1, tail.base + 1.0), 120)
    fit = [tail.exceeded(float(value)) for value in x]
    observed: list[float | None] = [None] * len(x)
    if null is not None and len(null.peaks):
        above = len(null.peaks) - np.searchsorted(null.peaks, x)
        observed = [float(count) / null.ticks if count else None for count in above]
    parts.append(
        charts.add(
            "Episodes per tick above a threshold",
            x=plain(x),
            log=True,
            label="threshold of the event statistic",
            side="per tick",
            series=[
                {"label": "generalised Pareto tail", "y": plain(fit), "colour": "before"},
                {
                    "label": "budget",
                    "y": plain(np.full(len(x), report.asked)),
                    "colour": "good",
                    "dash": DASH,
                },
                {"label": "history, judged by all of it", "y": observed, "colour": "now", "points": True},
            ],
            marks=[[report.event_threshold, "threshold"]],
        )
    )
    return parts


def _tail(report: CalibrationReport) -> str:
    tail = report.tail
    return (
        f"Tail above {number(tail.base)}: {tail.n} episodes of the history, each part judged by the rest, "
        f"shape {number(tail.shape)}, scale {number(tail.scale)} in half squares, "
        f"{number(tail.rate)} episodes per tick."
    )


def _delays(report: CalibrationReport) -> Table:
    finite = [one["delay"] for one in report.delays if math.isfinite(one["delay"])]
    most = max(finite, default=1.0)
    rows = [
        [
            one["change"],
            f"{one['nodes']}",
            Bar.of(one["delay"], most, number(one["delay"]) if math.isfinite(one["delay"]) else "not found"),
            duration(one["delay"] * report.step),
            f"{one['found']:.0%}",
        ]
        for one in report.delays
    ]
    head = ["change", "nodes", "median delay in ticks", "in time", "found within 200 ticks"]
    return Table(head, rows)


def _trials(report: CalibrationReport) -> Table:
    names = list(dict.fromkeys(key for one in report.trials for key in one))
    return Table(names, [[number(one.get(name, math.nan)) for name in names] for one in report.trials])
