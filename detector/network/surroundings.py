"""A network whose nodes are watched by several daemons, as one of them sees it: which node is where.

All boxes are given the same network and the same list of who watches what; each keeps its own nodes. What is
read over the cuts between boxes is in `detector.edge`.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from detector.network.network import Network, nearest
from detector.network.node_index import NodeIndex
from estimators.core.graph import Graph
from estimators.core.partition import Cut

if TYPE_CHECKING:
    from detector.edge.dictionary import SharedDictionary

_HEADER = ("node", "box")


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The whole network, and the box of each node. ``box`` None: this daemon watches all of it, cut alike."""

    whole: Network
    boxes: tuple[str, ...]
    labels: NDArray[np.int32]  # (N,) number of the box of each node
    box: str | None
    cut: Cut
    patience: int = 5  # ticks for which the last that was heard is used
    budget: str = ""  # of the whole network, in words
    dictionary: SharedDictionary | None = None  # None: found here

    @classmethod
    def of(cls, whole: Network, boxes: Mapping[str, Sequence[str]], box: str | None) -> Surroundings:
        """``boxes``: the nodes of each. ValueError if a node is in none or in two, or ``box`` is none."""
        names = tuple(sorted(boxes))
        labels = np.full(whole.n_nodes, -1, np.int32)
        index = whole.node_index
        for k, name in enumerate(names):
            for node in boxes[name]:
                if node not in index.index:
                    raise ValueError(f"{name}: {node!r} is not a node of the network{nearest(node, index)}")
                if labels[index.index[node]] >= 0:
                    other = names[labels[index.index[node]]]
                    raise ValueError(f"{node!r} is in {other} and in {name}; a node belongs to one box")
                labels[index.index[node]] = k
        if (labels < 0).any():
            lost = whole.names[int(np.argmin(labels))]
            raise ValueError(f"{lost!r} is in no box; each node of the network belongs to one")
        if box is not None and not boxes.get(box):
            raise ValueError(f"there is no box {box!r} with nodes; known: {', '.join(names)}")
        held = None if box is None else np.flatnonzero(labels == names.index(box))
        return cls(whole, names, labels, box, Cut.of(whole.graph, labels, held))

    @property
    def network(self) -> Network:
        """What this daemon watches: its own nodes and the links among them."""
        if self.box is None:
            return replace(self.whole, surroundings=self)
        held, whole = self.cut.held, self.whole
        names = [whole.names[v] for v in held]
        return Network(
            NodeIndex(names),
            Graph.of(whole.graph.matrix()[held][:, held], len(held)),
            None if whole.positions is None else whole.positions[held],
            units={name: units for name, units in whole.units.items() if name in set(names)},
            surroundings=self,
        )

    @property
    def share(self) -> float:
        """Of the network's nodes that are here; of its budget, so much is ours."""
        return len(self.cut.held) / self.whole.n_nodes

    @property
    def neighbours(self) -> tuple[str, ...]:
        """The boxes that own nodes which ours read; they read some of ours as well."""
        if self.box is None:
            return ()
        return tuple(self.boxes[k] for k in np.unique(self.labels[self.cut.nodes]))

    def ghosts_of(self, box: str) -> NDArray[np.intp]:
        """The ghosts that are copies of nodes of that box."""
        return np.flatnonzero(self.labels[self.cut.nodes] == self.boxes.index(box))

    def told_by(self, box: str) -> NDArray[np.intp]:
        """Numbers in the whole network, increasing, of the nodes of that box that others read."""
        mine = self.labels == self.boxes.index(box)
        graph = self.whole.graph
        row = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
        across = self.labels[row] != self.labels[graph.indices]
        return np.unique(row[across & mine[row]])

    @property
    def fingerprint(self) -> str:
        """Of the network and of which node is where: alike in all boxes that may talk to each other."""
        digest = hashlib.sha256(self.whole.fingerprint.encode())
        digest.update("\n".join(self.boxes).encode() + self.labels.astype("<i4").tobytes())
        return digest.hexdigest()[:16]


def read_boxes(path: Path) -> dict[str, list[str]]:
    """Nodes by box, from lines ``node,box``; a header, blank lines and # comments are passed over."""
    found: dict[str, list[str]] = {}
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8 text") from None
    for number, row in enumerate(csv.reader(lines), start=1):
        fields = [field.strip() for field in row]
        if not any(fields) or fields[0].startswith("#") or (number == 1 and tuple(fields) == _HEADER):
            continue
        if len(fields) != 2 or not all(fields):
            raise ValueError(f"{path}, line {number}: expected node,box, got {', '.join(fields)[:80]!r}")
        found.setdefault(fields[1], []).append(fields[0])
    if not found:
        raise ValueError(f"{path}: no node in it")
    return found
