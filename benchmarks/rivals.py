"""Other detectors behind one face, for the benchmarks: short, vectorised over the nodes where they can be.

A watcher is made from quiet data Z (T, N, d) (NaN: no sample) and a graph. ``fresh()`` gives one with empty
memory, ``step(z, seen)`` takes one tick and returns its statistics (k, N), one row per name in ``names``.
NaN is "no decision". All of them see the same preprocessed values as the detector does.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from detector.engines.density_ratio.tuning import features
from estimators.core.graph import Graph

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

TINY = 1e-12


def averaging(graph: Graph) -> Floats:
    """(N, N): a row takes the mean over a node and its neighbours by weight, the node as an average link."""
    n = graph.n_nodes
    W = np.zeros((n, n))
    for v in range(n):
        span = slice(int(graph.indptr[v]), int(graph.indptr[v + 1]))
        W[v, graph.indices[span]] = graph.weights[span]
    W += np.eye(n) * (graph.weights.mean() if len(graph.weights) else 1.0)
    return np.asarray(W / W.sum(axis=1, keepdims=True))


class Watcher:
    """What the benchmarks need of a detector."""

    names: ClassVar[tuple[str, ...]] = ()
    warm_up = 500  # ticks before its statistic counts
    binary = False  # its statistic is an alarm already
    subset: NDArray[np.intp] | None = None  # the nodes it looks at; None: all

    def fresh(self) -> Watcher:
        raise NotImplementedError

    def step(self, z: Floats, seen: Bools) -> Floats:
        raise NotImplementedError

    def bytes_per_node(self, n_nodes: int) -> float:
        """Of the arrays that belong to the nodes."""
        return sum(a.nbytes for a in vars(self).values() if isinstance(a, np.ndarray)) / n_nodes


def run(watcher: Watcher, Z: Floats) -> NDArray[np.float32]:
    """Statistics (k, T, N) over a stream."""
    seen = np.isfinite(Z).all(axis=2)
    out = np.full((len(watcher.names), *Z.shape[:2]), np.nan, np.float32)
    for t, z in enumerate(Z):
        out[:, t] = watcher.step(z, seen[t])
    return out


class Standardised(Watcher):
    """A raw statistic per node (or per node and scale), in units of its quiet spread; plain and averaged."""

    warm_up = 500

    def __init__(self, Z: Floats, graph: Graph) -> None:
        self.graph, self.average = graph, averaging(graph)
        self.mean: Floats | float = 0.0
        self.spread: Floats | float = 1.0
        self._start(Z.shape[1], Z.shape[2])

    def _start(self, n_nodes: int, dim: int) -> None:
        raise NotImplementedError

    def _raw(self, z: Floats, seen: Bools) -> Floats:
        raise NotImplementedError

    def learn(self, Z: Floats) -> None:
        """Mean and spread of the raw statistic on quiet data."""
        seen, rows = np.isfinite(Z).all(axis=2), []
        skipped = min(self.warm_up, len(Z) // 4)
        for t, z in enumerate(Z):
            raw = self._raw(z, seen[t])
            if t >= skipped:
                rows.append(raw)
        self.mean, self.spread = np.mean(rows, axis=0), np.std(rows, axis=0) + TINY
        self._start(*Z.shape[1:])

    def fresh(self) -> Watcher:
        twin = copy.copy(self)
        shape = self.shape
        twin._start(*shape)
        return twin

    shape: tuple[int, int]

    def step(self, z: Floats, seen: Bools) -> Floats:
        u = (self._raw(z, seen) - self.mean) / self.spread
        near = self.average @ u
        if u.ndim == 2:
            u, near = u.max(axis=1), near.max(axis=1)
        return np.stack([u, near])

    def bytes_per_node(self, n_nodes: int) -> float:
        shared = self.average.nbytes
        return (sum(a.nbytes for a in vars(self).values() if isinstance(a, np.ndarray)) - shared) / n_nodes


class Newma(Standardised):
    """NEWMA (Keriven, Garreau, Poli 2020): two averages with different memory of random Fourier features."""

    names = ("NEWMA", "NEWMA, neighbours averaged")
    FEATURES, FAST, SLOW = 64, 0.05, 0.01

    def __init__(self, Z: Floats, graph: Graph, sigma: float = 1.0) -> None:
        rng = np.random.default_rng(0)
        self.W = rng.normal(size=(Z.shape[2], self.FEATURES // 2)) / (sigma * np.sqrt(2.0 * Z.shape[2]))
        super().__init__(Z, graph)
        self.learn(Z[:3000])

    def _start(self, n_nodes: int, dim: int) -> None:
        self.shape = (n_nodes, dim)
        self.fast, self.slow = np.zeros((2, n_nodes, self.FEATURES))

    def _raw(self, z: Floats, seen: Bools) -> Floats:
        p = z[seen] @ self.W
        psi = np.concatenate([np.cos(p), np.sin(p)], axis=1) / np.sqrt(self.FEATURES / 2)
        self.fast[seen] += self.FAST * (psi - self.fast[seen])
        self.slow[seen] += self.SLOW * (psi - self.slow[seen])
        return np.asarray(np.linalg.norm(self.fast - self.slow, axis=1))


class EwmaT2(Standardised):
    """EWMA of the values against the quiet mean, squared in units of the quiet covariance (Lowry 1992)."""

    names = ("EWMA T²", "EWMA T², neighbours averaged")
    RATE = 0.1

    def __init__(self, Z: Floats, graph: Graph) -> None:
        n, d = Z.shape[1:]
        self.centre = np.nanmean(Z, axis=0)
        self.inverse = np.empty((n, d, d))
        for v in range(n):
            x = Z[np.isfinite(Z[:, v]).all(axis=1), v] - self.centre[v]
            cov = x.T @ x / max(len(x), 1) + 1e-6 * np.eye(d)
            self.inverse[v] = np.linalg.inv(cov) * (2.0 - self.RATE) / self.RATE
        super().__init__(Z, graph)
        self.learn(Z[:3000])

    def _start(self, n_nodes: int, dim: int) -> None:
        self.shape = (n_nodes, dim)
        self.ewma = np.zeros((n_nodes, dim))

    def _raw(self, z: Floats, seen: Bools) -> Floats:
        self.ewma[seen] += self.RATE * (z[seen] - self.centre[seen] - self.ewma[seen])
        return np.asarray(np.einsum("nd,nde,ne->n", self.ewma, self.inverse, self.ewma))


class Mmd(Standardised):
    """Squared distance of the mean features of reference and test windows: the windows that ours has."""

    names = ("kernel MMD, same windows", "kernel MMD, neighbours averaged")

    def __init__(self, Z: Floats, graph: Graph, settings: Any, sigma: float = 0.6) -> None:
        self.features = features(Z, sigma, settings)
        self.tests = np.array(settings.windows.tests)
        self.reference = settings.windows.reference
        super().__init__(Z, graph)
        self.learn(Z[:3000])

    def _start(self, n_nodes: int, dim: int) -> None:
        self.shape = (n_nodes, dim)
        rank, self.length = self.features.rank, int(self.reference + self.tests[-1])
        self.ring = np.zeros((n_nodes, self.length, rank), np.float32)
        self.sums = np.zeros((n_nodes, len(self.tests) + 1, rank))
        self.count = np.zeros(n_nodes, np.int64)

    def _raw(self, z: Floats, seen: Bools) -> Floats:
        at = np.flatnonzero(seen)
        psi = self.features(z[at]).astype(np.float32)
        c, n, longest = self.count[at], self.length, int(self.tests[-1])
        ring = self.ring
        middle = ring[at, (c - longest) % n].astype(float)  # goes from test to reference
        self.sums[at, 0] += middle - ring[at, c % n]
        for s, m in enumerate(self.tests):
            self.sums[at, s + 1] += psi - ring[at, (c - m) % n]
        ring[at, c % n] = psi
        self.count[at] += 1
        gap = self.sums[:, 1:] / self.tests[:, None] - self.sums[:, :1] / self.reference
        return np.asarray(np.square(gap).sum(axis=2))


class Dummy(Watcher):
    """Alarms at random, once in 1000 ticks and node on average."""

    names = ("random dummy",)
    binary = True
    warm_up = 0

    def __init__(self, seed: int = 0, rate: float = 1e-3) -> None:
        self.rng, self.rate = np.random.default_rng(seed), rate

    def fresh(self) -> Watcher:
        return self

    def step(self, z: Floats, seen: Bools) -> Floats:
        return (self.rng.random(len(z)) < self.rate).astype(float)[None]

    def bytes_per_node(self, n_nodes: int) -> float:
        return 0.0


class River(Watcher):
    """One of river's detectors per node and component; a node alarms when one of its components does."""

    binary = True
    warm_up = 500

    def __init__(self, name: str, n_nodes: int, dim: int, label: str = "as it comes", **options: Any) -> None:
        from river import drift

        kinds = {"ADWIN": drift.ADWIN, "KSWIN": drift.KSWIN, "PageHinkley": drift.PageHinkley}
        self.name, self.options, self.kind = name, options, kinds[name]
        self.n_nodes, self.dim, self.label = n_nodes, dim, label
        self.names = (f"river {name}, {label}",)  # type: ignore[misc]
        if name == "KSWIN":  # half a millisecond per sample: a tenth of the nodes is enough
            self.subset = np.arange(0, n_nodes, 10)
            self.warm_up = 150
        self.nodes = np.arange(n_nodes) if self.subset is None else self.subset
        self.made: list[list[Any]] = []

    def fresh(self) -> River:
        twin = copy.copy(self)
        more = [{"seed": int(v)} if self.name == "KSWIN" else {} for v in self.nodes]
        twin.made = [[self.kind(**self.options, **m) for _ in range(self.dim)] for m in more]
        return twin

    def step(self, z: Floats, seen: Bools) -> Floats:
        out = np.full((1, self.n_nodes), np.nan)
        for v, made in zip(self.nodes.tolist(), self.made, strict=True):
            alarm = False
            if seen[v]:
                for detector, value in zip(made, z[v].tolist(), strict=True):
                    detector.update(value)
                    alarm |= detector.drift_detected
            out[0, v] = alarm
        return out

    def bytes_per_node(self, n_nodes: int) -> float:
        return float(np.mean([len(pickle.dumps(made)) for made in self.made]))

    @classmethod
    def tuned(cls, name: str, Z: Floats, rate: float, tries: int = 7) -> River:
        """The parameter with which quiet nodes alarm at ``rate`` per tick, by bisection of its logarithm."""
        key, low, high = {
            "ADWIN": ("delta", 1e-8, 0.9),
            "PageHinkley": ("threshold", 5.0, 2000.0),
            "KSWIN": ("alpha", 1e-8, 0.05),
        }[name]
        if name == "KSWIN":
            Z, tries = Z[:1000], 5
        rises = name != "PageHinkley"  # alarms become more with delta and alpha, fewer with the threshold
        low, high = np.log(low), np.log(high)
        for _ in range(tries):
            middle = (low + high) / 2
            made = cls(name, Z.shape[1], Z.shape[2], **{key: float(np.exp(middle))})
            alarms = run(made.fresh(), Z)[0, made.warm_up :]
            many = alarm_rate(alarms) > rate
            if many == rises:
                high = middle
            else:
                low = middle
        value = float(np.exp((low + high) / 2))
        return cls(name, Z.shape[1], Z.shape[2], f"{key} {value:.2g}", **{key: value})


def alarm_rate(alarms: NDArray[Any], block: int = 250) -> float:
    """Alarms per tick and node from (T, N), an episode of at most ``block`` ticks counted once."""
    n = len(alarms) // block
    hit = np.nanmax(alarms[: n * block].reshape(n, block, -1), axis=1)
    share = float(np.nanmean(hit > 0.5))
    return -np.log(max(1.0 - share, 1e-6)) / block
