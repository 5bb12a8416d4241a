"""A recording tried: a configuration is written, and what it says is done; one report shows everything."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.base import Expected
from detector.config.config import Config
from detector.diagnosis.inline import Inline
from detector.events.model import Event
from detector.network.network import Network
from detector.pipeline.pipeline import Pipeline
from detector.replay.comparison import read_graph
from detector.replay.learnt import save_learnt
from detector.replay.recordings import Grid, Recording, gather
from detector.replay.timeline import ReplayedIncident, ReplayTimeline
from detector.report.pages import replay_page
from detector.trial.configuration import write_configuration
from detector.trial.frames import write_frame, write_sorted
from detector.trial.survey import Survey, survey

Progress = Callable[[str, float], None]
Show = Callable[[Sequence[Event]], None]


@dataclass(frozen=True)
class Trial:
    """What `try_recording` has found and written."""

    folder: Path
    config: Path
    report: Path
    survey: Survey
    pipeline: Pipeline
    track: ReplayTimeline
    assumed: list[tuple[str, str]]

    @property
    def incidents(self) -> list[ReplayedIncident]:
        """Those of the recording, earliest first."""
        return sorted(self.track.incidents.values(), key=lambda one: one.opened)


def try_recording(
    recording: Any,
    *,
    graph: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    quiet: tuple[float, float] | None = None,
    budget: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
    found: Callable[[Survey], None] | None = None,
    show: Show | None = None,
) -> Trial:
    """Look for changes in a recording, without any configuration.

    Time column, step, nodes, components, season and a part without changes are found from the recording;
    links are learnt from correlations. The detector learns from the quiet part, then replays all of it. The
    folder gets ``report.html``, ``config.yaml``, with which `detector run` finds the same, and the state that
    was learnt.

    Parameters
    ----------
    recording : path or DataFrame
        CSV, JSON lines or Parquet, one sample a row or one time a row and a column per node; or a DataFrame
        of pandas or polars of either form.
    graph : path, optional
        Links: CSV of edges ``u,v`` or ``u,v,weight`` or a matrix, or GraphML.
    folder : path, optional
        Where to write; by default named after the recording, in the current folder.
    quiet : (float, float), optional
        Unix times from and until which to learn; by default the quiet part is looked for.
    budget : str, optional
        False incidents of the whole network, such as ``"1 per 7d"``.
    force : bool
        Replace an earlier trial in the folder.
    progress : callable, optional
        Called as ``progress(stage, share)``.
    found : callable, optional
        Called with the survey of the recording before learning begins.
    show : callable, optional
        Called with events as they come.

    Returns
    -------
    Trial

    Raises
    ------
    ValueError
        If the recording cannot be learnt from: too short, constant, no numbers; says which and where.
    FileExistsError
        If the folder holds a configuration already.
    """
    tell: Progress = progress or (lambda stage, share: None)
    given = Path(recording) if isinstance(recording, str | os.PathLike) else None
    home = Path(folder) if folder is not None else Path(f"{_stem(given)}-detector")
    if (home / "config.yaml").exists() and not force:
        raise FileExistsError(f"{home} holds a configuration already; give another folder, or replace it")
    fresh = not home.exists()
    home.mkdir(parents=True, exist_ok=True)
    try:
        file = given if given is not None else home / "recording.csv"
        if given is None:
            write_frame(recording, file)
        looked = Recording(file)
        seen = survey(looked, quiet, tell, budget)
        if found is not None:
            found(seen)
        if seen.disorder:
            samples, file = gather(looked), home / "recording.csv"
            write_sorted(samples, seen.components, file)
        path = write_configuration(seen, _network(graph, seen.names), file, home)
    except BaseException:
        if fresh:
            shutil.rmtree(home, ignore_errors=True)
        raise
    return _run(seen, path, file, looked.path.name, tell, show or (lambda events: None))


def _run(seen: Survey, path: Path, file: Path, name: str, tell: Progress, show: Show) -> Trial:
    """What the configuration says: learn, save, replay, report."""
    config = Config.load(path)
    pipeline = Pipeline(
        config.network(), config.dim, config.settings(), names=config.names(), components=config.components
    )
    recording = Recording(file, Expected(pipeline.names, config.dim, config.components))
    begin, end = seen.quiet
    grid = Grid(pipeline.names, config.dim)
    for part in recording:
        grid.add([sample for sample in part.batch.samples if begin <= sample.time < end])
    pipeline.learn(*grid.rows(config.align.step, config.align.origin), tell)
    folder = config.state.folder()
    save_learnt(config.state, config.diagnosis, pipeline)
    track = ReplayTimeline(pipeline, learnt=seen.quiet)
    analyze, pipeline.cases = Inline(config.diagnosis, folder), []

    def take(events: Sequence[Event]) -> None:
        findings = analyze(pipeline)
        track.add_findings(findings)
        show([*events, *findings])

    for part in recording:
        take(track.push(part.batch.samples))
        tell("watching", part.share)
    take(track.flush())
    assumed = [*seen.facts(), *_chosen(pipeline)]
    report = path.with_name("report.html")
    report.write_text(replay_page(track, None, name, assumed), encoding="utf-8")
    return Trial(path.parent, path, report, seen, pipeline, track, assumed)


def _chosen(pipeline: Pipeline) -> list[tuple[str, str]]:
    """What was decided while learning."""
    links = len(pipeline.network.edges())
    how = "from correlations in the quiet part" if pipeline.learns_graph else "as given"
    assert pipeline.preprocess is not None
    words = {
        "seasonal": "usual course subtracted",
        "difference": "differences instead of levels, because levels wander",
        "whiten": "autocorrelation removed",
    }
    done = [words[name] for name, step in pipeline.preprocess.steps.items() if step.active and name in words]
    return [("links", f"{links}, {how}"), ("values", ", ".join(["scaled to their usual spread", *done]))]


def _network(graph: str | os.PathLike[str] | None, names: Sequence[str]) -> Network | None:
    """Links among the nodes of the recording; a graph may have others."""
    if graph is None:
        return None
    known = set(names)
    given = read_graph(Path(graph))
    links = [(u, v, weight) for u, v, weight in given.edges() if u in known and v in known]
    if not links and given.edges():
        raise ValueError(
            f"{graph}: it links none of the nodes of the recording: it has {given.names[0]!r}, the recording "
            f"{names[0]!r}"
        )
    return Network.from_edges(links, list(names))


def _stem(path: Path | None) -> str:
    """The name of a file without its endings."""
    return "recording" if path is None else path.name.split(".")[0] or "recording"
