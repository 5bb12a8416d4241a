"""A case: all that the pipeline knows of one incident at one tick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from estimators.core.graph import Graph
from estimators.core.types import Floats, Floats32

Stage = Literal["early", "settled"]
STAGES: tuple[Stage, ...] = get_args(Stage)


ARRAYS = (
    "edges",
    "weights",
    "statistic",
    "event_statistic",
    "levels",
    "increments",
)  # fields that are arrays


@dataclass(frozen=True, eq=False)
class Case:
    """One incident, ``early`` or ``settled``. Values are preprocessed: units of each node's baseline spread.

    Arrays over N follow ``names``: the whole network, or of a very large one the part around the incident.
    NaN is "no decision". Windows are kept of the strongest members and of some neighbours outside.
    """

    incident: str
    stage: Stage
    time: float  # of the tick, in the stream's own time, as all times here
    opened: float
    onset: float | None
    step: float  # time between ticks
    names: tuple[str, ...]
    edges: NDArray[np.int32]  # (E, 2) rows of `names`, each link once
    weights: Floats  # (E,)
    members: tuple[str, ...]  # nodes of the incident by the thresholds, largest peak first
    suspected: tuple[str, ...]  # those of them that only the evidence pooled around them names
    onsets: Mapping[str, float]  # of members whose own begin is known
    statistic: Floats32  # (N,) of the node itself
    event_statistic: Floats32  # (N,) pooled around it
    levels: Floats32  # (N, S) standardised score per test window
    lengths: tuple[int, ...]  # (S,) of the test windows, in samples
    increments: Floats32  # (N,) statistic now less what it was before the onset
    threshold: float
    event_threshold: float
    components: tuple[str, ...]  # (d,)
    reference: Mapping[str, Floats32]  # node: (n, d) "before", in time order
    recent: Mapping[str, Floats32]  # node: (m, d) longest test window, in time order
    times: Mapping[str, Floats]  # node: (m,) of `recent`
    centre: Mapping[str, Floats]  # node: (d,) original units = centre + scale value; NaN: no way back
    scale: Mapping[str, Floats]
    plain: bool = False  # values are only centred and scaled, so that each has a way back

    @property
    def key(self) -> tuple[str, Stage]:
        return self.incident, self.stage

    @property
    def begin(self) -> float:
        """The onset, or the opening where the onset is not known."""
        return self.opened if self.onset is None else self.onset

    @property
    def certain(self) -> tuple[str, ...]:
        """Members named by their own statistic."""
        doubtful = set(self.suspected)
        return tuple(name for name in self.members if name not in doubtful)

    @property
    def size(self) -> int:
        """Bytes of memory, nearly."""
        held: list[NDArray[Any]] = [getattr(self, name) for name in ARRAYS]
        for windows in (self.reference, self.recent, self.times):
            held += windows.values()
        return sum(array.nbytes for array in held) + 20 * len(self.names)

    @cached_property
    def index(self) -> dict[str, int]:
        """Row of each name."""
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def graph(self) -> Graph:
        """The links, as the estimators take them."""
        n = len(self.names)
        u, v = self.edges[:, 0], self.edges[:, 1]
        ends = (np.concatenate([u, v]), np.concatenate([v, u]))
        return Graph.of(sp.csr_array((np.tile(self.weights, 2), ends), shape=(n, n)))

    def after(self, name: str) -> Floats32:
        """The recent values of a node from the onset on."""
        return self.recent[name][self.times[name] >= self.begin]
