"""Slow and obvious twin of `estimators.regimes.kahm`: the document's equations one by one, in loops."""

from __future__ import annotations

import numpy as np


def encoding(Y, n_max=20):
    """P (n, p), by eigenvectors of the sample covariance and the algorithm of App. B."""
    N, p = Y.shape
    covariance = np.cov(Y, rowvar=False).reshape(p, p)
    values, vectors = np.linalg.eigh(covariance)
    order = np.argsort(values)[::-1]
    n = min(n_max, p, N - 1)
    while True:
        P = vectors[:, order[:n]].T
        x = np.array([P @ y for y in Y])
        if n == 0 or (x.max(axis=0) - x.min(axis=0)).min() >= 1e-3:
            return P
        n -= 1


class Twin:
    """Machine by (69)-(79) with explicit inverses; fitted samples at least span one direction."""

    def __init__(self, Y, lam=None):
        self.Y = np.asarray(Y, dtype=float)
        N, p = self.Y.shape
        self.P = encoding(self.Y)
        self.n = len(self.P)
        self.x = np.array([self.P @ y for y in self.Y])
        self.theta = np.cov(self.x, rowvar=False).reshape(self.n, self.n)
        self.K = np.array([[self.kernel(a, b) for b in self.x] for a in self.x])  # (74)
        self.tau = 2.0 / (p * N) * np.linalg.norm(self.Y) ** 2
        self.trace = [self.tau / 3.0]
        for _ in range(60):
            self.trace.append(self.f(self.trace[-1]))  # (78)
        self.lam = self.trace[-1] + self.tau if lam is None else lam  # (75)
        self.inverse = np.linalg.inv(self.K + self.lam * np.eye(N))

    def kernel(self, a, b):
        return np.exp(-(a - b) @ np.linalg.inv(self.theta) @ (a - b) / (2.0 * self.n))  # (71)

    def f(self, e):
        N, p = self.Y.shape
        smoother = self.K @ np.linalg.inv(self.K + (e + self.tau) * np.eye(N))
        return sum(np.linalg.norm(y - smoother @ y) ** 2 for y in self.Y.T) / (p * N)  # (77)

    def weights(self, y):
        """h^i(P y) (73) over their sum."""
        k = np.array([self.kernel(self.P @ y, x) for x in self.x])
        h = np.array([self.inverse[i] @ k for i in range(len(self.Y))])
        return h / h.sum()

    def image(self, y):
        return sum(w * sample for w, sample in zip(self.weights(y), self.Y, strict=True))  # (69)

    def distance(self, y):
        return np.linalg.norm(y - self.image(y))  # (13)
