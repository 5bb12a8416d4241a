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

from estimators.core.base import check_range
from estimators.core.graph import Graph
from estimators.core.kernels import as_points
from estimators.core.parameters import Parameters
from estimators.core.types import Floats
from estimators.structured.edges import fit_edges, learnt_coupling
from estimators.structured.egonet import RADII, ego_features
from estimators.structured.footprint_losses import FootprintCosts, FootprintFOne
from estimators.structured.kernel import PartKernel
from estimators.structured.labelling import Coupling, Labels, miss_cost
from estimators.structured.locality import intra_locality
from estimators.structured.parts import LabelledEvent, LeftOut, Parts
from estimators.structured.ridge import LAMBDAS, PartRidge

STATE_VERSION = 1
LOSSES = ("costs", "f1")
LARGEST = 300  # nodes of an event whose number is told apart under F1
_PARTS_FOR_Q = 2000
_PARAMETERS = ("n_classes", "radius", "sigma", "lam", "m_max", "centres", "one_type", "edge_weight",
               "identity", "abstain", "min_events", "seed", "loss")  # fmt: skip


class TooFewEventsError(ValueError):
    """Fewer labelled events than a predictor wants: a threshold serves better.

    Examples
    --------
    >>> from estimators import FootprintPredictor, TooFewEventsError
    >>> try:
    ...     FootprintPredictor(min_events=5).fit([])
    ... except TooFewEventsError as error:
    ...     print(error)
    events: 0 labelled, but at least 5 are needed
    """


@dataclass(frozen=True)
class Footprint:
    """Predicted labels of all nodes, and what they rest on.

    Parameters
    ----------
    labels : ndarray of shape (N,), int64
        0 not affected, 1 to T - 1 the type, -1 unknown.
    event_type : int
        Type of the affected nodes, the most common of several; 0: no footprint.
    g : ndarray of shape (N, T), float64
        Estimates as they are: they may leave [0, 1].
    support : ndarray of shape (N,), float64
        1 among the parts learnt from, 0 far from all.
    objective : float
        Expected cost F.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import Footprint
    >>> found = Footprint(np.array([0, 1]), 1, np.array([[1.1, -0.1], [0.2, 0.6]]), np.ones(2), 0.3)
    >>> found.probabilities
    array([[1. , 0. ],
           [0.2, 0.6]])
    """

    labels: Labels
    event_type: int
    g: Floats
    support: Floats
    objective: float

    @property
    def probabilities(self) -> Floats:
        """Estimates for display, (N, T): in [0, 1], rows sum to at most 1; what is missing is not known."""
        clipped = np.clip(self.g, 0.0, 1.0)
        shown: Floats = clipped / np.maximum(clipped.sum(axis=1, keepdims=True), 1.0)
        return shown


