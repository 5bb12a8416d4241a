"""Regimes in the daemon: windows past the onset, enrolment from labels, names and novelty, what is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from detector.aftermath import regime_library as library
from detector.aftermath.actions import ActionError, parse
from detector.aftermath.casefile import CaseFile
from detector.aftermath.examiner import Finding
from detector.aftermath.kinds import build_examiner, find_action, kind_module
from detector.aftermath.regime_windows import MOST, points_of, spec_of
from detector.aftermath.settings import AftermathSettings, RegimeSettings
from detector.aftermath.shelf import Shelf
from detector.events import Event, Labels
from detector.records import Record
from detector.state import Bundle, Store
from tests.detector.regime_cases import case

SETTINGS = AftermathSettings()


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    store = Store(tmp_path)
    yield Shelf(store)
    store.close()


def label(shelf: Shelf, *cases: CaseFile, **said: Any) -> None:
    """Store case files and what an operator said about their incidents."""
    events = [
        Event(
            id=f"{made.incident}-{said.get('type')}", event="incident.labelled", time=made.time,
            time_iso=None, summary="labelled", incident=made.incident, labels=Labels(time=made.time, **said),
        )
        for made in cases
    ]  # fmt: skip
    shelf._store.commit(Bundle(cases=list(cases), records=[Record.of(event) for event in events]))


def enrolled(shelf: Shelf, *names: str) -> None:
    for name in names:
        label(shelf, *(case(name, f"{name}{i}") for i in range(10)), type=name)
    act(shelf, "enrol")


def act(shelf: Shelf, action_name: str, /, **arguments: Any) -> dict[str, Any]:
    action = find_action("regime", action_name)
    return action.run(shelf, parse(action, msgspec.json.encode(arguments)))


def examine(shelf: Shelf, made: CaseFile, **settings: Any) -> Finding | None:
    chosen = AftermathSettings(regime=RegimeSettings(**settings))
    examiner = build_examiner("regime", chosen, shelf)
    assert examiner is not None
    return examiner.examine(made)


# ---------------------------------------------------------------------------------------- windows


def test_windows_lie_past_the_onset():
    """Of every changed member as many whole windows as fit after the onset, at most three; no quiet one."""
    assert {name: y.shape for name, y in points_of(case("shifted", "a")).items()} == {
        "n0": (1, 10), "n1": (1, 10), "n2": (1, 10),
    }  # fmt: skip
    assert points_of(case("shifted", "a", after=63)) == {}
    assert len(points_of(case("shifted", "a", after=130))["n0"]) == 2
    assert len(points_of(case("shifted", "a", after=200))["n0"]) == MOST


def test_windows_do_not_depend_on_what_was_before():
    """Values before the onset change nothing; a node's own onset goes before that of the incident."""
    made = case("shifted", "a", after=80)
    loud = {name: x.copy() for name, x in made.recent.items()}
    for x in loud.values():
        x[:120] = 50.0
    later = dataclasses.replace(made, onsets={"n0": made.time - 40})

    moved = points_of(dataclasses.replace(made, recent=loud))
    np.testing.assert_array_equal(moved["n0"], points_of(made)["n0"])
    assert sorted(points_of(later)) == ["n1", "n2"]


def test_windows_of_the_nodes_that_people_named():
    """A label may name nodes: they are taken as they are, unknown ones are passed over."""
    assert sorted(points_of(case("shifted", "a"), ["n0", "n3", "nobody"])) == ["n0", "n3"]


def test_missing_values_make_no_window():
    made = case("shifted", "a", dim=2)
    gap = {name: x.copy() for name, x in made.recent.items()}
    gap["n0"][-10, 1] = np.nan

    assert points_of(made)["n0"].shape == (1, 20)
    assert sorted(points_of(dataclasses.replace(made, recent=gap))) == ["n1", "n2"]


def test_what_compares():
    """Other numbers of components and residuals have another specification."""
    one = case("shifted", "a")
    residual = dataclasses.replace(one, scale={name: np.full(1, np.nan) for name in one.scale})

    assert len({spec_of(one), spec_of(case("shifted", "a", dim=2)), spec_of(residual)}) == 3


