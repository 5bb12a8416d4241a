"""Case files: taken at the same ticks after any restart, stored as plain bytes, and the same when read."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detector.network.network import Network
from detector.pipeline.case_capture import around
from detector.storage.arrays import Unreadable, pack, unpack
from detector.storage.case_codec import decode, encode
from estimators.core.graph import Graph
from tests.detector import learnt
from tests.detector.learnt import NAMES, NOW, changed, frozen, pipeline, quiet, samples, thawed


def watched(ticks: int = 90, until: int = 10**9, **groups):
    """A pipeline that saw n1 and n2 change at NOW + 20, its events, and its case files."""
    made = pipeline(**groups)
    made.cases = []
    events = made.push(samples(changed(NOW, NOW + ticks, NOW + 20, [1, 2], until=until), NOW))
    return made, events, made.cases


def test_early_and_settled():
    """The early file comes 10 ticks after the opening; the settled one when 25 samples, the longest window,
    lie past the onset."""
    _, events, cases = watched()
    opened = next(event for event in events if event.event == "incident.opened")
    early, settled = cases

    assert [case.stage for case in cases] == ["early", "settled"]
    assert {case.incident for case in cases} == {opened.incident}
    assert early.time == opened.time + 10
    assert np.sort(settled.times["n1"])[0] >= settled.begin
    assert settled.time < settled.begin + 25 + 3
    assert {"n1", "n2"} <= set(settled.certain)
    assert abs(settled.begin - (learnt.START + NOW + 20)) <= 3


def test_what_a_case_file_holds():
    """Statistics of all nodes, the graph, and the windows of members and of neighbours outside."""
    made, _, cases = watched()
    case = cases[-1]

    assert case.names == tuple(NAMES)
    assert case.graph.n_nodes == 8
    np.testing.assert_array_equal(case.graph.matrix().toarray(), made.network.graph.matrix().toarray())
    assert case.levels.shape == (8, 3)
    assert case.lengths == (5, 10, 25)
    rows = [case.index[name] for name in ("n1", "n2")]
    assert (case.increments[rows] > 1.0).all()
    assert abs(case.increments[case.index["n6"]]) < abs(case.increments[rows]).min()
    assert {"n0", "n3"} <= set(case.recent) - set(case.members)
    assert "n6" not in case.recent
    assert case.after("n1").mean() - case.reference["n1"].mean() == pytest.approx(4.0, abs=1.0)
    original = case.centre["n1"] + case.scale["n1"] * case.after("n1").mean()
    assert original == pytest.approx(4.0, abs=1.0)


def test_an_early_end_gives_both():
    """An incident that an operator ends before its time leaves both files, of that moment."""
    made, events, cases = watched(ticks=30)
    opened = next(event for event in events if event.event == "incident.opened")
    assert cases == []
    made.accept(opened.incident, made.watermark)

    assert [case.stage for case in cases] == ["early", "settled"]
    assert {case.time for case in cases} == {made.watermark}
    assert len(cases[0].reference["n1"]) == 60  # of before the new baseline
    assert made.case_capture.pending == {}


@given(st.integers(1, 8 * 70))
@settings(max_examples=8, deadline=None)
def test_a_restart_changes_no_case_file(cut):
    """Whichever sample was the last before it, a restart leads to the same bytes."""
    stream = samples(changed(NOW, NOW + 70, NOW + 20, [1, 2], until=NOW + 45), NOW)
    one = pipeline()
    one.cases = []
    one.push(stream[:cut])
    two = thawed(frozen(one))
    two.cases = list(one.cases)
    one.push(stream[cut:])
    two.push(stream[cut:])

    assert [encode(case) for case in one.cases] == [encode(case) for case in two.cases]
    assert len(one.cases) == 2


def test_nobody_wants_them():
    """Where nobody takes case files away none are made, and the state is the same."""
    one, _, _ = watched()
    two = pipeline()
    two.push(samples(changed(NOW, NOW + 90, NOW + 20, [1, 2]), NOW))

    assert two.cases is None
    learnt.same(one, two)


def test_a_network_that_changes():
    """Nodes that come and go between opening and file: what is left keeps its increment."""
    made, _, _ = watched(ticks=30)
    smaller = Network.from_edges([("n1", "n2"), ("n2", "n3"), ("n3", "new")], ["n3", "new", "n2", "n1"])
    two = thawed(frozen(made), smaller)
    two.cases = []
    X = changed(NOW + 30, NOW + 70, NOW + 20, [1, 2])
    two.push(samples(X, NOW + 30))

    case = two.cases[-1]
    assert case.names == ("n3", "new", "n2", "n1")
    assert case.increments[case.index["n1"]] > 1.0
    assert np.isnan(case.increments[case.index["new"]])


@pytest.mark.parametrize("estimator", ["pool", "adwin"])
def test_other_engines(estimator):
    """Every engine gives case files that can be stored."""
    made = pipeline(estimator)
    made.cases = []
    made.push(samples(changed(NOW, NOW + 150, NOW + 20, [1, 2]), NOW))

    assert made.cases
    for case in made.cases:
        again = decode(*encode(case))
        assert encode(again) == encode(case)


def test_there_and_back():
    """Every field survives, to the bit."""
    _, _, (case, _) = watched()
    again = decode(*encode(case))

    for name, value in vars(case).items():
        got = getattr(again, name)
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, got, err_msg=name)
            assert value.dtype == got.dtype, name
        elif isinstance(value, dict) and name != "onsets":
            assert list(value) == list(got)
            for node in value:
                np.testing.assert_array_equal(value[node], got[node], err_msg=name)
        elif name not in ("index", "graph"):
            assert value == got, name


def test_bytes_that_are_no_case_file():
    """Cut, changed or foreign bytes raise one error; nothing else, and no code runs."""
    _, _, (case, _) = watched()
    meta, body = encode(case)
    for wrong in (
        b"",
        b"{}",
        meta[:-2],
        meta.replace(b'"early"', b'"late"'),
        meta.replace(b'"n7"', b'"n6", "n8"'),
    ):
        with pytest.raises(Unreadable):
            decode(wrong, body)
    for wrong in (b"", body[: len(body) // 2], b"PK\x03\x04" + bytes(100), pack({"edges": np.zeros(3)})):
        with pytest.raises(Unreadable):
            decode(meta, wrong)


def test_arrays_of_objects_are_refused(tmp_path):
    """Neither written nor read: an npz with a pickle inside is not opened."""
    with pytest.raises(TypeError, match="names"):
        pack({"names": np.array(["a"])})
    path = tmp_path / "bad.npz"
    np.savez(path, evil=np.array([{"a": 1}], dtype=object))
    with pytest.raises(Unreadable):
        unpack(path.read_bytes())


def test_part_of_a_large_network():
    """Of a network that is too large, whole rings around the members, and of the last ring the strongest."""
    grid = Graph.of(_grid(30))
    statistic = np.arange(900, dtype=float)
    found = around(grid, np.array([465], np.int32), statistic, most=20)

    assert len(found) == 20
    near = {465, 464, 466, 435, 495} | {463, 467, 405, 525, 434, 436, 494, 496}
    assert near <= set(found.tolist())
    assert {555, 526, 524} <= set(found.tolist())  # the third ring, by the statistic


def _grid(side: int) -> np.ndarray:
    W = np.zeros((side * side, side * side))
    for r in range(side):
        for c in range(side):
            v = r * side + c
            if c + 1 < side:
                W[v, v + 1] = W[v + 1, v] = 1.0
            if r + 1 < side:
                W[v, v + side] = W[v + side, v] = 1.0
    return W


def test_a_state_from_before_there_were_case_files():
    """It is taken over; incidents that were open then get no case files, later ones do."""
    made, events, _ = watched(ticks=30)
    arrays, meta = frozen(made)
    said = msgspec.json.decode(meta)
    said["cases"] = {"pending": []}
    old = {name: array for name, array in arrays.items() if not name.startswith("cases.")}
    two = thawed((old, msgspec.json.encode(said)))
    two.cases = []
    two.push(samples(changed(NOW + 30, NOW + 120, NOW + 20, [1, 2], until=NOW + 45), NOW + 30))
    later = two.push(samples(changed(NOW + 120, NOW + 200, NOW + 130, [6, 7]), NOW + 120))

    first = {event.incident for event in events if event.event == "incident.opened"}
    second = {event.incident for event in later if event.event == "incident.opened"}
    assert first
    assert second
    assert {case.incident for case in two.cases} == second - first


def test_a_merged_incident_leaves_none():
    """Two incidents that turn out to be one: the younger goes without case files of its own."""
    made = pipeline()
    made.cases = []
    X = quiet(NOW, NOW + 28)
    X[20:, [0, 1]] += 6.0
    (opened,) = (e for e in made.push(samples(X, NOW)) if e.event == "incident.opened")
    assert opened.incident in made.case_capture.pending
    merged = msgspec.structs.replace(opened, event="incident.resolved", resolution="merged")
    made.case_capture.end(made, [merged], merged.time)
    assert made.case_capture.pending == {}
    assert not [case for case in made.cases if case.stage == "settled"]
