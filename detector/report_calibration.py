"""Sections of a calibration's report: promise and check, quiet distribution, tail, delays, settings tried."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from detector.learnt import Report
from detector.quiet_run import EDGES, QuietRun
from detector.report_parts import Markup, Page, facts, plain, table, tag
from detector.report_pictures import Delays, bar
from detector.wording import duration, number

DASH = [6, 4]


def promise(report: Report) -> str:
    return f"at most {report.budget}" if math.isfinite(report.promised) else report.budget


def warnings(report: Report | None) -> list[Markup]:
    return [tag("p", f"Warning: {text}", klass="warning") for text in (report.warnings if report else ())]


def calibration(page: Page, report: Report, quiet: QuietRun | None) -> None:
    if not math.isfinite(report.promised):
        page.section("Calibration", tag("p", f"{report.budget}."))
        return
    checked = report.validated
    promised = facts(
        [
            ("promised, whole network", promise(report)),
            ("per tick", number(report.promised)),
            ("learnt from", f"{report.n_ticks:,} ticks in blocks of {report.block}"),
            ("event threshold", number(report.event_threshold)),
            ("node threshold", number(report.threshold)),
        ]
    )
    parts: list[Any] = [promised]
    if checked:
        parts.append(
            tag(
                "p",
                f"Checked on {checked['ticks']:,.0f} ticks not used before: {checked['incidents']:.0f} false "
                f"incidents where {number(checked['expected'])} were expected; by a 95 % interval the true "
                f"rate is {number(checked['low'])} to {number(checked['high'])} times the promise.",
            )
        )
    page.section("Promise and check", *parts)
    page.section("What quiet looks like", *_quiet(page, report, quiet))
    if report.delays:
        page.section("Expected delays", _delays(report))
        changes = [f"{one['change']}, {one['nodes']} node{'s'[: one['nodes'] > 1]}" for one in report.delays]
        page.pictures.append(("Expected delays", Delays(changes, [one["delay"] for one in report.delays])))
    if report.trials:
        page.section("Settings tried", _trials(report))


def _quiet(page: Page, report: Report, quiet: QuietRun | None) -> list[Markup]:
    parts = []
    if quiet is not None and quiet.event.sum():
        middle = (EDGES[:-1] + EDGES[1:]) / 2.0
        keep = slice(0, int(np.flatnonzero(quiet.event + quiet.node)[-1]) + 2)
        width = EDGES[1] - EDGES[0]
        shares = [counts[keep] / max(counts.sum(), 1.0) / width for counts in (quiet.event, quiet.node)]
        parts.append(
            page.chart(
                "Distribution of the statistics on quiet data",
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
    if quiet is not None and len(quiet.peaks):
        above = len(quiet.peaks) - np.searchsorted(quiet.peaks, x)
        observed = [float(count) / quiet.ticks if count else None for count in above]
    parts.append(
        page.chart(
            "Episodes per tick above a threshold",
            x=plain(x),
            log=True,
            label="threshold of the event statistic",
            side="per tick",
            series=[
                {"label": "generalised Pareto tail", "y": plain(fit), "colour": "before"},
                {
                    "label": "promised",
                    "y": plain(np.full(len(x), report.promised)),
                    "colour": "good",
                    "dash": DASH,
                },
                {"label": "history, judged by all of it", "y": observed, "colour": "now", "points": True},
            ],
            marks=[[report.event_threshold, "threshold"]],
        )
    )
    note = (
        f"Tail above {number(tail.base)}: {tail.n} episodes of the history, each part judged by the rest, "
        f"shape {number(tail.shape)}, scale {number(tail.scale)} in half squares, "
        f"{number(tail.rate)} episodes per tick."
    )
    return [*parts, tag("p", note, klass="soft")]


def _delays(report: Report) -> Markup:
    finite = [one["delay"] for one in report.delays if math.isfinite(one["delay"])]
    most = max(finite, default=1.0)
    rows = [
        [
            one["change"],
            f"{one['nodes']}",
            bar(one["delay"], most, number(one["delay"]) if math.isfinite(one["delay"]) else "not found"),
            duration(one["delay"] * report.step),
            f"{one['found']:.0%}",
        ]
        for one in report.delays
    ]
    head = ["change", "nodes", "median delay in ticks", "in time", "found within 200 ticks"]
    return table(head, rows)


def _trials(report: Report) -> Markup:
    names = list(dict.fromkeys(key for one in report.trials for key in one))
    return table(names, [[number(one.get(name, math.nan)) for name in names] for one in report.trials])
