"""The last few vectors of every node, in rings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector.stateful import copies, take_rows
from estimators.core.types import Floats, Nodes

_ARRAYS = ("ring", "head", "count")


class LagBuffer:
    """Remembers ``length`` vectors per node; `restart` forgets those of some nodes."""

    def __init__(self, n_nodes: int, length: int, dim: int) -> None:
        self.length = length
        self.ring: Floats = np.zeros((n_nodes, length, dim))
        self.head: NDArray[np.int32] = np.zeros(n_nodes, np.int32)  # where the next vector goes
        self.count: NDArray[np.int32] = np.zeros(n_nodes, np.int32)

    def full(self, nodes: Nodes) -> NDArray[np.bool_]:
        """(k,) whether each node's ring is full."""
        result: NDArray[np.bool_] = self.count[nodes] >= self.length
        return result

    def oldest(self, nodes: Nodes) -> Floats:
        """(k, d) the vectors of ``length`` samples ago; zeros while the ring fills."""
        return self.ring[nodes, self.head[nodes]]

    def latest(self, nodes: Nodes) -> Floats:
        """(k, length, d) all vectors, latest first; zeros while the ring fills."""
        at = (self.head[nodes][:, None] - 1 - np.arange(self.length)) % self.length
        vectors: Floats = self.ring[nodes[:, None], at]
        return vectors

    def push(self, nodes: Nodes, vectors: Floats) -> None:
        """One new vector for each of the distinct nodes."""
        head = self.head[nodes]
        self.ring[nodes, head] = vectors
        self.head[nodes] = (head + 1) % self.length
        self.count[nodes] = np.minimum(self.count[nodes] + 1, self.length)

    def restart(self, nodes: Nodes) -> None:
        self.ring[nodes] = 0.0
        self.head[nodes] = 0
        self.count[nodes] = 0

    def fresh(self) -> LagBuffer:
        """An empty one."""
        return LagBuffer(len(self.ring), self.length, self.ring.shape[2])

    def state(self) -> dict[str, Any]:
        """Arrays (N, ...) to put back."""
        return copies(self, _ARRAYS)

    def restore(self, arrays: dict[str, Any], rows: NDArray[np.intp]) -> None:
        take_rows(self, _ARRAYS, arrays, rows)
