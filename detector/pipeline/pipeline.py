"""The core: samples in, events out. No clock, no thread, no I/O; the same samples give the same events.

    push -> align -> tick -> preprocess -> engine (windows, refit, statistics) -> incidents -> events
                       └ while learning: history ─> calibrate ─> engine, thresholds, report

The order in which samples were cut into batches does not matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from detector.alignment.aligner import Aligner
from detector.alignment.samples import Columns, Sampled
from detector.alignment.ticks import Tick
from detector.edge import learning as edge_learning
from detector.edge.messages import Refused, Told
from detector.edge.neighbours import Neighbours
from detector.engines.base import Engine, Progress, engine_class
from detector.engines.calibration_report import CalibrationReport
from detector.engines.coverage import EVERY, Coverage
from detector.engines.runners.base import started
from detector.events.model import SINGLE, Event, NodeKind, detector_event, node_events
from detector.incidents.case import Case
from detector.incidents.decision import Decision, decide
from detector.incidents.life_cycle import RETURN_EVERY
from detector.incidents.tracker import IncidentTracker
from detector.network.network import Network
from detector.pipeline.case_capture import CaseCapture
from detector.pipeline.event_threshold import EventThreshold
from detector.pipeline.node_view import STATES, WindowEvidence, node_view
from detector.pipeline.relearn import Relearning
from detector.pipeline.signal_capture import Block, SignalCapture
from detector.preprocessing.cold_start import ColdStart
from detector.preprocessing.history import History, checked
from detector.preprocessing.preprocessor import Preprocessor
from detector.settings.core import Settings
from detector.stateful import Arrays, Meta, Stateful
from estimators.core.types import Bools, Floats


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
        units: Sequence[str] | None = None,
    ) -> None:
        if network is None and not names:
            raise ValueError("pipeline: needs a network, or names from which to learn one")
        self.settings = settings = settings or Settings()
        self.learns_graph = network is None
        self.network = network or Network.empty(list(names or ()))
        self.dim = dim
        unnamed = (SINGLE,) if dim == 1 else tuple(f"component {k + 1}" for k in range(dim))
        self.components, self.units = tuple(components or unnamed), tuple(units or ())
        if len(self.components) != dim:
            raise ValueError(f"components: {len(self.components)} names for {dim} components")
        if self.units and len(self.units) != dim:
            raise ValueError(f"units: {len(self.units)} units for {dim} components")
        self.aligner = Aligner(self.network.names, dim, settings.align)
        self.aligner.health.learning = True
        self.history: History | None = History(self.network.n_nodes, dim)
        self.preprocess: Preprocessor | None = None
        self.engine: Engine | None = None
        self.report: CalibrationReport | None = None
        self.incidents = IncidentTracker(
            self.network.names, self.network.graph, settings.incidents.resolved(settings.windows)
        )
        self.evidence = WindowEvidence(self)
        self.case_capture = CaseCapture(self.network.n_nodes, lambda id: self.incidents.open.get(id))
        self.cases: list[Case] | None = None  # a list: case files are put there, to be taken away
        self.signals = SignalCapture(self.network.names, dim, settings.align.step)
        self.blocks: list[Block] | None = None  # a list: signals are put there, to be taken away
        self.learnt_until: float | None = None  # time of the last sample learnt from
        self.cold_start = ColdStart(dim, settings.windows.reference + settings.windows.tests[-1])
        windows = settings.windows
        self.relearning = Relearning(self.network.n_nodes, dim, windows.reference, windows.tests)
        self.progress: Progress | None = None
        self.ticks = 0
        self.silent, self.stuck, self.out_of_range = np.zeros((3, self.network.n_nodes), np.bool_)
        self.cover = Coverage(self.network.n_nodes)
        self.threshold_in_use = EventThreshold(self.incidents, settings)
        self.neighbours: Neighbours | None = None  # other boxes that watch this network, once it has learnt
        self.told: deque[Told] | None = None  # what they are to be told is put there, to be taken away

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
            if self.blocks is not None:
                self.blocks += self.signals.step(tick, self.statistic, self.event_statistic)
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
            summary = f"learning what is normal from {wanted} samples per node; no alarms until then"
            events.append(detector_event("detector.learning", tick.end, summary, {"samples": wanted}))
        if self.history.share(self.settings.alarm.learn) >= 1.0:
            events += self._finish_learning(tick.end)
        return events

    def learn(
        self, X: NDArray[Any], times: NDArray[Any] | None = None, progress: Progress | None = None
    ) -> CalibrationReport:
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
        if self.progress is not None:
            self.progress("preprocessing", 0.0)
        self.preprocess = Preprocessor(self.settings.preprocess, self.settings.windows.tests[-1])
        self.preprocess.link(self.network.graph)
        X, Z, levels = self.preprocess.learn_views(X, times)
        self.preprocess.learn_variation(Z, self.relearning.need)
        warnings = list(self.preprocess.warnings)
        if self.learns_graph:
            self.adopt(Network.learn(Z, self.names))
            warnings.append(self.network.warning)
        step = float(np.median(np.diff(np.unique(times))))
        learnt: tuple[Engine, CalibrationReport]
        if self.network.surroundings is None:
            kind = engine_class(self.settings.estimator.name)
            learnt = kind.calibrate(Z, self.network.graph, self.settings, step, self.progress, levels)
        else:
            learnt = edge_learning.learn(Z, self.network, self.settings, step, self.progress, levels)
        self.engine, self.report = learnt
        self.meet_neighbours()
        self.engine = started(self.engine, self.network.graph, self.settings)
        self.report.notes[:0] = [text for text in warnings if text]
        self.report.preprocessing = self.preprocess.chosen
        self.history = None
        self.learnt_until = float(times[-1])
        self.aligner.health.learning = False
        self._fill(X, times)
        found = self.report
        events = [detector_event("detector.calibrated", time, found.summary, found.record())]
        return events + [
            detector_event("detector.warning", time, text, {}, severity="warning") for text in found.warnings
        ]

    def meet_neighbours(self) -> None:
        """What was learnt is known: from now on other boxes can be heard, and be told."""
        around, engine = self.network.surroundings, self.engine
        if around is None or around.box is None or engine is None or engine.shared is None:
            return
        told, spec = engine.shared.boundary, edge_learning.spec_of(engine.shared, self.settings)
        self.neighbours = Neighbours(around, told.width, told.parameters, spec)

    def hear(self, body: bytes) -> str:
        """What another box told, in its turn among the samples; who. `edge.messages.Refused` says why not."""
        if self.neighbours is None:
            raise Refused("learning", "this box is still learning")
        return self.neighbours.hear(body)

    def adopt(self, network: Network) -> None:
        """The links that were learnt."""
        self.network = network
        self.incidents = IncidentTracker(
            network.names, network.graph, self.settings.incidents.resolved(self.settings.windows)
        )
        self.threshold_in_use = EventThreshold(self.incidents, self.settings)
        if self.preprocess is not None:
            self.preprocess.link(network.graph)

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
                self._slide(Columns(nodes, np.full(len(nodes), now), row[nodes]), cleaned=True)
        self.engine.finish()

    def _slide(self, layer: Columns, cleaned: bool = False) -> None:
        assert self.engine is not None
        assert self.preprocess is not None
        self.relearning.take(layer)
        values, levels = self.preprocess.views(layer, cleaned)
        for made in levels:
            self.engine.levels(made.nodes, made.values)
        for made in values:
            self.engine.slide(made.nodes, made.values, made.times)

    def _watch(self, tick: Tick) -> list[Event]:
        engine = self.engine
        assert engine is not None
        assert self.preprocess is not None
        assert self.report is not None
        if not self.preprocess.learnt.all():
            self.cold_start.take(tick, self.preprocess)
        if len(tick.restart):
            self.preprocess.restart(tick.restart)
            self.relearning.restart(tick.restart)
            engine.restart(tick.restart)
        for layer in tick.layers:
            self._slide(layer)
        engine.silence(self.silent)
        told = self._finish(tick)
        decision = self._decide(tick)
        events = self.incidents.step(decision, self.evidence)
        if self.neighbours is not None:
            events = told + self.neighbours.join(self.incidents, events, self.report.step)
        opened = sum(event.event == "incident.opened" for event in events)
        self.threshold_in_use.follow(decision, self.report, opened)
        self.case_capture.step(self, events, tick.end)
        self._act()
        events += self._give_up(tick)
        events += self.cover.look(engine, tick, self.ticks)
        return events + self._keep_in_range(tick)

    def _finish(self, tick: Tick) -> list[Event]:
        """The engine's tick ends: between what neighbours told, and what they are told."""
        engine, neighbours = self.engine, self.neighbours
        assert engine is not None
        if neighbours is None or engine.shared is None:
            engine.finish()
            return []
        boundary = engine.shared.boundary
        events = neighbours.begin(tick, boundary)
        engine.finish()
        if self.told is not None:
            self.told += neighbours.tell(tick, boundary, self.incidents)
        return events

    def _decide(self, tick: Tick) -> Decision:
        assert self.engine is not None
        assert self.report is not None
        return decide(
            tick,
            self.engine,
            self.report,
            self.incidents,
            self.settings,
            self.silent,
            self.stuck,
            self.event_threshold,
        )

    def _act(self) -> None:
        assert self.engine is not None
        actions = self.incidents.actions
        if actions.hold:
            self.engine.hold(actions.hold)
        for v, time in actions.forget.items():
            self.engine.forget(v, int(np.count_nonzero(self.engine.times(v) >= time)))
        if actions.release:  # who is back has forgotten the change by then
            self.engine.release(actions.release)
        assert self.preprocess is not None
        for v, onset in actions.rebaseline.items():
            self.relearning.begin(v, onset, self.preprocess, self.engine.reference(v))
            self.engine.rebaseline(v, int(np.count_nonzero(self.engine.times(v) >= onset)))
        for v, time in actions.restore.items():
            self.relearning.restore_earlier(v, time, self.engine, self.preprocess)
            self.engine.release([v])
        for v in self.relearning.ripe():
            self.relearning.learn(v, self.engine, self.preprocess)
            self.cover.forgive(v)

    def _give_up(self, tick: Tick) -> list[Event]:
        """Nodes whose accepted change ended before it was learnt go on with their earlier normal."""
        assert self.engine is not None
        assert self.preprocess is not None
        assert self.report is not None
        latest = self.settings.incidents.clear_after
        if not self.relearning.since or self.ticks % RETURN_EVERY:
            return []
        restored = []
        for v in self.relearning.given_up(latest, self.preprocess):
            since = tick.end - latest * self.report.step
            self.relearning.restore_earlier(v, since, self.engine, self.preprocess)
            restored.append(self.names[v])
        return node_events("node.restored", restored, tick.end)

    def _keep_in_range(self, tick: Tick) -> list[Event]:
        """Nodes whose values have left what was learnt get a new baseline; if that is no help, it is told."""
        assert self.engine is not None
        assert self.preprocess is not None
        if self.ticks % EVERY == 0 and self.settings.windows.mode == "sliding":
            for v in self.relearning.strays(self.cover.outside, self.incidents.states.owner):
                self.relearning.learn(v, self.engine, self.preprocess)
                self.cover.forgive(v)
        before, self.out_of_range = self.out_of_range, self.cover.outside
        self.out_of_range[list(self.incidents.states.owner)] = False  # these are told of already
        sides: list[tuple[NodeKind, Bools]] = [
            ("node.out_of_range", self.out_of_range & ~before), ("node.in_range", before & ~self.out_of_range)
        ]  # fmt: skip
        return [
            event for kind, which in sides
            for event in node_events(kind, [self.names[v] for v in np.flatnonzero(which).tolist()], tick.end)
        ]  # fmt: skip

    # ---------------------------------------------------------------------------------- operator's commands

    def accept(self, incident: str, time: float) -> list[Event]:
        """This is the new normal: the nodes' references begin anew after the onset."""
        return self._command(self.incidents.accept(incident, time), time)

    def clear(self, incident: str, time: float) -> list[Event]:
        """It is over, or never was: references slide again, and it counts as one quiet episode."""
        events = self._command(self.incidents.clear(incident, time), time)
        self.threshold_in_use.taught()
        return events

    def label(self, incident: str, time: float, **labels: Any) -> list[Event]:
        """What the operator knows: alarm true or false, type, nodes, note.

        A false alarm counts as one quiet episode, and does not open an incident of its kind again.
        """
        before = set(self.incidents.false_alarms.known)
        events = self._command(self.incidents.label(incident, time, **labels), time)
        if self.incidents.false_alarms.known.keys() - before:
            self.threshold_in_use.taught()
        return events

    def set_back(self, to: float, time: float) -> list[Event]:
        """The clock of the samples was set back to that time, from about ``time``: all windows start anew."""
        by = time + self.settings.align.seconds("lateness") - to
        events = self._run(self.aligner.set_back(to))
        events += self._command(self.incidents.set_back(), time)
        everybody = np.arange(self.network.n_nodes, dtype=np.int32)
        for history in (self.history, self.cold_start.history):
            if history is not None:
                history.set_back(by)
        if self.neighbours is not None:
            self.neighbours.set_back()
        if self.engine is not None and self.preprocess is not None:
            self.preprocess.restart(everybody)
            self.relearning.restart(everybody)
            self.engine.restart(everybody)
            self.engine.finish()
        text = f"the clock of the samples was set back by about {by:.0f} s; windows fill anew"
        return [*events, detector_event("detector.warning", to, text, {"set_back": by}, "warning")]

    def _command(self, events: list[Event], time: float) -> list[Event]:
        if self.engine is not None:
            self.case_capture.end(self, events, time)
            self._act()
        return events

    # ---------------------------------------------------------------------------------------------- state

    @property
    def parts(self) -> dict[str, Stateful]:
        """Everything that has a state, in the order in which it is restored."""
        parts: dict[str, Stateful | None] = {
            "align": self.aligner,
            "history": self.history,
            "preprocess": self.preprocess,
            "cold_start": self.cold_start,
            "engine": self.engine,
            "neighbours": self.neighbours,
            "relearning": self.relearning,
            "coverage": self.cover,
            "incidents": self.incidents,
            "event_threshold": self.threshold_in_use,
            "cases": self.case_capture,
            "signals": self.signals,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def state(self) -> tuple[Arrays, Meta]:
        """Arrays and JSON from which `from_state` goes on bit for bit as this pipeline does."""
        from detector.pipeline import checkpoint  # it builds pipelines

        return checkpoint.take(self)

    @classmethod
    def from_state(
        cls,
        network: Network | None,
        dim: int,
        settings: Settings,
        arrays: Arrays,
        meta: Meta,
        *,
        names: Sequence[str] | None = None,
        components: Sequence[str] | None = None,
    ) -> Pipeline:
        """Continue from `state`; nodes are matched by name, so the network may have gained or lost some."""
        from detector.pipeline import checkpoint

        return checkpoint.put_back(network, dim, settings, arrays, meta, names=names, components=components)

    # ---------------------------------------------------------------------------------------------- views

    def node_view(self, name: str) -> dict[str, Any]:
        """All that a page shows of one node."""
        return node_view(self, self.network.node_index.index[name])

    @property
    def names(self) -> tuple[str, ...]:
        return self.network.names

    @property
    def phase(self) -> Literal["learning", "watching"]:
        return "learning" if self.engine is None else "watching"

    @property
    def counts(self) -> dict[str, int]:
        """Samples by what became of them; ``masked`` ones were accepted, but kept out of the windows."""
        return self.aligner.counts | (self.preprocess.counts if self.preprocess else {})

    @property
    def watermark(self) -> float | None:
        return self.aligner.watermark

    @property
    def behind(self) -> float | None:
        return self.aligner.behind

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
        return self.threshold_in_use.value(self.report) if self.report else float("nan")

    @property
    def promised_rate(self) -> float:
        """False incidents per second of stream time that are promised by now; NaN where none is."""
        if self.report is None:
            return float("nan")
        return self.report.promised_after(self.threshold_in_use.quiet.ticks) / self.report.step

    @property
    def promise(self) -> str | None:
        """`promised_rate` in words; None before anything is learnt."""
        return self.report.promise_after(self.threshold_in_use.quiet.ticks) if self.report else None

    @property
    def quiet_ratio(self) -> float:
        """How often quiet data come near the event threshold, over what was learnt; the threshold follows."""
        return self.threshold_in_use.quiet.ratio

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
        """learning, watching, out_of_range, suspected, alarmed, silent or stuck, per node."""
        return [STATES[state] for state in self.state_numbers().tolist()]

    @property
    def state_counts(self) -> dict[str, int]:
        """How many nodes are in each state that any is in."""
        return {STATES[k]: n for k, n in enumerate(np.bincount(self.state_numbers()).tolist()) if n}

    def state_numbers(self) -> NDArray[np.intp]:
        """Index into `STATES`, per node."""
        states = np.isfinite(self.statistic).astype(np.intp)
        states[self.out_of_range & (states == 1)] = STATES.index("out_of_range")
        for v, owner in self.incidents.states.owner.items():
            incident = self.incidents.open[owner]
            if not incident.told:
                continue
            member = incident.members[self.names[v]]
            states[v] = STATES.index("suspected" if member.suspected else "alarmed")
        states[self.stuck] = STATES.index("stuck")
        states[self.silent] = STATES.index("silent")
        return states

    @property
    def coverage(self) -> float:
        """How well the dictionary covers what comes in; 1 until it was looked at."""
        return self.cover.value
