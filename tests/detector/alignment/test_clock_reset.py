"""A clock that is set back does not blind the detector until it has caught up; a source that repeats itself
sets nothing back."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from connectors.base import Batch, Sample
from detector.alignment.clock_reset import ClockPace
from detector.pipeline.pipeline import Pipeline
from detector.runtime.ingest_queue import Arrival
from detector.runtime.pipeline_thread import PipelineThread, Plan
from detector.settings.alignment import AlignSettings
from detector.storage.snapshot import Snapshot
from tests.detector import learnt
from tests.detector.learnt import LEARN, NETWORK, NOW, changed, frozen, pipeline, quiet, same, thawed

DAY = 86400


def samples(X: np.ndarray, first: int, ahead: float = 0.0) -> list[Sample]:
    """Rows of the stream by a clock that is that much ahead."""
    return [Sample(s.time + ahead, s.node, s.values) for s in learnt.samples(X, first)]


def wrong_for_a_while() -> Pipeline:
    """A pipeline whose clock went a day ahead for 100 ticks, with an incident open, and back."""
    made = pipeline()
    made.push(samples(quiet(NOW, NOW + 20), NOW))
    made.push(samples(changed(NOW + 20, NOW + 170, NOW + 150, [1, 2]), NOW + 20, DAY))
    assert made.incidents.open
    assert made.push(samples(quiet(NOW + 170, NOW + 200), NOW + 170)) == []
    return made


def test_without_help_everything_is_late_for_a_day() -> None:
    made = wrong_for_a_while()
    assert made.counts["late"] == 30 * 8
    assert made.behind == pytest.approx(learnt.START + NOW + 199)


def test_after_it_the_stream_goes_on_where_the_clock_is() -> None:
    """One warning, no incident by the step itself, what was open is let go, and the next change is seen."""
    made = wrong_for_a_while()
    (incident,) = made.incidents.open.values()
    assert made.behind is not None
    assert made.watermark is not None
    *ended, warning = made.set_back(made.behind, made.watermark)
    resolved = [event for event in ended if event.event == "incident.resolved"]
    assert [event.incident for event in resolved] == [incident.id]
    assert resolved[0].time > incident.opened
    assert warning.event == "detector.warning"
    assert warning.details["set_back"] == pytest.approx(DAY, abs=60)
    assert made.behind is None
    late = made.counts["late"]
    first = NOW + 200
    events = made.push(samples(changed(first, first + 250, first + 150, [6, 7]), first))
    (opened,) = [event for event in events if event.event == "incident.opened"]
    assert first + 150 <= opened.time - learnt.START <= first + 170
    assert made.counts["late"] == late


def test_a_restart_after_it_changes_nothing() -> None:
    one = wrong_for_a_while()
    assert one.behind is not None
    assert one.watermark is not None
    one.set_back(one.behind, one.watermark)
    two = thawed(frozen(one))
    rest = samples(changed(NOW + 200, NOW + 330, NOW + 310, [1, 2]), NOW + 200)
    assert one.push(rest) == two.push(rest)
    same(one, two)


def test_the_journal_tells_of_it() -> None:
    """A process killed after it comes to the very same state; where all is well again nothing is done."""
    plan = Plan(NETWORK, 1, learnt.settings())
    arrays, meta = learnt.state()
    snapshot = Snapshot(arrays, msgspec.json.decode(meta))
    one, two = PipelineThread(plan), PipelineThread(plan)
    one.start(snapshot, iter(()))
    early = samples(quiet(NOW, NOW + 20), NOW, DAY)
    late = samples(quiet(NOW + 20, NOW + 40), NOW + 20)
    rest = samples(quiet(NOW + 40, NOW + 60), NOW + 40)
    entries = []
    for number, part in enumerate((early, late, rest)):
        if number == 2:
            assert one.view.behind is not None
            entries += one.set_back(one.view.behind).entries
            assert one.set_back(0.0).entries == []
        entries += one.work([Arrival("in", Batch(samples=part, received=len(part)), None)]).entries
    assert [entry.kind for entry in entries] == ["samples", "samples", "command", "samples"]
    two.start(snapshot, iter(entries))
    one.ask(lambda first: two.ask(lambda second: same(first, second)))
    assert one.view.watermark == pytest.approx(learnt.START + NOW + 59 - 2)


@pytest.mark.parametrize("estimator", ["grulsif", "page-hinkley"])
def test_learning_goes_on(estimator: str) -> None:
    """What was learnt before the step counts, in its order."""
    made = Pipeline(NETWORK, 1, learnt.settings(estimator))
    half = LEARN // 2
    made.push(samples(quiet(0, half), 0, DAY))
    made.push(samples(quiet(half, half + 30), half))
    assert made.behind is not None
    assert made.watermark is not None
    made.set_back(made.behind, made.watermark)
    assert made.history is not None
    gaps = np.diff(made.history.arrays()[1])
    assert (gaps > 0.5).all()
    made.push(samples(quiet(half + 30, LEARN + 60), half + 30))
    assert made.phase == "watching"


def test_who_is_heard_decides() -> None:
    """A minority that comes late is no clock; one sample on time, and the others are merely late."""
    made = pipeline()
    made.push(samples(quiet(NOW, NOW + 20), NOW))
    old = samples(quiet(NOW + 20, NOW + 40), NOW + 20, -DAY)
    made.push([sample for sample in old if sample.node in ("n0", "n1", "n2", "n3")])
    assert made.behind is None
    made.push(old)
    assert made.behind is not None
    made.push([*old, Sample(learnt.START + NOW + 20, "n0", (0.0,)), *old[:4]])
    assert made.behind is None


SETTINGS = AlignSettings(step=1.0)


@pytest.mark.parametrize(
    ("speed", "set_back"), [(1.0, True), (0.9, True), (1.2, True), (0.0, False), (0.2, False), (40.0, False)]
)
def test_only_a_clock_that_goes_on_at_its_pace_was_set_back(speed: float, set_back: bool) -> None:
    """Samples given again come faster than time, and then no more."""
    pace = ClockPace()
    found = [pace.look(speed * 0.5 * k, SETTINGS, 100.0 + 0.5 * k) for k in range(1, 131)]
    (late,) = [late for late in found if late is not None]
    assert late.passed == 60.0
    assert late.went_on == pytest.approx(60.0 * speed)
    assert late.set_back_to == (pytest.approx(60.5 * speed) if set_back else None)


def test_what_is_on_time_starts_the_watch_anew() -> None:
    pace = ClockPace()
    for tick in range(400):
        now = 100.0 + 0.5 * tick
        assert pace.look(None if tick % 100 == 0 else now, SETTINGS, now) is None
