"""The network: every builder, every message, a fingerprint that fits only the same network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from detector.network.draw import draw_network
from detector.network.files import from_adjacency_file, from_edge_file, from_graphml_file
from detector.network.learn import correlation_links
from detector.network.network import Network

ABC = ["a", "b", "c"]
TRIANGLE = [("a", "b", 1.0), ("a", "c", 1.0), ("b", "c", 1.0)]


def written(folder: Path, text: str, name: str = "graph.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# ---------------------------------------------------------------------------- edges


@pytest.mark.parametrize(
    "text",
    [
        "a,b,1\nb,c,0.5\n",
        "u,v,weight\na,b,1\nb,c,0.5\n",
        "# pipes\n\n source , target\na, b ,1\n b,c,0.5",
        "\ufeffa,b,1\r\nc,b,0.5\r\nb,c,0.5\r\n",
        '"a","b",1\n"b","c",5e-1\n',
    ],
)
def test_an_edge_file_is_read_with_header_comments_and_repeats(tmp_path: Path, text: str) -> None:
    network = from_edge_file(written(tmp_path, text), ABC)
    assert network.edges() == [("a", "b", 1.0), ("b", "c", 0.5)]


def test_nodes_called_like_a_header_are_nodes(tmp_path: Path) -> None:
    path = written(tmp_path, "u,v\nv,w\n")
    assert len(from_edge_file(path, ["u", "v", "w"]).edges()) == 2
    assert from_edge_file(path).names == ("v", "w")


def test_edges_without_names_give_the_nodes_in_order_of_appearance() -> None:
    network = Network.from_edges([("z", "a"), ("a", "m", 2)])
    assert network.names == ("z", "a", "m")
    assert network.edges() == [("z", "a", 1.0), ("a", "m", 2.0)]


def test_further_nodes_stay_without_links() -> None:
    network = Network.from_edges([("a", "b")], [*ABC, "d"])
    assert network.graph.degree.tolist() == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,1\na,x,1\n", "graph.csv, line 2: 'x' is not a node of the network"),
        ("a,b,1\n\nb,b,1\n", "graph.csv, line 3: 'b' is linked to itself"),
        ("a,b,heavy\n", "graph.csv, line 1: weight: 'heavy' is not a number"),
        ("a,b,-1\n", "graph.csv, line 1: the weight of 'a' and 'b' is -1.0; it must be finite and >= 0"),
        ("a,b,nan\n", "the weight of 'a' and 'b' is nan"),
        ("a,b,inf\n", "the weight of 'a' and 'b' is inf"),
        ("a\n", "graph.csv, line 1: expected u,v or u,v,weight, got 1 fields"),
        ("a,b,1,2\n", "got 4 fields"),
        ("a,b,1\nb,a,2\n", "graph.csv, line 2: 'b' and 'a' have weight 2.0 here, 1.0 in .*graph.csv, line 1"),
    ],
)
def test_wrong_edge_files_are_refused_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_edge_file(written(tmp_path, text), ABC)


def test_an_unknown_node_comes_with_the_nearest_name() -> None:
    with pytest.raises(
        ValueError, match=r"edges\[0\]: 'pump_11' is not a node of the network; did you mean 'pump_1'"
    ):
        Network.from_edges([("pump_11", "tank")], ["pump_1", "tank"])


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere.csv: no such file"):
        from_edge_file(tmp_path / "nowhere.csv", ABC)
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"a,b\n\xff\xfe,c\n")
    with pytest.raises(ValueError, match=r"binary.csv: not UTF-8 text"):
        from_edge_file(binary, ABC)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([("a",)], r"edges\[0\]: expected \(u, v\) or \(u, v, weight\)"),
        (["ab"], r"edges\[0\]: expected"),
        ([("a", "b", "1")], r"edges\[0\]: the weight of 'a' and 'b' is '1', not a number"),
    ],
)
def test_wrong_edges_are_refused_with_their_place(edges: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Network.from_edges(edges, ABC)


def test_names_must_be_texts_and_unique() -> None:
    with pytest.raises(ValueError, match="'a' is named twice"):
        Network.empty(["a", "a"])
    with pytest.raises(ValueError, match=r"nodes\[1\]: a name must be a text that is not empty, got ''"):
        Network.empty(["a", ""])
    with pytest.raises(ValueError, match="the network has no node"):
        Network.from_edges([])


# ---------------------------------------------------------------------------- adjacency, GraphML


@pytest.mark.parametrize(
    "text",
    [
        "a,b,c\n0,1,0\n1,0,.5\n0,.5,0\n",
        ",a,b,c\na,0,1,0\nb,1,0,.5\nc,0,.5,0\n",
        "node,a,b,c\na,,1,\nb,1,,.5\nc,,.5,\n",
        "a,b,c\na,0,1,0\nb,1,0,.5\nc,0,.5,0\n",
    ],
)
def test_an_adjacency_file_is_read_with_and_without_row_names(tmp_path: Path, text: str) -> None:
    network = from_adjacency_file(written(tmp_path, text))
    assert network.names == ("a", "b", "c")
    assert network.edges() == [("a", "b", 1.0), ("b", "c", 0.5)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "graph.csv: the file is empty"),
        ("a,b,c\n0,1,0\n", "graph.csv: 3 names in the first row, but 1 rows follow"),
        (",a,b\na,0,1\nc,1,0\n", "graph.csv, line 3: row of 'c', but column 2 is 'b'; keep one order"),
        ("a,b\n0,1\n1\n", "graph.csv, line 3: expected 2 weights, got 1"),
        ("a,b\n0,x\n1,0\n", "graph.csv, line 2: weight of 'a' and 'b': 'x' is not a number"),
        ("a,b\n0,1\n2,0\n", r"graph.csv: graph: W\[.*weights must be symmetric"),
        ("a,b\n0,-1\n-1,0\n", r"graph.csv: graph: W\[0, 1\] is -1.0: weights must not be negative"),
    ],
)
def test_wrong_adjacency_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_adjacency_file(written(tmp_path, text))


def test_an_adjacency_matrix_fits_its_names(tmp_path: Path) -> None:
    assert Network.from_adjacency([[0, 2], [2, 0]], ["a", "b"]).edges() == [("a", "b", 2.0)]
    with pytest.raises(ValueError, match="graph: W: 2 nodes, but the data have 3"):
        Network.from_adjacency(np.zeros((2, 2)), ABC)
    path = written(tmp_path, "a,b\n0,1\n1,0\n")
    assert from_adjacency_file(path, ["x", "b", "a"]).edges() == [("b", "a", 1.0)]
    with pytest.raises(ValueError, match="graph: 'a' is not a node of the network"):
        from_adjacency_file(path, ["b", "x"])


def test_graphml_gives_names_weights_and_positions(tmp_path: Path) -> None:
    graph: Any = nx.Graph()
    for k, name in enumerate(ABC):
        graph.add_node(name, x=float(k), y=2.0)
    graph.add_edge("a", "b", weight=0.25)
    graph.add_edge("b", "c")
    path = tmp_path / "graph.graphml"
    nx.write_graphml(graph, path)
    network = from_graphml_file(path, ["c", "b", "a"])
    assert network.edges() == [("c", "b", 1.0), ("b", "a", 0.25)]
    assert network.layout().tolist() == [[2.0, 2.0], [1.0, 2.0], [0.0, 2.0]]
    with pytest.raises(ValueError, match=r"graph.graphml: 'a' is not a node of the network"):
        from_graphml_file(path, ["b", "c"])


def test_graphml_labels_are_names_if_they_are_distinct(tmp_path: Path) -> None:
    graph: Any = nx.Graph([(0, 1)])
    nx.set_node_attributes(graph, {0: "pump", 1: "tank"}, "label")
    path = tmp_path / "graph.graphml"
    nx.write_graphml(graph, path)
    assert from_graphml_file(path).names == ("pump", "tank")
    nx.set_node_attributes(graph, {0: "pump", 1: "pump"}, "label")
    nx.write_graphml(graph, path)
    assert from_graphml_file(path).names == ("0", "1")


def test_wrong_graphml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph.graphml"
    path.write_text("<not xml", encoding="utf-8")
    with pytest.raises(ValueError, match=r"graph.graphml: not a GraphML file"):
        from_graphml_file(path)
    nx.write_graphml(nx.DiGraph([("a", "b")]), path)
    with pytest.raises(ValueError, match="the graph is directed"):
        from_graphml_file(path)
    nx.write_graphml(nx.MultiGraph([("a", "b"), ("a", "b")]), path)
    with pytest.raises(ValueError, match="the graph has parallel edges"):
        from_graphml_file(path)
    nx.write_graphml(nx.Graph([("a", "b", {"weight": "much"})]), path)
    with pytest.raises(ValueError, match="weight of 'a' and 'b': 'much' is not a number"):
        from_graphml_file(path)
    nx.write_graphml(nx.Graph([("a", "b", {"weight": -2.0})]), path)
    with pytest.raises(ValueError, match=r"graph.graphml: .*the weight of 'a' and 'b' is -2.0"):
        from_graphml_file(path)


# ---------------------------------------------------------------------------- positions, complete, empty


def test_nearest_neighbours_and_radius_link_by_position() -> None:
    xy = [[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [10.0, 0.0]]
    names = ["p", "q", "r", "s"]
    assert Network.from_positions(names, xy, k=1).edges() == [
        ("p", "q", 1.0),
        ("q", "r", 1.0),
        ("r", "s", 1.0),
    ]
    assert Network.from_positions(names, xy, radius=2.0).edges() == [("p", "q", 1.0), ("q", "r", 1.0)]
    assert len(Network.from_positions(names, xy, k=99).edges()) == 6
    assert Network.from_positions(["p"], [[0.0, 0.0]], k=2).edges() == []


def test_nodes_at_one_place_are_each_others_neighbours() -> None:
    network = Network.from_positions(ABC, [[1.0, 1.0]] * 3, k=1)
    assert (network.graph.degree >= 1.0).all()


@pytest.mark.parametrize(
    ("xy", "options", "message"),
    [
        ([[0, 0], [1, 1], [2, 2]], {}, "positions: give exactly one of k and radius"),
        ([[0, 0], [1, 1], [2, 2]], {"k": 1, "radius": 1.0}, "exactly one of k and radius"),
        ([[0, 0], [1, 1], [2, 2]], {"k": 0}, "k: must be at least 1, got 0"),
        ([[0, 0], [1, 1], [2, 2]], {"radius": 0.0}, "radius: must be > 0, got 0.0"),
        ([[0, 0], [1, 1]], {"k": 1}, r"positions: expected 3 pairs of numbers, got shape \(2, 2\)"),
        (
            [[0, 0], [1, np.nan], [2, 2]],
            {"k": 1},
            r"positions: 'b' is at \[1.0, nan\]; coordinates must be finite",
        ),
    ],
)
def test_wrong_positions_are_refused(xy: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Network.from_positions(ABC, xy, **options)


def test_complete_and_empty() -> None:
    assert Network.complete(ABC).edges() == TRIANGLE
    assert Network.empty(ABC).edges() == []
    assert Network.complete(["a"]).n_nodes == 1


# ---------------------------------------------------------------------------- learnt from correlations


def clusters(rng: np.random.Generator, rows: int, phi: float = 0.0, dim: int = 1) -> Any:
    """Three clusters of four nodes, each with a common part; the last node on its own."""
    noise = rng.normal(size=(rows, 13, dim))
    common = rng.normal(size=(rows, 3, dim))
    noise[:, :12] += np.repeat(common, 4, axis=1)
    for t in range(1, rows):
        noise[t] += phi * noise[t - 1]
    return noise


@pytest.mark.parametrize(("phi", "dim"), [(0.0, 1), (0.0, 2), (0.8, 1)])
def test_correlated_nodes_are_linked_and_no_others(phi: float, dim: int) -> None:
    z = clusters(np.random.default_rng(1), 2000, phi, dim)
    network = Network.learn(z, [f"n{v}" for v in range(13)], k=3)
    expected = np.kron(np.eye(3), np.ones((4, 4))) - np.eye(12)
    found = (network.graph.matrix().toarray() > 0.0).astype(float)
    np.testing.assert_array_equal(found[:12, :12], expected)
    assert found[12].sum() == 0.0
    assert "13 nodes, 18 links, 1 nodes without a link" in network.warning
    assert 0.3 < network.graph.weights.min() <= network.graph.weights.max() < 0.7


def test_outliers_and_missing_samples_do_not_matter() -> None:
    rng = np.random.default_rng(2)
    z = clusters(rng, 2000)
    z[rng.random(z.shape) < 0.02] = 1e6
    z[rng.random(z.shape) < 0.1] = np.nan
    z[:, 12] = np.nan
    network = Network.learn(z, [f"n{v}" for v in range(13)], k=3)
    assert len(network.edges()) == 18


def test_independent_wandering_series_are_not_linked() -> None:
    """AR(1) .95 without the correction links a good part of the pairs by chance."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=(2000, 30, 1))
    for t in range(1, 2000):
        z[t] += 0.95 * z[t - 1]
    assert correlation_links(z)[0].nnz <= 2
    assert Network.learn(np.ones((50, 3, 1)), ABC).edges() == []
    assert Network.learn(rng.normal(size=(5, 3, 1)), ABC).edges() == []


