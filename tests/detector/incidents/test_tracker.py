"""The life cycle of incidents, by example. Its invariants under random input: test_incidents_stateful.py."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
import pytest

from detector.events.model import Event
from detector.events.wording import split_nodes
from detector.incidents.decision import Decision
from detector.incidents.incident import Incident, Member
from detector.incidents.tracker import IncidentError, IncidentTracker
from detector.settings.incidents import IncidentSettings
from estimators.core.graph import Graph
from estimators.streaming.membership import Membership

NAMES = ["a", "b", "c", "d", "e", "f", "g", "h"]  # a path: a-b-c-d-e-f-g-h


class Windows:
    """Evidence of a mean shift by 2 sd in the last 20 of 60 samples, one sample per unit of time."""

    components = ("flow", "level")

    def __init__(self, now: float = 100.0, onset: float | None = None) -> None:
        self.now = now
        self.begin = now - 20.0 if onset is None else onset

    def reference(self, v: int) -> np.ndarray:
        return np.random.default_rng(v).standard_normal((100, 2)).astype(np.float32)

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
        return np.arange(self.now - 59.0, self.now + 1.0)

    def recent(self, v: int) -> np.ndarray:
        noise = np.random.default_rng(1000 + v).standard_normal((512, 2))
        values = noise[self.sample_times(v).astype(int) % len(noise)]  # a sample keeps its value for ever
        values[self.sample_times(v) >= self.begin, 0] += 2.0
        return values.astype(np.float32)

    def scale(self, v: int) -> tuple[np.ndarray, np.ndarray]:
        return np.array([10.0, 0.0]), np.array([0.5, 1.0])

    def log_ratio(self, v: int) -> np.ndarray:
        return 2.0 * self.recent(v)[:, 0] - 2.0


def path_graph(n: int = len(NAMES)) -> Graph:
    return Graph.of(np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1))


def decision(time: float, hot: str = "", member: str = "", warm: str = "", unknown: str = "",
             silent: str = "", stuck: str = "", strength: float = 1.1,
             names: list[str] = NAMES) -> Decision:  # fmt: skip
    """Nodes by name, "bc" for b and c: members are warm; silent and unknown nodes have no statistic."""

    def mask(nodes: Iterable[str]) -> np.ndarray:
        return np.isin(names, list(nodes))

    statistic = np.where(mask(member), 4.0 * strength, np.where(mask(warm), 3.0, 0.5))
    statistic[mask(unknown + silent)] = np.nan
    pooled = np.where(mask(hot), 5.0 * strength, 0.5)
    pooled[mask(unknown)] = np.nan
    return Decision(time=time, tick=int(time), hot=mask(hot), member=mask(member), warm=mask(member + warm),
                   statistic=statistic, event_statistic=pooled, threshold=4.0, event_threshold=5.0,
                   silent=mask(silent), stuck=mask(stuck), ready=~mask(unknown + silent))  # fmt: skip


def machine(**settings: object) -> IncidentTracker:
    defaults: dict[str, object] = {"clear_after": 3, "cool_down": 0.0, "update_every": 0.0, "hold_for": None}
    return IncidentTracker(NAMES, path_graph(), IncidentSettings(**(defaults | settings)))  # type: ignore[arg-type]


def run(incidents: IncidentTracker, *decisions: Decision) -> list[Event]:
    """Step through; the windows show one change, 20 before the first open incident was opened."""
    events = []
    for one in decisions:
        opened = min((incident.opened for incident in incidents.open.values()), default=one.time)
        events += incidents.step(one, Windows(one.time, onset=opened - 20.0))
    return events


def kinds(events: list[Event]) -> list[str]:
    return [event.event for event in events]


def quiet(begin: int, end: int) -> list[Decision]:
    return [decision(t) for t in range(begin, end)]


def nodes(event: Event) -> dict[str, str]:
    return {node.name: node.state for node in event.nodes}


def test_one_connected_set_is_one_incident_that_clears() -> None:
    incidents = machine()
    events = run(incidents, *quiet(100, 102), decision(102, hot="bcd", member="bc"), *quiet(103, 110))
    assert kinds(events) == ["incident.opened", "incident.resolved"]
    opened, resolved = events
    assert nodes(opened) == {"b": "alarmed", "c": "alarmed"}
    assert resolved.resolution == "cleared"
    assert resolved.by == "detector"
    assert resolved.time == 105.0
    assert nodes(resolved) == {"b": "recovered", "c": "recovered"}
    assert [event.id for event in events] == [f"{opened.incident}-1", f"{opened.incident}-2"]


def test_onset_and_description_stand_in_the_record() -> None:
    (opened,) = run(machine(), decision(1000, hot="b", member="bc"))
    assert opened.onset == pytest.approx(980.0, abs=2.0)
    assert opened.onset_earliest is not None
    assert opened.onset_latest is not None
    assert opened.onset_earliest <= opened.onset <= opened.onset_latest
    assert opened.description[0].kind == "mean"
    assert opened.description[0].components == ["flow"]
    assert opened.description[0].effect == pytest.approx(2.0, abs=0.6)
    assert opened.summary.startswith("b and c changed at 98")
    assert "mean of flow up" in opened.summary


def test_the_summary_counts_the_nodes_that_the_record_says_changed() -> None:
    """Suspected ones do not count; those that changed do, also once they have recovered."""
    incidents = machine(update_every=0.0)
    opened, *_ = run(incidents, *(decision(t, hot="abcde", member="bcd") for t in (1, 2)))
    assert opened.summary.startswith("3 nodes around")
    (resolved,) = run(incidents, *quiet(3, 9))
    for event in (opened, resolved):
        changed, possibly = split_nodes(event.record()["nodes"])
        assert f"{len(changed)} nodes around" in event.summary
        assert not set(changed) & set(possibly)
    assert nodes(resolved) == dict.fromkeys("bcd", "recovered")


@pytest.mark.parametrize(("oldest", "reason"), [(59.0, "speaks for a change"), (-1.0, "from before it was")])
def test_a_change_that_cannot_be_dated_is_noticed_and_says_why(oldest: float, reason: str) -> None:
    class Flat(Windows):
        """Nothing in it speaks for a change; with samples that began ``oldest`` ago."""

        def sample_times(self, v: int) -> np.ndarray:
            return np.linspace(self.now - oldest, self.now + 2.0, 60)

        def log_ratio(self, v: int) -> np.ndarray:
            return np.full(60, -1.0)

    (opened,) = machine().step(decision(1000, hot="b", member="bc"), Flat(1000.0))
    assert opened.onset is None
    assert opened.summary.startswith("b and c changed, noticed at 1000: ")
    assert reason in opened.details["onset"]
    (unsure,) = machine().step(decision(1000, hot="b"), Flat(1000.0))
    assert unsure.summary.startswith("something changed around b, noticed at 1000, no single node")


def test_what_was_called_changed_stays_so_when_all_are_back() -> None:
    """Windows that hold the end of a change say less of its nodes than they did before."""
    members = {
        "a": Member(since=0.0, suspected=True),
        "b": Member(since=0.0, suspected=False),
        "c": Member(since=0.0, suspected=True),
    }
    incident = Incident(id="1", opened=0.0, members=members, named=["a", "b"])
    assert [incident.counts(name) for name in "abc"] == [False, True, False]
    assert [incident.counts(name, over=True) for name in "abc"] == [True, True, False]
    incident.returned["a"] = members.pop("a")
    assert incident.counts("a", over=True)


def test_members_without_a_hot_node_open_nothing() -> None:
    assert run(machine(), decision(1, member="abc", warm="d")) == []


def test_pooled_evidence_opens_with_suspects_who_become_certain_or_leave() -> None:
    incidents = machine(update_every=1000.0)
    events = run(
        incidents, decision(1, hot="bcd"), decision(2, hot="bcd"), decision(3, hot="bcd", member="c")
    )
    assert kinds(events) == ["incident.opened", "incident.updated"], (
        "who it is does not wait for update_every"
    )
    assert nodes(events[0]) == dict.fromkeys("bcd", "suspected")
    assert "no single node is certain" in events[0].summary
    assert nodes(events[1]) == {"b": "suspected", "c": "alarmed", "d": "suspected"}
    run(incidents, decision(4, hot="bcd", member="c"))
    assert incidents.actions.release == [1, 3]
    assert incidents.held == {2}


def test_two_separate_groups_are_two_incidents_with_different_ids() -> None:
    events = run(machine(), decision(1, hot="ag", member="abfg"))
    assert kinds(events) == ["incident.opened"] * 2
    assert [set(nodes(event)) for event in events] == [{"a", "b"}, {"f", "g"}]
    assert events[0].incident != events[1].incident


def test_growth_joins_and_is_held() -> None:
    incidents = machine()
    run(incidents, decision(1, hot="b", member="b"))
    assert incidents.actions.hold == [1]
    (updated,) = run(incidents, decision(2, hot="bc", member="bcd"))
    assert updated.event == "incident.updated"
    assert set(nodes(updated)) == {"b", "c", "d"}
    assert incidents.actions.hold == [2, 3]
    assert {node.name: node.since for node in updated.nodes} == {"b": 1.0, "c": 2.0, "d": 2.0}


def test_a_member_elsewhere_does_not_join() -> None:
    incidents = machine()
    run(incidents, decision(1, hot="b", member="b"))
    assert run(incidents, decision(2, hot="b", member="bg")) == []
    assert incidents.held == {1}


def test_join_after_keeps_passers_by_out() -> None:
    incidents = machine(join_after=2)
    run(
        incidents,
        decision(1, hot="b", member="b"),
        decision(2, hot="b", member="bc"),
        decision(3, hot="b", member="b"),
    )
    assert incidents.held == {1}
    run(incidents, decision(4, hot="b", member="bc"), decision(5, hot="b", member="bc"))
    assert incidents.held == {1, 2}


def test_linked_incidents_merge_into_the_older() -> None:
    incidents = machine(update_every=1000.0)
    opened = run(incidents, decision(1, hot="e", member="e"), decision(2, hot="be", member="be"))
    older, younger = (event.incident for event in opened)
    assert run(incidents, decision(3, hot="bcde", member="be")) == [], "two links apart"
    merged, updated = run(incidents, decision(4, hot="bcde", member="bcde"))
    assert (merged.incident, merged.resolution, merged.merged_into) == (younger, "merged", older)
    assert (updated.incident, updated.event) == (older, "incident.updated")
    assert set(nodes(updated)) == set("bcde")
    assert incidents.held == {1, 2, 3, 4}
    assert incidents.actions.release == []
    # What linked them is gone: still one incident.
    assert run(incidents, decision(5, hot="be", member="be")) == []


def test_a_late_change_next_to_an_old_incident_stays_its_own() -> None:
    incidents = machine(update_every=1000.0)
    events = []
    for t in (100, 101):
        events += incidents.step(decision(t, hot="b", member="b"), Windows(float(t), onset=80.0))
    for t in range(200, 230):  # windows do not reach back to before this change: it may have begun any time
        events += incidents.step(decision(t, hot="bc", member="bc"), Windows(float(t), onset=130.0))
    older, younger = events
    assert kinds(events) == ["incident.opened"] * 2
    assert younger.onset_earliest is None
    assert younger.details["beside"] == [older.incident]


class Named(Windows):
    """Evidence that b and c changed beyond doubt, d possibly, and nobody else."""

    def membership(self, nodes: np.ndarray, since: float, seeds: np.ndarray) -> Membership:
        probability = np.choose(np.clip(nodes, 0, 4), [0.0, 0.999, 0.999, 0.4, 0.0])
        return Membership(probability, 1.0 - probability)


def test_accept_is_for_all_that_changed_whether_their_own_statistic_shows_it_or_not() -> None:
    incidents = machine()
    opened, *_ = [
        event
        for t in range(100, 130)
        for event in incidents.step(decision(t, hot="b", member="b"), Named(float(t), onset=90.0))
    ]
    assert nodes(opened) == {"b": "alarmed", "c": "alarmed", "d": "suspected"}
    incidents.accept(str(opened.incident), 130.0)
    assert sorted(incidents.actions.rebaseline) == [1, 2, 3]
    assert incidents.actions.release == []


def test_flapping_near_the_threshold_is_one_incident() -> None:
    incidents = machine()
    flapping = [
        decision(t, hot="b" * (t % 2), member="b" * (t % 2), warm="b" * (t % 3 == 0)) for t in range(1, 60)
    ]
    events = run(incidents, *flapping)
    assert kinds(events) == ["incident.opened"]
    assert kinds(run(incidents, *quiet(60, 70))) == ["incident.resolved"]


def test_warm_keeps_it_open_and_so_does_pooled_evidence() -> None:
    incidents = machine()
    events = run(incidents, decision(1, hot="b", member="b"), *(decision(t, warm="b") for t in range(2, 20)))
    assert kinds(events) == ["incident.opened"]
    assert run(incidents, *(decision(t, hot="b") for t in range(20, 40))) == []


def test_no_decision_is_not_quiet() -> None:
    incidents = machine()
    run(incidents, decision(1, hot="b", member="bc"))
    assert run(incidents, *(decision(t, unknown="b") for t in range(2, 50))) == []
    assert kinds(run(incidents, *quiet(50, 60))) == ["incident.resolved"]


def test_no_decision_opens_nothing() -> None:
    assert run(machine(), decision(1, hot="b", member="b", unknown="b")) == []


def test_a_silent_member_stays_and_all_silent_is_not_cleared() -> None:
    incidents = machine()
    opened, silent = run(
        incidents, decision(1, hot="b", member="bc"), decision(2, hot="b", member="b", silent="c")
    )
    assert (silent.event, silent.incident, nodes(silent)) == ("node.silent", opened.incident, {"c": "silent"})
    (both,) = run(incidents, *(decision(t, silent="bc") for t in range(3, 60)))
    assert both.event == "node.silent"
    returned, resolved = run(incidents, *(decision(t, silent="c") for t in range(60, 70)))
    assert returned.event == "node.returned"
    assert resolved.resolution == "cleared"
    assert nodes(resolved) == {"b": "recovered", "c": "silent"}


def test_stuck_and_unstuck() -> None:
    events = run(machine(), decision(1, stuck="a"), decision(2, stuck="a"), decision(3))
    assert kinds(events) == ["node.stuck", "node.unstuck"]
    assert len({event.id for event in events}) == 2


def test_cool_down_and_a_new_event_next_door() -> None:
    incidents = machine(cool_down=20.0)
    run(incidents, decision(1, hot="b", member="b"), *quiet(2, 6))
    assert incidents.open == {}
    assert run(incidents, decision(10, hot="abc", member="b")) == [], "the same node, and its pooled halo"
    (opened,) = run(incidents, decision(11, hot="bc", member="bcd"))
    assert set(nodes(opened)) == {"b", "c", "d"}, "a node with evidence of its own may open"
    incidents = machine(cool_down=20.0)
    run(incidents, decision(1, hot="b", member="b"), *quiet(2, 6))
    assert kinds(run(incidents, decision(25, hot="b", member="b"))) == ["incident.opened"]


def test_minimum_size_and_confirmation() -> None:
    incidents = machine(min_nodes=2)
    assert run(incidents, decision(1, hot="abc", member="b")) == []
    assert kinds(run(incidents, decision(2, hot="abc", member="bc"))) == ["incident.opened"]
    incidents = machine(confirm=3)
    assert run(incidents, decision(1, hot="b"), decision(2, hot="b"), decision(3), decision(4, hot="b")) == []
    assert kinds(run(incidents, decision(5, hot="b"), decision(6, hot="b"))) == ["incident.opened"]


def test_policy_after_hold() -> None:
    firing = [decision(t, hot="b", member="bc") for t in range(1, 12)]
    incidents = machine(hold_for=10.0)
    events = run(incidents, *firing)
    assert (events[-1].resolution, events[-1].by) == ("accepted", "policy")
    assert set(incidents.actions.rebaseline) == {1, 2}
    assert incidents.actions.rebaseline[1] == events[-1].nodes[0].onset
    incidents = machine(hold_for=10.0, after_hold="release")
    events = run(incidents, *firing)
    assert (events[-1].resolution, incidents.actions.release) == ("timed_out", [1, 2])
    incidents = machine(hold_for=10.0)
    events = run(
        incidents, decision(1, hot="b", member="b"), *(decision(t, silent="b") for t in range(2, 12))
    )
    assert events[-1].resolution == "timed_out", "nobody can tell whether it still fires"


def test_commands() -> None:
    incidents = machine()
    (first,) = run(incidents, decision(1, hot="b", member="b"))
    id = str(first.incident)
    (accepted,) = incidents.accept(id, 2.0)
    assert (accepted.resolution, accepted.by) == ("accepted", "operator")
    assert list(incidents.actions.rebaseline) == [1]
    assert incidents.held == set()
    with pytest.raises(IncidentError, match=r"has ended already \(accepted\)"):
        incidents.clear(id, 3.0)
    with pytest.raises(IncidentError, match="nothing is not known; open: none"):
        incidents.clear("nothing", 3.0)
    (second,) = run(incidents, decision(5, hot="b", member="b"))
    (cleared,) = incidents.clear(str(second.incident), 6.0)
    assert (cleared.resolution, incidents.actions.release) == ("cleared", [1])


def test_labels_add_up_and_outlive_the_incident() -> None:
    incidents = machine()
    (opened,) = run(incidents, decision(1, hot="b", member="b"))
    id = str(opened.incident)
    incidents.label(id, 2.0, alarm="true", type="leak")
    (resolved,) = incidents.clear(id, 3.0)
    assert resolved.labels is not None
    assert resolved.labels.type == "leak"
    (labelled,) = incidents.label(id, 4.0, nodes=["b", "c"], note="valve 3")
    said = "alarm true, type leak, nodes b c, note valve 3"
    assert labelled.summary == f"{resolved.summary}; labelled: {said}"
    (again,) = incidents.label(id, 4.0, note="valve 4")
    assert again.summary == f"{resolved.summary}; labelled: {said.replace('3', '4')}"
    assert labelled.event == "incident.labelled"
    assert labelled.sequence == 4
    assert labelled.resolution == "cleared"
    assert labelled.labels is not None
    assert (labelled.labels.alarm, labelled.labels.nodes, labelled.labels.time) == ("true", ["b", "c"], 4.0)
    with pytest.raises(IncidentError, match="there is no node 'zz'"):
        incidents.label(id, 5.0, nodes=["zz"])
    with pytest.raises(IncidentError, match="not known"):
        incidents.label("nothing", 5.0, note="?")


def test_severity_is_by_extent_or_size_rises_at_once_and_never_falls() -> None:
    """A shift of two deviations: two of eight nodes are a quarter of the network."""
    settings = {"update_every": 1000.0, "warning_share": 0.25, "critical_share": 0.5}
    incidents = machine(**settings)
    events = run(incidents, decision(1, hot="b", member="b"), decision(2, hot="b", member="b"),
                 decision(3, hot="b", member="bc"), decision(4, hot="b", member="bcde"))  # fmt: skip
    assert [event.severity for event in events] == ["info", "warning", "critical"]
    (resolved,) = run(incidents, *quiet(5, 9))
    assert (resolved.severity, resolved.severity_now) == ("critical", "info")
    (large,) = run(machine(warning_size=1.5), decision(100, hot="b", member="b"), decision(101))[:1]
    assert large.severity == "info", "what is not described yet has no size"
    later = run(machine(warning_size=1.5), *(decision(t, hot="b", member="b") for t in range(100, 103)))
    assert later[-1].severity == "warning"


def test_updates_are_rate_limited_but_not_lost() -> None:
    incidents = machine(update_every=10.0)
    growth = ["b", "bc", "bcd", "bcde", "bcdef"]
    decisions = [decision(t, hot="b", member=growth[min(t, 5) - 1]) for t in range(1, 30)]
    events = run(incidents, *decisions)
    updates = [event for event in events if event.severity == events[-1].severity][1:]
    assert all(event.event == "incident.updated" for event in events[1:])
    assert len(events) <= 5
    assert set(nodes(updates[-1] if updates else events[-1])) == set("bcdef")


class Together(Windows):
    """With a common yardstick, by which a change is dated anew as long as windows reach to the opening."""

    def log_ratios(self, nodes: np.ndarray, since: float) -> dict[int, np.ndarray]:
        return {v: self.log_ratio(v) for v in nodes.tolist()}


@pytest.mark.parametrize("windows", [Windows, Together])
def test_the_onset_is_kept_when_it_leaves_the_windows(windows: type[Windows]) -> None:
    incidents = machine()
    (opened,) = incidents.step(decision(1000, hot="b", member="b"), windows(1000.0, onset=990.0))
    for t in range(1001, 1200):
        events = incidents.step(decision(t, hot="b", member="b"), windows(float(t), onset=990.0))
    assert events == []
    (resolved,) = incidents.clear(str(opened.incident), 1200.0)
    assert resolved.onset is not None
    assert resolved.onset_earliest is not None
    assert resolved.onset_latest is not None
    assert resolved.onset_earliest <= 990.0 <= resolved.onset <= resolved.onset_latest <= 998.0
    assert resolved.nodes[0].onset == resolved.onset


def test_memory_is_bounded() -> None:
    incidents = machine(keep=5, cool_down=3.0)
    for k in range(50):
        run(incidents, decision(10 * k + 1, hot="b", member="b"), *quiet(10 * k + 2, 10 * k + 10))
    assert len(incidents.records) == 5
    assert incidents.states.cooling == {}
    assert len(json.dumps(incidents.state()[1])) < 20_000


def test_same_input_same_events_and_ids_carry_the_date() -> None:
    decisions = [decision(1.8e9 + t, hot="b", member="bc") for t in range(3)]
    first, second = run(machine(), *decisions), run(machine(), *decisions)
    assert [event.record() for event in first] == [event.record() for event in second]
    assert str(first[0].incident).startswith("20270115-")
    assert first[0].time_iso == "2027-01-15T08:00:00.000Z"


def test_restore_without_some_nodes() -> None:
    """A node that left the network takes its memberships along; an incident without nodes ends."""
    incidents = machine()
    run(incidents, decision(1, hot="bh", member="bh", silent="a"))
    arrays, meta = incidents.state()
    meta = json.loads(json.dumps(meta))
    smaller = IncidentTracker(NAMES[:-1], path_graph(7), IncidentSettings(clear_after=3))
    smaller.restore(arrays, meta, np.arange(7))
    assert smaller.held == {1}
    events = smaller.step(decision(2, hot="b", member="b", silent="a", names=NAMES[:-1]), Windows())
    assert [event.resolution for event in events] == ["timed_out"]
    with pytest.raises(ValueError, match="version 2"):
        smaller.restore({}, {"version": 2}, np.arange(7))


def test_wrong_input_is_refused() -> None:
    with pytest.raises(ValueError, match="8 different names"):
        IncidentTracker(["a"] * 8, path_graph())
    incidents = machine()
    run(incidents, decision(1))
    with pytest.raises(ValueError, match="does not come after"):
        run(incidents, decision(1))
    with pytest.raises(ValueError, match=r"decision\.hot: expected 8"):
        run(incidents, decision(2, names=NAMES[:3]))
