"""The life cycle under random decisions and commands: what must hold at every step."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from detector.events.model import Event
from detector.incidents.decision import Decision
from detector.incidents.tracker import IncidentTracker
from detector.settings.incidents import IncidentSettings
from detector.settings.span import seconds
from estimators.core.graph import Graph
from estimators.streaming.membership import Membership

NAMES = [f"n{v}" for v in range(9)]
LINKS = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 4), (0, 7)]  # n8 stands alone
# What a node may show in a tick: (hot, member, warm, statistic, event statistic).
SHOWS = {
    "cool": (False, False, False, 0.0, 0.0),
    "warm": (False, False, True, 3.0, 1.0),
    "member": (False, True, True, 5.0, 2.0),
    "pooled": (True, False, False, 1.0, 6.0),
    "hot": (True, True, True, 9.0, 16.0),
    "unknown": (True, True, True, np.nan, np.nan),  # flags without a statistic must count for nothing
}
CONFIGS = [
    IncidentSettings(clear_after=2, cool_down=0.0, update_every=0.0, hold_for=None),
    IncidentSettings(clear_after=3, cool_down=4.0, update_every=3.0, hold_for=9.0, keep=2),
    IncidentSettings(clear_after=2, cool_down=2.0, update_every=2.0, hold_for=6.0, after_hold="release",
                     min_nodes=2, confirm=2, join_after=2),
    IncidentSettings(clear_after=2, cool_down="2 ticks", update_every="3 ticks", hold_for="7 ticks"),
]  # fmt: skip


class Windows:
    """Small evidence that depends on time and node alone."""

    components = ("x",)

    def __init__(self, time: float) -> None:
        self.time = time

    def reference(self, v: int) -> np.ndarray:
        return np.random.default_rng(v).standard_normal((12, 1)).astype(np.float32)

    def units(self, v: int) -> tuple[str, ...]:
        return ()

    def log_ratios(self, nodes: np.ndarray, since: float) -> dict[int, np.ndarray]:
        return {}

    def membership(self, nodes: np.ndarray, since: float, seeds: np.ndarray) -> None:
        """Thresholds alone tell."""

    def earlier(self, v: int, latest: int) -> bool:
        return False

    def between(self, nodes: np.ndarray, first: float, second: float) -> None:
        """Onsets alone tell."""

    def returned(self, nodes: np.ndarray, since: np.ndarray, latest: int) -> np.ndarray:
        return np.zeros(len(nodes), bool)

    def sample_times(self, v: int) -> np.ndarray:
        return self.time - np.arange(12.0)[::-1]

    def recent(self, v: int) -> np.ndarray:
        return self.reference(v) + np.linspace(0.0, 3.0, 12, dtype=np.float32)[:, None]

    def scale(self, v: int) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(1), np.ones(1)

    def log_ratio(self, v: int) -> np.ndarray:
        return self.recent(v)[:, 0] - 1.0


class Telling(Windows):
    """Evidence of the data as well: who changed, who is back, who is back to an earlier normal."""

    def _draw(self, v: int, what: int, every: float) -> float:
        return float(np.random.default_rng([what, v, int(self.time // every)]).random())

    def log_ratios(self, nodes: np.ndarray, since: float) -> dict[int, np.ndarray]:
        """They changed 10 ticks ago and were back 6 ticks ago."""
        age = self.time - self.sample_times(0)
        return {int(v): np.where((age <= 10.0) & (age > 6.0), 1.0, -1.0) for v in nodes if v % 4}

    def membership(self, nodes: np.ndarray, since: float, seeds: np.ndarray) -> Membership:
        probability = np.array([self._draw(int(v), 1, 8.0) for v in nodes])
        probability = np.where(nodes == 7, np.nan, probability)
        return Membership(probability, 1.0 - probability)

    def earlier(self, v: int, latest: int) -> bool:
        return self._draw(v, 2, 5.0) < 0.6

    def returned(self, nodes: np.ndarray, since: np.ndarray, latest: int) -> np.ndarray:
        return np.array([self._draw(int(v), 3, 5.0) < 0.3 for v in nodes], bool)


class LifeCycle(RuleBasedStateMachine):
    @initialize(config=st.sampled_from(CONFIGS), windows=st.sampled_from([Windows, Telling]))
    def begin(self, config: IncidentSettings, windows: type[Windows]) -> None:
        self.windows = windows
        weights = np.zeros((len(NAMES), len(NAMES)))
        for u, v in LINKS:
            weights[u, v] = weights[v, u] = 1.0
        self.graph, self.config = Graph.of(weights), config
        self.incidents = IncidentTracker(NAMES, self.graph, config)
        self.twin: IncidentTracker | None = None
        self.time = 0.0
        self.history: list[Decision] = []
        self.events: list[Event] = []
        self.held: set[int] = set()

    def both(self, call: Any) -> list[Event]:
        """Run a call on the machine and on its restored twin; everything must agree."""
        events: list[Event] = call(self.incidents)
        if self.twin is not None:
            assert [event.record() for event in call(self.twin)] == [event.record() for event in events]
            assert self.twin.actions == self.incidents.actions
            assert self.twin.state() == self.incidents.state()
        self.events += events
        self.carry_out()
        return events

    def carry_out(self) -> None:
        """Do what a pipeline does, and refuse what it could not do."""
        actions = self.incidents.actions
        assert not self.held & set(actions.hold)
        assert len(set(actions.hold)) == len(actions.hold)
        self.held |= set(actions.hold)
        ended = [*actions.release, *actions.rebaseline, *actions.restore]
        assert len(set(ended)) == len(ended)
        assert set(ended) <= self.held
        assert actions.forget.keys() <= set(actions.release)
        self.held -= set(ended)

    @rule(shows=st.lists(st.sampled_from(sorted(SHOWS)), min_size=9, max_size=9),
          silent=st.sets(st.integers(0, 8), max_size=3), stuck=st.sets(st.integers(0, 8), max_size=1),
          repeat=st.integers(1, 4))  # fmt: skip
    def ticks(self, shows: list[str], silent: set[int], stuck: set[int], repeat: int) -> None:
        for _ in range(repeat):
            self.time += 1.0
            hot, member, warm, own, pooled = (
                np.array(row) for row in zip(*map(SHOWS.get, shows), strict=True)
            )
            quiet = np.isin(np.arange(9), list(silent))
            decision = Decision(
                time=self.time, tick=int(self.time), hot=hot, member=member, warm=warm,
                statistic=np.where(quiet, np.nan, own), event_statistic=pooled.astype(float), threshold=4.0,
                event_threshold=5.0, silent=quiet, stuck=np.isin(np.arange(9), list(stuck)), ready=~quiet,
            )  # fmt: skip
            self.history.append(decision)
            before = {id: set(one.members) for id, one in self.incidents.open.items()}
            untold = {id for id, one in self.incidents.open.items() if not one.told}
            events = self.both(lambda machine, v=decision: machine.step(v, self.windows(v.time)))
            for event in events:
                self.check_reason(event, before)
            restored = [event for event in events if event.resolution == "restored"]
            self.check_restored(restored, bool(untold - self.incidents.open.keys()))

    def check_reason(self, event: Event, before: dict[str, set[str]]) -> None:
        if event.resolution == "merged":
            assert event.merged_into in self.incidents.records
            assert event.merged_into != event.incident
        if event.resolution == "cleared" and self.windows is Windows:
            self.check_cool(event)
        if (
            event.event == "incident.opened" and event.incident not in before
        ):  # else it was a known false alarm
            latest = self.history[-1]
            assert (latest.hot & ~np.isnan(latest.event_statistic)).any()
            assert len(event.nodes) >= self.config.min_nodes
            assert not {node.name for node in event.nodes} & set().union(*before.values(), set())

    def check_restored(self, events: list[Event], others: bool) -> None:
        """The nodes that go back to their earlier normal are those that changed in such an incident.

        ``others``: one of which nobody is told, a known false alarm, has ended as well.
        """
        restore, evidence = self.incidents.actions.restore, self.windows(self.time)
        changed = [{NAMES.index(n.name) for n in one.nodes if n.state != "suspected"} for one in events]
        assert all(restore.keys() & nodes for nodes in changed)
        assert others or restore.keys() <= set().union(*changed)
        assert all(evidence.earlier(v, 0) for v in restore)

    def check_cool(self, event: Event) -> None:
        """A naive reading of the history: the latest known decisions of all that speak were cool."""
        latest, speaking = self.history[-1], 0
        for node in event.nodes:
            v = NAMES.index(node.name)
            if latest.silent[v]:
                continue
            known = [decision for decision in self.history if not np.isnan(decision.statistic[v])]
            last = known[-self.config.clear_after :]
            assert len(last) == self.config.clear_after
            assert not any(decision.warm[v] or decision.member[v] for decision in last)
            speaking += 1
        assert speaking

    @property
    def told(self) -> list[str]:
        """The open incidents of which people know."""
        return sorted(id for id, incident in self.incidents.open.items() if incident.told)

    @precondition(lambda self: self.told)
    @rule(data=st.data(), how=st.sampled_from(["accept", "clear"]))
    def command(self, data: st.DataObject, how: str) -> None:
        id = data.draw(st.sampled_from(self.told))
        (event,) = self.both(lambda machine: getattr(machine, how)(id, self.time))
        assert (event.resolution, event.by) == ({"accept": "accepted", "clear": "cleared"}[how], "operator")

    @precondition(lambda self: self.incidents.records)
    @rule(data=st.data())
    def label(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.incidents.records)))
        self.both(lambda machine: machine.label(id, self.time, alarm="false", note="seen"))

    @rule()
    def restart(self) -> None:
        """From now on a restored twin goes along."""
        self.twin = IncidentTracker(NAMES, self.graph, self.config)
        arrays, meta = self.incidents.state()
        self.twin.restore(arrays, json.loads(json.dumps(meta, allow_nan=False)), np.arange(len(NAMES)))

    @invariant()
    def nodes_belong_to_one_incident_and_are_held(self) -> None:
        members = [name for incident in self.incidents.open.values() for name in incident.members]
        assert len(set(members)) == len(members)
        assert {NAMES.index(name) for name in members} == self.incidents.held == self.held
        assert all(incident.members for incident in self.incidents.open.values())

    @invariant()
    def who_returned_is_released(self) -> None:
        for incident in self.incidents.open.values():
            assert not incident.returned.keys() & incident.members.keys()

    @invariant()
    def no_incident_is_endless(self) -> None:
        """Once its time is over, an incident that fires ends at the next decision."""
        if self.config.hold_for is None or not self.history:
            return
        hold_for = seconds(self.config.hold_for, step=1.0)
        latest = self.history[-1]
        for incident in self.incidents.open.values():
            nodes = [NAMES.index(name) for name in incident.members]
            known = ~np.isnan(latest.statistic[nodes])
            firing = (latest.member[nodes] | latest.warm[nodes]) & known
            assert latest.time - incident.opened < hold_for or not firing.any()

    @invariant()
    def events_are_complete(self) -> None:
        events_of = defaultdict(list)
        for event in self.events:
            if event.event.startswith("incident."):
                events_of[event.incident].append(event)
        for id, told in events_of.items():
            kinds = [event.event for event in told]
            assert [event.sequence for event in told] == list(range(1, len(told) + 1))
            assert kinds[0] == "incident.opened"
            assert kinds.count("incident.opened") == 1
            assert kinds.count("incident.resolved") == (id not in self.incidents.open)
            if "incident.resolved" in kinds:
                assert set(kinds[kinds.index("incident.resolved") + 1 :]) <= {"incident.labelled"}
            levels = [["info", "warning", "critical"].index(event.severity) for event in told]
            assert levels == sorted(levels)
        ids = [event.id for event in self.events]
        assert len(set(ids)) == len(ids)

    @invariant()
    def memory_is_bounded(self) -> None:
        ended = [id for id in self.incidents.records if id not in self.incidents.open]
        assert len(ended) <= self.config.keep
        assert set(self.told) <= set(self.incidents.records)
        assert not {one.id for one in self.incidents.open.values() if not one.told} & set(
            self.incidents.records
        )

    def teardown(self) -> None:
        """The same decisions give the same incidents, if nobody interfered."""
        if not hasattr(self, "events") or any(event.by == "operator" for event in self.events):
            return
        again = IncidentTracker(NAMES, self.graph, self.config)
        events = [
            event for decision in self.history for event in again.step(decision, self.windows(decision.time))
        ]
        assert [event.record() for event in events] == [event.record() for event in self.events]


# No shrinking: a run of 25 steps takes minutes to shrink, and the failing assertion says enough.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
LifeCycle.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None, phases=PHASES)
TestLifeCycle = LifeCycle.TestCase