def test_learning_in_rows_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    z = clusters(np.random.default_rng(4), 500)
    whole, _ = correlation_links(z)
    monkeypatch.setattr("detector.network.learn.ROWS", 5)
    parts, _ = correlation_links(z)
    np.testing.assert_allclose(parts.toarray(), whole.toarray())


def test_wrong_learning_data_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Z: expected \(T, N, d\)"):
        Network.learn(np.zeros((5, 3)), ABC)
    with pytest.raises(ValueError, match="Z: has 2 nodes, but 3 names were given"):
        Network.learn(np.zeros((5, 2, 1)), ABC)
    with pytest.raises(ValueError, match="k: must be at least 1, got 0"):
        Network.learn(np.zeros((5, 3, 1)), ABC, k=0)
    with pytest.raises(ValueError, match=r"level: must be in \(0, 1\), got 1.0"):
        Network.learn(np.zeros((5, 3, 1)), ABC, level=1.0)


# ---------------------------------------------------------------------------- views


def test_the_fingerprint_fits_only_the_same_network() -> None:
    network = Network.complete(ABC)
    assert network == Network.from_edges(TRIANGLE)
    assert hash(network) == hash(Network.from_edges(TRIANGLE))
    others = [
        Network.complete(["a", "b", "d"]),
        Network.complete(["b", "a", "c"]),
        Network.complete([*ABC, "d"]),
        Network.empty(ABC),
        Network.from_edges([*TRIANGLE[:2], ("b", "c", 2.0)]),
    ]
    assert len({network.fingerprint, *(other.fingerprint for other in others)}) == 6
    assert network != "abc"