# ---------------------------------------------------------------------------------------- enrolment


def test_enrolled_from_labels(shelf):
    """Windows of labelled incidents make a regime when they are enough; false alarms do not."""
    label(shelf, *(case("shifted", f"s{i}") for i in range(8)), type="leak")
    label(shelf, case("noisy", "f"), type="leak", alarm="false")
    with pytest.raises(ActionError, match=r"leak: 24 windows of 8 incidents, at least 25 are needed"):
        act(shelf, "enrol", name="leak")
    assert act(shelf, "enrol") == {"enrolled": [], "too_few": ["leak: 24 windows of 8 incidents"]}
    label(shelf, case("shifted", "s9"), type="leak")
    (row,) = act(shelf, "enrol", name="leak")["enrolled"]

    assert (row["name"], row["state"], row["windows"], row["incidents"]) == ("leak", "enrolled", 27, 9)
    (kept,) = library.load(shelf).values()
    assert kept.structure is not None
    np.testing.assert_array_equal(kept.structure.group.Y_, kept.points)


def test_enrolling_again_keeps_what_is_no_longer_there(shelf):
    """New labels add to a regime; windows of incidents whose case files are gone stay."""
    enrolled(shelf, "shifted")
    (old,) = library.load(shelf).values()
    gone = dataclasses.replace(old, origin=tuple(f"old{one}" for one in old.origin)).learnt()
    library.save(shelf, gone)
    act(shelf, "enrol", name="shifted")
    (both,) = library.load(shelf).values()

    assert len(both.points) == 60
    assert len(both.incidents) == 20
    assert both.points[:30].tobytes() == old.points.tobytes(), "the old ones first"


def test_changed_labels_move_windows(shelf):
    """An incident that is labelled otherwise, or false, leaves its regime; too few windows name nothing."""
    enrolled(shelf, "shifted")
    label(shelf, case("shifted", "shifted0"), type="other", note="corrected")
    label(shelf, case("shifted", "shifted1"), alarm="false")
    act(shelf, "enrol")
    left = library.load(shelf)["shifted"]
    assert "shifted0" not in left.incidents
    assert "shifted1" not in left.incidents
    assert left.structure is None
    assert act(shelf, "list")["regimes"][0]["state"] == "gathering"


def test_learning_is_done_only_where_something_is_new(shelf):
    """Enrolling again without new labels makes no new version; a type of an old name teaches the new one."""
    enrolled(shelf, "shifted")
    assert act(shelf, "enrol") == {"enrolled": [], "too_few": []}
    assert shelf.model("regime", "shifted").version == 1
    act(shelf, "rename", name="shifted", to="leak")
    label(shelf, case("shifted", "later"), type="shifted")
    assert [row["name"] for row in act(shelf, "enrol")["enrolled"]] == ["leak"]
    assert list(library.load(shelf)) == ["leak"]
    assert "later" in library.load(shelf)["leak"].incidents
    with pytest.raises(ActionError, match="shifted is called leak now"):
        act(shelf, "enrol", name="shifted")


def test_labels_teach_by_themselves():
    """After a label the daemon enrols what has enough windows, unless it is told not to."""
    assert kind_module("regime").relearn(AftermathSettings()) is find_action("regime", "enrol")
    for settings in (RegimeSettings(enrol=False), RegimeSettings(enabled=False)):
        assert kind_module("regime").relearn(AftermathSettings(regime=settings)) is None


def test_what_gets_a_name_leaves_the_unknown(shelf):
    """Incidents that were kept as unknown and are labelled later are in the regime of their label only."""
    made = [case("shifted", f"s{i}") for i in range(9)]
    for one in made:
        examine(shelf, one)
    examine(shelf, case("shifted", "never labelled"))
    label(shelf, *made, type="leak")
    act(shelf, "enrol")
    left = library.load(shelf)

    assert left["leak"].incidents == [one.incident for one in made]
    assert [one.incidents for one in left.values() if one.unknown] == [["never labelled"]]
    assert all(one.structure is None for one in left.values() if one.unknown)


