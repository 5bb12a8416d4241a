"""Known changes put into quiet data, to learn what would be seen and how soon."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from estimators.core.graph import Graph
from estimators.core.types import Floats, Nodes


@dataclass(frozen=True)
class Change:
    """``size``: standard deviations for mean, factor for spread; correlation and shape have none."""

    kind: str
    size: float = 0.0

    def __str__(self) -> str:
        words = {
            "mean": f"mean +{self.size:g} sd",
            "spread": f"spread × {self.size:g}",
            "correlation": "correlation lost",
            "shape": "normal → uniform",
        }
        return words[self.kind]

    def apply(self, z: Floats, other: Floats) -> Floats:
        """z (k, d) after the change; ``other`` (k, d) are values of the same nodes at another time."""
        if self.kind == "mean":
            return z + self.size
        if self.kind == "spread":
            return z * self.size
        if self.kind == "correlation":  # each component from its own time
            return np.concatenate([z[:, :1], other[:, 1:]], axis=1)
        flat: Floats = np.sqrt(12.0) * (ndtr(z) - 0.5)  # the same mean and spread, without tails
        return flat


def kinds(dim: int) -> list[Change]:
    """The changes that hyper-parameters are chosen by."""
    chosen = [Change("mean", 0.4), Change("spread", 1.3), Change("shape")]
    return [*chosen, Change("correlation")] if dim > 1 else chosen


def neighbourhood(graph: Graph, centre: int, size: int) -> Nodes:
    """``size`` well-linked nodes around ``centre``."""
    return np.array(sorted(_grow(graph, centre, size)[0]), np.int32)


def community(graph: Graph, centre: int, size: int) -> Nodes:
    """About ``size`` nodes around ``centre``, half to twice, cut where the fewest links are cut.

    Events follow the graph; a set cut out of the middle of a community would blame the detector for its
    unchanged rest.
    """
    found, cut = _grow(graph, centre, 2 * size)
    least = min(max(size // 2, 1), len(found))
    end = least + int(np.argmin(cut[least - 1 :]))
    return np.array(sorted(found[:end]), np.int32)


def _grow(graph: Graph, centre: int, size: int) -> tuple[list[int], list[float]]:
    """Nodes in the order in which they join, each the one with most of its links inside; and after each the
    share of the set's links that lead out."""
    inside: dict[int, float] = {}  # weight of the links into the set, for its neighbours
    found, cut = [centre], [1.0]
    member = np.zeros(graph.n_nodes, np.bool_)
    member[centre] = True
    out = total = float(graph.degree[centre])
    while len(found) < min(size, graph.n_nodes):
        last = found[-1]
        for e in range(int(graph.indptr[last]), int(graph.indptr[last + 1])):
            u = int(graph.indices[e])
            if not member[u]:
                inside[u] = inside.get(u, 0.0) + float(graph.weights[e])
        if not inside:
            break
        best = min(inside, key=lambda u: (-inside[u] / graph.degree[u], u))
        total += float(graph.degree[best])
        out += float(graph.degree[best]) - 2.0 * inside.pop(best)
        member[best] = True
        found.append(best)
        cut.append(out / total)
    return found, cut
