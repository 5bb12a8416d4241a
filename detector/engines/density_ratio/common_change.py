"""How nodes changed together, by their own windows: who did, when, and who is back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from estimators.core.graph import Graph
from estimators.core.types import Floats, Nodes
from estimators.streaming.membership import Membership, Return, Windows, log_ratios, membership, returned

LEAST_AFTER = 3  # samples since an onset, below which nothing is said


class Known(Protocol):
    """What the windows of nodes tell, wherever they are."""

    def able(self, nodes: Nodes) -> NDArray[np.bool_]:
        """(k,) whether the reference of each is full, and the node not silent."""

    def since(self, nodes: Nodes, counts: NDArray[np.intp], skip: int = 0) -> Windows:
        """Features of the references, and of the latest ``counts`` samples before the last ``skip``."""

    def features_of(self, v: int) -> Floats:
        """(m, r) features of the recent values."""


class CommonChange:
    """``count``: how many recent values of each node came from its time on."""

    def __init__(
        self, graph: Graph, windows: Known, count: Callable[[Nodes, Floats], NDArray[np.intp]]
    ) -> None:
        self.graph, self.bank, self.count = graph, windows, count

    def membership(self, nodes: Nodes, since: float, seeds: NDArray[np.bool_]) -> Membership:
        """How likely each of ``nodes`` changed at ``since`` as ``seeds`` did; NaN: windows cannot tell."""
        counts = self.count(nodes, np.full(len(nodes), since))
        able = self.bank.able(nodes) & (counts >= LEAST_AFTER)
        found = Membership(*np.full((2, len(nodes)), np.nan))
        if able.any():
            windows = self.bank.since(nodes[able], counts[able])
            told = membership(windows, self._links(nodes[able]), seeds[able])
            found.probability[able], found.p_value[able] = told.probability, told.p_value
        return found

    def log_ratios(self, nodes: Nodes, since: float) -> dict[int, Floats]:
        """What each recent value of nodes that changed together at ``since`` says for after."""
        counts = self.count(nodes, np.full(len(nodes), since))
        some = nodes[able := self.bank.able(nodes) & (counts >= LEAST_AFTER)]
        if not len(some):
            return {}
        values = [self.bank.features_of(v) for v in some.tolist()]
        told = log_ratios(self.bank.since(some, counts[able]), self._links(some), values)
        return dict(zip(some.tolist(), told, strict=True))

    def returned(self, nodes: Nodes, since: Floats, latest: int) -> NDArray[np.bool_]:
        """Whether the ``latest`` samples of each node, changed ``since`` then, are as they were before."""
        counts = self.count(nodes, since) - latest
        back = np.zeros(len(nodes), np.bool_)
        some = nodes[able := self.bank.able(nodes) & (counts >= LEAST_AFTER)]
        if len(some):
            now = self.bank.since(some, np.full(len(some), latest))
            back[able] = returned(self.bank.since(some, counts[able], latest), now).back
        return back

    def between(self, nodes: Nodes, first: float, second: float) -> tuple[float, float] | None:
        """Where ``nodes`` were between two times: 0 as before, 1 as since the second; and its error."""
        late = self.count(nodes, np.full(len(nodes), second))
        count = self.count(nodes, np.full(len(nodes), first)) - late
        able = self.bank.able(nodes) & (late >= LEAST_AFTER) & (count > 0)
        if not able.any():
            return None
        places, errors = [], []
        for v, skip, k in zip(nodes[able].tolist(), late[able].tolist(), count[able].tolist(), strict=True):
            one = np.array([v], np.int32)
            changed = self.bank.since(one, np.array([skip]))
            found = returned(changed, self.bank.since(one, np.array([k]), skip))
            places.append(found.place)
            errors.append(found.error)
        return Return(np.concatenate(places), np.concatenate(errors)).pooled()

    def _links(self, nodes: Nodes) -> Floats:
        return np.asarray(self.graph.matrix()[nodes][:, nodes].toarray())
