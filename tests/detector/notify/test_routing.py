"""Who is told of what: severity, groups, silences that cover all of an incident, recurring windows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detector.events.model import Event, NodeRecord, detector_event, node_events
from detector.notify.routing import Routing
from detector.notify.settings import NotifySettings, moment
from detector.notify.silences import Silence
from detector.storage import records
from detector.storage.records import TOLD, Record
from detector.storage.store import Bundle, Store

NOW = moment("2026-11-18T12:00")
SINKS = ("log", "pager")
HOUR = 3600.0


def incident(
    kind: str = "opened", time: float = NOW, nodes: tuple[str, ...] = ("a1",), **more: Any
) -> Record:
    given: dict[str, Any] = {"incident": "i1", "opened": NOW, "severity": "warning", **more}
    members = [
        NodeRecord(name=name.strip("?"), state="suspected" if "?" in name else "alarmed") for name in nodes
    ]
    given |= {"id": f"{kind}{time}", "event": f"incident.{kind}", "time": time, "nodes": members}
    return Record.of(Event(summary="s", **given))


def silence(**given: Any) -> Silence:
    return Silence(id="s1", **{"nodes": ["a*"], "begin": NOW - 10, "lasts": HOUR, **given})


def test_everything_goes_everywhere_by_default() -> None:
    routing = Routing()
    assert routing.address(incident(), SINKS).to == SINKS
    assert routing.address(Record.of(detector_event("detector.warning", NOW, "x")), SINKS).to == SINKS


def test_severity_and_groups() -> None:
    settings = NotifySettings.model_validate(
        {"groups": {"boilers": ["a*"]}, "routes": {"pager": {"severity": "critical", "groups": ["boilers"]}}}
    )
    routing = Routing(settings)
    assert routing.address(incident(), SINKS).to == ("log",)
    assert routing.address(incident(severity="critical"), SINKS).to == SINKS
    assert routing.address(incident(severity="critical", nodes=("b1",), incident="i2"), SINKS).to == ("log",)
    critical = detector_event("detector.warning", NOW, "x", severity="critical")
    assert routing.address(Record.of(critical), SINKS).to == SINKS, "about no node: not lost by a group"


def test_a_silence_covers_all_certain_nodes_or_nothing() -> None:
    routing = Routing(silences=[silence()])
    assert routing.address(incident(), SINKS).to == ()
    assert routing.address(incident(nodes=("a1", "b1")), SINKS).to == SINKS
    assert routing.address(incident(nodes=("a1", "?b1")), SINKS).to == (), "b1 is only suspected"
    assert routing.address(incident(nodes=("?a1", "?b1")), SINKS).to == SINKS
    assert routing.address(Record.of(node_events("node.silent", ["a9"], NOW)[0]), SINKS).to == ()
    assert routing.address(Record.of(detector_event("detector.warning", NOW, "x")), SINKS).to == SINKS


def test_what_was_told_of_is_told_to_be_over() -> None:
    routing = Routing(silences=[silence(begin=NOW + 100)])
    assert routing.address(incident(), SINKS).to == SINKS
    assert routing.address(incident("updated", NOW + 200), SINKS).to == ()
    assert routing.address(incident("resolved", NOW + 300, resolution="cleared"), SINKS).to == SINKS
    hidden = Routing(silences=[silence()])
    assert hidden.address(incident(), SINKS).to == ()
    assert hidden.address(incident("resolved", NOW + 300, resolution="cleared"), SINKS).to == ()
    finding = incident("analyzed", NOW + 310, nodes=())
    assert hidden.address(finding, SINKS).to == (), "a finding is about the nodes of its incident"


def resolved(time: float = NOW + 300, **more: Any) -> Record:
    return incident("resolved", time, resolution="cleared", **more)


def test_the_end_goes_where_the_opening_went() -> None:
    """Whoever is certain at the end, and however severe it is by then."""
    settings = NotifySettings.model_validate(
        {"groups": {"a": ["a*"]}, "routes": {"pager": {"severity": "warning", "groups": ["a"]}}}
    )
    routing = Routing(settings)
    assert routing.address(incident(nodes=("?a1", "?b1")), SINKS).to == SINKS
    assert routing.address(incident("updated", NOW + 60, ("b1", "?a1"), severity="info"), SINKS).to == SINKS
    assert routing.address(resolved(nodes=("b1", "?a1"), severity="info"), SINKS).to == SINKS
    other = Routing(settings)
    assert other.address(incident(nodes=("b1",)), SINKS).to == ("log",)
    assert other.address(resolved(nodes=("a1",)), SINKS).to == ("log",), "an end without a beginning"


def test_a_silence_of_the_nodes_that_are_left_does_not_hide_the_end() -> None:
    routing = Routing(silences=[silence()])
    assert routing.address(incident(nodes=("a1", "b1")), SINKS).to == SINKS
    assert not routing.silenced(resolved(nodes=("a1", "?b1")).content())
    assert routing.address(incident("updated", NOW + 60, ("a1", "?b1")), SINKS).to == ()
    assert routing.address(resolved(nodes=("a1", "?b1")), SINKS).to == SINKS


def test_it_is_known_after_a_restart(tmp_path: Path) -> None:
    """Whom the opening went to is stored with it, that it went to nobody, too."""
    settings = NotifySettings.model_validate(
        {"groups": {"a": ["a*"]}, "routes": {"pager": {"groups": ["a"]}}}
    )
    silences = [Silence(id="s2", nodes=["c*"], begin=NOW - 10, lasts=60)]
    routing, store = Routing(settings, silences), Store(tmp_path)
    assert store.read(records.told) == {}
    for name, nodes in (("i1", ("a1",)), ("i2", ("b1",)), ("i3", ("c1",)), ("i4", ("a1",))):
        record = routing.address(incident(nodes=nodes, incident=name), SINKS)
        store.commit(Bundle(records=[record._replace(id=f"{name}-opened")], sinks=SINKS))
    store.commit(Bundle(records=[routing.address(resolved(incident="i4"), SINKS)], sinks=SINKS))
    store.close()

    store = Store(tmp_path)
    found = store.read(records.told)
    assert found == {"i1": {"log", "pager"}, "i2": {"log"}, "i3": set()}, "what has ended is forgotten"
    store.close()
    routing = Routing(settings, silences, found)
    assert routing.address(resolved(nodes=("b1", "?a1"), incident="i1"), SINKS).to == SINKS
    assert routing.address(resolved(nodes=("a1", "?b1"), incident="i2"), SINKS).to == ("log",)
    waiting = incident("updated", NOW + 20, ("c1",), incident="i3")
    routing.greet(waiting, ())
    assert routing.released(NOW + 30) == []
    assert routing.released(NOW + 60) == [waiting], "the silence ended meanwhile"
    assert routing.address(resolved(nodes=("c1",), incident="i3"), SINKS).to == ()
    assert routing.address(resolved(incident="from an earlier release"), SINKS).to == SINKS


def test_what_is_remembered_is_bounded(tmp_path: Path) -> None:
    routing, store = Routing(), Store(tmp_path)
    opened = [incident(incident=f"i{number}")._replace(id=str(number)) for number in range(TOLD + 5)]
    store.commit(Bundle(records=[routing.address(one, SINKS) for one in opened], sinks=SINKS))
    store.write(records.prune_told)
    kept = store.read(records.told)
    assert list(kept) == [f"i{number}" for number in range(5, TOLD + 5)]
    store.close()


def test_still_open_when_the_silence_ends() -> None:
    routing = Routing(silences=[silence()])
    routing.address(incident(), SINKS)
    updated = incident("updated", NOW + 60)
    routing.address(updated, SINKS)
    assert routing.released(NOW + 100) == []
    assert routing.released(NOW + HOUR) == [updated]
    assert routing.released(NOW + HOUR) == [], "once"


@pytest.mark.parametrize(("every", "period"), [("day", 86400.0), ("week", 7 * 86400.0)])
def test_recurring(every: str, period: float) -> None:
    window = silence(every=every, begin=NOW)
    for times in (0, 1, 5):
        assert window.occurrence(NOW + times * period + 5) == NOW + times * period
        assert window.occurrence(NOW + times * period + HOUR) is None
    assert window.occurrence(NOW - 1) is None
    assert not window.over(NOW + 100 * period)
    # Silent at its opening and at its end, but not between: its end is told.
    routing = Routing(silences=[window])
    assert routing.address(incident("resolved", NOW + period + 5, opened=NOW + 5), SINKS).to == SINKS


@pytest.mark.parametrize("every", ["day", "week"])
def test_the_same_local_time_before_and_after_a_clock_change(every: str) -> None:
    """Two at night in Berlin is 01:00 UTC in winter and 00:00 UTC in summer."""
    window = {
        "start": "2026-03-20T02:00",
        "zone": "Europe/Berlin",
        "lasts": "1h",
        "every": every,
        "nodes": ["a1"],
    }
    routing = Routing(NotifySettings.model_validate({"maintenance": [window]}))
    winter = moment("2026-03-27T01:00+00:00")
    summer, back = moment("2026-04-03T00:00+00:00"), moment("2026-10-30T01:00+00:00")
    for begin in (winter, summer, back):
        assert routing.address(incident(time=begin - 1), SINKS).to == SINKS
        assert routing.address(incident(time=begin), SINKS).to == ()
        assert routing.address(incident(time=begin + HOUR - 1), SINKS).to == ()
        assert routing.address(incident(time=begin + HOUR), SINKS).to == SINKS
        assert routing.windows[0].occurrence(begin + 5) == begin
    in_utc = Routing(NotifySettings.model_validate({"maintenance": [{**window, "zone": "UTC"}]}))
    assert in_utc.address(incident(time=summer), SINKS).to == SINKS
    assert in_utc.address(incident(time=summer + 2 * HOUR), SINKS).to == ()


def test_a_start_that_the_clock_change_skips_or_repeats() -> None:
    """Once a day all the same: an hour later in spring, and the first of the two in autumn."""
    zone = "Europe/Berlin"
    begin = moment("2026-03-01T02:30", zone)
    window = silence(begin=begin, lasts=600.0, every="day", zone=zone)
    begins = set()
    for time in np.arange(begin, begin + 366 * 86400.0, 300.0):
        found = window.occurrence(float(time))
        if found is not None:
            begins.add(found)
    assert len(begins) == 366
    stamps = {datetime.fromtimestamp(one, UTC).isoformat()[:16] for one in begins}
    assert "2026-03-29T01:30" in stamps, "03:30 in Berlin"
    assert "2026-10-25T00:30" in stamps
    assert "2026-10-25T01:30" not in stamps


def test_windows_of_the_configuration() -> None:
    given = {"start": "2026-11-18T13:00+01:00", "lasts": "30m", "every": "week", "groups": ["g"]}
    routing = Routing(NotifySettings.model_validate({"groups": {"g": ["a?"]}, "maintenance": [given]}))
    assert routing.address(incident(), SINKS).to == ()
    assert routing.address(incident(time=NOW + 31 * 60), SINKS).to == SINKS
    routing.adopt(NotifySettings())
    assert routing.address(incident(), SINKS).to == SINKS


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"maintenance": [{"start": "tomorrow", "lasts": "1h", "nodes": ["a"]}]}, "no date and time"),
        ({"maintenance": [{"start": "2026-11-18T13:00", "lasts": "1h"}]}, "name the nodes or groups"),
        (
            {"maintenance": [{"start": "2026-11-18T13:00", "lasts": "24h", "every": "day", "nodes": ["a"]}]},
            "as long",
        ),
        (
            {
                "maintenance": [
                    {"start": "2026-11-18T13:00", "zone": "Mars/Base", "lasts": "1h", "nodes": ["a"]}
                ]
            },
            "there is no time zone 'Mars/Base'",
        ),
        ({"routes": {"pager": {"groups": ["none"]}}}, "there is no group 'none'"),
    ],
)
def test_wrong_settings(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        NotifySettings.model_validate(given)
