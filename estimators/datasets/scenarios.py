"""The document's synthetic scenarios (Sec. 6.1, Table 1), with their exact ratios and divergences.

A scenario is a graph and, for every group of nodes, a pair of densities p -> q. Everything that an
estimator should find is known exactly: r_v(x) (Eq. 3) from the densities, the divergences by
quadrature. Departures from the printed table are listed in docs/mathematics.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from estimators.core.types import Floats

if TYPE_CHECKING:
    import networkx as nx

SCENARIOS = ("Ia", "Ib", "IIa", "IIb")
UNCHANGED = "unchanged"


class Density(Protocol):
    """What a scenario needs to know of p and q."""

    @property
    def dim(self) -> int: ...

    def sample(self, n: int, rng: np.random.Generator) -> Floats: ...

    def pdf(self, x: Floats) -> Floats: ...

    def box(self) -> tuple[Floats, Floats]:
        """Corners (d,), (d,) of a box that holds all but a negligible part of the mass."""
        ...


@dataclass(frozen=True)
class Normal:
    """Equal mixture of normal densities with a common covariance; one mean is the plain normal."""

    means: tuple[tuple[float, ...], ...]
    cov: tuple[tuple[float, ...], ...]

    @property
    def dim(self) -> int:
        return len(self.cov)

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        centres = np.asarray(self.means)[rng.integers(len(self.means), size=n)]
        noise: Floats = rng.standard_normal((n, self.dim)) @ np.linalg.cholesky(np.asarray(self.cov)).T
        return centres + noise

    def pdf(self, x: Floats) -> Floats:
        white = np.linalg.inv(np.linalg.cholesky(np.asarray(self.cov)))  # (d, d)
        norm = np.linalg.det(white) / (2.0 * np.pi) ** (self.dim / 2.0) / len(self.means)
        total = np.zeros(len(x))
        for mean in self.means:
            total += np.exp(-0.5 * np.square((x - np.asarray(mean)) @ white.T).sum(axis=1))
        density: Floats = norm * total
        return density

    def box(self) -> tuple[Floats, Floats]:
        reach = 9.0 * np.sqrt(np.diag(np.asarray(self.cov)))  # 1e-18 of the mass is outside
        return np.min(self.means, axis=0) - reach, np.max(self.means, axis=0) + reach


@dataclass(frozen=True)
class Uniform:
    """Uniform density on [low, high]."""

    low: float
    high: float

    @property
    def dim(self) -> int:
        return 1

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        return rng.uniform(self.low, self.high, (n, 1))

    def pdf(self, x: Floats) -> Floats:
        inside = (x[:, 0] >= self.low) & (x[:, 0] <= self.high)
        return inside / (self.high - self.low)

    def box(self) -> tuple[Floats, Floats]:
        return np.array([self.low]), np.array([self.high])


@dataclass(frozen=True)
class Group:
    """Nodes that undergo the same change of measure."""

    kind: str  # what happens, in words; UNCHANGED where p = q
    nodes: NDArray[np.intp] = field(compare=False)
    p: Density
    q: Density


class Stream(NamedTuple):
    """Readings of all nodes at T moments, and the truth about them."""

    x: Floats  # (T, N, d)
    change_at: int  # first row drawn from q
    changed: dict[str, NDArray[np.intp]]  # kind of change -> its nodes; unchanged nodes are in none


@dataclass(frozen=True)
class Scenario:
    """A graph and, for every group of nodes, a change p -> q, with the exact answers.

    Made by ``scenario``.

    Parameters
    ----------
    name : str
        One of SCENARIOS.
    graph : networkx.Graph
        N nodes, 0 to N - 1.
    groups : tuple of Group
        Nodes that undergo the same change, with the densities before and after.

    Examples
    --------
    >>> from estimators import Grulsif, scenario
    >>> truth = scenario("Ia", n_nodes=8)
    >>> ref, test = truth.sample(50, seed=0)
    >>> model = Grulsif().fit(ref, test, truth.graph)
    >>> truth.error(model.ratio).shape  # mean square error of every node's ratio
    (8,)
    >>> [group.kind for group in truth.groups]
    ['normal to uniform', 'unchanged', 'mean +1']
    """

    name: str
    graph: nx.Graph[int] = field(repr=False)
    groups: tuple[Group, ...] = field(repr=False)

    @property
    def n_nodes(self) -> int:
        """Number of nodes N."""
        return len(self.graph)

    @property
    def dim(self) -> int:
        """Number of components d of a sample."""
        return self.groups[0].p.dim

    def group(self, v: int) -> Group:
        """The group of a node.

        Parameters
        ----------
        v : int
            Number of the node.

        Returns
        -------
        Group

        Raises
        ------
        IndexError
            If there is no such node.
        """
        for group in self.groups:
            if v in group.nodes:
                return group
        raise IndexError(f"node {v}: the scenario has nodes 0 to {self.n_nodes - 1}")

    def sample(self, n: int, seed: int) -> tuple[Floats, Floats]:
        """Points of p_v and of q_v for every node.

        Parameters
        ----------
        n : int
            Points of each.
        seed : int
            Of the draw.

        Returns
        -------
        ref, test : ndarray of shape (N, n, d), float64
        """
        rng = np.random.default_rng(seed)
        ref = np.empty((self.n_nodes, n, self.dim))
        test = np.empty_like(ref)
        for group in self.groups:
            for v in group.nodes:
                ref[v], test[v] = group.p.sample(n, rng), group.q.sample(n, rng)
        return ref, test

    def stream(self, T: int, change_at: int, seed: int) -> Stream:
        """Readings in time: every node draws from p_v before row ``change_at`` and from q_v on from it.

        Rows before the change do not depend on ``change_at``.

        Parameters
        ----------
        T : int
            Number of rows.
        change_at : int in [0, T]
            First row drawn from q; T is a stream without change.
        seed : int
            Of the draw.

        Returns
        -------
        Stream
            ``x`` of shape (T, N, d), ``change_at``, and ``changed``: kind of change to its nodes.

        Raises
        ------
        ValueError
            If ``change_at`` is outside of its range.
        """
        if not 0 <= change_at <= T:
            raise ValueError(f"change_at: must be in [0, {T}], got {change_at}")
        x = np.empty((T, self.n_nodes, self.dim))
        for group in self.groups:
            for v in group.nodes:
                before, after = (np.random.default_rng([seed, int(v), side]) for side in (0, 1))
                x[:change_at, v] = group.p.sample(T, before)[:change_at]
                x[change_at:, v] = group.q.sample(T - change_at, after)
        changed = {g.kind: g.nodes for g in self.groups if g.kind != UNCHANGED}
        return Stream(x, change_at, changed)

    def ratio(self, v: int, x: Floats, alpha: float = 0.1) -> Floats:
        """The exact r_v(x) = q / ((1 - alpha) p + alpha q) (Eq. 3).

        Parameters
        ----------
        v : int
            Number of the node.
        x : ndarray of shape (n, d), float64
            Where to evaluate.
        alpha : float in [0, 1), default=0.1
            Share of q in the denominator.

        Returns
        -------
        ndarray of shape (n,), float64
        """
        return _ratio(self.group(v), x, alpha)

    def divergence(self, v: int, alpha: float = 0.1) -> float:
        """PE(p_v^alpha || q_v) = 1/2 E_{p^alpha} (r - 1)^2, by quadrature to about 1e-6.

        Parameters
        ----------
        v : int
            Number of the node.
        alpha : float in [0, 1), default=0.1
            Share of q in the mixture.

        Returns
        -------
        float
            Infinite for alpha = 0 where the tails of q are too heavy for those of p.
        """
        return _divergences(self.group(v), alpha)[0]

    def kl(self, v: int) -> float:
        """KL(q_v || p_v) = E_q log(q / p): what KLIEP estimates; by quadrature to about 1e-6.

        Parameters
        ----------
        v : int
            Number of the node.

        Returns
        -------
        float
        """
        return _divergences(self.group(v), 0.5)[1]

    def error(self, ratio: Callable[[int, Floats], Floats], alpha: float = 0.1, n: int = 10_000,
              seed: int = 0) -> Floats:  # fmt: skip
        """E_{p^alpha} (r_v - f_v)^2 of every node on fresh points; its mean is Eq. 44.

        Parameters
        ----------
        ratio : callable
            ``ratio(v, x)`` gives f_v at the points x, such as ``Grulsif.ratio``.
        alpha : float in [0, 1), default=0.1
            Share of q in the mixture.
        n : int, default=10000
            Fresh points of every node.
        seed : int, default=0
            Of their draw.

        Returns
        -------
        ndarray of shape (N,), float64
        """
        rng = np.random.default_rng(seed)
        errors = np.empty(self.n_nodes)
        for group in self.groups:
            for v in group.nodes:
                from_q = int(rng.binomial(n, alpha))
                y = np.concatenate([group.p.sample(n - from_q, rng), group.q.sample(from_q, rng)])
                errors[v] = np.square(_ratio(group, y, alpha) - ratio(int(v), y)).mean()
        return errors


def _ratio(group: Group, x: Floats, alpha: float) -> Floats:
    if group.kind == UNCHANGED:
        return np.ones(len(x))
    p, q = group.p.pdf(x), group.q.pdf(x)
    # Where both densities underflow there is no mass and the ratio says nothing: 1, "no change".
    return np.divide(q, (1.0 - alpha) * p + alpha * q, out=np.ones(len(x)), where=(p > 0.0) | (q > 0.0))


@lru_cache(maxsize=64)
def _divergences(group: Group, alpha: float) -> tuple[float, float]:
    """Pearson divergence of q from the mixture, and KL(q || p).

    Midpoint rule on a box: exact to rounding for smooth densities; for the uniform density its cells end at
    the jumps, because the box is cut there.
    """
    if group.kind == UNCHANGED:
        return 0.0, 0.0
    if alpha == 0.0 and isinstance(group.p, Normal) and isinstance(group.q, Normal):
        # q^2 / p decays only in the directions in which 2 / var_q > 1 / var_p.
        decay = 2.0 * np.linalg.inv(group.q.cov) - np.linalg.inv(group.p.cov)
        if np.linalg.eigvalsh(decay)[0] <= 0.0:
            return np.inf, _divergences(group, 0.5)[1]
    (p_low, p_high), (q_low, q_high) = group.p.box(), group.q.box()
    low, high = np.minimum(p_low, q_low), np.maximum(p_high, q_high)
    per_axis = {1: 20_000, 2: 800, 3: 120}[len(low)]
    cuts = [np.unique([low[i], q_low[i], q_high[i], high[i]]) for i in range(len(low))]
    axes, weights = zip(*(_midpoints(c, per_axis) for c in cuts), strict=True)
    pearson = kl = 0.0
    slabs = 1 if len(axes) == 1 else 40  # a whole grid in three dimensions would not fit into the cache
    for first, w in zip(np.array_split(axes[0], slabs), np.array_split(weights[0], slabs), strict=True):
        x = np.stack([g.ravel() for g in np.meshgrid(first, *axes[1:], indexing="ij")], axis=1)
        for other in weights[1:]:
            w = np.outer(w, other).ravel()
        p, q = group.p.pdf(x), group.q.pdf(x)
        mixture = (1.0 - alpha) * p + alpha * q
        r = np.divide(q, mixture, out=np.ones_like(q), where=mixture > 0.0)
        pearson += 0.5 * float(np.sum(w * mixture * np.square(r - 1.0)))
        positive = (q > 0.0) & (p > 0.0)
        kl += float(np.sum(w[positive] * q[positive] * np.log(q[positive] / p[positive])))
    return pearson, kl


def _midpoints(cuts: Floats, n: int) -> tuple[Floats, Floats]:
    """Midpoints and widths of about n cells between cuts[0] and cuts[-1], no cell across a cut."""
    span = cuts[-1] - cuts[0]
    edges = [np.linspace(a, b, max(2, round(n * (b - a) / span)) + 1) for a, b in pairwise(cuts)]
    mids = np.concatenate([(e[1:] + e[:-1]) / 2.0 for e in edges])
    return mids, np.concatenate([np.diff(e) for e in edges])


def scenario(name: str, n_nodes: int = 100, seed: int = 0) -> Scenario:
    """Synth.Ia, Ib, IIa or IIb of the GRULSIF paper (Sec. 6.1, Table 1).

    Parameters
    ----------
    name : {"Ia", "Ib", "IIa", "IIb"}
        Which one.
    n_nodes : int >= 8, default=100
        Number of nodes.
    seed : int, default=0
        Draws the graph and the ego network.

    Returns
    -------
    Scenario

    Raises
    ------
    ValueError
        If there is no such scenario, or too few nodes.

    Examples
    --------
    >>> from estimators import scenario
    >>> truth = scenario("Ib", n_nodes=20)
    >>> truth.dim, round(truth.divergence(19, alpha=0.1), 2)
    (2, 0.97)
    """
    if name not in SCENARIOS:
        raise ValueError(f"name: unknown scenario {name!r}; known: {', '.join(SCENARIOS)}")
    if n_nodes < 8:
        raise ValueError(f"n_nodes: must be at least 8, got {n_nodes}")
    if name in ("Ia", "Ib"):
        graph, clusters = _blocks(n_nodes, seed)
        groups = _groups_ia(clusters) if name == "Ia" else _groups_ib(clusters)
    else:
        graph, ego, rest = _ego_network(n_nodes, seed)
        groups = _groups_iia(ego, rest) if name == "IIa" else _groups_iib(ego, rest)
    return Scenario(name, graph, tuple(group for group in groups if len(group.nodes)))


def _blocks(n_nodes: int, seed: int) -> tuple[nx.Graph[int], list[NDArray[np.intp]]]:
    """Stochastic block model: 4 clusters, links inside with probability 0.5, between with 0.01."""
    import networkx as nx

    clusters = np.array_split(np.arange(n_nodes), 4)
    p = np.full((4, 4), 0.01) + 0.49 * np.eye(4)
    model = nx.stochastic_block_model([len(c) for c in clusters], p.tolist(), seed=seed)
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(n_nodes))
    graph.add_edges_from(model.edges)
    return graph, clusters


def _ego_network(n_nodes: int, seed: int) -> tuple[nx.Graph[int], NDArray[np.intp], NDArray[np.intp]]:
    """Barabasi-Albert graph (5 nodes at first, 2 links per new node); a 2-hop ego network and the rest."""
    import networkx as nx

    graph: nx.Graph[int] = nx.barabasi_albert_graph(n_nodes, 2, seed=seed, initial_graph=nx.star_graph(4))
    degree = np.array([d for _, d in graph.degree], dtype=float)
    u = int(np.random.default_rng(seed).choice(n_nodes, p=degree / degree.sum()))
    inside = np.zeros(n_nodes, dtype=bool)
    inside[list(nx.ego_graph(graph, u, radius=2))] = True
    return graph, np.flatnonzero(inside), np.flatnonzero(~inside)


def _pair(correlation: float, mean: tuple[float, float] = (0.0, 0.0)) -> Normal:
    return Normal((mean,), ((1.0, correlation), (correlation, 1.0)))


def _groups_ia(clusters: list[NDArray[np.intp]]) -> list[Group]:
    standard, shifted = Normal(((0.0,),), ((1.0,),)), Normal(((1.0,),), ((1.0,),))
    return [
        Group("normal to uniform", clusters[0], standard, Uniform(-np.sqrt(3.0), np.sqrt(3.0))),
        Group(UNCHANGED, np.concatenate(clusters[1:3]), standard, standard),
        Group("mean +1", clusters[3], standard, shifted),
    ]


def _groups_ib(clusters: list[NDArray[np.intp]]) -> list[Group]:
    return [
        Group(UNCHANGED, np.concatenate(clusters[:2]), _pair(-0.8), _pair(-0.8)),
        Group("correlation lost", clusters[2], _pair(0.8), _pair(0.0)),
        Group("mean +(1, 1)", clusters[3], _pair(0.0), _pair(0.0, (1.0, 1.0))),
    ]


def _groups_iia(ego: NDArray[np.intp], rest: NDArray[np.intp]) -> list[Group]:
    origin = ((0.0, 0.0, 0.0),)
    p = Normal(origin, ((1.0, 0.8, 0.0), (0.8, 1.0, 0.0), (0.0, 0.0, 1.0)))
    q = Normal(origin, ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)))
    return [Group("correlation lost", ego, p, q), Group(UNCHANGED, rest, p, p)]


def _groups_iib(ego: NDArray[np.intp], rest: NDArray[np.intp]) -> list[Group]:
    p = Normal(((0.0, 0.0),), ((10.0, 0.0), (0.0, 10.0)))
    q = Normal(
        ((0.0, 0.0), (0.0, 5.0), (0.0, -5.0), (5.0, 0.0), (-5.0, 0.0)),
        ((5.0, 0.0), (0.0, 5.0)),
    )
    return [Group("one mode to five", ego, p, q), Group(UNCHANGED, rest, p, p)]
