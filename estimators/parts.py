"""Labelled events, and the parts of them that a predictor learns from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from estimators.egonet import ego_features
from estimators.graph import Graph
from estimators.kernels import Array, as_points
from estimators.part_kernel import Ids, as_ids


@dataclass(frozen=True)
class LabelledEvent:
    """One snapshot of a confirmed event, or of a confirmed false alarm: all labels zero."""

    event_id: str  # snapshots of one event share it: they are left out together
    signal: ArrayLike  # (N, d)
    graph: Any  # whatever Graph.of takes
    labels: ArrayLike  # (N,) whole numbers in 0..T-1, or (N, T) probabilities
    mask: NDArray[np.bool_] | None = None  # (N,) nodes to learn from: known, and where events are looked for
    nodes: ArrayLike | None = None  # (N,) ids that stay the same between events, for kernels that know nodes


@dataclass(frozen=True)
class LeftOut:
    """What a predictor says of the labelled nodes of an event that it has not learnt from."""

    event_id: str
    node: NDArray[np.int64]  # (n,)
    labels: NDArray[np.int64]  # (n,) said
    support: Array  # (n,)
    truth: Array  # (n, T)


@dataclass(frozen=True)
class Parts:
    """The auxiliary set (Algorithm 1): parts of all events with their labels."""

    F: Array  # (m, D) descriptors
    H: Array  # (m, T) one-hot or soft labels
    event: NDArray[np.int64]  # (m,) number of the snapshot
    node: NDArray[np.int64]  # (m,) number of the node in its graph
    ids: Ids  # (m,) what the node is called in all graphs
    names: tuple[str, ...]  # event_id of every snapshot

    @classmethod
    def of(cls, events: Sequence[LabelledEvent], n_classes: int, radius: int) -> Self:
        """Every part once; errors name the event."""
        F, H, event, node, ids = [], [], [], [], []
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
        if not sum(map(len, F)):
            raise ValueError("events: no node has a label")
        return cls(np.concatenate(F), np.concatenate(H), np.concatenate(event), np.concatenate(node),
                   np.concatenate(ids), tuple(given.event_id for given in events))  # fmt: skip

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
            self.F[keep], self.H[keep], self.event[keep], self.node[keep], self.ids[keep], self.names
        )


def soft_labels(labels: ArrayLike, n_nodes: int, n_classes: int, rows: NDArray[np.intp]) -> Array:
    """Rows (n, T) of probabilities of the labels of ``rows``; hard labels become one-hot."""
    given = np.asarray(labels)
    if given.shape == (n_nodes,) and given.dtype.kind in "iub":
        given = given[rows].astype(np.int64)
        bad = (given < 0) | (given >= n_classes)
        if bad.any():
            raise ValueError(f"labels: node {rows[bad.argmax()]} has {given[bad.argmax()]}, "
                             f"but classes are 0 to {n_classes - 1}")  # fmt: skip
        hard: Array = np.eye(n_classes)[given]
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
