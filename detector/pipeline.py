"""The heart: samples in, events out. No clock, no thread, no I/O; the same samples give the same events.

    push -> align -> tick -> preprocess -> engine (windows, refit, statistics) -> incidents -> events
                       └ while learning: history ─> calibrate ─> engine, thresholds, report

The order in which samples were cut into batches does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from detector.aftermath.casefile import CaseFile
from detector.aftermath.clerk import Clerk
from detector.align import Aligner
from detector.calibration import calibrate
from detector.engine import Engine
from detector.events import Event, detector_event
from detector.history import History
from detector.incidents import Incidents, Verdict
from detector.judgement import judge
from detector.learnt import Report
from detector.network import Network
from detector.preprocess import Preprocess
from detector.river_engine import RIVER, RiverEngine
from detector.samples import Columns, Sampled
from detector.settings import Settings
from detector.ticks import Tick
from detector.views import WindowEvidence, node_view

Floats = NDArray[np.float64]
Progress = Callable[[str, float], None]

COVERAGE_EVERY = 20  # ticks between looks at how well the dictionary covers what comes in
COVERAGE_MEMORY = 0.05
COVERAGE_LOW = 0.5  # of what it was while learning


class Pipeline:
    """One network under watch. Without a network, ``names`` are given and the links are learnt."""

    def __init__(
        self,
        network: Network | None,
        dim: int,
        settings: Settings | None = None,
        *,
        names: Sequence[str] | None = None,
        components: Sequence[str] | None = None,
    ) -> None:
        if network is None and not names:
            raise ValueError("pipeline: needs a network, or names from which to learn one")
        self.settings = settings = settings or Settings()
        self.learns_graph = network is None
        self.network = network or Network.empty(list(names or ()))
        self.dim = dim
        self.components = tuple(components or (f"component {k + 1}" for k in range(dim)))
        if len(self.components) != dim:
            raise ValueError(f"components: {len(self.components)} names for {dim} components")
        self.aligner = Aligner(self.network.names, dim, settings.align)
        self.aligner.health.learning = True
        self.history: History | None = History(self.network.n_nodes, dim)
        self.preprocess: Preprocess | None = None
        self.engine: Engine | RiverEngine | None = None
        self.report: Report | None = None
        self.incidents = Incidents(self.network.names, self.network.graph, settings.incidents)
        self.evidence = WindowEvidence(self)
        self.clerk = Clerk(self.network.n_nodes)
        self.cases: list[CaseFile] | None = None  # a list: case files are put there, to be taken away
        self.learnt_until: float | None = None  # time of the last sample learnt from
        self.newcomers: History | None = None  # samples of nodes that were not there to be learnt
        self.progress: Progress | None = None
        self.ticks = 0
        self.silent, self.stuck = np.zeros((2, self.network.n_nodes), np.bool_)
        self.coverage = 1.0
        self._coverage_start: float | None = None
        self._coverage_low = False

    # ------------------------------------------------------------------------------------ what others read

    @property
    def names(self) -> tuple[str, ...]:
        return self.network.names

    @property
    def phase(self) -> Literal["learning", "watching"]:
        return "learning" if self.engine is None else "watching"

    @property
    def counts(self) -> dict[str, int]:
        return self.aligner.counts

    @property
    def watermark(self) -> float | None:
        return self.aligner.watermark

    @property
    def progress_learning(self) -> float:
        """Share of the learning period seen, 0 to 1."""
        return 1.0 if self.history is None else self.history.share(self.settings.alarm.learn)

    @property
    def statistic(self) -> Floats:
        return self.engine.node if self.engine else np.full(self.network.n_nodes, np.nan)

    @property
    def event_statistic(self) -> Floats:
        return self.engine.event if self.engine else np.full(self.network.n_nodes, np.nan)

    @property
    def scores(self) -> Floats:
        return self.engine.scores if self.engine else np.full((self.network.n_nodes, 1), np.nan)

    @property
    def threshold(self) -> float:
        return self.report.threshold if self.report else float("nan")

    @property
    def event_threshold(self) -> float:
        return self.report.event_threshold if self.report else float("nan")

    @property
    def promised_rate(self) -> float:
        """False incidents per second of stream time that the budget allows; NaN where nothing is promised."""
        return self.report.promised / self.report.step if self.report else float("nan")

    @property
    def residual(self) -> float:
        return self.engine.residual if self.engine else float("nan")

    @property
    def sweeps(self) -> int:
        return self.settings.estimator.sweeps

    @property
    def dictionary_size(self) -> int:
        return self.engine.atoms if self.engine else 0

    @property
    def node_states(self) -> list[str]:
        """learning, watching, suspected, alarmed, silent or stuck, per node."""
        ready = np.isfinite(self.statistic)
        states = np.where(ready, "watching", "learning").astype(object)
        for v, owner in self.incidents.roster.owner.items():
            member = self.incidents.open[owner].members[self.names[v]]
            states[v] = "suspected" if member.suspected else "alarmed"
        states[self.stuck] = "stuck"
        states[self.silent] = "silent"
        return [str(state) for state in states]

    def node_view(self, name: str) -> dict[str, Any]:
        """All that a page shows of one node."""
        return node_view(self, self.network.roster.index[name])

    # ---------------------------------------------------------------------------------------- the stream

    def push(self, samples: Sequence[Sampled]) -> list[Event]:
        """Take samples in arrival order; the events they lead to."""
        return self._run(self.aligner.push_samples(samples))

    def push_columns(self, batch: Columns) -> list[Event]:
        """`push` for arrays of node numbers, times and values."""
        return self._run(self.aligner.push(batch))

    def flush(self) -> list[Event]:
        """The stream ends: close the ticks that are open."""
        return self._run(self.aligner.flush())

    def _run(self, ticks: list[Tick]) -> list[Event]:
        events: list[Event] = []
        for tick in ticks:
            self.ticks += 1
            self._take_health(tick)
            events += self._collect(tick) if self.engine is None else self._watch(tick)
        return events

    def _take_health(self, tick: Tick) -> None:
        """As of this tick: the aligner may be further on already, if a batch closed several."""
        self.silent[tick.silent], self.silent[tick.returned] = True, False
        self.stuck[tick.stuck], self.stuck[tick.unstuck] = True, False

    def _collect(self, tick: Tick) -> list[Event]:
        assert self.history is not None
        first = not len(self.history)
        for layer in tick.layers:
            self.history.add(layer)
        events = []
        if first:
            wanted = self.settings.alarm.learn
            summary = f"learning what quiet looks like from {wanted} samples per node; no alarms until then"
            events.append(detector_event("detector.learning", tick.end, summary, {"samples": wanted}))
        if self.history.share(self.settings.alarm.learn) >= 1.0:
            events += self._finish_learning(tick.end)
        return events

    def learn(
        self, X: NDArray[Any], times: NDArray[Any] | None = None, progress: Progress | None = None
    ) -> Report:
        """Learn from a quiet history X (T, N, d), NaN = missing, instead of from the stream."""
        X = np.asarray(X, dtype=np.float64)
        if X.ndim == 2:
            X = X[:, :, None]
        if X.ndim != 3 or X.shape[1:] != (self.network.n_nodes, self.dim):
            raise ValueError(
                f"history: expected (T, {self.network.n_nodes}, {self.dim}), got shape {X.shape}"
            )
        if np.isinf(X).any():
            raise ValueError("history: values must be finite, or NaN where missing")
        clock = (
            np.arange(len(X), dtype=np.float64) * self.settings.align.step
            if times is None
            else np.asarray(times)
        )
        if len(clock) != len(X) or (np.diff(clock) <= 0).any():
            raise ValueError("times: one per row of the history, increasing")
        self.aligner.health.learn(X)
        self.history = History.of(X, clock)
        if progress is not None:
            self.progress = progress
        self._finish_learning(float(clock[-1]))
        assert self.report is not None
        return self.report

    def _finish_learning(self, time: float) -> list[Event]:
        """History to preprocessing, graph, engine and thresholds; the windows are filled from its end."""
        assert self.history is not None
        X, times = self.history.arrays()
        say = self.progress or (lambda _, __: None)
        say("preprocessing", 0.0)
        self.preprocess = Preprocess(self.settings.preprocess).learn(X, times)
        Z = self.preprocess.transform(X, times)
        warnings = list(self.preprocess.warnings_)
        if self.learns_graph:
            self._adopt(Network.learn(Z, self.names))
            warnings.append(self.network.warning)
        step = float(np.median(np.diff(np.unique(times))))
        if self.settings.estimator.name in RIVER:
            self.engine = RiverEngine(self.network.n_nodes, self.preprocess.dim_out, self.settings)
            self.report = RiverEngine.report(self.settings, len(X), step)
        else:
            done = calibrate(Z, self.network.graph, self.settings, step, say)
            self.engine, self.report = done.engine, done.report
        self.report.warnings[:0] = [text for text in warnings if text]
        self.history = None
        self.learnt_until = float(times[-1])
        self.aligner.health.learning = False
        self._fill(X, times)
        found = self.report
        events = [detector_event("detector.calibrated", time, _calibrated(found), found.record())]
        return events + [
            detector_event("detector.warning", time, text, {}, severity="warning") for text in found.warnings
        ]

    def _adopt(self, network: Network) -> None:
        self.network = network
        self.incidents = Incidents(network.names, network.graph, self.settings.incidents)

    def _fill(self, X: Floats, times: Floats) -> None:
        """Put the end of the history into the windows, so that watching begins at once."""
        assert self.engine is not None
        assert self.preprocess is not None
        windows = self.settings.windows
        need = windows.reference + windows.tests[-1]
        seen: NDArray[np.bool_] = np.asarray(np.isfinite(X).all(axis=2))
        share = max(float(np.median(seen.mean(axis=0))), 0.01)
        rows = slice(max(0, len(X) - int(2 * need / share) - 100), None)
        for row, here, now in zip(X[rows], seen[rows], times[rows], strict=True):
            nodes = np.flatnonzero(here).astype(np.int32)
            if len(nodes):
                self._slide(Columns(nodes, np.full(len(nodes), now), row[nodes]))
        self.engine.finish()

    def _slide(self, layer: Columns) -> None:
        assert self.engine is not None
        assert self.preprocess is not None
        z, valid = self.preprocess.apply(layer.nodes, layer.values, layer.times)
        if valid.all():
            self.engine.slide(layer.nodes, z, layer.times)
        elif valid.any():
            self.engine.slide(layer.nodes[valid], z[valid], layer.times[valid])

    def _watch(self, tick: Tick) -> list[Event]:
        engine = self.engine
        assert engine is not None
        assert self.preprocess is not None
        if not self.preprocess.quiet_.learnt.all():
            self._meet_newcomers(tick)
        if len(tick.restart):
            self.preprocess.restart(tick.restart)
            engine.restart(tick.restart)
        for layer in tick.layers:
            self._slide(layer)
        engine.silence(self.silent)
        engine.finish()
        events = self.incidents.step(self._judge(tick), self.evidence)
        self.clerk.step(self, events, tick.end)
        self._act()
        if self.ticks % COVERAGE_EVERY == 0:
            events += self._look_at_coverage(tick)
        return events

    def _meet_newcomers(self, tick: Tick) -> None:
        """Nodes of which nothing was learnt (new, or silent then) learn from their own samples.

        Their scale comes from as many samples as fill all windows; what is quiet for their scores is taken
        from the other nodes.
        """
        assert self.preprocess is not None
        unknown = np.flatnonzero(~self.preprocess.quiet_.learnt).astype(np.int32)
        if self.newcomers is None:
            self.newcomers = History(len(unknown), self.dim)
        for layer in tick.layers:
            here = layer.take(np.isin(layer.nodes, unknown))
            if len(here):
                place = np.searchsorted(unknown, here.nodes).astype(np.int32)
                self.newcomers.add(Columns(place, here.times, here.values))
        wanted = self.settings.windows.reference + self.settings.windows.tests[-1]
        grown = self.newcomers.count >= wanted
        if grown.any():
            X, times = self.newcomers.arrays()
            self.preprocess.adopt(unknown[grown], X[:, grown], times)
            self.newcomers = None if grown.all() else History.of(X[:, ~grown], times)

    def _judge(self, tick: Tick) -> Verdict:
        assert self.engine is not None
        assert self.report is not None
        return judge(tick, self.engine, self.report, self.incidents, self.settings, self.silent, self.stuck)

    def _act(self) -> None:
        assert self.engine is not None
        actions = self.incidents.actions
        if actions.hold:
            self.engine.hold(actions.hold)
        if actions.release:
            self.engine.release(actions.release)
        for v, onset in actions.rebaseline.items():
            self.engine.rebaseline(v, int(np.count_nonzero(self.engine.times(v) >= onset)))

    def _look_at_coverage(self, tick: Tick) -> list[Event]:
        """Warn once when incoming values leave the range that the dictionary was learnt on."""
        assert self.engine is not None
        now = self.engine.coverage(tick.layers[0].nodes) if tick.layers else None
        if now is None:
            return []
        if self._coverage_start is None:
            self._coverage_start = self.coverage = now
        self.coverage += COVERAGE_MEMORY * (now - self.coverage)
        low = self.coverage < COVERAGE_LOW * self._coverage_start
        if low == self._coverage_low:
            return []
        self._coverage_low = low
        if not low:
            return []
        text = (
            f"values have left the range that was learnt: coverage {self.coverage:.2f}, "
            f"{self._coverage_start:.2f} at the start; learn again"
        )
        return [
            detector_event(
                "detector.warning", tick.end, text, {"coverage": self.coverage}, severity="warning"
            )
        ]

    # ---------------------------------------------------------------------------------- operator's commands

    def accept(self, incident: str, time: float) -> list[Event]:
        """This is the new normal: the nodes' references begin anew after the onset."""
        return self._command(self.incidents.accept(incident, time), time)

    def clear(self, incident: str, time: float) -> list[Event]:
        """It is over: references slide again."""
        return self._command(self.incidents.clear(incident, time), time)

    def label(self, incident: str, time: float, **labels: Any) -> list[Event]:
        """What the operator knows: alarm true or false, type, nodes, note."""
        return self._command(self.incidents.label(incident, time, **labels), time)

    def _command(self, events: list[Event], time: float) -> list[Event]:
        if self.engine is not None:
            self.clerk.end(self, events, time)
            self._act()
        return events

    # ---------------------------------------------------------------------------------------------- state

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON from which `from_state` goes on bit for bit as this pipeline does."""
        from detector import pipeline_state  # it builds pipelines

        return pipeline_state.take(self)

    @classmethod
    def from_state(
        cls,
        network: Network | None,
        dim: int,
        settings: Settings,
        arrays: dict[str, NDArray[Any]],
        meta: dict[str, Any],
        *,
        names: Sequence[str] | None = None,
        components: Sequence[str] | None = None,
    ) -> Pipeline:
        """Continue from `state`; nodes are matched by name, so the network may have gained or lost some."""
        from detector import pipeline_state

        return pipeline_state.put_back(
            network, dim, settings, arrays, meta, names=names, components=components
        )


def _calibrated(report: Report) -> str:
    if not np.isfinite(report.promised):
        return f"watching with {report.budget}"
    return (
        f"watching: at most {report.budget} false incidents promised; "
        f"event threshold {report.event_threshold:.2f}, node threshold {report.threshold:.2f}"
    )
