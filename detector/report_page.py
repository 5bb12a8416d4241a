"""The reports of a replay and of a calibration: one page each, that needs nothing else."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
from collections.abc import Sequence

import numpy as np

from detector.labels import Label
from detector.pipeline import Pipeline
from detector.quiet_run import QuietRun
from detector.report_calibration import calibration, promise, warnings
from detector.report_parts import Page, facts, tag
from detector.report_pictures import NetworkPicture, Timeline
from detector.report_replay import against, findings, incidents, network, short, strongest, true_ones
from detector.track import Track
from detector.wording import number


def replay_page(track: Track, labels: Sequence[Label] | None = None, recording: str = "") -> Page:
    """The report of a replay that ``track`` followed; ``labels`` say what was really there."""
    pipeline = track.pipeline
    page = Page(f"Replay of {recording}" if recording else "Replay")
    stories = list(track.stories.values())
    grace = 2.0 * pipeline.settings.windows.tests[-1] * pipeline.settings.align.step
    begin, end = track.begin, track.end
    known = [one for one in labels or () if begin is not None and one.until(grace) >= begin]
    watched = 0.0 if begin is None or end is None else end - begin
    page.section("In short", short(pipeline, track, stories, watched), *warnings(pipeline.report))
    labelled = true_ones(stories, known, grace)
    if track.rows:
        span = (float(track.times[0]), float(track.times[track.rows - 1]))
        drawn = Timeline(stories, known, span, begin, grace, labelled)
        words = "Above what was labelled, below what was found; outlined: not labelled." if known else ""
        page.section("Timeline", page.figure("Incidents over time", drawn), tag("p", words, klass="soft"))
    if labels is not None and begin is not None and end is not None:
        page.section("Against the labels", *against(pipeline, stories, known, len(labels), begin, end, grace))
    page.section("Incidents", incidents(stories, labelled, bool(known)), *findings(stories))
    network(page, track, stories)
    strongest(page, track, stories, known, grace)
    if pipeline.report is not None:
        calibration(page, pipeline.report, None)
    _settings(page, pipeline)
    return page


def calibration_page(pipeline: Pipeline, quiet: QuietRun | None = None, recording: str = "") -> Page:
    """The report of what was learnt; ``quiet`` is the history run once more, for its distribution."""
    report = pipeline.report
    if report is None:
        raise ValueError("nothing has been learnt: there is nothing to report")
    page = Page(f"Calibration on {recording}" if recording else "Calibration")
    page.section(
        "In short",
        facts(
            [
                ("nodes", f"{pipeline.network.n_nodes:,}"),
                ("history", f"{report.n_ticks:,} ticks of {report.step:g} s"),
                ("promised", promise(report)),
                ("event threshold", number(report.event_threshold)),
                ("node threshold", number(report.threshold)),
            ]
        ),
        *warnings(report),
    )
    calibration(page, report, quiet)
    peaks = np.full(pipeline.network.n_nodes, np.nan)
    page.section("Network", page.figure("Network", NetworkPicture(pipeline.network, peaks, 1.0, set())))
    _settings(page, pipeline)
    return page


def _settings(page: Page, pipeline: Pipeline) -> None:
    text = json.dumps(dataclasses.asdict(pipeline.settings), indent=2, ensure_ascii=False, default=str)
    version = f"detector {importlib.metadata.version('detector')}"
    opened = tag("details", tag("summary", "All settings"), tag("pre", text))
    page.section("Settings", opened, tag("p", f"Written by {version}.", klass="soft"))
