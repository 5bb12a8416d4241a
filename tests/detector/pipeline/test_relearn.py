"""After a change was accepted, the next one is seen as soon as it would have been without the first."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Literal

import numpy as np
import pytest

from detector.engines.density_ratio.engine import DensityRatioEngine
from detector.events.model import Event
from detector.pipeline.pipeline import Pipeline
from detector.settings.core import Settings
from tests.detector import learnt

SHIFTED = [0, 1, 2]
ACCEPT, LATER, END = 40, 200, 320  # ticks after NOW
SHIFTS = (3.0, 6.0, 10.0, 18.0, 30.0)
LATER_CHANGES = ("+2", "+3", "+8", "stuck", "spread")
MODES = 2.66  # spread of the nodes once their values have two modes
HELD = {"hold_for": "20 ticks"}  # by policy, about as soon as by hand

By = Literal["operator", "policy"]
First = float | Literal["modes"]  # what is accepted: a shift, or a change of shape
State = tuple[dict[str, np.ndarray], bytes]


def stream(first: First, later: str = "none", seed: int = 0) -> np.ndarray:
    """Quiet, changed from tick 20 on, and changed again from LATER on, in units of the spread by then."""
    X = learnt.quiet(learnt.NOW + 10_000 * seed, learnt.NOW + 10_000 * seed + END)
    part = X[20:, SHIFTED]
    X[20:, SHIFTED] = 2.5 * np.sign(part) + 0.2 * part if first == "modes" else part + first
    centre, unit = (0.0, MODES) if first == "modes" else (float(first), 1.0)
    part = X[LATER:, SHIFTED]
    if later.startswith("+"):
        part += float(later) * unit
    elif later == "spread":
        part[:] = centre + 3.0 * (part - centre)
    elif later == "stuck":
        part[:] = part[0]
    X[LATER:, SHIFTED] = part
    return X


def play(pipeline: Pipeline, X: np.ndarray, first: int = 0, accept: bool = True) -> list[tuple[int, Event]]:
    """All events with their ticks; what is open at ACCEPT is accepted."""
    return list(events_of(pipeline, X, first, accept))


def events_of(
    pipeline: Pipeline, X: np.ndarray, first: int = 0, accept: bool = True
) -> Iterator[tuple[int, Event]]:
    """The same one after the other, no further than asked for."""
    for t, row in enumerate(X, first):
        found = pipeline.push(learnt.samples(row[None], learnt.NOW + t))
        if accept and t == ACCEPT:
            for id in list(pipeline.incidents.open):
                found += pipeline.accept(id, learnt.START + learnt.NOW + t)
        yield from ((t, event) for event in found)


def chosen(by: By) -> Settings:
    return learnt.settings(incidents=HELD if by == "policy" else {})


@cache
def accepted(first: First, seed: int = 0, by: By = "operator") -> tuple[State, list[tuple[int, Event]]]:
    """The state just before the later change, and what was said until then."""
    pipeline = learnt.thawed(learnt.state(), chosen=chosen(by))
    events = play(pipeline, stream(first, seed=seed)[:LATER], accept=by == "operator")
    return learnt.frozen(pipeline), events


@cache
def delay(first: First, later: str, seed: int = 0, by: By = "operator") -> float:
    """Ticks until the later change is said, as an incident or as a stuck sensor."""
    pipeline = learnt.thawed(accepted(first, seed, by)[0], chosen=chosen(by))
    events = events_of(pipeline, stream(first, later, seed)[LATER:], LATER, accept=False)
    kinds = ("incident.opened", "node.stuck")
    return next((t - LATER for t, event in events if t > LATER and event.event in kinds), np.inf)


def check_not_blind(first: First, later: str, by: By = "operator") -> None:
    plain = np.median([delay(0.0, later, seed) for seed in range(3)])
    after = np.median([delay(first, later, seed, by) for seed in range(3)])
    assert np.isfinite(plain)
    assert after <= 2.0 * plain + 3.0, f"{after} against {plain} ticks"


@pytest.mark.parametrize("later", LATER_CHANGES)
@pytest.mark.parametrize("shift", SHIFTS)
def test_never_blind_after_accept(shift: float, later: str) -> None:
    check_not_blind(shift, later)


@pytest.mark.parametrize("later", ["+3", "stuck", "spread"])
@pytest.mark.parametrize("shift", [3.0, 10.0, 30.0])
def test_never_blind_after_the_policy_has_accepted(shift: float, later: str) -> None:
    ends = [event for _, event in accepted(shift, 0, "policy")[1] if event.event == "incident.resolved"]
    assert [(event.by, event.resolution) for event in ends] == [("policy", "accepted")]
    check_not_blind(shift, later, "policy")


@pytest.mark.parametrize("later", ["+3", "stuck", "spread"])
def test_never_blind_after_a_change_of_shape_was_accepted(later: str) -> None:
    """The dictionary holds what has one mode; now values have two, and none between."""
    check_not_blind("modes", later)


@pytest.mark.parametrize("by", ["operator", "policy"])
def test_no_false_incidents_after_accept(by: By) -> None:
    """None after any shift, where the budget of one in a thousand ticks would bear one or so."""
    false = []
    for shift in SHIFTS if by == "operator" else (3.0, 10.0, 30.0):
        opened = [t for t, event in accepted(shift, 0, by)[1] if event.event == "incident.opened"]
        assert opened[0] < ACCEPT
        false += opened[1:]
    assert false == []


@pytest.mark.parametrize(("kind", "size"), [("mean", 1.5), ("spread", 2.5)])
def test_a_small_change_that_was_accepted_is_not_given_up(kind: str, size: float) -> None:
    """It is near to the earlier normal, but it is not back there."""
    told: list[str] = []
    seen = 0
    for seed in range(4):
        X = stream(0.0, seed=seed)
        part = X[20:, SHIFTED]
        X[20:, SHIFTED] = part * size if kind == "spread" else part + size
        pipeline = learnt.pipeline()
        play(pipeline, X[:60], accept=False)
        accepted = [
            pipeline.accept(id, learnt.START + learnt.NOW + 59) for id in list(pipeline.incidents.open)
        ]
        if accepted:
            seen += 1
            told += [event.event for _, event in play(pipeline, X[60:LATER], first=60, accept=False)]
    assert seen >= 2
    assert told.count("node.restored") == 0
    assert told.count("incident.opened") == 0


def test_an_accepted_change_that_ends_gives_the_earlier_normal_back() -> None:
    X = stream(6.0)
    X[LATER:, SHIFTED] -= 6.0
    pipeline = learnt.pipeline()
    assert pipeline.preprocess is not None
    before = pipeline.preprocess.to_units()[0].copy()
    events = play(pipeline, X)
    ended = [event for _, event in events if event.event == "incident.resolved"]
    assert [event.resolution for event in ended] == ["accepted", "restored"]
    assert "back to the earlier normal" in ended[1].summary
    assert {node.name for node in ended[1].nodes} == {learnt.NAMES[v] for v in SHIFTED}
    assert pipeline.preprocess.to_units()[0] == pytest.approx(before)
    assert np.isfinite(pipeline.statistic).all(), "watching at once"


def test_restart_at_any_tick_while_a_new_normal_is_learnt() -> None:
    X = stream(10.0, "+3")[: LATER + 40]
    straight = learnt.pipeline()
    play(straight, X)
    for at in (ACCEPT + 1, ACCEPT + 30, 100, LATER + 1):
        broken = learnt.pipeline()
        play(broken, X[:at])
        again = learnt.thawed(learnt.frozen(broken))
        play(again, X[at:], first=at)
        learnt.same(straight, again)


def test_plain_levels_are_filled_again_too() -> None:
    """What whitening hides is seen by levels only: they must not fall silent after a new normal."""
    whitened = Pipeline(learnt.NETWORK, 1, learnt.settings(preprocess={"whiten": 2}))
    whitened.learn(learnt.quiet(0, learnt.NOW), learnt.START + np.arange(learnt.NOW))
    play(whitened, stream(6.0, "+0"))
    assert isinstance(whitened.engine, DensityRatioEngine)
    charts = whitened.engine.joint.charts[1]
    assert (charts.ref_count[SHIFTED] > charts.ref.shape[1] // 2).all()
    assert (charts.test_count[SHIFTED] == charts.test.shape[1]).all()
