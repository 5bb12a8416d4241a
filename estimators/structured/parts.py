"""Labelled events, and the parts of them that a predictor learns from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from estimators.core.graph import Graph
from estimators.core.kernels import as_points
from estimators.core.types import Floats
from estimators.structured.egonet import ego_features
from estimators.structured.kernel import Ids, as_ids


@dataclass(frozen=True)
class LabelledEvent:
    """One snapshot of a confirmed event, or of a confirmed false alarm: all labels zero.

    Parameters
    ----------
    event_id : str
        Snapshots of one event share it: they are left out together.
    signal : array_like of shape (N, d)
        Signals of all nodes.
    graph : Graph, networkx graph, sparse or dense matrix of shape (N, N)
        The network.
    labels : array_like of shape (N,), int, or of shape (N, T), float
        Whole numbers in 0 to T - 1, or probabilities.
    mask : ndarray of shape (N,), bool, optional
        Nodes to learn from: known, and where events are looked for. By default all.
    nodes : array_like of shape (N,), optional
        Ids that stay the same between events, for kernels that know nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import LabelledEvent
    >>> event = LabelledEvent("leak in March", np.zeros((3, 1)), np.zeros((3, 3)), [0, 1, 1])
    >>> event.event_id
    'leak in March'
    """

    event_id: str
    signal: ArrayLike
    graph: Any
    labels: ArrayLike
    mask: NDArray[np.bool_] | None = None
    nodes: ArrayLike | None = None


@dataclass(frozen=True)
class LeftOut:
    """What a predictor says of the labelled nodes of an event that it has not learnt from."""

    event_id: str
    node: NDArray[np.int64]  # (n,)
    labels: NDArray[np.int64]  # (n,) said
    support: Floats  # (n,)
    truth: Floats  # (n, T)


@dataclass(frozen=True)
class Parts:
    """The auxiliary set (Algorithm 1): parts of all events with their labels."""

    F: Floats  # (m, D) descriptors
    H: Floats  # (m, T) one-hot or soft labels
    event: NDArray[np.int64]  # (m,) number of the snapshot
    node: NDArray[np.int64]  # (m,) number of the node in its graph
    ids: Ids  # (m,) what the node is called in all graphs
    members: NDArray[np.int64]  # (m,) how many parts of its snapshot are affected
    names: tuple[str, ...]  # event_id of every snapshot

    @classmethod
    def of(cls, events: Sequence[LabelledEvent], n_classes: int, radius: int) -> Self:
        """Every part once; errors name the event."""
        F, H, event, node, ids, members = [], [], [], [], [], []
        for i, given in enumerate(events):
            where = f"event {given.event_id!r}"
            try:
                graph = Graph.of(given.graph)
                rows = np.arange(graph.n_nodes) if given.mask is None else _known(given.mask, graph.n_nodes)
                F.append(ego_features(given.signal, graph, radius, rows))
                H.append(soft_labels(given.labels, graph.n_nodes, n_classes, rows))
                nodes = np.arange(graph.n_nodes) if given.nodes is None else given.nodes
                ids.append(as_ids(nodes, graph.n_nodes)[rows])
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None
            if F[-1].shape[1] != F[0].shape[1]:
                raise ValueError(
                    f"{where}: {F[-1].shape[1]} features of a part, the others have {F[0].shape[1]}"
                )
            event.append(np.full(len(rows), i))
            node.append(rows)
            members.append(np.full(len(rows), round(float((1.0 - H[-1][:, 0]).sum()))))
        if not sum(map(len, F)):
            raise ValueError("events: no node has a label")
        return cls(np.concatenate(F), np.concatenate(H), np.concatenate(event), np.concatenate(node),
                   np.concatenate(ids), np.concatenate(members),
                   tuple(given.event_id for given in events))  # fmt: skip

    @property
    def groups(self) -> NDArray[np.str_]:
        """Name of each part's event (m,)."""
        return np.array(self.names)[self.event]

    def thinned(self, m: int, seed: int) -> Self:
        """At most m parts, drawn evenly without replacement: labels have no say, else Eq. 6 would break."""
        if len(self.F) <= m:
            return self
        keep = np.sort(np.random.default_rng(seed).choice(len(self.F), m, replace=False))
        return type(self)(
            self.F[keep],
            self.H[keep],
            self.event[keep],
            self.node[keep],
            self.ids[keep],
            self.members[keep],
            self.names,
        )


def soft_labels(labels: ArrayLike, n_nodes: int, n_classes: int, rows: NDArray[np.intp]) -> Floats:
    """Rows (n, T) of probabilities of the labels of ``rows``; hard labels become one-hot."""
    given = np.asarray(labels)
    if given.shape == (n_nodes,) and given.dtype.kind in "iub":
        given = given[rows].astype(np.int64)
        bad = (given < 0) | (given >= n_classes)
        if bad.any():
            raise ValueError(f"labels: node {rows[bad.argmax()]} has {given[bad.argmax()]}, "
                             f"but classes are 0 to {n_classes - 1}")  # fmt: skip
        hard: Floats = np.eye(n_classes)[given]
        return hard
    if given.shape != (n_nodes, n_classes):
        raise ValueError(f"labels: expected {n_nodes} whole numbers or {n_nodes} by {n_classes} "
                         f"probabilities, got {given.dtype} of shape {given.shape}")  # fmt: skip
    soft = as_points(given[rows], "labels")
    if soft.size and (soft.min() < 0.0 or np.abs(soft.sum(axis=1) - 1.0).max() > 1e-6):
        raise ValueError("labels: rows of probabilities must sum to 1, and none may be negative")
    return soft


def _known(mask: ArrayLike, n_nodes: int) -> NDArray[np.intp]:
    known = np.asarray(mask)
    if known.shape != (n_nodes,) or known.dtype != np.bool_:
        raise ValueError(f"mask: expected {n_nodes} truth values, got {known.dtype} of shape {known.shape}")
    return np.flatnonzero(known)