def test_windows_are_bounded():
    """The newest windows stay."""
    regime = library.empty("r", spec_of(case("shifted", "a")))
    for i in range(90):
        regime = regime.with_windows(f"i{i}", [np.full((3, 10), i / 100)])

    assert len(regime.points) == library.MOST_WINDOWS
    assert regime.incidents[-1] == "i89"
    assert regime.points[-1, 0] == 0.89


def test_bad_enrolments(shelf):
    """Labels that nobody gave, names that are reserved, arguments that are not known: clear errors."""
    label(shelf, case("shifted", "s"), type="leak")
    for name, given, message in (
        ("enrol", {"name": "pump"}, "no settled incident is labelled with the type 'pump'; there are: leak"),
        ("enrol", {"name": "unknown-1"}, "unknown-1 has no name yet: rename it"),
        ("show", {"name": "pump"}, "there is no regime 'pump'; known: none"),
        ("forget", {"name": "pump"}, "there is no regime 'pump'; known: none"),
        ("rename", {"name": "pump", "to": "x"}, "there is no regime 'pump'"),
        ("show", {}, "missing required field `name`"),
        ("list", {"all": True}, "unknown field `all`"),
    ):
        with pytest.raises(ActionError, match=message):
            act(shelf, name, **given)
    assert act(shelf, "list")["regimes"] == []


# ---------------------------------------------------------------------------------------- naming


def test_named(shelf):
    """A new incident is named by what its nodes look like, with a p-value; nobody is asked."""
    enrolled(shelf, "shifted", "noisy", "stuck")
    for name in ("shifted", "noisy", "stuck"):
        finding = examine(shelf, case(name, f"new {name}"))

        assert finding.kind == "regime"
        assert finding.data["regime"] == name
        assert finding.data["novel"] is False
        assert finding.data["pvalue"] > 0.05
        assert finding.data["agree"] >= 2
        assert finding.summary.startswith(f"regime {name} (p = ")
        assert {node["name"] for node in finding.data["nodes"]} == {"n0", "n1", "n2"}
        assert (finding.data["asked"], finding.data["missing"]) == ([], [])
    assert [one.name for one in library.load(shelf).values() if one.unknown] == []


def test_novel_is_kept_once(shelf):
    """What is near to no regime is novel; its windows are kept, and examining it again changes nothing."""
    enrolled(shelf, "shifted", "noisy")
    first = examine(shelf, case("swinging", "w1"))
    again = examine(shelf, case("swinging", "w1"))

    assert first.data["regime"] is None
    assert first.data["novel"] is True
    assert first.data["pvalue"] < 0.05
    assert first.data["unknown"] == "unknown-1"
    assert "a novel regime at 3 of 3 nodes (p = " in first.summary
    assert first.summary.endswith("kept as unknown-1")
    assert again == first
    (kept,) = (one for one in library.load(shelf).values() if one.unknown)
    assert (kept.incidents, len(kept.points)) == (["w1"], 3)


def test_unknown_grows_until_it_is_known_again(shelf):
    """Alike unknowns gather under one name, become a machine of their own at 25 windows, and get a name."""
    enrolled(shelf, "shifted", "noisy")
    findings = [examine(shelf, case("swinging", f"w{i}")) for i in range(12)]
    kept = library.load(shelf)["unknown-1"]

    assert {finding.data["unknown"] for finding in findings} == {"unknown-1"}
    assert findings[4].summary.endswith("the same as unknown-1, seen in 4 incidents before")
    assert findings[-1].data["seen"] == 12
    assert findings[-1].data["novel"] is True
    assert findings[-1].data["nearest"] == "unknown-1"
    assert kept.structure is not None

    act(shelf, "rename", name="unknown-1", to="cavitation")
    named = examine(shelf, case("swinging", "w20"))
    assert named.data["regime"] == "cavitation"
    assert "unknown-1" in act(shelf, "show", name="cavitation")["was"]
    other = examine(shelf, case("stuck", "k1"))
    assert other.data["unknown"] == "unknown-2", "a number is not given twice"