def test_networkx_sees_names_weights_and_positions() -> None:
    view = Network.from_positions(ABC, [[0, 0], [1, 0], [5, 5]], radius=2.0).to_networkx()
    assert list(view.nodes) == ABC
    assert view.edges["a", "b"]["weight"] == 1.0
    assert view.nodes["c"]["pos"] == (5.0, 5.0)


def test_reordering_moves_links_and_positions() -> None:
    network = Network.from_positions(ABC, [[0, 0], [1, 0], [5, 5]], radius=2.0).reordered(["c", "a", "b"])
    assert network.edges() == [("a", "b", 1.0)]
    assert network.layout().tolist() == [[5.0, 5.0], [0.0, 0.0], [1.0, 0.0]]


@pytest.mark.parametrize("n", [1, 5, 600])
def test_the_layout_is_always_the_same(n: int) -> None:
    names = [f"n{v}" for v in range(n)]
    edges = [(names[v], names[v // 2]) for v in range(1, n, 3)]
    first, second = (Network.from_edges(edges, names).layout() for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert first.shape == (n, 2)
    assert np.isfinite(first).all()
    assert len(np.unique(first, axis=0)) == n


def test_drawing_writes_a_picture(tmp_path: Path) -> None:
    draw_network(Network.from_edges(TRIANGLE, [*ABC, "$alone{$"]), tmp_path / "network.png")
    draw_network(Network.empty(["one"]), tmp_path / "one.png")
    assert (tmp_path / "network.png").read_bytes().startswith(b"\x89PNG")


def test_a_missing_library_is_named_with_the_line_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(ImportError, match=r"pip install 'matplotlib<\d"):
        draw_network(Network.complete(ABC), tmp_path / "network.png")
