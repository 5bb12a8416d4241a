"""Plain numpy twins of the compiled sweep and of the full form, for tests only."""

from __future__ import annotations

import numpy as np

from estimators.core.kernels import kernel_named


def sweep(problem, theta, block="exact"):
    """One sweep of Algorithm 2 (Eq. 39); yields Theta after every block update."""
    W = problem.graph.matrix().toarray()
    theta = theta.copy()
    for v in range(len(theta)):
        A, d = problem.A[v], problem.graph.degree[v]
        g = (
            A @ theta[v]
            - problem.h[v]
            + problem.coupling * (d * theta[v] - W[v] @ theta)
            + problem.ridge * theta[v]
        )
        if block == "exact":
            B = A + (problem.coupling * d + problem.ridge) * np.eye(len(A))
            theta[v] = theta[v] - np.linalg.solve(B, g)
        else:
            eta = np.linalg.eigvalsh(A)[-1] + problem.coupling * d
            theta[v] = theta[v] - g / (eta + problem.ridge)
        yield theta


def full_form(ref, test, W, atoms, sigma, kernel, alpha, lam, gamma, cycles=0):
    """GRULSIF on phi(x) = (K(x, x_1), ..., K(x, x_L)) with norms theta' K theta (Eq. 15 to 18).

    ``cycles = 0`` solves the whole system, else so many cycles of Eq. 33 are run. Returns theta, scores.
    """
    K_of = kernel_named(kernel)
    K = K_of(atoms, atoms, sigma)
    N, L = len(ref), len(atoms)
    lap = np.diag(W.sum(1)) - W
    A, h = np.zeros((N, L, L)), np.zeros((N, L))
    for v in range(N):
        phi, phi_ = K_of(ref[v], atoms, sigma), K_of(test[v], atoms, sigma)
        A[v] = (1 - alpha) * phi.T @ phi / len(phi) + alpha * phi_.T @ phi_ / len(phi_)
        h[v] = phi_.mean(0)
    if cycles == 0:
        M = np.zeros((N * L, N * L))
        for v in range(N):
            M[v * L : (v + 1) * L, v * L : (v + 1) * L] = A[v] / N
        M += lam * np.kron(lap + gamma * np.eye(N), K)
        theta = np.linalg.solve(M, h.ravel() / N).reshape(N, L)
    else:
        theta = np.zeros((N, L))
        d = W.sum(1)
        eta = [np.linalg.eigvalsh(A[v] / N + lam * d[v] * K)[-1] for v in range(N)]
        for _ in range(cycles):
            for v in range(N):  # Eq. 33
                own = eta[v] * theta[v] - (A[v] @ theta[v] - h[v]) / N
                graph = lam * K @ (d[v] * theta[v] - W[v] @ theta)
                theta[v] = np.linalg.solve(lam * gamma * K + eta[v] * np.eye(L), own - graph)
    scores = np.array([h[v] @ theta[v] - 0.5 * theta[v] @ A[v] @ theta[v] - 0.5 for v in range(N)])
    return theta, scores
