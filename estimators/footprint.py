"""Footprint of an event: which nodes it touches and of which type it is, learnt from labelled events.

Localized structured prediction (Ciliberto, Bach and Rudi, 2018) with ego-networks for parts: what was learnt
at one node serves all, so that a few tens of labelled events do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from estimators.base import NotFittedError, check_range
from estimators.edge_parts import fit_edges, learnt_coupling
from estimators.egonet import RADII, ego_features
from estimators.graph import Graph
from estimators.kernels import Array, as_points
from estimators.labelling import (
    UNKNOWN,
    Coupling,
    Labels,
    expected_cost,
    many_types,
    miss_cost,
    objective,
    one_type,
)
from estimators.locality import intra_locality
from estimators.part_kernel import PartKernel
from estimators.part_ridge import LAMBDAS, PartRidge
from estimators.parts import LabelledEvent, LeftOut, Parts

STATE_VERSION = 1
_PARTS_FOR_Q = 2000
_PARAMETERS = ("n_classes", "radius", "sigma", "lam", "m_max", "centres", "one_type", "edge_weight",
               "identity", "abstain", "min_events", "seed")  # fmt: skip


class TooFewEventsError(ValueError):
    """Fewer labelled events than a predictor wants: a threshold serves better."""


@dataclass(frozen=True)
class Footprint:
    """Predicted labels of all nodes, and what they rest on."""

    labels: Labels  # (N,) 0 not affected, 1.. type, UNKNOWN
    event_type: int  # type of the affected nodes, the most common of several; 0: no footprint
    g: Array  # (N, T) estimates as they are: they may leave [0, 1]
    support: Array  # (N,) 1 among the parts learnt from, 0 far from all
    objective: float  # expected cost, F

    @property
    def probabilities(self) -> Array:
        """g for display (N, T): in [0, 1], rows sum to at most 1; what is missing is not known."""
        clipped = np.clip(self.g, 0.0, 1.0)
        shown: Array = clipped / np.maximum(clipped.sum(axis=1, keepdims=True), 1.0)
        return shown


class FootprintPredictor:
    """Predict the label of every node from the signals (N, d) of all nodes and the graph.

    n_classes    T: class 0 is "not affected", 1 to T - 1 are types of events.
    radius       of the ego-networks, in hops (see egonet.ego_features).
    sigma, lam   width and ridge; those not given are chosen by leaving out one event after the other.
    m_max        learn from at most so many parts, drawn evenly from all.
    centres      a number: Nystroem with so many; with them m_max may be large.
    cost         L (T, T), row said, column true. Absent: 2 for an affected node that is missed, else 1.
    one_type     all affected nodes of an event have one type (exact), else each its own.
    edge_weight  omega in [0, 1): share of the learnt price of different labels at linked nodes in F.
    identity     how much more a node tells of itself than of others; 0 serves nodes never seen as well.
    abstain      cost of "unknown", which below ``cost.max()`` is said of what is like nothing seen.
    min_events   fewer labelled events are refused (TooFewEventsError).

    After ``fit``: ``ridge_``, the regression on parts; ``n_events_``; ``locality_``, what the parts of
    an event are worth (see locality); ``left_out_``, what is said of each event by a fit without it.
    """

    mean_: Array  # (D,) of the descriptors learnt from
    spread_: Array
    ridge_: PartRidge
    edge_ridge_: PartRidge | None
    n_events_: int
    locality_: dict[str, float]
    left_out_: list[LeftOut]

    def __init__(self, n_classes: int = 2, *, radius: int = 2, sigma: float | None = None,
                 lam: float | None = None, m_max: int = 1500, centres: int | None = None,
                 cost: ArrayLike | None = None, one_type: bool = True, edge_weight: float = 0.0,
                 identity: float = 0.0, abstain: float | None = None, min_events: int = 5,
                 seed: int = 0) -> None:  # fmt: skip
        check_range("n_classes", n_classes, 2)
        check_range("m_max", m_max, 2)
        check_range("edge_weight", edge_weight, 0.0, 1.0, open_high=True)
        check_range("identity", identity, 0.0)
        check_range("min_events", min_events, 2)
        if radius not in RADII:
            raise ValueError(f"radius: must be 0, 1 or 2, got {radius!r}")
        for name, value in (("sigma", sigma), ("lam", lam), ("abstain", abstain), ("centres", centres)):
            if value is not None:
                check_range(name, value, 0.0, open_low=True)
        T = n_classes
        self.cost = miss_cost(T) if cost is None else as_points(cost, "cost")
        if self.cost.shape != (T, T) or self.cost.min() < 0.0:
            raise ValueError(f"cost: expected {T} by {T} numbers, none negative, got shape {self.cost.shape}")
        self.n_classes, self.radius, self.sigma, self.lam, self.m_max = T, radius, sigma, lam, m_max
        self.centres, self.one_type, self.edge_weight, self.identity = (
            centres,
            one_type,
            edge_weight,
            identity,
        )
        self.abstain, self.min_events, self.seed = abstain, min_events, seed

    def fit(self, events: Sequence[LabelledEvent]) -> Self:
        """Learn from labelled events, confirmed false alarms among them."""
        n = len({event.event_id for event in events})
        if n < self.min_events:
            raise TooFewEventsError(f"events: {n} labelled, but at least {self.min_events} are needed")
        parts = Parts.of(events, self.n_classes, self.radius).thinned(self.m_max, self.seed)
        seen = parts.H.sum(axis=0)
        if seen[0] == 0.0 or seen[1:].sum() == 0.0:
            told = "no node is affected" if seen[0] else "all nodes are affected"
            raise ValueError(f"events: {told}, so that there is nothing to tell apart")
        self.mean_, spread = parts.F.mean(axis=0), parts.F.std(axis=0)
        self.spread_ = np.where(spread > 1e-9 * (1.0 + np.abs(self.mean_)), spread, 1.0)
        x, choice = self._standard(parts.F), self._choice()
        self.ridge_ = PartRidge.select(x, parts.H, parts.groups, nodes=parts.ids, identity=self.identity,
                                       seed=self.seed, **choice)  # fmt: skip
        self.edge_ridge_ = None
        if self.edge_weight:
            self.edge_ridge_ = fit_edges(events, self.n_classes, self.radius, self._standard, self.m_max,
                                         self.seed, **choice)  # fmt: skip
        self.n_events_ = n
        self.locality_ = self._locality(parts)
        self.left_out_ = [self._without(parts, i) for i in range(len(events))]
        return self

    def predict(self, signal: ArrayLike, W: Any, nodes: ArrayLike | None = None,
                where: NDArray[np.bool_] | None = None) -> Footprint:  # fmt: skip
        """Footprint from the signals (N, d) of all nodes of a graph: any graph, not only those learnt from.

        ``nodes`` are ids (N,), of use if ``identity`` > 0. ``where`` (N,) marks the nodes that are asked for;
        all others are not affected.
        """
        self._check_fitted()
        graph = Graph.of(W)
        rows = np.arange(graph.n_nodes) if where is None else np.flatnonzero(where)
        F = ego_features(signal, graph, self.radius, rows)
        if F.shape[1] != len(self.mean_):
            raise ValueError(f"signal: {F.shape[1]} features of a part, but {len(self.mean_)} were learnt")
        x = self._standard(F)
        ids = np.arange(graph.n_nodes) if nodes is None else np.asarray(nodes)
        g, support = self.ridge_.embed(x, ids[rows])
        coupling = Coupling.none()
        if self.edge_ridge_ is not None:
            coupling = learnt_coupling(self.edge_ridge_, x, graph, rows, self.edge_weight)
        z, least = self._labels(g, coupling)
        kinds = np.bincount(z[z > 0], minlength=self.n_classes)
        event_type, n = int(kinds.argmax()) if kinds.any() else 0, graph.n_nodes
        return Footprint(_among(z, rows, n), event_type, _among(g, rows, n), _among(support, rows, n), least)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What was learnt, as plain values and arrays."""
        self._check_fitted()
        own = {name: getattr(self, name) for name in _PARAMETERS}
        ridge, arrays = self.ridge_.state()
        meta = {"version": STATE_VERSION, "parameters": own, "cost": self.cost.tolist(), "ridge": ridge,
                "n_events": self.n_events_, "locality": self.locality_}  # fmt: skip
        arrays = {f"ridge_{name}": array for name, array in arrays.items()}
        arrays |= {"mean": self.mean_, "spread": self.spread_}
        if self.edge_ridge_ is not None:
            meta["edges"], more = self.edge_ridge_.state()
            arrays |= {f"edges_{name}": array for name, array in more.items()}
        return meta, arrays

    @classmethod
    def of_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The predictor that gave ``state``; ValueError if it is not one, or of another version."""
        if meta.get("version") != STATE_VERSION:
            raise ValueError(f"version: {meta.get('version')!r}, but this program reads {STATE_VERSION}")
        try:
            model = cls(**{name: meta["parameters"][name] for name in _PARAMETERS}, cost=meta["cost"])
            model.mean_, model.spread_ = (as_points(arrays[k], k)[:, 0] for k in ("mean", "spread"))
            model.ridge_ = PartRidge.of_state(meta["ridge"], _named(arrays, "ridge_"))
            model.edge_ridge_ = None
            if "edges" in meta:
                model.edge_ridge_ = PartRidge.of_state(meta["edges"], _named(arrays, "edges_"))
            model.n_events_, model.locality_ = int(meta["n_events"]), dict(meta["locality"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a predictor: {error!r}") from None
        if not len(model.mean_) == len(model.spread_) == model.ridge_.parts_.shape[1] or (
                model.ridge_.B_.shape[1] != model.n_classes + 1):  # fmt: skip
            raise ValueError("not a predictor: its arrays do not fit together")
        return model

    def _check_fitted(self) -> None:
        if not hasattr(self, "ridge_"):
            raise NotFittedError("FootprintPredictor: call fit first")

    def _standard(self, F: Array) -> Array:
        x: Array = (F - self.mean_) / self.spread_
        return x

    def _choice(self) -> dict[str, Any]:
        return {"sigmas": None if self.sigma is None else [self.sigma],
                "lams": LAMBDAS if self.lam is None else [self.lam], "centres": self.centres}  # fmt: skip

    def _labels(self, g: Array, coupling: Coupling) -> tuple[Labels, float]:
        """Labels (n,) at the least F, and F."""
        U = expected_cost(g, self.cost)
        if self.abstain is not None:
            U = np.minimum(U, self.abstain)  # what costs more than "unknown" is not said
        pi = (1.0 - self.edge_weight if len(coupling.beta) else 1.0) / max(len(U), 1)
        z = (one_type if self.one_type else many_types)(pi * U, coupling)
        least = objective(z, pi * U, coupling)
        if self.abstain is not None:
            z = np.where(U[np.arange(len(z)), z] >= self.abstain, UNKNOWN, z)
        return z, least

    def _without(self, parts: Parts, i: int) -> LeftOut:
        rows = np.flatnonzero(parts.event == i)
        g, support = (estimate[rows] for estimate in self.ridge_.left_out_)
        z, _ = self._labels(g, Coupling.none())
        return LeftOut(parts.names[i], parts.node[rows], z, support, parts.H[rows])

    def _locality(self, parts: Parts) -> dict[str, float]:
        """q, r and n_eff = n r^2 / q: how many independent parts all of them are worth."""
        some, r = parts.thinned(_PARTS_FOR_Q, self.seed), 1.0 + self.identity
        x = self._standard(some.F)
        K = PartKernel("gaussian", self.ridge_.sigma, self.identity)(x, some.ids, x, some.ids)
        q = intra_locality(K, some.groups)
        return {"q": q, "r": r, "n_eff": min(self.n_events_ * r**2 / max(q, 1e-12), float(len(parts.F)))}


def _named(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _among(values: NDArray[Any], rows: NDArray[np.intp], n: int) -> NDArray[Any]:
    """Values of some rows among n; zero elsewhere."""
    out = np.zeros((n, *values.shape[1:]), dtype=values.dtype)
    out[rows] = values
    return out
