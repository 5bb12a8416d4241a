"""Which node is where: whole lists only, read from a file, the same in all boxes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from detector.edge.learning import with_twins
from detector.network.network import Network
from detector.network.surroundings import Surroundings, read_boxes

NAMES = [f"n{v}" for v in range(9)]
RING = Network.from_edges([(NAMES[v], NAMES[(v + 1) % 9]) for v in range(9)], NAMES)
BOXES = {"a": NAMES[:3], "b": NAMES[3:6], "c": NAMES[6:]}


def test_boxes_own_what_they_were_given_and_read_what_is_next_to_it() -> None:
    around = Surroundings.of(RING, BOXES, "b")
    assert around.network.names == tuple(NAMES[3:6])
    assert around.network.edges() == [("n3", "n4", 1.0), ("n4", "n5", 1.0)]
    assert around.neighbours == ("a", "c")
    assert around.cut.nodes.tolist() == [2, 6]
    assert around.told_by("a").tolist() == [0, 2]
    assert around.ghosts_of("c").tolist() == [1]
    assert around.share == pytest.approx(1 / 3)
    assert sum(Surroundings.of(RING, BOXES, box).share for box in BOXES) == pytest.approx(1.0)
    assert len({Surroundings.of(RING, BOXES, box).fingerprint for box in (*BOXES, None)}) == 1
    assert around.network != Network.from_edges(around.network.edges(), around.network.names)


def test_another_list_is_another_network() -> None:
    other = BOXES | {"a": NAMES[:2], "b": NAMES[2:6]}
    assert Surroundings.of(RING, other, "c").fingerprint != Surroundings.of(RING, BOXES, "c").fingerprint


@pytest.mark.parametrize(
    ("boxes", "box", "message"),
    [
        (BOXES | {"c": NAMES[6:8]}, "a", "'n8' is in no box"),
        (BOXES | {"c": NAMES[5:]}, "a", "'n5' is in b and in c"),
        (BOXES | {"c": [*NAMES[6:], "n10"]}, "a", "c: 'n10' is not a node of the network; did you mean 'n1'"),
        (BOXES, "d", "there is no box 'd' with nodes; known: a, b, c"),
    ],
)
def test_what_does_not_fit_is_refused(boxes: dict[str, list[str]], box: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Surroundings.of(RING, boxes, box)


def test_lists_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "boxes.csv"
    path.write_text("node,box\n# the first\nn0,a\n\nn1, b\n")
    assert read_boxes(path) == {"a": ["n0"], "b": ["n1"]}
    for text, message in (
        ("n0\n", "line 1: expected node,box"),
        ("n0,\n", "line 1"),
        ("# none\n", "no node in it"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_boxes(path)
    with pytest.raises(ValueError, match="No such file"):
        read_boxes(tmp_path / "absent.csv")


def test_twins_are_nodes_of_the_box_away_from_the_readers() -> None:
    names = [f"n{v}" for v in range(40)]
    path = Network.from_edges([(names[v], names[v + 1]) for v in range(39)], names)
    cut = Surroundings.of(path, {"a": names[:10], "b": names[10:30], "c": names[30:]}, "b").cut
    played = with_twins(cut)
    assert (played.source >= 0).all()
    for ghost, reader in ((0, 0), (1, 19)):  # of n9 by n10, of n30 by n29
        assert abs(int(played.source[ghost]) - reader) > 2
    assert set(played.source.tolist()) | {0, 19} == set(played.boundary.tolist())
    np.testing.assert_array_equal(with_twins(cut).source, played.source)


def test_twins_of_the_smallest_boxes() -> None:
    for boxes in ({"a": NAMES[:1], "b": NAMES[1:]}, {"a": NAMES[:2], "b": NAMES[2:]}):
        cut = Surroundings.of(RING, boxes, "a").cut
        played = with_twins(cut)
        if len(boxes["a"]) == 1:
            assert played is cut  # nobody to play them
        else:
            assert (played.source >= 0).all()
