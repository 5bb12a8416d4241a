"""Sections of a replay's report: what was found, beside labels and dummies; network; strongest nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from detector.events import is_unix
from detector.labels import Label
from detector.pipeline import Pipeline
from detector.report_parts import Markup, Page, facts, plain, table, tag
from detector.report_pictures import NetworkPicture
from detector.score import compare, matches
from detector.track import Story, Track
from detector.wording import duration, number, when

STRONGEST = 6
LISTED = 200  # incidents in the table
UNFOLDED = 20  # with more of them what was found out is folded away
DASH = [6, 4]


def short(pipeline: Pipeline, track: Track, stories: list[Story], watched: float) -> Markup:
    report = pipeline.report
    pairs = [
        ("nodes", f"{pipeline.network.n_nodes:,}"),
        ("ticks", f"{pipeline.ticks:,}"),
        ("watched", duration(watched) if track.begin is not None else "never: still learning"),
        ("incidents", f"{len(stories):,}"),
        ("still open", f"{sum(story.ended is None for story in stories):,}"),
    ]
    if report is not None and math.isfinite(report.promised):
        allowed = report.promised * watched / report.step
        pairs.append(("false ones promised", f"{report.budget} (in this time {number(allowed, 2)})"))
    return facts(pairs)


def true_ones(stories: list[Story], labels: Sequence[Label], grace: float) -> set[str]:
    return {
        story.id
        for story in stories
        if any(label.start <= story.opened <= label.until(grace) for label in labels)
    }


def against(
    pipeline: Pipeline, stories: list[Story], labels: Sequence[Label], given: int, begin: float, end: float,
    grace: float,
) -> list[Markup]:  # fmt: skip
    if not labels:
        return [tag("p", f"None of {given} labels lies in the time that was watched.")]
    budget = pipeline.settings.alarm.budget
    period = budget.period * (pipeline.settings.align.step if budget.unit == "ticks" else 1.0)
    covered = sum(max(0.0, min(one.until(grace), end) - max(one.start, begin)) for one in labels)
    quiet = max(end - begin - covered, 1e-9)
    scores = compare(stories, labels, begin, end, grace)
    rows = [
        [
            score.name,
            number(score.alarms),
            f"{score.recall:.0%}",
            duration(score.delay),
            number(score.false),
            number(score.false * period / quiet),
            "–" if math.isnan(score.precision) else f"{score.precision:.0%}",
        ]
        for score in scores
    ]
    head = [
        "",
        "alarms",
        "labels found",
        "median delay",
        "false",
        f"false per {duration(period)}",
        "alarms in labels",
    ]
    note = (
        f"{len(labels)} labels in the time watched ({given - len(labels)} before it). Random and even "
        "alarms are as many as the detector's, over 300 draws: what is not better than they are is luck. "
        f"A label without an end counts as found within {duration(grace)}."
    )
    found = [
        [
            when(match.label.start),
            match.label.kind or "–",
            duration(match.label.until(grace) - match.label.start),
            match.story.id if match.story else "not found",
            duration(match.delay),
            "–" if math.isnan(match.nodes_found) else f"{match.nodes_found:.0%}",
            "–" if math.isnan(match.nodes_right) else f"{match.nodes_right:.0%}",
        ]
        for match in matches(stories, labels, grace)
    ]
    columns = ["start", "kind", "length", "incident", "delay", "its nodes found", "named nodes right"]
    return [
        table(head, rows),
        tag("p", note, klass="soft"),
        tag("h3", "Label by label"),
        table(columns, found),
    ]


def incidents(stories: list[Story], true_ones: set[str], labelled: bool) -> Markup:
    if not stories:
        return tag("p", "None.")
    shown = stories[:LISTED]
    rows = [
        [
            story.id,
            when(story.opened),
            when(story.onset),
            story.severity,
            story.resolution or "open",
            duration(story.ended - story.opened) if story.ended is not None else "–",
            f"{len(story.nodes)}",
            story.summary,
            *([("in a label" if story.id in true_ones else "not labelled")] if labelled else []),
        ]
        for story in shown
    ]
    head = ["incident", "opened", "began about", "severity", "end", "lasted", "nodes", "summary"]
    caption = f"the first {LISTED} of {len(stories)}" if len(stories) > LISTED else None
    return table([*head, *(["label"] if labelled else [])], rows, caption)


def findings(stories: list[Story]) -> list[Markup]:
    """What each kind of the aftermath said of each incident, early and once settled."""
    examined = [story for story in stories[:LISTED] if story.findings]
    if not examined:
        return []
    unfolded = "" if len(examined) <= UNFOLDED else None
    folds = [
        tag("details", tag("summary", f"{story.id}: {story.summary}"), _said(story), open=unfolded)
        for story in examined
    ]
    return [tag("h3", "What was found out afterwards"), *folds]


def _said(story: Story) -> Markup:
    """One line for what was said, with all stages at which it was."""
    stages: dict[tuple[str, str], list[str]] = {}
    for finding in sorted(story.findings, key=lambda event: str(event.details["kind"])):
        said = finding.details["kind"], finding.summary
        stages.setdefault(said, []).append(finding.details["stage"])
    lines = [
        tag("li", tag("b", kind), f": {summary}", tag("span", f" ({', '.join(at)})", klass="soft"))
        for (kind, summary), at in stages.items()
    ]
    return tag("ul", *lines, klass="findings")


def network(page: Page, track: Track, stories: list[Story]) -> None:
    seen = track.statistic[: track.rows]
    n = track.pipeline.network.n_nodes
    peaks = np.where(np.isnan(seen), -np.inf, seen).max(axis=0) if len(seen) else np.full(n, -np.inf)
    peaks = np.where(np.isfinite(peaks), peaks, np.nan)
    alarmed = {name for story in stories for name in story.nodes}
    drawn = NetworkPicture(track.pipeline.network, peaks, track.pipeline.threshold, alarmed)
    note = "Triangles were part of an incident; others are darker the nearer they came to the threshold."
    page.section("Network", page.figure("Network", drawn), tag("p", note, klass="soft"))


def strongest(page: Page, track: Track, stories: list[Story], labels: Sequence[Label], grace: float) -> None:
    nodes = track.strongest(STRONGEST)
    if not nodes:
        return
    pipeline, figures = track.pipeline, []
    for v in nodes:
        name = pipeline.names[v]
        course = track.course(v)
        x = [float(t) for t in course["times"]]
        last = x[-1]
        spans = [
            [s.opened, s.ended if s.ended is not None else last, "now"] for s in stories if name in s.nodes
        ]
        spans += [[o.start, o.until(grace), "before"] for o in labels if not o.nodes or name in o.nodes]
        common: dict[str, Any] = {"time": is_unix(x[0]), "x": x, "spans": spans}
        series: list[dict[str, Any]] = []
        for c, component in enumerate(pipeline.components[:4]):
            colour = ("ink", "good", "bad", "before")[c]
            series.append({"label": component, "y": plain(course["high"][:, c]), "colour": colour})
            if track.per_bin > 1:
                high = len(series)
                low = {"label": f"{component}, least", "y": plain(course["low"][:, c]), "colour": colour}
                series.append(low | {"fill": [high, high + 1]})
        figures.append(page.chart(f"{name}: signal", series=series, **common))
        level = [None if value is None else 1 for value in plain(course["statistic"])]
        figures.append(
            page.chart(
                f"{name}: statistic",
                series=[
                    {"label": "node", "y": plain(course["statistic"]), "colour": "now"},
                    {
                        "label": "node threshold",
                        "y": _flat(pipeline.threshold, level),
                        "colour": "now",
                        "dash": DASH,
                    },
                    {"label": "pooled", "y": plain(course["event_statistic"]), "colour": "before"},
                    {
                        "label": "pooled threshold",
                        "y": _flat(pipeline.event_threshold, level),
                        "colour": "before",
                        "dash": [2, 4],
                    },
                ],
                **common,
            )
        )
    thin = f" Each point spans {track.per_bin} ticks, extremes kept." if track.per_bin > 1 else ""
    note = f"Shaded: incidents of the node{', and labels' if labels else ''}.{thin}"
    page.section("Strongest nodes", tag("p", note, klass="soft"), *figures)


def _flat(value: float, level: list[int | None]) -> list[float | None]:
    known = float(f"{value:.5g}") if math.isfinite(value) else None
    return [None if one is None else known for one in level]
