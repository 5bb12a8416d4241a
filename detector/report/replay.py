"""Content of a replay's report: what was found, beside labels and dummies; network; strongest nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from detector.events.model import is_unix
from detector.events.wording import duration, extent, number, when
from detector.pipeline.pipeline import Pipeline
from detector.replay.ground_truth import Label
from detector.replay.scoring import compare, finds, matches
from detector.replay.timeline import ReplayedIncident, ReplayTimeline
from detector.report.figures import NetworkFigure
from detector.report.html import Charts, Facts, Table, plain

STRONGEST = 6
LISTED = 200  # incidents in the table
UNFOLDED = 20  # with more of them what was found out is folded away
DASH = [6, 4]


def summary(track: ReplayTimeline, incidents: list[ReplayedIncident]) -> Facts:
    pipeline, report = track.pipeline, track.pipeline.report
    watched = 0.0 if track.begin is None or track.end is None else track.end - track.begin
    pairs: Facts = [
        ("nodes", f"{pipeline.network.n_nodes:,}"),
        ("ticks", f"{pipeline.ticks:,}"),
        ("watched", duration(watched) if track.begin is not None else "never: still learning"),
        ("incidents", f"{len(incidents):,}"),
        ("still open", f"{sum(incident.ended is None for incident in incidents):,}"),
    ]
    if report is not None and math.isfinite(report.promised):
        allowed = report.promised * watched / report.step
        pairs.append(("false ones promised", f"{report.promise} (in this time {number(allowed, 2)})"))
    return pairs


def true_ones(incidents: list[ReplayedIncident], labels: Sequence[Label], grace: float) -> set[str]:
    """The incidents that find a label."""
    return {incident.id for incident in incidents if any(finds(incident, label, grace) for label in labels)}


def against(
    pipeline: Pipeline, incidents: list[ReplayedIncident], labels: Sequence[Label], given: int, begin: float,
    end: float, grace: float,
) -> dict[str, Any]:  # fmt: skip
    """Scores beside those of dummies, and what was found of each label."""
    if not labels:
        note = f"None of {given} labels lies in the time that was watched."
        return {"scores": None, "note": note, "matches": None}
    budget = pipeline.settings.alarm.budget
    period = budget.period * (pipeline.settings.align.step if budget.unit == "ticks" else 1.0)
    covered = sum(max(0.0, min(one.until(grace), end) - max(one.start, begin)) for one in labels)
    quiet = max(end - begin - covered, 1e-9)
    scores = compare(incidents, labels, begin, end, grace)
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
        "alarms that find labels",
    ]
    note = (
        f"{len(labels)} labels in the time watched ({given - len(labels)} before it). Random and even "
        "alarms are as many as the detector's, over 300 draws: what is not better than they are is luck. "
        "An incident finds a label only if it names one of its nodes and does not have the opposite "
        "direction; for the others the time is enough. "
        f"A label without an end counts as found within {duration(grace)}."
    )
    found = [
        [
            when(match.label.start),
            match.label.kind or "–",
            duration(match.label.until(grace) - match.label.start),
            match.incident.id if match.incident else "not found",
            duration(match.delay),
            "–" if math.isnan(match.nodes_found) else f"{match.nodes_found:.0%}",
            "–" if math.isnan(match.nodes_right) else f"{match.nodes_right:.0%}",
        ]
        for match in matches(incidents, labels, grace)
    ]
    columns = ["start", "kind", "length", "incident", "delay", "its nodes found", "named nodes right"]
    return {"scores": Table(head, rows), "note": note, "matches": Table(columns, found)}


def incident_table(incidents: list[ReplayedIncident], true_ones: set[str], labelled: bool) -> Table | None:
    if not incidents:
        return None
    shown = incidents[:LISTED]
    rows = [
        [
            incident.id,
            when(incident.opened),
            when(incident.onset),
            incident.severity,
            incident.resolution or "open",
            duration(incident.ended - incident.opened) if incident.ended is not None else "–",
            extent(len(incident.nodes), len(incident.possibly)),
            incident.summary,
            *([("found a label" if incident.id in true_ones else "no label")] if labelled else []),
        ]
        for incident in shown
    ]
    head = ["incident", "opened", "began about", "severity", "end", "lasted", "nodes", "summary"]
    caption = f"the first {LISTED} of {len(incidents)}" if len(incidents) > LISTED else None
    return Table([*head, *(["label"] if labelled else [])], rows, caption)


def findings(incidents: list[ReplayedIncident]) -> list[dict[str, Any]]:
    """What each analyzer found about each incident, early and once settled."""
    return [
        {"id": incident.id, "summary": incident.summary, "findings": _found(incident)}
        for incident in incidents[:LISTED]
        if incident.findings
    ]


def _found(incident: ReplayedIncident) -> list[tuple[str, str, list[str]]]:
    """One line for each sentence, with all stages at which it was said."""
    stages: dict[tuple[str, str], list[str]] = {}
    for finding in sorted(incident.findings, key=lambda event: str(event.details["kind"])):
        said = finding.details["kind"], finding.summary
        stages.setdefault(said, []).append(finding.details["stage"])
    return [(kind, sentence, at) for (kind, sentence), at in stages.items()]


def network_figure(track: ReplayTimeline, incidents: list[ReplayedIncident]) -> NetworkFigure:
    """Every node by its largest statistic."""
    seen = track.statistic[: track.rows]
    n = track.pipeline.network.n_nodes
    peaks = np.where(np.isnan(seen), -np.inf, seen).max(axis=0) if len(seen) else np.full(n, -np.inf)
    peaks = np.where(np.isfinite(peaks), peaks, np.nan)
    alarmed = {name for incident in incidents for name in incident.nodes}
    return NetworkFigure(track.pipeline.network, peaks, track.pipeline.threshold, alarmed)


def strongest(
    charts: Charts,
    track: ReplayTimeline,
    incidents: list[ReplayedIncident],
    labels: Sequence[Label],
    grace: float,
) -> dict[str, Any] | None:
    """Signal and statistics of the nodes with the largest ones."""
    nodes = track.strongest(STRONGEST)
    if not nodes:
        return None
    pipeline, figures = track.pipeline, []
    for v in nodes:
        name = pipeline.names[v]
        course = track.course(v)
        x = [float(t) for t in course["times"]]
        last = x[-1]
        spans = [
            [s.opened, s.ended if s.ended is not None else last, "now"]
            for s in incidents
            if name in (*s.nodes, *s.possibly)
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
        figures.append(charts.add(f"{name}: signal", series=series, **common))
        level = [None if value is None else 1 for value in plain(course["statistic"])]
        figures.append(
            charts.add(
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
    return {"note": note, "charts": figures}


def _flat(value: float, level: list[int | None]) -> list[float | None]:
    known = float(f"{value:.5g}") if math.isfinite(value) else None
    return [None if one is None else known for one in level]
