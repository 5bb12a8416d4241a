"""The reports of a replay and of a calibration: one page each, that needs nothing else."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from detector.events.wording import number
from detector.pipeline.pipeline import Pipeline
from detector.replay.ground_truth import Label
from detector.replay.timeline import ReplayTimeline
from detector.report.calibration import calibration_content, promise
from detector.report.figures import NetworkFigure, Timeline
from detector.report.html import Charts, render_page
from detector.report.null_histogram import NullHistogram
from detector.report.replay import (
    UNFOLDED,
    against,
    findings,
    incident_table,
    network_figure,
    strongest,
    summary,
    true_ones,
)


def replay_page(
    track: ReplayTimeline, labels: Sequence[Label] | None = None, recording: str = "",
    assumed: Sequence[tuple[str, str]] = (),
) -> str:  # fmt: skip
    """The report of a replay that ``track`` followed; ``labels`` say what was really there, ``assumed`` what
    nobody said."""
    pipeline, charts = track.pipeline, Charts()
    incidents = list(track.incidents.values())
    grace = 2.0 * pipeline.settings.windows.tests[-1] * pipeline.settings.align.step
    begin, end = track.begin, track.end
    known = [one for one in labels or () if begin is not None and one.until(grace) >= begin]
    labelled = true_ones(incidents, known, grace)
    timeline = None
    if track.rows:
        span = (float(track.times[0]), float(track.times[track.rows - 1]))
        learnt = track.learnt or (None if begin is None else (span[0], begin))
        timeline = Timeline(incidents, known, span, learnt, grace, labelled).svg()
    compared = None
    if labels is not None and begin is not None and end is not None:
        compared = against(pipeline, incidents, known, len(labels), begin, end, grace)
    told = findings(incidents)
    return render_page(
        "replay.html",
        f"Replay of {recording}" if recording else "Replay",
        charts,
        summary=summary(track, incidents),
        warnings=pipeline.report.warnings if pipeline.report else (),
        timeline=timeline,
        labelled=bool(known),
        against=compared,
        incidents=incident_table(incidents, labelled, bool(known)),
        findings=told,
        unfolded=len(told) <= UNFOLDED,
        network=network_figure(track, incidents).svg(),
        strongest=strongest(charts, track, incidents, known, grace),
        assumed=assumed,
        learnt=calibration_content(charts, pipeline.report, None) if pipeline.report else None,
        **_settings(pipeline),
    )


def calibration_page(pipeline: Pipeline, null: NullHistogram | None = None, recording: str = "") -> str:
    """The report of what was learnt; ``null`` is the history run once more, for its distribution."""
    report, charts = pipeline.report, Charts()
    if report is None:
        raise ValueError("nothing has been learnt: there is nothing to report")
    peaks = np.full(pipeline.network.n_nodes, np.nan)
    return render_page(
        "calibration.html",
        f"Calibration on {recording}" if recording else "Calibration",
        charts,
        summary=[
            ("nodes", f"{pipeline.network.n_nodes:,}"),
            ("history", f"{report.n_ticks:,} ticks of {report.step:g} s"),
            ("promised", promise(report)),
            ("event threshold", number(report.event_threshold)),
            ("node threshold", number(report.threshold)),
        ],
        warnings=report.warnings,
        learnt=calibration_content(charts, report, null),
        network=NetworkFigure(pipeline.network, peaks, 1.0, set()).svg(),
        **_settings(pipeline),
    )


def _settings(pipeline: Pipeline) -> dict[str, Any]:
    text = json.dumps(pipeline.settings.model_dump(), indent=2, ensure_ascii=False)
    return {"settings": text, "version": importlib.metadata.version("detectord")}
