"""Solvers of Eq. 38: iterations and time to tolerance over size, rank, degree and coupling, cold and warm.

    OPENBLAS_NUM_THREADS=1 python benchmarks/solvers.py [--quick]

The problems are real ones: windows of 50 normal points per node, a share of the nodes shifted, the graph a
ring of neighbours with random chords. A warm start is the solution before one point of each window moved.
"error" is the largest error of a node's score against the solution at residual 1e-12, for a cold start.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable
from functools import partial

import networkx as nx
import numpy as np
from tables import machine, table

from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.ratio.moments import Moments, loss
from estimators.ratio.solvers import ConvergenceWarning, Problem, Solution, cbcgd, direct, pcg

SOLVERS: dict[str, Callable[..., Solution]] = {
    "cbcgd gradient": partial(cbcgd, block="gradient"),
    "cbcgd exact": partial(cbcgd, block="exact"),
    "pcg blocks": partial(pcg, precondition="blocks"),
    "pcg fourier": partial(pcg, precondition="fourier"),
}
TOL = 1e-3
CAP = 5000


def problems(n_nodes: int, rank: int, degree: int, weight: float, gamma: float) -> tuple[Problem, Problem]:
    """A problem, and the same after one point of every test window has gone and another has come."""
    rng = np.random.default_rng(0)
    graph = nx.watts_strogatz_graph(n_nodes, degree, 0.1, seed=0)
    dim = 1 if rank <= 12 else 2
    ref = rng.normal(size=(n_nodes, 50, dim))
    test = rng.normal(size=(n_nodes, 51, dim)) + (np.arange(n_nodes) < n_nodes // 4)[:, None, None]
    D = Dictionary.build(list(ref[:100]), list(test[:100]), mu_node=0.9, mu_graph=0.99, sigma=0.5)
    psi = Nystroem(D, tol=1e-9, rank=rank)
    G = Graph.of(graph)
    lam = weight / G.mean_degree
    before, after = (
        Moments.of(map(psi, ref), map(psi, side)).system(0.1) for side in (test[:, :-1], test[:, 1:])
    )
    return Problem(*before, G, lam, gamma), Problem(*after, G, lam, gamma)


def timed(
    solve: Callable[..., Solution], problem: Problem, start: np.ndarray | None
) -> tuple[Solution, float]:
    began = time.process_time()
    found = solve(problem, start, tol=TOL, max_iter=CAP)
    return found, (time.process_time() - began) * 1e3


def compare(n_nodes: int, rank: int, degree: int, weight: float, gamma: float) -> list[tuple[object, ...]]:
    """Rows of all solvers on one problem."""
    old, problem = problems(n_nodes, rank, degree, weight, gamma)
    problem.graph.spectrum  # found once per graph, timed by itself  # noqa: B018
    exact, start = (pcg(p, tol=1e-12).theta for p in (problem, old))
    scores = loss(problem.A, problem.h, exact)
    case = n_nodes, rank, degree, weight, gamma
    rows: list[tuple[object, ...]] = []
    for name, solve in SOLVERS.items():
        cold, cold_ms = timed(solve, problem, None)
        warm, warm_ms = timed(solve, problem, start)
        worst = float(np.abs(loss(problem.A, problem.h, cold.theta) - scores).max())
        capped = ">" if cold.n_iter == CAP else ""
        counts = f"{capped}{cold.n_iter}", cold_ms, warm.n_iter, warm_ms
        rows.append((*case, name, *counts, f"{worst:.0e}"))
    if n_nodes * rank <= 2500:
        began = time.process_time()
        direct(problem)
        took = (time.process_time() - began) * 1e3
        rows.append((*case, "direct", 1, took, 1, took, "0"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one small problem")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore", ConvergenceWarning)
    cases = [(100, 12, 4, 0.01, 0.1)]
    if not quick:
        cases += [(1000, 12, 4, 0.01, 0.1), (100, 30, 4, 0.01, 0.1), (100, 12, 20, 0.01, 0.1)]
        cases += [(100, 12, 4, weight, 0.1) for weight in (1e-3, 0.1, 10.0)]
        cases += [(100, 12, 4, 0.01, 1e-3), (100, 12, 4, 1.0, 1e-3)]
    header = ("N", "rank", "degree", "lam x degree", "gamma", "solver", "cold", "ms", "warm", "ms", "error")
    print(machine())
    print(f"\nIterations and CPU milliseconds to a relative residual of {TOL:g}")
    print(table(header, itertools.chain.from_iterable(compare(*case) for case in cases)))
    print("\nCPU milliseconds to find the Fourier basis, once per graph")
    sizes = (100,) if quick else (100, 500, 1000, 2000)
    rows = []
    for n in sizes:
        graph = Graph.of(nx.watts_strogatz_graph(n, 4, 0.1, seed=0))
        began = time.process_time()
        graph.spectrum  # noqa: B018
        rows.append((n, (time.process_time() - began) * 1e3))
    print(table(("N", "ms"), rows))


if __name__ == "__main__":
    main()
