"""The heart: samples in, events out. No clock, no thread, no I/O; the same samples give the same events.

    push -> align -> tick -> preprocess -> engine (windows, refit, statistics) -> incidents -> events
                       └ while learning: history ─> calibrate ─> engine, thresholds, report

The order in which samples were cut into batches does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector.aftermath.casefile import CaseFile
from detector.aftermath.clerk import Clerk
from detector.align import Aligner
from detector.calibration import calibrate
from detector.coverage import Coverage
from detector.engine import Engine
from detector.events import Event, detector_event
from detector.history import History, checked
from detector.incidents import Incidents, Verdict
from detector.judgement import judge
from detector.learnt import Report
from detector.network import Network
from detector.newcomers import meet
from detector.preprocess import Preprocess
from detector.readings import Readings
from detector.river_engine import RIVER, RiverEngine
from detector.samples import Columns, Sampled
from detector.screen import Screen
from detector.settings import Settings
from detector.ticks import Tick
from detector.views import WindowEvidence, node_view

Floats = NDArray[np.float64]
Progress = Callable[[str, float], None]


class Pipeline(Readings):
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
        self.screen: Screen | None = None
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
        self.cover = Coverage()

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
        X, clock = checked(X, times, (self.network.n_nodes, self.dim), self.settings.align.step)
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
        if self.settings.preprocess.screen == "on":
            self.screen = Screen(X.shape[1], self.dim, self.settings.windows.tests[-1])
            X = self.screen.clean(X, times, self.preprocess, self.network.graph)
            self.preprocess.learn(X, times)  # corrupt readings are no part of what is quiet
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
        events = [detector_event("detector.calibrated", time, found.summary, found.record())]
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
                self._enter(Columns(nodes, np.full(len(nodes), now), row[nodes]))
        self.engine.finish()

    def _slide(self, layer: Columns) -> None:
        if self.screen is None:
            self._enter(layer)
            return
        assert self.preprocess is not None
        v = self.preprocess.levels(layer.nodes, layer.values, layer.times)
        for part in self.screen.take(layer, v, self.network.graph):
            self._enter(part)

    def _enter(self, layer: Columns) -> None:
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
            wanted = self.settings.windows.reference + self.settings.windows.tests[-1]
            self.newcomers = meet(self.newcomers, self.preprocess, self.screen, tick, wanted, self.dim)
        if len(tick.restart):
            self.preprocess.restart(tick.restart)
            if self.screen is not None:
                self.screen.restart(tick.restart)
            engine.restart(tick.restart)
        for layer in tick.layers:
            self._slide(layer)
        engine.silence(self.silent)
        engine.finish()
        events = self.incidents.step(self._judge(tick), self.evidence)
        self.clerk.step(self, events, tick.end)
        self._act()
        return events + self.cover.look(engine, tick, self.ticks)

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

    def set_back(self, to: float, time: float) -> list[Event]:
        """The clock of the samples was set back to that time, from about ``time``: all windows start anew."""
        by = time + self.settings.align.seconds("lateness") - to
        events = self._run(self.aligner.set_back(to))
        events += self._command(self.incidents.set_back(), time)
        everybody = np.arange(self.network.n_nodes, dtype=np.int32)
        for history in (self.history, self.newcomers):
            if history is not None:
                history.set_back(by)
        if self.engine is not None and self.preprocess is not None:
            self.preprocess.restart(everybody)
            if self.screen is not None:
                self.screen.restart(everybody)
            self.engine.restart(everybody)
            self.engine.finish()
        text = f"the clock of the samples was set back by about {by:.0f} s; windows fill anew"
        return [*events, detector_event("detector.warning", to, text, {"set_back": by}, "warning")]

    def _command(self, events: list[Event], time: float) -> list[Event]:
        if self.engine is not None:
            self.clerk.end(self, events, time)
            self._act()
        return events

    def node_view(self, name: str) -> dict[str, Any]:
        """All that a page shows of one node."""
        return node_view(self, self.network.roster.index[name])

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
