"""Plain numpy twin of the compiled window moves, refit and scores, for tests only."""

from __future__ import annotations

import numpy as np


class Twin:
    """Keeps lists of features per node; computes everything from them, one formula after the other."""

    def __init__(self, bank):
        self.bank = bank
        n, (scales, rank) = bank.n_nodes, bank.theta.shape[1:]
        self.n_ref, self.lengths = bank.ref_psi.shape[1], bank.lengths.tolist()
        self.W = bank.graph.matrix().toarray()
        self.ref = [[] for _ in range(n)]
        self.test = [[] for _ in range(n)]
        self.z_ref = [[] for _ in range(n)]
        self.z_test = [[] for _ in range(n)]
        self.theta = np.zeros((n, scales, rank))
        self.scores, self.exposure = np.full((2, n, scales), np.nan)
        self.held, self.silent = np.zeros((2, n), bool)
        self.moves = [0] * n
        self.P = [None] * n
        for v in range(n):
            self.factor(v)

    def slide(self, nodes, z):
        z = z.astype(np.float32)
        features = np.round(self.bank.features(z) / self.bank.unit) * self.bank.unit
        for v, x, psi in zip(nodes, z, features, strict=True):
            if len(self.ref[v]) < self.n_ref:
                self.ref[v].append(psi)
                self.z_ref[v].append(x)
            else:
                self.test[v].append(psi)
                self.z_test[v].append(x)
                if len(self.test[v]) > self.lengths[-1]:
                    leaving, z_leaving = self.test[v].pop(0), self.z_test[v].pop(0)
                    if not self.held[v]:
                        self.ref[v] = [*self.ref[v][1:], leaving]
                        self.z_ref[v] = [*self.z_ref[v][1:], z_leaving]
            self.moves[v] += 1
            if self.moves[v] % self.bank._every == 0:
                self.factor(v)

    def window(self, v, s):
        """Features of slot s: 0 the reference, then the scales."""
        rows = self.ref[v] if s == 0 else self.test[v][-self.lengths[s - 1] :]
        return np.array(rows).reshape(len(rows), self.theta.shape[2])

    def G(self, v, s):
        return self.window(v, s).T @ self.window(v, s)

    def factor(self, v):
        b, d = self.bank, self.W[v].sum()
        H = self.G(v, 0) / max(len(self.ref[v]), 1)
        B = (1 - b.alpha) * H + (b.coupling * d + b.ridge + b.alpha / 2 + b._slack) * np.eye(len(H))
        self.P[v] = np.linalg.inv(B)

    def ready(self, v, s):
        return not self.silent[v] and len(self.ref[v]) == self.n_ref and len(self.test[v]) >= self.lengths[s]

    def system(self, v, s):
        """A and b of one node and scale."""
        alpha, ref, test = self.bank.alpha, self.window(v, 0), self.window(v, s + 1)
        A = (1 - alpha) * ref.T @ ref / len(ref) + alpha * test.T @ test / len(test)
        return A, (1 - alpha) * (test.mean(0) - ref.mean(0))

    def refit(self, nodes, sweeps=1):
        b = self.bank
        for _ in range(sweeps):
            for v in nodes:
                degree = self.W[v].sum()
                diagonal = b.coupling * degree + b.ridge
                for s in range(len(self.lengths)):
                    theta, near = self.theta[v, s], self.W[v] @ self.theta[:, s]
                    if not self.ready(v, s):
                        self.theta[v, s] = b.coupling * near / diagonal
                        self.scores[v, s] = self.exposure[v, s] = np.nan
                        continue
                    A, target = self.system(v, s)
                    g = A @ theta - target + diagonal * theta - b.coupling * near
                    theta = self.theta[v, s] = theta - self.P[v] @ g
                    self.scores[v, s] = target @ theta - 0.5 * theta @ A @ theta
                    u = near / degree if degree > 0 else 0 * near
                    C = np.cov(self.window(v, 0).T, bias=True).reshape(len(u), len(u))
                    both = 1 / self.lengths[s] + 1 / self.n_ref
                    self.exposure[v, s] = (1 - b.alpha) ** 2 * u @ C @ u * both

    def residual(self):
        """Norm of the gradient over that of the target, of all blocks that have data."""
        squares = norms = 0.0
        for v, s in np.ndindex(self.scores.shape):
            if not self.ready(v, s):
                continue
            A, target = self.system(v, s)
            theta = self.theta[v, s]
            coupled = self.bank.coupling * (self.W[v].sum() * theta - self.W[v] @ self.theta[:, s])
            g = A @ theta - target + self.bank.ridge * theta + coupled
            squares, norms = squares + g @ g, norms + target @ target
        return np.sqrt(squares / norms) if norms > 0 else np.nan

    def restart(self, v):
        self.ref[v], self.test[v], self.z_ref[v], self.z_test[v] = [], [], [], []
        self.moves[v] = 0
        self.factor(v)

    def rebaseline(self, v, keep):
        keep = min(keep, len(self.test[v]), self.n_ref)
        ref, z = self.test[v][len(self.test[v]) - keep :], self.z_test[v][len(self.test[v]) - keep :]
        self.restart(v)
        self.ref[v], self.z_ref[v] = ref, z
        self.factor(v)
