"""`detector replay`: recorded data as fast as it goes, with the events that a live run would give."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detector.cli.common import Progress, as_json_text, load_config, on_terminal, progress_bar
from detector.cli.learn import as_time, history, new_pipeline, recording, tell_problems
from detector.cli.options import config_option, json_option, report_option

if TYPE_CHECKING:
    from detector.config.config import Config
    from detector.diagnosis.inline import Inline
    from detector.events.model import Event
    from detector.pipeline.pipeline import Pipeline
    from detector.replay.ground_truth import Label
    from detector.replay.timeline import ReplayTimeline


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@config_option
@click.option("--learn", "learn_samples", type=click.IntRange(min=200), metavar="N",
              help="Learn from the first N samples of each node instead of alarm.learn.")  # fmt: skip
@click.option("--until", metavar="TIME", help="Learn from all samples before this time.")
@click.option("--from-state", is_flag=True, help="Start from what `detector learn` saved.")
@click.option("--source", metavar="NAME", help="Read the file with the decode settings of this source.")
@report_option("Write an HTML report: timeline, network, nodes, calibration.")
@click.option("--labels", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE.csv",
              help="CSV of the true changes (start,end,nodes,kind), for the report.")  # fmt: skip
@json_option
def replay(
    file: Path, config_path: Path, learn_samples: int | None, until: str | None, from_state: bool,
    source: str | None, report_path: Path | None, labels: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Run FILE through the detector and print the incidents it would have reported.

    Nothing is sent and no state is changed. Prints readable lines on a terminal, JSON lines when piped.
    """
    if sum((learn_samples is not None, until is not None, from_state)) > 1:
        raise click.UsageError("give at most one of --learn, --until, --from-state")
    if labels is not None and report_path is None:
        raise click.UsageError("--labels needs --report, which shows them")
    from detector.diagnosis.inline import Inline
    from detector.replay.timeline import ReplayTimeline

    config = load_config(config_path)
    known = _labels(labels)
    begun = time.monotonic()
    counts: Counter[str] = Counter()
    with progress_bar("replay") as progress:
        show = Printer(as_json, progress)
        pipeline = _prepared(config, file, source, learn_samples, as_time(until), from_state, progress)
        pipeline.progress = progress
        learnt_until = as_time(until)
        track = ReplayTimeline(pipeline) if report_path is not None else None
        analyze, pipeline.cases = Inline(config.diagnosis, config.state.folder()), []
        recorded = recording(config, pipeline, file, source, tell=until is None)
        for part in recorded:
            samples = part.batch.samples
            if from_state and samples and not counts["samples"]:
                _warn_of_learnt(pipeline, file, samples[0].time)
            if learnt_until is not None:
                samples = [sample for sample in samples if sample.time >= learnt_until]
            counts["samples"] += part.batch.received
            counts["refused"] += sum(part.batch.rejected.values())
            events = (track or pipeline).push(samples)
            show(events + _analyzed(analyze, pipeline, track))
            progress("replay" if pipeline.phase == "watching" else "learning", part.share)
        events = (track or pipeline).flush()
        show(events + _analyzed(analyze, pipeline, track))
        if track is not None and report_path is not None:
            from detector.report.pages import replay_page

            report_path.write_text(replay_page(track, known, file.name), encoding="utf-8")
    tell_problems(recorded, counts["refused"])
    click.echo(_summary(pipeline, counts, show.seen, time.monotonic() - begun), err=True)


def _analyzed(analyze: Inline, pipeline: Pipeline, track: ReplayTimeline | None) -> list[Event]:
    found = analyze(pipeline)
    if track is not None:
        track.add_findings(found)
    return found


def _labels(path: Path | None) -> list[Label] | None:
    """Read before the long work: a mistake in them is told at once."""
    from detector.replay.ground_truth import read_labels

    return None if path is None else read_labels(path)


def _warn_of_learnt(pipeline: Pipeline, file: Path, begin: float) -> None:
    """What was learnt from finds itself without fault: silence there says nothing."""
    from detector.events.model import clock

    if pipeline.learnt_until is not None and begin <= pipeline.learnt_until:
        until = clock(pipeline.learnt_until, 0.0)
        click.echo(
            f"warning: {file} begins before {until}, the end of what the state was learnt from: up to then "
            "the detector judges what it has learnt, which says nothing about new data",
            err=True,
        )


def _prepared(
    config: Config, file: Path, source: str | None, learn_samples: int | None, until: float | None,
    from_state: bool, progress: Any,
) -> Pipeline:  # fmt: skip
    from detector.settings.core import Settings

    settings = config.settings()
    if learn_samples is not None:
        alarm = settings.alarm.model_dump() | {"learn": learn_samples}
        settings = Settings.of(**{**dict(settings), "alarm": alarm})
    if from_state:
        return restored(config)
    pipeline = new_pipeline(config, settings)
    if until is not None:
        X, times = history(config, pipeline, file, source, None, until, progress)
        pipeline.learn(X, times, progress)
    return pipeline


def restored(config: Config) -> Pipeline:
    """The pipeline as it was saved last."""
    from detector.pipeline.pipeline import Pipeline
    from detector.storage.inspect import load_snapshot

    folder = config.state.folder()
    snapshot = load_snapshot(folder)
    if snapshot is None:
        raise ValueError(f"{folder} holds no saved state: run  detector learn FILE  first")
    pipeline: Pipeline = Pipeline.from_state(
        config.network(), config.dim, config.settings(), dict(snapshot.arrays), dict(snapshot.meta),
        names=config.names(), components=config.components,
    )  # fmt: skip
    return pipeline


class Printer:
    """Events to standard output, in the order of time; counts their kinds."""

    def __init__(self, as_json: bool, progress: Progress) -> None:
        self.seen: Counter[str] = Counter()
        self._progress = progress
        self._pretty = on_terminal() and not as_json

    def __call__(self, events: Sequence[Event]) -> None:
        from detector.events.terminal import joined, line

        self.seen.update(event.event for event in events)
        if self._pretty:
            lines = [line(record) for record in joined([event.record() for event in events])]
        else:
            lines = [as_json_text(event) for event in sorted(events, key=lambda event: event.time)]
        for text in lines:
            self._progress.echo(text)


def _summary(pipeline: Pipeline, counts: Counter[str], seen: Counter[str], seconds: float) -> str:
    taken = counts["samples"] - counts["refused"]
    rate = taken / seconds if seconds > 0 else 0.0
    refused = counts["refused"]
    speed = f"{taken} samples, {pipeline.ticks} ticks in {seconds:.1f} s ({rate:,.0f} samples/s)"
    lines = [f"{speed}; {refused} refused"]
    usual = ("received", "accepted")
    strange = {name: count for name, count in pipeline.counts.items() if count and name not in usual}
    if strange:
        lines.append("not used: " + ", ".join(f"{count} {name}" for name, count in strange.items()))
    if pipeline.phase == "learning":
        share, wanted = pipeline.progress_learning, pipeline.settings.alarm.learn
        lines.append(
            f"still learning: {share:.0%} of {wanted} samples per node; give --learn N or a longer file"
        )
    else:
        opened, ended, left = seen["incident.opened"], seen["incident.resolved"], len(pipeline.incidents.open)
        lines.append(f"incidents: {opened} opened, {ended} resolved, {left} open at the end")
    return "\n".join(lines)
