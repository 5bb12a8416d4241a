"""A network from a file; errors name the file, the line, the node and the value.

edges       CSV ``u,v`` or ``u,v,weight`` per line, an optional header, blank lines and # comments allowed
adjacency   CSV matrix with names in the first row and, optionally, in the first column
GraphML     undirected; a node's name is its id (or its label, if all have distinct ones); x and y, or lon and
            lat, become positions
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import ParseError

import numpy as np

from detector.network.network import Edge, Network, coordinates, nearest
from estimators.core.types import Floats

if TYPE_CHECKING:
    import networkx as nx

FilePath = str | PathLike[str]
_HEADERS = ({"u", "v"}, {"source", "target"}, {"from", "to"}, {"node1", "node2"})


def from_edge_file(path: FilePath, names: Sequence[str] | None = None) -> Network:
    """Without ``names`` the nodes are those of the edges, in the order of their first appearance."""
    return Network.from_listed(read_edges(path, names or ()), names)


def from_adjacency_file(path: FilePath, names: Sequence[str] | None = None) -> Network:
    """``names`` may fix another order, or add nodes without links."""
    found, W = read_adjacency(path)
    try:
        network = Network.of(found, W)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return network if names is None else network.reordered(names)


def from_graphml_file(path: FilePath, names: Sequence[str] | None = None) -> Network:
    """``names`` may fix another order, or add nodes without links."""
    graph, positions = read_graphml(path)
    found = [str(node) for node in graph]
    node_index = Network.empty(found if names is None else names).node_index
    missing = [name for name in found if name not in node_index.index]
    if missing:
        raise ValueError(
            f"{path}: {missing[0]!r} is not a node of the network{nearest(missing[0], node_index)}"
        )
    edges = [(u, v, data["weight"]) for u, v, data in graph.edges(data=True)]
    try:
        network = Network.from_edges(edges, node_index.names)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    xy = (
        [positions[name] for name in node_index.names]
        if all(n in positions for n in node_index.names)
        else None
    )
    return Network(node_index, network.graph, coordinates(xy, node_index.names))


def read_edges(path: FilePath, names: Sequence[str] = ()) -> list[tuple[str, Edge]]:
    """Edges with the place each comes from, for the messages of those who check them.

    A first line such as ``source,target`` is a header, unless these are ``names`` of nodes.
    """
    edges: list[tuple[str, Edge]] = []
    for number, row in _rows(path):
        place = f"{path}, line {number}"
        if len(row) not in (2, 3):
            raise ValueError(f"{place}: expected u,v or u,v,weight, got {len(row)} fields")
        header = not edges and {row[0].lower(), row[1].lower()} in _HEADERS
        if header and not {row[0], row[1]} <= set(names):
            continue
        edges.append((place, (row[0], row[1], _number(row[2], f"{place}: weight") if len(row) == 3 else 1.0)))
    return edges


def read_adjacency(path: FilePath) -> tuple[list[str], Floats]:
    """Names and matrix (N, N)."""
    rows = list(_rows(path))
    if not rows:
        raise ValueError(f"{path}: the file is empty")
    first = rows[0][1]
    # A cell above the names of the rows makes the first row as long as there are rows.
    corner = first[0] == "" or len(rows) == len(first)
    names = list(first[1:] if corner else first)
    named_rows = corner or (len(rows) > 1 and len(rows[1][1]) == len(names) + 1)
    if len(rows) - 1 != len(names):
        raise ValueError(f"{path}: {len(names)} names in the first row, but {len(rows) - 1} rows follow")
    matrix = np.empty((len(names), len(names)))
    for v, (number, row) in enumerate(rows[1:]):
        place = f"{path}, line {number}"
        cells = row[1:] if named_rows else row
        if named_rows and row[0] != names[v]:
            raise ValueError(
                f"{place}: row of {row[0]!r}, but column {v + 1} is {names[v]!r}; keep one order"
            )
        if len(cells) != len(names):
            raise ValueError(f"{place}: expected {len(names)} weights, got {len(cells)}")
        for c, cell in enumerate(cells):
            matrix[v, c] = _number(cell or "0", f"{place}: weight of {names[v]!r} and {names[c]!r}")
    return names, matrix


def read_graphml(path: FilePath) -> tuple[nx.Graph[Any], dict[str, tuple[float, float]]]:
    """Graph with string names, and the positions where every node has one."""
    import networkx as nx

    try:
        graph = nx.read_graphml(_existing(path))
    except (ParseError, nx.NetworkXError, ValueError, KeyError) as error:
        raise ValueError(f"{path}: not a GraphML file: {error}") from error
    if graph.is_directed():
        raise ValueError(f"{path}: the graph is directed; links between sensors have no direction")
    if graph.is_multigraph():
        raise ValueError(f"{path}: the graph has parallel edges; give one weight per pair of nodes")
    labels = {node: str(data.get("label", "")) for node, data in graph.nodes(data=True)}
    if all(labels.values()) and len(set(labels.values())) == len(labels):
        graph = nx.relabel_nodes(graph, labels)
    else:
        graph = nx.relabel_nodes(graph, {node: str(node) for node in graph})
    for u, v, data in graph.edges(data=True):
        data["weight"] = _number(str(data.get("weight", 1.0)), f"{path}: weight of {u!r} and {v!r}")
    for x, y in (("x", "y"), ("lon", "lat")):
        if len(graph) and all(x in data and y in data for _, data in graph.nodes(data=True)):
            return graph, {
                str(node): (
                    _number(str(data[x]), f"{path}: {x} of {node!r}"),
                    _number(str(data[y]), f"{path}: {y} of {node!r}"),
                )
                for node, data in graph.nodes(data=True)
            }
    return graph, {}


def _existing(path: FilePath) -> Path:
    found = Path(path)
    if not found.is_file():
        raise ValueError(f"{path}: no such file")
    return found


def _rows(path: FilePath) -> Iterator[tuple[int, Sequence[str]]]:
    """Line number and stripped fields of each line that holds something."""
    try:
        with _existing(path).open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.reader(lines)
            for row in reader:
                fields = [field.strip() for field in row]
                if any(fields) and not fields[0].startswith("#"):
                    yield reader.line_num, fields
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: not CSV: {error}") from error


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{what}: {text!r} is not a number") from None
