"""Which nodes share a change that began at a known time: a probability and a p-value for each.

The streaming scores are coupled over the graph, which finds events soon but lends every neighbour of an event
a part of its score. Here nothing is lent: the data of a node are tested by themselves, along the direction in
which *other* nodes changed.

With b_v = mean psi(after) - mean psi(before) and C_v the covariance of psi before, both of node v,

    d_v = sum_u q_u w_uv b_u / sum_u q_u w_uv                 how its neighbours changed; likewise all others
    theta_v = (C + l I)^-1 d_v                                the direction that tells this change best
    z_v = theta_v' b_v / sqrt(theta_v' C_v theta_v h_v)       h_v = 1/n + 1/n', inflated by serial correlation

is standard normal for a node that did not change, whoever its neighbours are. Of a node that changed as the
others did the mean is m_v = theta_v' d_v over the same root, so that z_v has a likelihood ratio; a second,
for changes of another kind, comes from the size of b_v alone. The prior is an Ising model over the links, and
q, the posterior, is iterated to its mean-field fixed point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaincc, ndtr

from estimators.core.types import Floats

SWEEPS = 6
FEW = 1.0  # changed neighbours, with which their direction counts as much as that of the whole event
FIELD, PULL = -1.0, 0.5  # prior log-odds of a node by itself, and what each changed neighbour adds to them
PRIOR = (-5.0, 4.5)  # log-odds within which the prior stays
OTHER = 0.05  # prior share of changes of another kind than the neighbours'
UNLIKE = 0.3  # by which effects of one event differ, of their mean
MOST_LOG = 30.0
SURE = 3.0  # standard errors
SEED = 0.9  # probability that seeds start from
MAX_LAG_ONE = 0.9
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Windows:
    """Of k nodes: features before (k, n, r), and their mean (k, r) over ``count`` (k,) samples after."""

    before: Floats
    after: Floats
    count: Floats


@dataclass(frozen=True, eq=False)
class Return:
    """Arrays (k,): where the latest samples lie between before (0) and changed (1), and the error of that."""

    place: Floats
    error: Floats

    @property
    def back(self) -> NDArray[np.bool_]:
        """Nearer to before than to changed, beyond doubt: by itself, or together with those that may be.

        A weak change of a few samples is no yardstick in one node; in all nodes of an event together it is.
        """
        alone = self.place + SURE * self.error < 0.5
        perhaps = self.place - SURE * self.error <= 0.5
        if not perhaps.any():
            return np.asarray(alone)
        place, error = Return(self.place[perhaps], self.error[perhaps]).pooled()
        return np.asarray(alone | ((self.place < 0.5) & (place + SURE * error < 0.5)))

    def pooled(self) -> tuple[float, float]:
        """Place and error of all nodes together, each by its precision."""
        weight = 1.0 / np.square(np.maximum(self.error, TINY))
        return float(np.average(self.place, weights=weight)), float(1.0 / np.sqrt(weight.sum()))


@dataclass(frozen=True, eq=False)
class Membership:
    """Arrays (k,) over the candidates."""

    probability: Floats  # that the node changed
    p_value: Floats  # of data as far from "before", if it did not


class _Nodes:
    """The moments that every test of the candidates needs."""

    def __init__(self, windows: Windows) -> None:
        centre = windows.before.mean(axis=1)
        self.X = windows.before - centre[:, None]  # (k, n, r)
        self.b = windows.after - centre  # (k, r)
        self.C = np.matmul(self.X.transpose(0, 2, 1), self.X) / self.X.shape[1]
        self.count = np.maximum(windows.count, 1.0)
        self.h = 1.0 / self.X.shape[1] + 1.0 / self.count

    def error(self, theta: Floats) -> Floats:
        """(k,) deviation of one sample along theta (k, r), inflated by serial correlation."""
        s = np.einsum("vtj,vj->vt", self.X, theta)
        variance = np.maximum((s * s).mean(axis=1), TINY**2)
        return np.asarray(np.sqrt(variance * _inflation((s[:, 1:] * s[:, :-1]).mean(axis=1), variance)))

    def along(self, d: Floats, speaking: Floats, C: Floats) -> tuple[Floats, Floats]:
        """z, and its mean for nodes that changed by d (k, r), which is known from ``speaking`` (k,) nodes."""
        theta, noise = _direction(C, d, 1.0 / (speaking * self.count))
        root = self.error(theta) * np.sqrt(self.h)
        z = np.einsum("vj,vj->v", theta, self.b) / root
        mean = np.einsum("vj,vj->v", theta, d) - noise * self.h / speaking
        return z, np.maximum(mean / root, 0.0)

    def own(self) -> Floats:
        """p-value of ||b||^2 under no change: a sum of squares, by the gamma law of its first two moments."""
        trace = np.maximum(np.einsum("vii->v", self.C), TINY)
        lagged = np.einsum("vtj,vtj->v", self.X[:, 1:], self.X[:, :-1]) / self.X.shape[1]
        h = self.h * _inflation(lagged, trace)
        mean, variance = trace * h, 2.0 * np.einsum("vij,vij->v", self.C, self.C) * h * h
        shape = mean * mean / np.maximum(variance, TINY**2)
        return np.asarray(gammaincc(shape, np.einsum("vj,vj->v", self.b, self.b) / mean * shape))


def membership(windows: Windows, W: Floats, seeds: NDArray[np.bool_]) -> Membership:
    """``W`` (k, k) weights of the links among the candidates; ``seeds`` (k,) those that likely changed."""
    nodes = _Nodes(windows)
    b, own = nodes.b, nodes.own()
    link = float(W[W > 0.0].mean()) if (W > 0.0).any() else 1.0
    W = W / link
    q = np.where(seeds, SEED, 0.0)
    p_value = own
    for sweep in range(SWEEPS):
        C = np.average(nodes.C, axis=0, weights=q + TINY)
        near, others = W @ q, q.sum() - q
        z_near, m_near = nodes.along(W @ (q[:, None] * b) / np.maximum(near, TINY)[:, None], near + 0.1, C)
        z_all, m_all = nodes.along(
            (q @ b - q[:, None] * b) / np.maximum(others, TINY)[:, None], others + 0.1, C
        )
        beside = near / (near + FEW)
        evidence = np.logaddexp(
            np.log1p(-OTHER) + np.logaddexp(
                np.log(np.maximum(beside, TINY)) + _ratio(z_near, m_near),
                np.log(np.maximum(1.0 - beside, TINY)) + _ratio(z_all, m_all),
            ),
            np.log(OTHER) + _bound(own),
        )  # fmt: skip
        prior = np.clip(FIELD + PULL * (W @ (2.0 * q - 1.0)), *PRIOR)
        q = expit(evidence if sweep == 0 else prior + evidence)  # seeds may be few: first the data alone
        p_value = np.minimum(3.0 * np.minimum(np.minimum(ndtr(-z_near), ndtr(-z_all)), own), 1.0)
    return Membership(q, p_value)


def log_ratios(windows: Windows, W: Floats, samples: Sequence[Floats]) -> list[Floats]:
    """Of nodes that changed together, what each of their ``samples`` (m, r) says for after against before.

    Features are taken for normal, with the change of the node itself and of its neighbours for the difference
    of means (linear discriminant analysis), and serial correlation for fewer samples.
    """
    nodes = _Nodes(windows)
    W = W / (float(W[W > 0.0].mean()) if (W > 0.0).any() else 1.0)
    near = 1.0 + W.sum(axis=1)
    d = (nodes.b + W @ nodes.b) / near[:, None]
    theta, _ = _direction(nodes.C.mean(axis=0), d, 1.0 / (near * nodes.count))
    s = np.einsum("vtj,vj->vt", nodes.X, theta)
    variance = np.maximum((s * s).mean(axis=1), TINY**2)
    weight = 1.0 / _inflation((s[:, 1:] * s[:, :-1]).mean(axis=1), variance)
    middle = np.einsum("vj,vj->v", theta, windows.before.mean(axis=1) + d / 2.0)
    return [w * (x @ t - c) for w, x, t, c in zip(weight, samples, theta, middle, strict=True)]


def returned(changed: Windows, now: Windows) -> Return:
    """Whether nodes are back: their own change, from before to ``changed``, is the yardstick for ``now``."""
    nodes = _Nodes(changed)
    r = nodes.C.shape[1]
    inverse = np.linalg.inv(nodes.C + np.eye(r) / nodes.count[:, None, None])
    theta = np.einsum("vij,vj->vi", inverse, nodes.b)
    # Noise alone gives theta'b this mean: what is left is the size of the change itself.
    whole = np.einsum("vj,vj->v", theta, nodes.b) - np.einsum("vij,vji->v", inverse, nodes.C) * nodes.h
    whole = np.maximum(whole, TINY)
    place = np.einsum("vj,vj->v", theta, now.after - changed.before.mean(axis=1)) / whole
    samples = 1.0 / np.maximum(now.count, 1.0) + nodes.h
    return Return(place, nodes.error(theta) * np.sqrt(samples) / whole)


def _inflation(lagged: Floats, variance: Floats) -> Floats:
    """Of the variance of a mean, by serial correlation."""
    rho = np.clip(lagged / variance, 0.0, MAX_LAG_ONE)
    return np.asarray((1.0 + rho) / (1.0 - rho))


def _direction(C: Floats, d: Floats, ridge: Floats) -> tuple[Floats, Floats]:
    """(C + l I)^-1 d for each node's own l, and tr((C + l I)^-1 C): what noise alone adds to theta'd."""
    e, U = np.linalg.eigh(C)
    e = np.maximum(e, 0.0)
    shrunk = 1.0 / (e + ridge[:, None])
    return np.asarray((d @ U * shrunk) @ U.T), np.asarray((e * shrunk).sum(axis=1))


def _ratio(z: Floats, mean: Floats) -> Floats:
    """Log-likelihood ratio of N(mean, 1 + (UNLIKE mean)^2) to N(0, 1)."""
    variance = 1.0 + (UNLIKE * mean) ** 2
    return np.asarray(0.5 * (z * z - (z - mean) ** 2 / variance - np.log(variance)))


def _bound(p: Floats) -> Floats:
    """The largest Bayes factor a p-value can stand for: -1/(e p log p) (Sellke, Bayarri, Berger 2001)."""
    small = np.clip(p, 1e-300, np.exp(-1.0))
    return np.asarray(np.minimum(-np.log(-np.e * small * np.log(small)), MOST_LOG))


def discoveries(probability: Floats, level: float) -> NDArray[np.bool_]:
    """Which nodes to name, so that the expected share of false ones among them is at most ``level``.

    The step-up rule of Benjamini and Hochberg for posterior probabilities (Sun and Cai 2007).
    """
    order = np.argsort(-probability, kind="stable")
    wrong = np.cumsum(1.0 - probability[order]) / np.arange(1, len(order) + 1)
    good = np.flatnonzero((wrong <= level) & (probability[order] > 0.5))
    named = np.zeros(len(order), np.bool_)
    named[order[: good[-1] + 1 if len(good) else 0]] = True
    return named