def test_nothing_known_yet(shelf):
    """The first incident says nothing, but is kept; the second of its kind is the same as the first."""
    assert examine(shelf, case("stuck", "k1")) is None
    second = examine(shelf, case("stuck", "k2"))

    assert second.summary.startswith("an unknown regime at 3 of 3 nodes: ")
    assert second.summary.endswith("the same as unknown-1, seen in 1 incident before")
    assert second.data["pvalue"] is None
    assert examine(shelf, case("noisy", "y1")) is None
    assert sorted(library.load(shelf)) == ["unknown-1", "unknown-2"]


def test_switched_off_or_nothing_to_see(shelf):
    assert build_examiner("regime", AftermathSettings(regime=RegimeSettings(enabled=False)), shelf) is None
    assert examine(shelf, case("shifted", "a", after=30)) is None
    assert library.load(shelf) == {}


def test_unknowns_are_bounded(shelf, monkeypatch):
    """Only so many regimes without a name are kept: the newest."""
    monkeypatch.setattr(library, "MOST_UNKNOWN", 3)
    monkeypatch.setattr(library, "NEAR", 0.0)
    for i in range(5):
        examine(shelf, case("stuck", f"k{i}"))

    assert len(library.load(shelf)) == 3
    assert "unknown-5" in library.load(shelf)


def test_forgotten_and_renamed(shelf):
    """Regimes can be renamed, not onto one another, and forgotten; labels stay."""
    enrolled(shelf, "shifted", "noisy")
    with pytest.raises(ActionError, match="there is a regime 'noisy' already"):
        act(shelf, "rename", name="shifted", to="noisy")
    with pytest.raises(ActionError, match="is what regimes without a name are called"):
        act(shelf, "rename", name="shifted", to="unknown-7")
    act(shelf, "rename", name="shifted", to="leak")
    assert examine(shelf, case("shifted", "s20")).data["regime"] == "leak"
    assert act(shelf, "forget", name="leak") == {"forgotten": "leak"}

    told = act(shelf, "list")
    assert [row["name"] for row in told["regimes"]] == ["noisy"]
    assert [(row["type"], row["windows"], row["enrolled"]) for row in told["labels"]] == [
        ("noisy", 30, True), ("shifted", 30, False),
    ]  # fmt: skip


def test_show(shelf):
    """How many of its windows another regime would take for its own."""
    enrolled(shelf, "shifted", "noisy")
    told = act(shelf, "show", name="shifted")

    assert told["threshold"] > 0
    (other,) = told["others"]
    assert (other["regime"], other["windows_within"]) == ("noisy", 0)
    assert other["nearest_ratio"] > 1.0


def test_damaged_regimes_are_left_out(shelf, caplog):
    """A model of another format or with lost arrays is logged and passed over; the rest is used."""
    enrolled(shelf, "shifted", "noisy")
    bad = shelf.model("regime", "noisy")
    assert bad is not None
    structure = {**bad.meta["structure"], "format": 9}
    shelf.save_model("regime", "noisy", {**bad.meta, "structure": structure}, bad.arrays)
    shelf.save_model("regime", "foreign", {"hello": 1}, {"points": np.zeros(3)})

    assert sorted(library.load(shelf)) == ["shifted"]
    assert "regime noisy cannot be used: regime: format 9, this version reads 1" in caplog.text
    assert "regime foreign cannot be used" in caplog.text
    assert examine(shelf, case("shifted", "s30")).data["regime"] == "shifted"


def test_other_features_do_not_compare(shelf):
    """A regime of one component says nothing about nodes with two."""
    enrolled(shelf, "shifted")

    assert examine(shelf, case("shifted", "two", dim=2)) is None
    assert library.load(shelf)["unknown-1"].points.shape == (3, 20)
