"""After a change was accepted, the next one is seen as soon as it would have been without the first."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from detector.engines.density_ratio.engine import DensityRatioEngine
from detector.events.model import Event
from detector.pipeline.pipeline import Pipeline
from tests.detector import learnt

SHIFTED = [0, 1, 2]
ACCEPT, LATER, END = 40, 200, 320  # ticks after NOW
LATER_CHANGES = ("+2", "+3", "+8", "stuck", "spread")


def stream(shift: float, later: str, seed: int = 0) -> np.ndarray:
    X = learnt.quiet(learnt.NOW + 10_000 * seed, learnt.NOW + 10_000 * seed + END)
    X[20:, SHIFTED] += shift
    part = X[LATER:, SHIFTED]
    if later.startswith("+"):
        part += float(later)
    elif later == "spread":
        part[:] = shift + 3.0 * (part - shift)
    elif later == "stuck":
        part[:] = part[0]
    X[LATER:, SHIFTED] = part
    return X


def play(pipeline: Pipeline, X: np.ndarray, first: int = 0, accept: bool = True) -> list[tuple[int, Event]]:
    """All events with their ticks; what is open at ACCEPT is accepted."""
    events = []
    for t, row in enumerate(X, first):
        found = pipeline.push(learnt.samples(row[None], learnt.NOW + t))
        if accept and t == ACCEPT:
            for id in list(pipeline.incidents.open):
                found += pipeline.accept(id, learnt.START + learnt.NOW + t)
        events += [(t, event) for event in found]
    return events


@cache
def delay(shift: float, later: str, seed: int = 0) -> float:
    """Ticks until the later change is said, as an incident or as a stuck sensor."""
    events = play(learnt.pipeline(), stream(shift, later, seed))
    kinds = ("incident.opened", "node.stuck")
    return min((t - LATER for t, event in events if t > LATER and event.event in kinds), default=np.inf)


@pytest.mark.parametrize("later", LATER_CHANGES)
@pytest.mark.parametrize("shift", [3.0, 6.0, 10.0, 18.0, 30.0])
def test_never_blind_after_accept(shift: float, later: str) -> None:
    plain = np.median([delay(0.0, later, seed) for seed in range(3)])
    shifted = np.median([delay(shift, later, seed) for seed in range(3)])
    assert np.isfinite(plain)
    assert shifted <= 2.0 * plain + 3.0, f"{shifted} against {plain} ticks"


def test_no_false_incident_after_accept() -> None:
    for shift in (3.0, 10.0, 30.0):
        events = play(learnt.pipeline(), stream(shift, "none"))
        opened = [t for t, event in events if event.event == "incident.opened"]
        assert len(opened) == 1, opened
        assert opened[0] < ACCEPT


@pytest.mark.parametrize(("kind", "size"), [("mean", 1.5), ("spread", 2.5)])
def test_a_small_change_that_was_accepted_is_not_given_up(kind: str, size: float) -> None:
    """It is near to the earlier normal, but it is not back there."""
    told: list[str] = []
    seen = 0
    for seed in range(4):
        X = stream(0.0, "none", seed)
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
    X = stream(6.0, "none")
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
