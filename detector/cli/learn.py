"""`detector learn`: the baseline and thresholds, from a recording."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detector.cli.common import NOT_VOUCHED, Failure, load_config, print_json, progress_bar
from detector.cli.options import config_option, json_option, report_option

if TYPE_CHECKING:
    from detector.config.config import Config
    from detector.pipeline.pipeline import Pipeline
    from detector.replay.recordings import Recording
    from detector.settings.core import Settings


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@config_option
@click.option("--from", "begin", metavar="TIME", help="Use samples from this time on (ISO 8601 or a number).")
@click.option("--until", metavar="TIME", help="Use samples before this time.")
@click.option("--source", metavar="NAME", help="Read the file with the decode settings of this source.")
@click.option("--dry-run", is_flag=True, help="Print the report, save nothing.")
@click.option("--force", is_flag=True, help="Replace an existing state.")
@report_option("Write an HTML report of what was learnt.")
@json_option
def learn(
    file: Path, config_path: Path, begin: str | None, until: str | None, source: str | None, dry_run: bool,
    force: bool, report_path: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Learn the baseline and thresholds from FILE, a quiet recording, and save them for `detector run`.

    FILE holds JSON lines, CSV or Parquet: one sample per row (time, node, values), or one time per row with a
    column per node or node.component. The report shows the promised rate of false incidents, how well it
    held on held-out data, and how quickly changes of each size will be detected. From a short recording less
    can be promised. Exit code 4: learnt and saved, but the held-out part of the recording contradicts the
    budget; thresholds are raised until that part keeps it, and the rate that can be promised is printed.
    """
    config = load_config(config_path)
    if not dry_run and not force:
        refuse_to_replace(config)
    pipeline = new_pipeline(config)
    with progress_bar("reading") as progress:
        X, times = history(config, pipeline, file, source, as_time(begin), as_time(until), progress)
        report = pipeline.learn(X, times, progress)
        if report_path is not None:
            from detector.report.null_histogram import null_histogram
            from detector.report.pages import calibration_page

            progress("report", 1.0)
            page = calibration_page(pipeline, null_histogram(pipeline, X, times), file.name)
            report_path.write_text(page, encoding="utf-8")
    if not dry_run:
        from detector.replay.learnt import save_learnt

        save_learnt(config.state, config.diagnosis, pipeline)
    if as_json:
        print_json(report.record())
    else:
        click.echo(report.text())
        click.echo("\n".join(outlook(config.settings(), config.dim, report.step, pipeline)))
    if not dry_run:
        click.echo(f"saved in {config.state.folder()}: `detector run` goes on from it", err=True)
    if report.contradicted:
        raise Failure(
            f"the history itself contradicts the budget of {report.budget}: promised is {report.promise}, "
            "see the warnings", NOT_VOUCHED,
        )  # fmt: skip


def outlook(settings: Settings, dim: int, step: float, pipeline: Pipeline | None = None) -> list[str]:
    """What an operator should know of a configuration: how long it waits, and what it cannot see."""
    from detector.config.blind_spots import blind_spots, spans

    preprocess = pipeline.preprocess if pipeline is not None else None
    differenced = None if preprocess is None else preprocess.steps["difference"].active
    lines = ["waiting times:", *(f"  {line}" for line in spans(settings, step)), "not seen:"]
    return lines + [f"  {line}" for line in blind_spots(settings, dim, differenced)]


def new_pipeline(config: Config, settings: Any = None) -> Pipeline:
    """A pipeline with nothing learnt yet."""
    from detector.pipeline.pipeline import Pipeline

    return Pipeline(
        config.network(), config.dim, settings or config.settings(), names=config.names(),
        components=config.components,
    )  # fmt: skip


def decode_of(config: Config, source: str | None) -> Any:
    """The decode settings of a source of the configuration; None: told by the file itself."""
    if source is None:
        return None
    given = config.sources.get(source)
    decode = getattr(given, "decode", None)
    if decode is None:
        able = [name for name, one in config.sources.items() if getattr(one, "decode", None) is not None]
        raise click.BadParameter(
            f"{source!r} is none of the sources that decode: {', '.join(able) or 'none'}"
        )
    return decode


def recording(
    config: Config, pipeline: Pipeline, file: Path, source: str | None, tell: bool = True
) -> Recording:
    """The file as the configuration's network sees it; columns without a node and nodes without a column are
    told of."""
    from connectors.base import Expected
    from detector.replay.recordings import Recording

    decode = decode_of(config, source)
    found = Recording(file, Expected(pipeline.names, config.dim, config.components), decode)
    if decode is None and tell:
        unused, absent = found.strangers()
        for words, names in (("columns of no node", unused), ("nodes without a column", absent)):
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            if names:
                click.echo(f"{file}: {words}: {', '.join(names[:5])}{more}", err=True)
    return found


def tell_problems(recorded: Recording, refused: int) -> None:
    """The first lines that were refused, each with its reason."""
    for problem in recorded.problems:
        click.echo(f"refused: {problem}", err=True)
    if refused > len(recorded.problems) > 0:
        click.echo(f"refused: {refused} samples in all", err=True)


def history(
    config: Config, pipeline: Pipeline, file: Path, source: str | None, begin: float | None,
    until: float | None, progress: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """The samples of a recording between two times, on the grid of ticks."""
    from detector.replay.recordings import Grid

    recorded = recording(config, pipeline, file, source)
    grid, refused = Grid(pipeline.names, config.dim), 0
    for part in recorded:
        samples = part.batch.samples
        if begin is not None or until is not None:
            samples = [
                sample for sample in samples
                if (begin is None or sample.time >= begin) and (until is None or sample.time < until)
            ]  # fmt: skip
        grid.add(samples)
        refused += sum(part.batch.rejected.values())
        progress("reading", part.share)
    tell_problems(recorded, refused)
    try:
        return grid.rows(config.align.step, config.align.origin)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def as_time(text: str | None) -> float | None:
    """Unix seconds from an option."""
    from detector.replay.recordings import time_of

    try:
        return None if text is None else time_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def refuse_to_replace(config: Config) -> None:
    """Learning takes a while: say at once that its result would have no place."""
    from detector.storage.database import StateUnavailable
    from detector.storage.inspect import load_snapshot

    folder = config.state.folder()
    try:
        found = load_snapshot(folder)
    except StateUnavailable:
        return
    if found is not None:
        raise ValueError(f"{folder} holds a state already; --force replaces it")