class FootprintPredictor(Parameters):
    """Predict the label of every node from the signals of all nodes and the graph.

    Localized structured prediction with ego-networks for parts, learnt from labelled events: what was learnt
    at one node serves all, so that a few tens of them do.

    Parameters
    ----------
    n_classes : int >= 2, default=2
        T: class 0 is "not affected", 1 to T - 1 are types of events.
    radius : {0, 1, 2}, default=2
        Of the ego-networks, in hops.
    sigma, lam : float > 0, optional
        Width and ridge; those not given are chosen by leaving out one event after the other.
    m_max : int >= 2, default=1500
        Learn from at most so many parts, drawn evenly from all.
    centres : int, optional
        Nystroem with so many centres; with them ``m_max`` may be large.
    cost : array_like of shape (T, T), optional
        Row said, column true. By default 2 for an affected node that is missed, else 1.
    one_type : bool, default=True
        All affected nodes of an event have one type (exact), else each its own.
    edge_weight : float in [0, 1), default=0.0
        Share of the learnt price of different labels at linked nodes in the objective F.
    identity : float >= 0, default=0.0
        How much more a node tells of itself than of others; 0 serves nodes never seen as well.
    abstain : float > 0, optional
        Cost of "unknown", which below ``cost.max()`` is said of what is like nothing seen.
    min_events : int >= 2, default=5
        Fewer labelled events are refused.
    seed : int, default=0
        Of all draws.
    loss : {"costs", "f1"}, default="costs"
        What the labels shall be best for: the costs of single nodes, or F1 of the set of affected ones, which
        weighs a missed node against the size of the event. ``cost``, ``abstain`` and ``edge_weight`` belong
        to the first.

    Attributes
    ----------
    loss_ : FootprintCosts or FootprintFOne
        The loss by parts (Eq. 5): how labels are embedded, and the cheapest output for their expectation.
    ridge_ : PartRidge
        The regression on parts.
    edge_ridge_ : PartRidge or None
        That on pairs of linked nodes, if ``edge_weight`` > 0.
    mean_, spread_ : ndarray of shape (D,), float64
        Of the descriptors learnt from.
    n_events_ : int
        Events learnt from.
    locality_ : dict of str to float
        What the parts of an event are worth: ``q``, ``r`` and ``n_eff``.
    left_out_ : list of LeftOut
        What is said of each event by a fit without it.

    References
    ----------
    C. Ciliberto, F. Bach and A. Rudi, "Localized structured prediction", 2018: Eq. 9, Algorithm 1.

    Examples
    --------
    >>> import networkx as nx
    >>> import numpy as np
    >>> from estimators import FootprintPredictor, LabelledEvent
    >>> rng = np.random.default_rng(0)
    >>> ring = nx.cycle_graph(12)
    >>> events = []
    >>> for k in range(6):  # each event: four neighbours with a high signal
    ...     labels = np.isin(np.arange(12), (np.arange(4) + 2 * k) % 12).astype(int)
    ...     signal = labels[:, None] + 0.1 * rng.normal(size=(12, 1))
    ...     events.append(LabelledEvent(f"event {k}", signal, ring, labels))
    >>> predictor = FootprintPredictor(radius=1).fit(events)
    >>> new = np.isin(np.arange(12), [7, 8, 9])[:, None] + 0.1 * rng.normal(size=(12, 1))
    >>> np.flatnonzero(predictor.predict(new, ring).labels)
    array([7, 8, 9])
    """

    _result = "ridge_"
    loss_: FootprintCosts | FootprintFOne
    mean_: Floats  # (D,) of the descriptors learnt from
    spread_: Floats
    ridge_: PartRidge
    edge_ridge_: PartRidge | None
    n_events_: int
    locality_: dict[str, float]
    left_out_: list[LeftOut]

    def __init__(self, n_classes: int = 2, *, radius: int = 2, sigma: float | None = None,
                 lam: float | None = None, m_max: int = 1500, centres: int | None = None,
                 cost: ArrayLike | None = None, one_type: bool = True, edge_weight: float = 0.0,
                 identity: float = 0.0, abstain: float | None = None, min_events: int = 5,
                 seed: int = 0, loss: str = "costs") -> None:  # fmt: skip
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
        self.abstain, self.min_events, self.seed, self.loss = abstain, min_events, seed, loss
        if loss not in LOSSES:
            raise ValueError(f"loss: unknown name {loss!r}; known: {', '.join(LOSSES)}")
        if loss == "f1" and (cost is not None or abstain is not None or edge_weight):
            raise ValueError("loss: f1 has no cost, abstain or edge_weight: these belong to the loss costs")

    def fit(self, events: Sequence[LabelledEvent]) -> Self:
        """Learn from labelled events, confirmed false alarms among them.

        Parameters
        ----------
        events : sequence of LabelledEvent

        Returns
        -------
        self

        Raises
        ------
        TooFewEventsError
            If there are fewer than ``min_events``.
        ValueError
            If all labels are the same, or those of an event do not fit to its graph.
        """
        n = len({event.event_id for event in events})
        if n < self.min_events:
            raise TooFewEventsError(f"events: {n} labelled, but at least {self.min_events} are needed")
        whole = Parts.of(events, self.n_classes, self.radius)
        self.loss_ = self._loss(2 * int(whole.members.max(initial=1)))
        parts = whole.thinned(self.m_max, self.seed)
        seen = parts.H.sum(axis=0)
        if seen[0] == 0.0 or seen[1:].sum() == 0.0:
            told = "no node is affected" if seen[0] else "all nodes are affected"
            raise ValueError(f"events: {told}, so that there is nothing to tell apart")
        self.mean_, spread = parts.F.mean(axis=0), parts.F.std(axis=0)
        self.spread_ = np.where(spread > 1e-9 * (1.0 + np.abs(self.mean_)), spread, 1.0)
        x, choice = self._standard(parts.F), self._choice()
        phi = self.loss_.rows(parts.H, parts.members)
        self.ridge_ = PartRidge.select(x, phi, parts.groups, nodes=parts.ids, identity=self.identity,
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
        """Footprint of an event.

        Parameters
        ----------
        signal : array_like of shape (N, d)
            Signals of all nodes.
        W : Graph, networkx graph, sparse or dense matrix of shape (N, N)
            Any graph, not only those learnt from.
        nodes : array_like of shape (N,), optional
            Ids of the nodes, of use if ``identity`` > 0.
        where : ndarray of shape (N,), bool, optional
            The nodes that are asked for; all others are not affected.

        Returns
        -------
        Footprint

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        ValueError
            If the signals have another dimension than those learnt from.
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
        z, least = self.loss_.cheapest(g, coupling)
        g = g[:, : self.n_classes]
        kinds = np.bincount(z[z > 0], minlength=self.n_classes)
        event_type, n = int(kinds.argmax()) if kinds.any() else 0, graph.n_nodes
        return Footprint(_among(z, rows, n), event_type, _among(g, rows, n), _among(support, rows, n), least)

    def scores(self, parts: ArrayLike) -> tuple[Floats, Floats]:
        """Scores of parts described elsewhere, in a network that this predictor has not seen.

        Parameters
        ----------
        parts : array_like of shape (n, D)
            As `ego_features` makes them with the radius of this predictor.

        Returns
        -------
        g : ndarray of shape (n, T), float64
            Of the classes, as ``Footprint.g``.
        support : ndarray of shape (n,), float64
            1 among the parts learnt from, 0 far from all.

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        ValueError
            If the descriptors have another length than those learnt from.
        """
        self._check_fitted()
        F = as_points(parts, "parts")
        if F.shape[1] != len(self.mean_):
            raise ValueError(f"parts: {F.shape[1]} features, but {len(self.mean_)} were learnt")
        g, support = self.ridge_.embed(self._standard(F))
        return g[:, : self.n_classes], support

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What was learnt, as plain values and arrays.

        Returns
        -------
        meta : dict
            JSON-ready.
        arrays : dict of str to ndarray
        """
        self._check_fitted()
        own = {name: getattr(self, name) for name in _PARAMETERS}
        ridge, arrays = self.ridge_.state()
        meta = {"version": STATE_VERSION, "parameters": own, "cost": self.cost.tolist(), "ridge": ridge,
                "n_events": self.n_events_, "locality": self.locality_}  # fmt: skip
        if isinstance(self.loss_, FootprintFOne):
            meta["largest"] = self.loss_.largest
        arrays = {f"ridge_{name}": array for name, array in arrays.items()}
        arrays |= {"mean": self.mean_, "spread": self.spread_}
        if self.edge_ridge_ is not None:
            meta["edges"], more = self.edge_ridge_.state()
            arrays |= {f"edges_{name}": array for name, array in more.items()}
        return meta, arrays

    @classmethod
    def of_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The predictor that gave ``state``.

        Parameters
        ----------
        meta : mapping
        arrays : mapping of str to array_like

        Returns
        -------
        FootprintPredictor

        Raises
        ------
        ValueError
            If it is not such a state; says what is wrong with it.
        """
        if meta.get("version") != STATE_VERSION:
            raise ValueError(f"version: {meta.get('version')!r}, but this program reads {STATE_VERSION}")
        try:
            given = {"loss": "costs", **meta["parameters"]}
            cost = meta["cost"] if given["loss"] == "costs" else None
            model = cls(**{name: given[name] for name in _PARAMETERS}, cost=cost)
            model.loss_ = model._loss(int(meta.get("largest", 1)))
            model.mean_, model.spread_ = (as_points(arrays[k], k)[:, 0] for k in ("mean", "spread"))
            model.ridge_ = PartRidge.of_state(meta["ridge"], _named(arrays, "ridge_"))
            model.edge_ridge_ = None
            if "edges" in meta:
                model.edge_ridge_ = PartRidge.of_state(meta["edges"], _named(arrays, "edges_"))
            model.n_events_, model.locality_ = int(meta["n_events"]), dict(meta["locality"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a predictor: {error!r}") from None
        if not len(model.mean_) == len(model.spread_) == model.ridge_.parts_.shape[1] or (
                model.ridge_.B_.shape[1] != model.loss_.columns + 1):  # fmt: skip
            raise ValueError("not a predictor: its arrays do not fit together")
        return model

    def _standard(self, F: Floats) -> Floats:
        x: Floats = (F - self.mean_) / self.spread_
        return x

    def _choice(self) -> dict[str, Any]:
        return {"sigmas": None if self.sigma is None else [self.sigma],
                "lams": LAMBDAS if self.lam is None else [self.lam], "centres": self.centres}  # fmt: skip

    def _loss(self, largest: int) -> FootprintCosts | FootprintFOne:
        if self.loss == "f1":
            return FootprintFOne(self.n_classes, min(largest, LARGEST), self.one_type)
        return FootprintCosts(self.n_classes, self.cost, self.one_type, self.abstain, self.edge_weight)

    def _without(self, parts: Parts, i: int) -> LeftOut:
        rows = np.flatnonzero(parts.event == i)
        g, support = (estimate[rows] for estimate in self.ridge_.left_out_)
        z, _ = self.loss_.cheapest(g, Coupling.none())
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
