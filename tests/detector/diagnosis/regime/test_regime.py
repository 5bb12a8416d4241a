"""Regimes in the daemon: windows past the onset, enrolment from labels, names and novelty, what is kept."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from detector.cli.diagnosis import _print
from detector.diagnosis.actions import ActionError, parse
from detector.diagnosis.analyzer import Finding
from detector.diagnosis.regime import library
from detector.diagnosis.regime.features import MOST, points_of, spec_of
from detector.diagnosis.registry import build_analyzer, diagnosis_model, find_action, relearning
from detector.diagnosis.repository import Repository
from detector.events.model import Event, Labels
from detector.incidents.case import Case
from detector.settings.diagnosis import DiagnosisSettings
from detector.storage.records import Record
from detector.storage.store import Bundle, Store
from tests.detector.diagnosis.regime.regime_cases import case

SETTINGS = DiagnosisSettings()


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    store = Store(tmp_path)
    yield Repository(store)
    store.close()


def label(repository: Repository, *cases: Case, **said: Any) -> None:
    """Store case files and what an operator said about their incidents."""
    events = [
        Event(
            id=f"{made.incident}-{said.get('type')}", event="incident.labelled", time=made.time,
            time_iso=None, summary="labelled", incident=made.incident, labels=Labels(time=made.time, **said),
        )
        for made in cases
    ]  # fmt: skip
    repository._store.commit(Bundle(cases=list(cases), records=[Record.of(event) for event in events]))


def enrolled(repository: Repository, *names: str) -> None:
    for name in names:
        label(repository, *(case(name, f"{name}{i}") for i in range(10)), type=name)
    act(repository, "enrol")


def act(repository: Repository, action_name: str, /, **arguments: Any) -> dict[str, Any]:
    action = find_action("regime", action_name)
    return action.run(repository, parse(action, msgspec.json.encode(arguments)))


def analyze(repository: Repository, made: Case, **settings: Any) -> Finding | None:
    chosen = diagnosis_model(["regime"])(regime=settings)
    analyzer = build_analyzer("regime", chosen, repository)
    assert analyzer is not None
    return analyzer.analyze(made)


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


def test_enrolled_from_labels(repository):
    """Windows of labelled incidents make a regime when they are enough; false alarms do not."""
    label(repository, *(case("shifted", f"s{i}") for i in range(8)), type="leak")
    label(repository, case("noisy", "f"), type="leak", alarm="false")
    with pytest.raises(ActionError, match=r"leak: 24 windows of 8 incidents, at least 25 are needed"):
        act(repository, "enrol", name="leak")
    assert act(repository, "enrol") == {"enrolled": [], "too_few": ["leak: 24 windows of 8 incidents"]}
    label(repository, case("shifted", "s9"), type="leak")
    (row,) = act(repository, "enrol", name="leak")["enrolled"]

    assert (row["name"], row["state"], row["windows"], row["incidents"]) == ("leak", "enrolled", 27, 9)
    (kept,) = library.load(repository).values()
    assert kept.structure is not None
    np.testing.assert_array_equal(kept.structure.group.Y_, kept.points)


def test_enrolling_again_keeps_what_is_no_longer_there(repository):
    """New labels add to a regime; windows of incidents whose case files are gone stay."""
    enrolled(repository, "shifted")
    (old,) = library.load(repository).values()
    gone = dataclasses.replace(old, origin=tuple(f"old{one}" for one in old.origin)).learnt()
    library.save(repository, gone)
    act(repository, "enrol", name="shifted")
    (both,) = library.load(repository).values()

    assert len(both.points) == 60
    assert len(both.incidents) == 20
    assert both.points[:30].tobytes() == old.points.tobytes(), "the old ones first"


def test_changed_labels_move_windows(repository):
    """An incident that is labelled otherwise, or false, leaves its regime; too few windows name nothing."""
    enrolled(repository, "shifted")
    label(repository, case("shifted", "shifted0"), type="other", note="corrected")
    label(repository, case("shifted", "shifted1"), alarm="false")
    act(repository, "enrol")
    left = library.load(repository)["shifted"]
    assert "shifted0" not in left.incidents
    assert "shifted1" not in left.incidents
    assert left.structure is None
    assert act(repository, "list")["regimes"][0]["state"] == "gathering"


def test_learning_is_done_only_where_something_is_new(repository):
    """Enrolling again without new labels makes no new version; a type of an old name teaches the new one."""
    enrolled(repository, "shifted")
    assert act(repository, "enrol") == {"enrolled": [], "too_few": []}
    assert repository.model("regime", "shifted").version == 1
    act(repository, "rename", name="shifted", to="leak")
    label(repository, case("shifted", "later"), type="shifted")
    assert [row["name"] for row in act(repository, "enrol")["enrolled"]] == ["leak"]
    assert list(library.load(repository)) == ["leak"]
    assert "later" in library.load(repository)["leak"].incidents
    with pytest.raises(ActionError, match="shifted is called leak now"):
        act(repository, "enrol", name="shifted")


def test_labels_teach_by_themselves():
    """After a label the daemon enrols what has enough windows, unless it is told not to."""
    assert relearning(DiagnosisSettings())["regime"] is find_action("regime", "enrol")
    for settings in ({"enrol": False}, {"enabled": False}):
        assert "regime" not in relearning(diagnosis_model(["regime"])(regime=settings))


def test_what_gets_a_name_leaves_the_unknown(repository):
    """Incidents that were kept as unknown and are labelled later are in the regime of their label only."""
    made = [case("shifted", f"s{i}") for i in range(9)]
    for one in made:
        analyze(repository, one)
    analyze(repository, case("shifted", "never labelled"))
    label(repository, *made, type="leak")
    act(repository, "enrol")
    left = library.load(repository)

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


def test_bad_enrolments(repository):
    """Labels that nobody gave, names that are reserved, arguments that are not known: clear errors."""
    label(repository, case("shifted", "s"), type="leak")
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
            act(repository, name, **given)
    assert act(repository, "list")["regimes"] == []


# ---------------------------------------------------------------------------------------- naming


def test_named(repository):
    """A new incident is named by what its nodes look like, with a p-value; nobody is asked."""
    enrolled(repository, "shifted", "noisy", "stuck")
    for name in ("shifted", "noisy", "stuck"):
        finding = analyze(repository, case(name, f"new {name}"))

        assert finding.kind == "regime"
        assert finding.data["regime"] == name
        assert finding.data["novel"] is False
        assert finding.data["pvalue"] > 0.05
        assert finding.data["agree"] >= 2
        assert finding.summary.startswith(f"regime {name} (p = ")
        assert {node["name"] for node in finding.data["nodes"]} == {"n0", "n1", "n2"}
        assert (finding.data["asked"], finding.data["missing"]) == ([], [])
    assert [one.name for one in library.load(repository).values() if one.unknown] == []


def test_novel_is_kept_once(repository):
    """What is near to no regime is novel; its windows are kept, and analyzing it again changes nothing."""
    enrolled(repository, "shifted", "noisy")
    first = analyze(repository, case("swinging", "w1"))
    again = analyze(repository, case("swinging", "w1"))

    assert first.data["regime"] is None
    assert first.data["novel"] is True
    assert first.data["pvalue"] < 0.05
    assert first.data["unknown"] == "unknown-1"
    assert "a novel regime at 3 of 3 nodes (p = " in first.summary
    assert first.summary.endswith("kept as unknown-1")
    assert again == first
    (kept,) = (one for one in library.load(repository).values() if one.unknown)
    assert (kept.incidents, len(kept.points)) == (["w1"], 3)


def test_unknown_grows_until_it_is_known_again(repository):
    """Alike unknowns gather under one name, become a machine of their own at 25 windows, and get a name."""
    enrolled(repository, "shifted", "noisy")
    findings = [analyze(repository, case("swinging", f"w{i}")) for i in range(12)]
    kept = library.load(repository)["unknown-1"]

    assert {finding.data["unknown"] for finding in findings} == {"unknown-1"}
    assert findings[4].summary.endswith("the same as unknown-1, seen in 4 incidents before")
    assert findings[-1].data["seen"] == 12
    assert findings[-1].data["novel"] is True
    assert findings[-1].data["nearest"] == "unknown-1"
    assert kept.structure is not None

    act(repository, "rename", name="unknown-1", to="cavitation")
    named = analyze(repository, case("swinging", "w20"))
    assert named.data["regime"] == "cavitation"
    assert "unknown-1" in act(repository, "show", name="cavitation")["was"]
    other = analyze(repository, case("stuck", "k1"))
    assert other.data["unknown"] == "unknown-2", "a number is not given twice"


def test_nothing_known_yet(repository):
    """The first incident says nothing, but is kept; the second of its kind is the same as the first."""
    assert analyze(repository, case("stuck", "k1")) is None
    second = analyze(repository, case("stuck", "k2"))

    assert second.summary.startswith("an unknown regime at 3 of 3 nodes: ")
    assert second.summary.endswith("the same as unknown-1, seen in 1 incident before")
    assert second.data["pvalue"] is None
    assert analyze(repository, case("noisy", "y1")) is None
    assert sorted(library.load(repository)) == ["unknown-1", "unknown-2"]


def test_switched_off_or_nothing_to_see(repository):
    assert (
        build_analyzer("regime", diagnosis_model(["regime"])(regime={"enabled": False}), repository) is None
    )
    assert analyze(repository, case("shifted", "a", after=30)) is None
    assert library.load(repository) == {}


def test_unknowns_are_bounded(repository, monkeypatch):
    """Only so many regimes without a name are kept: the newest."""
    monkeypatch.setattr(library, "MOST_UNKNOWN", 3)
    monkeypatch.setattr(library, "NEAR", 0.0)
    for i in range(5):
        analyze(repository, case("stuck", f"k{i}"))

    assert len(library.load(repository)) == 3
    assert "unknown-5" in library.load(repository)


def test_forgotten_and_renamed(repository):
    """Regimes can be renamed, not onto one another, and forgotten; labels stay."""
    enrolled(repository, "shifted", "noisy")
    with pytest.raises(ActionError, match="there is a regime 'noisy' already"):
        act(repository, "rename", name="shifted", to="noisy")
    with pytest.raises(ActionError, match="is what regimes without a name are called"):
        act(repository, "rename", name="shifted", to="unknown-7")
    act(repository, "rename", name="shifted", to="leak")
    assert analyze(repository, case("shifted", "s20")).data["regime"] == "leak"
    assert act(repository, "forget", name="leak") == {"forgotten": "leak"}

    told = act(repository, "list")
    assert [row["name"] for row in told["regimes"]] == ["noisy"]
    assert [(row["type"], row["windows"], row["enrolled"]) for row in told["labels"]] == [
        ("noisy", 30, True), ("shifted", 30, False),
    ]  # fmt: skip


def test_show(repository):
    """How many of its windows another regime would take for its own."""
    enrolled(repository, "shifted", "noisy")
    told = act(repository, "show", name="shifted")

    assert told["threshold"] > 0
    (other,) = told["others"]
    assert (other["regime"], other["windows_within"]) == ("noisy", 0)
    assert other["nearest_ratio"] > 1.0

    # 60 windows in the library: (56) asks for 110 at .5 and 437 at .25.
    known = told["guarantees"]
    assert (known["library_windows"], known["more_windows_for_0.5"], known["more_windows_for_0.25"]) == (
        60,
        50,
        377,
    )
    each = 60 / (2 * len(told["incidents"]))  # windows of an incident; as many incidents in the other regime
    assert known["more_labels_for_0.5"] == math.ceil(50 / each) >= 2
    assert known["more_labels_for_0.25"] == math.ceil(377 / each)
    assert known["nearest_is_own"] == 1.0
    assert known["risk_bound"] == pytest.approx(known["mean_square_error"] + known["deviation"], abs=2e-3)
    (card,) = act(repository, "list")["guarantees"]
    assert (card["regimes"], card["e1"], card["e2"]) == (2, known["e1"], known["e2"])


def test_guarantees_are_said_in_sentences(repository, capsys):
    """The command prints them instead of keys, for one regime and for the library."""
    enrolled(repository, "shifted", "noisy")
    told = act(repository, "show", name="shifted")
    labels = told["guarantees"]["more_labels_for_0.25"]
    for shown in (told, act(repository, "list")):
        _print(shown)
        out = capsys.readouterr().out
        assert "The library has 60 windows of 2 regimes." in out
        assert "100% of the windows are nearest to their own regime." in out
        assert f"Until that is 0.25: about {labels} more labels (377 windows)." in out
        assert "more_windows" not in out
        assert "e1" not in out
    assert told["guarantees"]["in_words"][-1].startswith("For shifted the mean square error seen is 0.")


def test_damaged_regimes_are_left_out(repository, caplog):
    """A model of another format or with lost arrays is logged and passed over; the rest is used."""
    enrolled(repository, "shifted", "noisy")
    bad = repository.model("regime", "noisy")
    assert bad is not None
    structure = {**bad.meta["structure"], "format": 9}
    repository.save_model("regime", "noisy", {**bad.meta, "structure": structure}, bad.arrays)
    repository.save_model("regime", "foreign", {"hello": 1}, {"points": np.zeros(3)})

    assert sorted(library.load(repository)) == ["shifted"]
    assert "regime noisy cannot be used: regime: format 9, this version reads 1" in caplog.text
    assert "regime foreign cannot be used" in caplog.text
    assert analyze(repository, case("shifted", "s30")).data["regime"] == "shifted"


def test_other_features_do_not_compare(repository):
    """A regime of one component says nothing about nodes with two."""
    enrolled(repository, "shifted")

    assert analyze(repository, case("shifted", "two", dim=2)) is None
    assert library.load(repository)["unknown-1"].points.shape == (3, 20)
