"""From `graph:` of the configuration to the network; errors are ValueErrors that name file and line."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.codec.paths import MAX_NODE_LENGTH, valid_node
from connectors.simulation.source import SimulateSource
from detector.config.model import GraphConfig

if TYPE_CHECKING:
    from detector.network.network import Network

MAX_NODES = 1_000_000


def simulated(sources: Mapping[str, Any]) -> SimulateSource.Config:
    """The simulate source whose network is meant; there must be exactly one."""
    found = [given for given in sources.values() if isinstance(given, SimulateSource.Config)]
    if len(found) != 1:
        raise ValueError(f"simulate needs exactly one source of type simulate, got {len(found)}")
    return found[0]


def build_network(graph: GraphConfig, sources: Mapping[str, Any]) -> Network | None:
    """The network; None where it is still to be learnt from the data."""
    from detector.network import files  # slow to load, and most commands do without
    from detector.network.network import Network

    names = node_names(graph)
    if graph.simulate:
        source = SimulateSource(simulated(sources))
        links = source.graph()
        return Network.from_edges([(u, v) for u, v in links.edges()], source.names)
    if graph.edges is not None:
        if isinstance(graph.edges, Path):
            return files.from_edge_file(graph.edges, names)
        return Network.from_edges(graph.edges, names)
    if graph.graphml is not None:
        return files.from_graphml_file(graph.graphml, names)
    if graph.adjacency is not None:
        return files.from_adjacency_file(graph.adjacency, names)
    if graph.positions is not None:
        found, places = read_positions(graph.positions.file)
        network = Network.from_positions(found, places, k=graph.positions.k, radius=graph.positions.radius)
        return network if names is None else network.reordered(names)
    assert names is not None  # the model has seen to it
    if graph.complete:
        return Network.complete(names)
    return Network.empty(names) if graph.empty else None


def node_names(graph: GraphConfig) -> list[str] | None:
    """The names given under `nodes`, None if there are none."""
    if graph.nodes is None:
        return None
    names = read_names(graph.nodes) if isinstance(graph.nodes, Path) else list(graph.nodes)
    seen: set[str] = set()
    for name in names:
        if not valid_node(name):
            raise ValueError(
                f"nodes: {name[:80]!r} is no node id: 1 to {MAX_NODE_LENGTH} printable characters"
            )
        if name in seen:
            raise ValueError(f"nodes: {name!r} is named twice")
        seen.add(name)
    return names


def read_names(path: Path) -> list[str]:
    """One name a line; blank lines and # comments are passed over."""
    lines = [line.strip() for line in _text(path).splitlines()]
    names = [line for line in lines if line and not line.startswith("#")]
    if not 0 < len(names) <= MAX_NODES:
        raise ValueError(f"{path}: {len(names)} names; expected 1 to {MAX_NODES}")
    return names


def read_positions(path: Path) -> tuple[list[str], list[tuple[float, float]]]:
    """Names and places from lines name,x,y; a header line is passed over."""
    names: list[str] = []
    places: list[tuple[float, float]] = []
    for number, row in enumerate(csv.reader(_text(path).splitlines()), start=1):
        fields = [field.strip() for field in row]
        if not any(fields) or fields[0].startswith("#"):
            continue
        if len(fields) != 3:
            raise ValueError(f"{path}, line {number}: expected name,x,y, got {len(fields)} fields")
        try:
            place = (float(fields[1]), float(fields[2]))
        except ValueError:
            if not names and number == 1:
                continue
            raise ValueError(f"{path}, line {number}: {fields[1]!r}, {fields[2]!r} are not numbers") from None
        names.append(fields[0])
        places.append(place)
    if not names:
        raise ValueError(f"{path}: no node in it")
    return names, places


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8 text") from None
