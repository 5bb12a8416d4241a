"""`detector try`: a recording without a configuration, in about a minute to a report."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from detector.cli.common import INPUT_OUTPUT, Failure, Progress, on_terminal, print_json, progress_bar
from detector.cli.learn import as_time
from detector.cli.options import json_option

if TYPE_CHECKING:
    from detector.events.model import Event
    from detector.trial.survey import Survey
    from detector.trial.trial import Trial


@click.command("try")
@click.argument("recording", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--graph", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
              help="Links: CSV of edges (u,v or u,v,weight) or a matrix, or GraphML. Without it links are "
              "learnt from correlations.")  # fmt: skip
@click.option("--quiet", nargs=2, metavar="FROM UNTIL",
              help="Period without events, to learn from. Default: found in the recording.")  # fmt: skip
@click.option("--budget", metavar="WORDS", help='False incidents of the whole network, such as "1 per 7d".')
@click.option("--output", "-o", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
              help="Folder for report, configuration and state.  [default: NAME-detector]")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace an earlier trial in that folder.")
@click.option("--open/--no-open", "is_opened", default=None,
              help="Open the report in a browser.  [default: at a terminal with a display]")  # fmt: skip
@json_option
def try_(
    recording: Path, graph: Path | None, quiet: tuple[str, str] | None, budget: str | None,
    output: Path | None, force: bool, is_opened: bool | None, as_json: bool,
) -> None:  # fmt: skip
    """Find changes in RECORDING, without any configuration.

    RECORDING is CSV, JSON lines or Parquet, with one sample per row (time, node, values) or one time per row
    and a column per node. Everything else is derived from it: columns, time step, links, season, and a quiet
    part to learn from. Incidents are printed; the output folder receives report.html and a config.yaml with
    which `detector run` finds the same incidents. All assumptions are printed and listed in the report.
    """
    from detector.settings.budget import parse_budget
    from detector.trial.trial import try_recording

    if budget is not None:
        try:
            parse_budget(budget)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--budget") from None
    times = None if quiet is None else (_time(quiet[0]), _time(quiet[1]))
    with progress_bar("reading") as progress:
        try:
            trial = try_recording(
                recording, graph=graph, folder=output, quiet=times, budget=budget, force=force,
                progress=progress, found=_tell, show=None if as_json else _printer(progress),
            )  # fmt: skip
        except FileExistsError as error:
            raise Failure(
                str(error).replace("or replace it", "or --force to replace it"), INPUT_OUTPUT
            ) from None
    if as_json:
        print_json(_record(trial))
    _end(trial)
    if is_opened or (is_opened is None and _has_display()):
        webbrowser.open(trial.report.absolute().as_uri())


def _time(text: str) -> float:
    found = as_time(text)
    assert found is not None
    return found


def _printer(progress: Progress) -> Callable[[Sequence[Event]], None]:
    """A line for each incident that opens or ends; all else is in the report."""
    from detector.events.terminal import line

    def show(events: Sequence[Event]) -> None:
        for event in events:
            if event.event in ("incident.opened", "incident.resolved"):
                progress.echo(line(event.record(), colour=on_terminal()))

    return show


def _tell(found: Survey) -> None:
    """What is assumed, before the wait."""
    width = max(len(name) for name, _ in found.facts())
    for name, words in found.facts():
        click.echo(f"{name:<{width}}  {words}", err=True)


def _end(trial: Trial) -> None:
    for name, words in trial.assumed[len(trial.survey.facts()) :]:
        click.echo(f"{name:<10}  {words}", err=True)
    for text in trial.pipeline.report.warnings if trial.pipeline.report else ():
        click.echo(f"warning: {text}", err=True)
    found = len(trial.incidents)
    click.echo(f"\n{found or 'no'} incident{'' if found == 1 else 's'}; promised: at most "
               f"{trial.pipeline.promise} false", err=True)  # fmt: skip
    from detector.trial.configuration import shown

    click.echo(f"report         {shown(trial.report)}", err=True)
    click.echo(f"configuration  {shown(trial.config)}", err=True)
    click.echo(f"run it         detector run --config {shown(trial.config)}", err=True)


def _record(trial: Trial) -> dict[str, object]:
    return {
        "report": str(trial.report), "config": str(trial.config),
        "incidents": [
            {"incident": one.id, "opened": one.opened, "onset": one.onset, "ended": one.ended,
             "severity": one.severity, "nodes": list(one.nodes), "possibly": list(one.possibly),
             "summary": one.summary}
            for one in trial.incidents
        ],
        "assumed": [list(pair) for pair in trial.assumed],
    }  # fmt: skip


def _has_display() -> bool:
    named = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return sys.stdout.isatty() and (bool(named) or sys.platform == "darwin")
