"""The sensor network: names in a fixed order, their graph, and where they are drawn."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from detector.network.layout import layout
from detector.network.learn import correlation_links
from detector.network.node_index import NodeIndex
from estimators.core.graph import Graph
from estimators.core.types import Floats

if TYPE_CHECKING:
    import networkx as nx

    from detector.network.surroundings import Surroundings


Edge = tuple[str, str, float]


@dataclass(frozen=True, eq=False)
class Network:
    """Build it with one of the class methods; ``positions`` (N, 2) are optional."""

    node_index: NodeIndex
    graph: Graph
    positions: Floats | None = None
    warning: str = ""  # of a graph that was learnt
    units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of nodes with their own
    surroundings: Surroundings | None = None  # of a network that several daemons watch

    @property
    def names(self) -> tuple[str, ...]:
        return self.node_index.names

    @property
    def n_nodes(self) -> int:
        return len(self.node_index)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    # ------------------------------------------------------------------------------------- builders

    @classmethod
    def of(
        cls, names: Sequence[str], W: Any, positions: ArrayLike | None = None, warning: str = ""
    ) -> Network:
        """From names and whatever `estimators.Graph.of` takes, in the order of the names."""
        node_index = NodeIndex(checked_names(names))
        try:
            graph = Graph.of(W, len(node_index))
        except ValueError as error:
            raise ValueError(f"graph: {error}") from error
        return cls(node_index, graph, coordinates(positions, node_index.names), warning)

    @classmethod
    def from_edges(cls, edges: Iterable[Sequence[Any]], names: Sequence[str] | None = None) -> Network:
        """From (u, v) or (u, v, weight).

        Without ``names`` the nodes are those of the edges, in the order of their first appearance.
        """
        return cls.from_listed(
            [(f"edges[{i}]", _edge(edge, f"edges[{i}]")) for i, edge in enumerate(edges)], names
        )

    @classmethod
    def from_listed(cls, listed: Sequence[tuple[str, Edge]], names: Sequence[str] | None = None) -> Network:
        """`from_edges`, each with the place it comes from, which an error names."""
        if names is None:
            names = list(dict.fromkeys(name for _, edge in listed for name in edge[:2]))
        node_index = NodeIndex(checked_names(names))
        weights: dict[tuple[int, int], tuple[str, float]] = {}
        for place, (u, v, weight) in listed:
            for name in (u, v):
                if name not in node_index.index:
                    raise ValueError(
                        f"{place}: {name!r} is not a node of the network{nearest(name, node_index)}"
                    )
            if u == v:
                raise ValueError(f"{place}: {u!r} is linked to itself")
            if not (np.isfinite(weight) and weight >= 0.0):
                raise ValueError(
                    f"{place}: the weight of {u!r} and {v!r} is {weight}; it must be finite and >= 0"
                )
            pair = (
                min(node_index.index[u], node_index.index[v]),
                max(node_index.index[u], node_index.index[v]),
            )
            if pair in weights and weights[pair][1] != weight:
                raise ValueError(f"{place}: {u!r} and {v!r} have weight {weight} here, {weights[pair][1]} in "
                                 f"{weights[pair][0]}")  # fmt: skip
            weights.setdefault(pair, (place, weight))
        values = np.array([weight for _, weight in weights.values()])
        return cls(node_index, _symmetric(len(node_index), np.array(list(weights)), values))

    @classmethod
    def from_adjacency(cls, matrix: ArrayLike, names: Sequence[str]) -> Network:
        """From a matrix (N, N), in the order of the names."""
        return cls.of(names, np.asarray(matrix, dtype=np.float64))

    @classmethod
    def from_positions(cls, names: Sequence[str], xy: ArrayLike, *, k: int | None = None,
                       radius: float | None = None) -> Network:  # fmt: skip
        """Link each node to its ``k`` nearest (either way round), or to all within ``radius``; weights 1."""
        node_index = NodeIndex(checked_names(names))
        points = coordinates(xy, node_index.names)
        if points is None or (k is None) == (radius is None):
            raise ValueError("positions: give exactly one of k and radius")
        tree, n = cKDTree(points), len(points)
        if radius is not None:
            if not radius > 0.0:
                raise ValueError(f"radius: must be > 0, got {radius}")
            pairs = tree.query_pairs(radius, output_type="ndarray")
        else:
            if k is None or k < 1:
                raise ValueError(f"k: must be at least 1, got {k}")
            near = np.asarray(tree.query(points, k=min(k + 1, n))[1]).reshape(n, -1)
            own = near == np.arange(n)[:, None]
            own[~own.any(axis=1), -1] = True  # many at one place: a node need not be among its own nearest
            ends = np.stack([np.repeat(np.arange(n), near.shape[1] - 1), near[~own]], axis=1)
            pairs = np.unique(np.sort(ends, axis=1), axis=0)
        return cls(node_index, _symmetric(n, pairs, np.ones(len(pairs))), points)

    @classmethod
    def complete(cls, names: Sequence[str]) -> Network:
        """Every node linked to every other."""
        return cls.of(names, np.ones((len(names), len(names))) - np.eye(len(names)))

    @classmethod
    def empty(cls, names: Sequence[str]) -> Network:
        """No links: each node is watched by itself."""
        return cls.of(names, sp.csr_array((len(names), len(names))))

    @classmethod
    def learn(cls, Z: ArrayLike, names: Sequence[str], *, k: int = 4, level: float = 0.01) -> Network:
        """From the correlations of preprocessed values Z (T, N, d); see correlation.py. Has a ``warning``."""
        values = np.asarray(Z, dtype=np.float64)
        if values.ndim == 3 and values.shape[1] != len(names):
            raise ValueError(f"Z: has {values.shape[1]} nodes, but {len(names)} names were given")
        W, warning = correlation_links(values, k, level)
        return cls.of(names, W, warning=warning)

    def reordered(self, names: Sequence[str]) -> Network:
        """The same network with its nodes in that order; further names become nodes without links."""
        node_index = NodeIndex(checked_names(names))
        missing = [name for name in self.names if name not in node_index.index]
        if missing:
            raise ValueError(
                f"graph: {missing[0]!r} is not a node of the network{nearest(missing[0], node_index)}"
            )
        place = np.array([node_index.index[name] for name in self.names])
        W = self.graph.matrix().tocoo()
        n = len(node_index)
        moved = sp.csr_array((W.data, (place[W.coords[0]], place[W.coords[1]])), shape=(n, n))
        positions = None
        if self.positions is not None and n == self.n_nodes:
            positions = np.empty_like(self.positions)
            positions[place] = self.positions
        return Network(node_index, Graph.of(moved), positions, self.warning)

    # ------------------------------------------------------------------------------------- views

    def edges(self) -> list[tuple[str, str, float]]:
        """Each link once, in the order of the nodes."""
        W = sp.triu(self.graph.matrix()).tocoo()
        order = np.lexsort((W.coords[1], W.coords[0]))
        return [(self.names[W.coords[0][i]], self.names[W.coords[1][i]], float(W.data[i])) for i in order]

    def to_networkx(self) -> nx.Graph[Any]:
        """Nodes by name, with ``pos`` where positions are known; links with ``weight``."""
        import networkx as nx

        view: nx.Graph[Any] = nx.Graph()
        view.add_nodes_from(self.names)
        view.add_weighted_edges_from(self.edges())
        if self.positions is not None:
            places = map(tuple, self.positions.tolist())
            nx.set_node_attributes(view, dict(zip(self.names, places, strict=True)), "pos")
        return view

    @property
    def fingerprint(self) -> str:
        """Hash of names, order and links: state of another network does not fit."""
        digest = hashlib.sha256()
        for name in self.names:
            digest.update(f"{len(name)}:{name}".encode())
        for array in (self.graph.indptr, self.graph.indices, self.graph.weights):
            digest.update(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes())
        if self.surroundings is not None and self.surroundings.box is not None:
            digest.update(self.surroundings.fingerprint.encode())
        return digest.hexdigest()[:32]

    def layout(self) -> Floats:
        """Positions (N, 2) for drawing: those given, or ones made from the links; always the same."""
        return layout(self.graph) if self.positions is None else self.positions.copy()


def checked_names(names: Sequence[str]) -> list[str]:
    for i, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise ValueError(f"nodes[{i}]: a name must be a text that is not empty, got {name!r}")
    return list(names)


def _edge(edge: Sequence[Any], place: str) -> tuple[str, str, float]:
    if isinstance(edge, str) or len(edge) not in (2, 3):
        raise ValueError(f"{place}: expected (u, v) or (u, v, weight), got {edge!r}")
    weight = edge[2] if len(edge) == 3 else 1.0
    if isinstance(weight, bool) or not isinstance(weight, (int, float, np.integer, np.floating)):
        raise ValueError(f"{place}: the weight of {edge[0]!r} and {edge[1]!r} is {weight!r}, not a number")
    return edge[0], edge[1], float(weight)


def nearest(name: str, node_index: NodeIndex) -> str:
    near = difflib.get_close_matches(str(name), node_index.names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _symmetric(n_nodes: int, pairs: Any, weights: Floats) -> Graph:
    u, v = np.asarray(pairs, dtype=np.int64).reshape(-1, 2).T
    ends = (np.concatenate([u, v]), np.concatenate([v, u]))
    return Graph.of(sp.csr_array((np.concatenate([weights, weights]), ends), shape=(n_nodes, n_nodes)))


def coordinates(xy: ArrayLike | None, names: Sequence[str]) -> Floats | None:
    if xy is None:
        return None
    points = np.array(xy, dtype=np.float64)
    if points.shape != (len(names), 2):
        raise ValueError(f"positions: expected {len(names)} pairs of numbers, got shape {points.shape}")
    if not np.isfinite(points).all():
        v = int(np.argwhere(~np.isfinite(points))[0, 0])
        raise ValueError(f"positions: {names[v]!r} is at {points[v].tolist()}; coordinates must be finite")
    return points
