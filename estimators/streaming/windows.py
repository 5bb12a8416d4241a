"""Sliding reference and test windows of every node, with their statistics and warm refit.

Per node a reference window of n samples and a *bank* of test windows: the latest n'_1 < ... < n'_S samples.
All scales share features and reference. One new sample of a node moves (with psi the Nystroem features)

    test s:     G_s += psi_new psi_new' - psi_out psi_out'          m_s += psi_new - psi_out
    reference:  G_0 += psi_mid psi_mid' - psi_old psi_old'          m_0 += psi_mid - psi_old

where psi_mid leaves the longest test window. Then A_s = (1 - alpha) G_0/n + alpha G_s/n'_s, and Theta follows
by warm-started sweeps over the graph (Algorithm 2) on the centred target ratio - 1.

Features are kept as whole numbers of a ``unit`` of about 1/2000 (|psi| <= 1): for windows of some hundreds of
samples a feature map as good as the exact one. It takes half the memory, and sums of whole numbers are exact:
samples may come and go for years without any rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import estimators.streaming._windows as _windows
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.core.types import Floats, Floats32, Nodes
from estimators.streaming.membership import Windows

REFACTOR = 25  # a node's block is factorised anew when that part of its reference may have moved on


class WindowBank:
    """Windows, sums, parameters and scores of N nodes.

    coupling = N lam, ridge = N lam gamma in the document's letters (Eq. 38): written so, they do not change
    meaning with the number of nodes.
    """

    def __init__(
        self,
        graph: Graph,
        features: Nystroem,
        *,
        reference: int = 250,
        tests: Sequence[int] = (5, 10, 25, 100, 200),
        alpha: float = 0.1,
        coupling: float = 0.1,
        ridge: float = 0.01,
        sweeps: int = 1,
    ) -> None:
        if reference < 2:
            raise ValueError(f"reference: needs at least 2 samples, got {reference}")
        if not tests or list(tests) != sorted(set(tests)) or tests[0] < 1:
            raise ValueError(f"tests: lengths must be positive and increasing, got {list(tests)}")
        if not 0.0 <= alpha < 1.0:
            raise ValueError(f"alpha: must be in [0, 1), got {alpha}")
        if not (coupling >= 0.0 and ridge > 0.0):
            raise ValueError(f"coupling must be >= 0 and ridge > 0, got {coupling} and {ridge}")
        if sweeps < 1:
            raise ValueError(f"sweeps: must be at least 1, got {sweeps}")
        self.graph, self.features = graph, features
        self.alpha, self.coupling, self.ridge, self.sweeps = alpha, coupling, ridge, sweeps
        self.lengths: NDArray[np.int32] = np.asarray(tests, dtype=np.int32)
        n, r, d = graph.n_nodes, features.rank, features.dictionary.atoms.shape[1]
        scales, longest = len(tests), int(tests[-1])
        self.unit = unit_for(max(reference, longest))
        self.ref_psi = np.zeros((n, reference, r), np.int16)
        self.ref_z = np.zeros((n, reference, d), np.float32)
        self.test_psi = np.zeros((n, longest, r), np.int16)
        self.test_z = np.zeros((n, longest, d), np.float32)
        self.ref_head, self.ref_count, self.test_head, self.test_count, self.moves = np.zeros(
            (5, n), np.int32
        )
        self.G = np.zeros((n, scales + 1, r, r), np.int32)  # of unit^2
        self.m = np.zeros((n, scales + 1, r), np.int32)  # of unit
        self.P = np.zeros((n, r, r))
        self.theta = np.zeros((n + graph.ghosts, scales, r))  # of ghosts: whatever was put there last
        self.scores = np.full((n, scales), np.nan)  # NaN: no decision, never "no change"
        self.exposure = np.full((n, scales), np.nan)  # variance that the neighbours alone give a score
        self.held = np.zeros(n, np.uint8)
        self.silent = np.zeros(n, np.uint8)
        # A move adds at most ||psi||^2/n to the largest eigenvalue of H; the step must stay safe in between.
        self._every = max(1, reference // REFACTOR)
        most = (1.0 + 0.5 * np.sqrt(r) * self.unit) ** 2  # ||psi||^2 after rounding
        self._slack = 0.5 * (1.0 - alpha) * (self._every - 1) / reference * most + 0.5 * alpha * (most - 1.0)
        self._everyone: Nodes = np.arange(n, dtype=np.int32)
        self._factor(self._everyone)

    @property
    def n_nodes(self) -> int:
        return self.graph.n_nodes

    @property
    def ready(self) -> NDArray[np.bool_]:
        """(N, S): whether the node's reference and the scale's test window are full."""
        full = (self.ref_count == self.ref_psi.shape[1]) & (self.silent == 0)
        ready: NDArray[np.bool_] = full[:, None] & (self.test_count[:, None] >= self.lengths)
        return ready

    def slide(self, nodes: Nodes, z: NDArray[Any]) -> None:
        """Take one new sample z (k, d) for each of the distinct ``nodes`` (k,)."""
        self._advance(nodes, np.arange(len(nodes), dtype=np.int32), z, 0)

    def refit(self, nodes: Nodes | None = None, sweeps: int | None = None) -> None:
        """Warm-started sweeps over ``nodes`` (all by default), then their scores."""
        nodes = self._everyone if nodes is None else nodes
        none = np.full(len(nodes), -1, np.int32)
        self._advance(nodes, none, self.test_z[0, :0], self.sweeps if sweeps is None else sweeps)

    def step(self, nodes: Nodes, z: NDArray[Any], rows: Nodes) -> None:
        """`slide` and `refit` of ``rows``, which hold all ``nodes``: the same bits, the sums fetched once."""
        sample = np.full(self.n_nodes, -1, np.int32)
        sample[nodes] = np.arange(len(nodes), dtype=np.int32)
        self._advance(rows, sample[rows], z, self.sweeps)

    def _advance(self, nodes: Nodes, sample: Nodes, z: NDArray[Any], sweeps: int) -> None:
        z = np.ascontiguousarray(z, dtype=np.float32)
        psi = self._rounded(self.features(z)) if len(z) else self.test_psi[0, :0]
        g, r = self.graph, self.G.shape[2]
        work, counts = np.zeros((len(self.lengths) + 4 + r) * r), np.zeros(2 * r, np.int32)  # one per thread
        _windows.advance(
            nodes, sample, psi, z, self.unit, self.lengths,
            self.ref_psi, self.ref_z, self.ref_head, self.ref_count,
            self.test_psi, self.test_z, self.test_head, self.test_count, self.moves, self._every,
            self.G, self.m, self.held, self.silent, self.P, self.theta,
            g.indptr, g.indices, g.weights, g.degree, self.alpha, self.coupling, self.ridge, self._slack,
            sweeps, self.scores, self.exposure, work, counts,
        )  # fmt: skip

    def residual(self, most: int = 32) -> float:
        """How far theta is from the optimum: norm of the gradient of Eq. 38, over that of b.

        Of the blocks as they are *after* the sweeps, at ``most`` nodes spread over the network; 0 is the
        exact solution, 1 is what theta = 0 would leave. NaN before any window is full.
        """
        some = np.flatnonzero(self.ready.any(axis=1))
        if not len(some):
            return float("nan")
        some = some[np.linspace(0, len(some) - 1, min(most, len(some))).astype(np.intp)]
        n = np.concatenate([[self.ref_psi.shape[1]], self.lengths])
        H = self.G[some] * (self.unit**2 / n[:, None, None])
        h = self.m[some] * (self.unit / n[:, None])
        theta, g = self.theta[some], self.graph
        A = (1.0 - self.alpha) * H[:, :1] + self.alpha * H[:, 1:]
        b = (1.0 - self.alpha) * (h[:, 1:] - h[:, :1])
        near = np.stack(
            [
                np.tensordot(g.weights[e], self.theta[g.indices[e]], 1)
                for e in (slice(g.indptr[v], g.indptr[v + 1]) for v in some)
            ]
        )
        own = (self.coupling * g.degree[some] + self.ridge)[:, None, None] * theta
        gradient = np.einsum("nsij,nsj->nsi", A, theta) + own - self.coupling * near - b
        ready = self.ready[some]
        return float(np.sqrt((gradient[ready] ** 2).sum() / max((b[ready] ** 2).sum(), 1e-300)))

    def _rounded(self, psi: NDArray[Any]) -> NDArray[np.int16]:
        """Features as whole numbers of `unit`."""
        return np.rint(psi / self.unit).astype(np.int16)

    def _factor(self, nodes: Nodes) -> None:
        _windows.factor(
            nodes, self.G, self.ref_count, self.unit, self.graph.degree, self.alpha, self.coupling,
            self.ridge, self._slack, self.P,
        )  # fmt: skip

    def window(self, v: int, scale: int | None = None) -> Floats32:
        """Values (n, d) in time order of node v: its reference, or the test window of a scale."""
        if scale is None:
            at = (self.ref_head[v] + np.arange(self.ref_count[v])) % self.ref_z.shape[1]
            return np.asarray(self.ref_z[v, at])
        n = min(int(self.lengths[scale]), int(self.test_count[v]))
        at = (self.test_head[v] + self.test_count[v] - n + np.arange(n)) % self.test_z.shape[1]
        return np.asarray(self.test_z[v, at])

    def able(self, nodes: Nodes) -> NDArray[np.bool_]:
        """(k,) whether the reference of each is full, and the node not silent."""
        return np.asarray((self.ref_count[nodes] == self.ref_z.shape[1]) & (self.silent[nodes] == 0))

    def since(self, nodes: Nodes, counts: NDArray[np.intp], skip: int = 0) -> Windows:
        """Features of the full references, and of the latest ``counts`` samples before the last ``skip``."""
        n, longest = self.ref_psi.shape[1], self.test_psi.shape[1]
        order = (self.ref_head[nodes, None] + np.arange(n)) % n
        before = self.ref_psi[nodes[:, None], order] * self.unit
        counts = np.clip(counts, 0, np.maximum(self.test_count[nodes] - skip, 0))
        after = np.zeros((len(nodes), self.ref_psi.shape[2]))
        for row, (v, k) in enumerate(zip(nodes.tolist(), counts.tolist(), strict=True)):
            at = (self.test_head[v] + self.test_count[v] - skip - k + np.arange(k)) % longest
            after[row] = self.test_psi[v, at].sum(axis=0) * (self.unit / max(k, 1))
        return Windows(before, after, counts.astype(np.float64))

    def restart(self, nodes: Nodes) -> None:
        """Empty all windows of ``nodes``, as after a gap; their parameters follow the neighbours."""
        for v in nodes:
            for array in (self.ref_head, self.ref_count, self.test_head, self.test_count, self.moves):
                array[v] = 0
            self.G[v] = 0.0
            self.m[v] = 0.0
        self._factor(np.ascontiguousarray(nodes, dtype=np.int32))

    def features_of(self, v: int) -> Floats:
        """(m, r) features of the longest test window of node v, in time order."""
        at = (self.test_head[v] + np.arange(self.test_count[v])) % self.test_psi.shape[1]
        return np.asarray(self.test_psi[v, at] * self.unit)

    def forget(self, v: int, keep: int) -> None:
        """Keep of the test windows of node v its latest ``keep`` samples; the reference stays."""
        gone = max(int(self.test_count[v]) - keep, 0)
        self.test_head[v] = (self.test_head[v] + gone) % self.test_z.shape[1]
        self.test_count[v] -= gone
        self.rebuild(np.array([v], np.int32))

    def rebaseline(self, v: int, keep: int) -> None:
        """Begin a new reference for node v with its latest ``keep`` samples."""
        keep = min(keep, int(self.test_count[v]), self.ref_z.shape[1])
        at = (self.test_head[v] + self.test_count[v] - keep + np.arange(keep)) % self.test_z.shape[1]
        z, psi = self.test_z[v, at].copy(), self.test_psi[v, at].copy()
        self.restart(np.array([v], np.int32))
        self.ref_z[v, :keep], self.ref_psi[v, :keep] = z, psi
        self.ref_count[v] = keep
        self.rebuild(np.array([v], np.int32))

    def refill(self, v: int, z: NDArray[np.float32]) -> None:
        """Begin anew with the reference z (n, d) for node v."""
        self.restart(np.array([v], np.int32))
        z = z[-self.ref_z.shape[1] :]
        self.ref_z[v, : len(z)], self.ref_psi[v, : len(z)] = z, self._rounded(self.features(z))
        self.ref_count[v] = len(z)
        self.rebuild(np.array([v], np.int32))

    def rebuild(self, nodes: Nodes | None = None) -> None:
        """Compute the sums of ``nodes`` (all by default) from their windows."""
        nodes = self._everyone if nodes is None else nodes
        for v in nodes:
            psi = self.ref_psi[v, (self.ref_head[v] + np.arange(self.ref_count[v])) % self.ref_psi.shape[1]]
            self._sum(int(v), 0, psi)
            for s, length in enumerate(self.lengths):
                n = min(int(length), int(self.test_count[v]))
                at = (self.test_head[v] + self.test_count[v] - n + np.arange(n)) % self.test_psi.shape[1]
                self._sum(int(v), s + 1, self.test_psi[v, at])
        self._factor(nodes)

    def _sum(self, v: int, slot: int, psi: NDArray[np.int16]) -> None:
        wide = psi.astype(np.float64)  # whole numbers still, and products of these are quick
        self.G[v, slot] = wide.T @ wide
        self.m[v, slot] = wide.sum(axis=0)

    def ratio(self, v: int, scale: int, x: NDArray[Any]) -> Floats:
        """Estimated relative ratio after/before of node v at the points x (n, d), from one scale."""
        ratio: Floats = 1.0 + self.features(x) @ self.theta[v, scale]
        return ratio

    _STATE = (
        "ref_psi",
        "ref_z",
        "test_psi",
        "test_z",
        "ref_head",
        "ref_count",
        "test_head",
        "test_count",
        "moves",
        "theta",
        "scores",
        "exposure",
        "held",
        "silent",
    )

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that `restore` needs; blocks are factorised here too, so that both go on alike."""
        self._factor(self._everyone)
        return {name: getattr(self, name)[: self.n_nodes].copy() for name in self._STATE}

    def restore(self, arrays: dict[str, NDArray[Any]], rows: NDArray[np.intp] | None = None) -> None:
        """Continue from `state`; ``rows`` (N,) says which old node each node was, -1 for a new one."""
        rows = np.arange(self.n_nodes) if rows is None else rows
        new, old = np.flatnonzero(rows >= 0), rows[rows >= 0]
        for name in self._STATE:
            found = arrays[name][old]
            if name.endswith("psi") and found.dtype.kind == "f":  # as states were once
                found = self._rounded(found)
            getattr(self, name)[new] = found
        self.rebuild()


def unit_for(longest: int) -> float:
    """The finest power of two such that sums over a window of features, as whole numbers, fit 32 bits."""
    bits = int(np.log2((2**31 - 1) / longest) / 2.0)
    return float(2.0 ** -min(bits, 14))
