"""What a recording says of itself: nodes, components, step, season, and the part to learn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from connectors.codec.layout import Layout, listed
from detector.engines.calibration_report import horizon, to_learn_from
from detector.events.wording import duration, moment
from detector.replay.recordings import Grid, Recording
from detector.trial.quiet import quiet_part
from detector.trial.season import find_season, without
from estimators.core.types import Floats
from estimators.timeseries.seasonal_profile import MIN_PERIODS

LEAST = 200  # rows to learn from
LEAST_ROWS = 300  # of a recording: something must be left to watch
MOST_VALUES = 300_000  # samples to learn from, so that it takes about a minute
LONG_ENOUGH = 6  # times all windows, for a threshold that is checked
BANKS = ((250, (5, 10, 25, 100, 200)), (100, (5, 10, 25, 50)), (60, (5, 10, 25)))
LEAST_SHARE = 0.05  # of the times at which a node must have a sample
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Survey:
    """Found in a recording, with what is left out and why."""

    layout: Layout
    names: tuple[str, ...]
    dim: int
    components: tuple[str, ...]
    step: float  # seconds
    times: tuple[float, float]  # of the first and the last sample
    rows: int
    quiet: tuple[float, float]  # times [begin, end) to learn from
    quiet_rows: int
    restless: tuple[str, ...]  # nodes that change even there
    season: tuple[float, int] | None  # period in seconds, steps of its profile
    left_out: dict[str, str]  # node: why
    refused: int
    problems: tuple[str, ...]
    disorder: int  # samples that come after later ones
    asked: str | None = None  # a budget

    @property
    def windows(self) -> tuple[int, tuple[int, ...]]:
        """Reference and test windows: the largest of which the quiet part holds enough."""
        fit = (bank for bank in BANKS if LONG_ENOUGH * (bank[0] + bank[1][-1]) <= self.quiet_rows)
        return next(fit, BANKS[-1])

    @property
    def budget(self) -> str:
        """One false incident in as much time as the quiet part vouches for, or as the recording lasts."""
        if self.asked is not None:
            return self.asked
        days = min(max(self._vouched, self.rows) * self.step / 86400.0, 30.0)
        for unit, size in (("d", 1.0), ("h", 24.0), ("min", 1440.0), ("s", 86400.0)):
            if days * size >= 2.0 or unit == "s":
                return f"1 per {max(1, round(days * size))}{unit}"
        raise AssertionError

    @property
    def _vouched(self) -> float:
        """Ticks for which learning from the quiet part can promise one false incident, if a part is kept."""
        return horizon(to_learn_from(self.quiet_rows))

    def _why_budget(self) -> str:
        if self.asked is not None:
            return ""
        long = self._vouched >= self.rows
        return ": what so long a quiet part can promise" if long else ": as long as the recording"

    def facts(self) -> list[tuple[str, str]]:
        """What was assumed, in words."""
        begin, end = self.times
        wide = self.layout.is_wide
        time = str(self.layout.decode.time or "time").strip("/")
        shape = "a column per node" if wide else f"a row per sample, node in {self.layout.decode.node!r}"
        told = [
            ("recording", f"{shape}; time in {time!r}, times without a zone taken as UTC"),
            ("time", f"{moment(begin)} to {moment(end)}: {self.rows:,} times, {duration(self.step)} apart"),
            ("nodes", f"{len(self.names)}: {listed(self.names)}"),
        ]
        if self.dim > 1:
            told.append(("components", listed(self.components or [str(k + 1) for k in range(self.dim)])))
        told += [("left out", f"{name}: {why}") for name, why in list(self.left_out.items())[:8]]
        if len(self.left_out) > 8:
            told.append(("left out", f"{len(self.left_out) - 8} more"))
        if self.layout.unused:
            told.append(("not used", f"columns {listed(self.layout.unused)}"))
        if self.refused:
            told.append(("refused", f"{self.refused:,} samples, such as {self.problems[0]}"
                         if self.problems else f"{self.refused:,} samples"))  # fmt: skip
        if self.disorder:
            told.append(
                ("order", f"{self.disorder:,} samples came after later ones: they were sorted by time")
            )
        told.append(("quiet part", self._quiet()))
        if self.season is None:
            told.append(("season", "none found, or fewer than three periods"))
        else:
            told.append(("season", f"the usual course of {duration(self.season[0])} is subtracted"))
        reference, tests = self.windows
        told += [
            ("windows", f"the latest {', '.join(map(str, tests))} samples against {reference} before"),
            ("budget", f"{self.budget} over the whole network{self._why_budget()}"),
        ]
        return told

    def _quiet(self) -> str:
        begin, end = self.quiet
        words = (
            f"{moment(begin)} to {moment(end)} ({self.quiet_rows:,} times): what happens there is taken as "
            "normal"
        )
        if self.restless:
            words += f"; but {listed(self.restless)} changed even there, and that is taken as normal, too"
        return words


def survey(recording: Recording, quiet: tuple[float, float] | None = None,
           progress: Progress | None = None, budget: str | None = None) -> Survey:  # fmt: skip
    """Look through a recording. ValueError if it cannot be learnt from; says why."""
    grid, refused, latest, disorder = Grid(None, None), 0, -np.inf, 0
    for part in recording:
        grid.add(part.batch.samples)
        refused += sum(part.batch.rejected.values())
        times = np.array([sample.time for sample in part.batch.samples])
        if len(times):
            newest = np.maximum.accumulate(np.append(latest, times))
            disorder += int(np.count_nonzero(times < newest[:-1]))
            latest = float(newest[-1])
        if progress is not None:
            progress("reading", part.share)
    where = recording.path
    if not len(grid.times):
        why = f": {recording.problems[0]}" if recording.problems else ""
        raise ValueError(f"{where}: there is no sample in it{why}")
    if len(grid.dims) > 1:
        raise ValueError(f"{where}: samples have different numbers of values: {sorted(grid.dims)}")
    step = step_of(grid.times, grid.nodes)
    if step is None:
        raise ValueError(f"{where}: no node has two samples at different times")
    X, clock = grid.rows(step)
    if len(X) < LEAST_ROWS:
        raise ValueError(
            f"{where}: {len(X)} times, {duration(step)} apart; at least {LEAST_ROWS} are needed: "
            f"{LEAST} to learn from, the others to watch"
        )
    left_out = _without_signal(X, grid.names)
    kept = [v for v, name in enumerate(grid.names) if name not in left_out]
    if not kept:
        name, why = next(iter(left_out.items()))
        raise ValueError(f"{where}: no node has a signal; {name}: {why}")
    X = X[:, kept]
    season = find_season(X, clock)
    rows, restless, season = _to_learn_from(X, clock, season, quiet, where)
    names = [grid.names[v] for v in kept]
    end = float(clock[rows.stop]) if rows.stop < len(clock) else float(clock[-1]) + step
    return Survey(
        recording.layout, tuple(names), X.shape[2], tuple(recording.layout.components), step,
        (float(grid.times.min()), float(grid.times.max())), len(X), (float(clock[rows.start]), end),
        rows.stop - rows.start, tuple(names[v] for v in restless), season, left_out, refused,
        tuple(recording.problems), disorder, budget,
    )  # fmt: skip


def step_of(times: Floats, nodes: Any) -> float | None:
    """The typical time between two samples of a node; None: there is none.

    Over samples, not over nodes: a few nodes that are read seldom do not make the ticks of the others long.
    """
    order = np.lexsort((times, nodes))
    gaps = np.diff(times[order])
    gaps = gaps[(np.diff(nodes[order]) == 0) & (gaps > 0.0)]
    if not len(gaps):
        return None
    return max(float(f"{np.quantile(gaps, 0.5, method='lower'):.3g}"), 1e-6)


def _without_signal(X: Floats, names: list[str]) -> dict[str, str]:
    """Nodes of which nothing can be learnt, and why."""
    left_out = {}
    whole: NDArray[np.bool_] = np.asarray(np.isfinite(X).all(axis=2))
    for v, name in enumerate(names):
        seen = X[whole[:, v], v]
        if len(seen) < max(LEAST // 2, LEAST_SHARE * len(X)):
            left_out[name] = f"has samples at {len(seen)} of {len(X)} times only"
        elif not np.ptp(seen, axis=0).any():
            left_out[name] = f"is always {', '.join(f'{value:g}' for value in seen[0])}"
    return left_out


def _to_learn_from(
    X: Floats, clock: Floats, season: tuple[float, int] | None, given: tuple[float, float] | None, where: Path
) -> tuple[slice, list[int], tuple[float, int] | None]:
    """Rows of the quiet part, nodes that are restless there, and the season if that part is long enough."""
    most = max(MOST_VALUES // X.shape[1], 3 * LEAST)
    if given is not None:
        rows = slice(*np.searchsorted(clock, given).tolist())
        if rows.stop - rows.start < LEAST:
            raise ValueError(
                f"{where}: only {max(0, rows.stop - rows.start)} times from {moment(given[0])} to "
                f"{moment(given[1])}; at least {LEAST} are needed to learn from"
            )
        restless: list[int] = []
    else:
        least = LEAST
        if season is not None:
            needed = int(np.searchsorted(clock, clock[0] + (MIN_PERIODS + 0.1) * season[0]))
            least = max(LEAST, needed)
            most = max(most, needed)
        found = quiet_part(X if season is None else without(X, clock, *season), least, most)
        rows, restless = slice(found.begin, found.end), found.restless
    if season is not None and clock[rows.stop - 1] - clock[rows.start] < MIN_PERIODS * season[0]:
        season = None
    return rows, restless, season
