"""Cost of one tick of the windows: slide, warm refit and score, over rank, nodes and degree.

    OPENBLAS_NUM_THREADS=1 python benchmarks/sweep.py [--quick]

Every node takes one sample per tick into full windows of the default lengths (reference 250, tests 5, 10, 25,
100, 200); one sweep. The graph is a ring of neighbours, a tenth of the links rewired at random. Figures are
the fastest of many ticks, in processor time. "ns" is per node, sample and scale, and holds the factorisations
that fall due. "features" is the Nystroem map of the new samples (one per node and tick, 128 atoms), shared by
all scales, in the same unit.

"of copy": each tick reads and writes the sums G, m and the parameters, and reads the steps P; the time that
plain copying takes for the same number of bytes, over the time of the tick. Copying is the limit once the
arrays are larger than the caches; where they are not, the column is empty.

"numpy" is the same tick, written with einsum over all nodes at once (Jacobi instead of cyclic order).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from tables import machine, table

from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.streaming.windows import WindowBank

SCALES = 5
MEMORY = 6e9  # bytes that a bank may take here
CACHE = 64e6  # sums larger than this are out of cache
DIM = 2


def ring(n_nodes: int, degree: int) -> Graph:
    """Each node linked with its ``degree`` nearest, a tenth of the links thrown anywhere."""
    rng = np.random.default_rng(0)
    half = max(degree // 2, 1)
    u = np.repeat(np.arange(n_nodes), half)
    v = (u + np.tile(np.arange(1, half + 1), n_nodes)) % n_nodes
    far = rng.random(len(v)) < 0.1
    v[far] = rng.integers(n_nodes, size=np.count_nonzero(far))
    kept = u != v
    W = sp.csr_array((np.ones(np.count_nonzero(kept)), (u[kept], v[kept])), shape=(n_nodes, n_nodes))
    W = sp.csr_array(W + W.T)
    W.data[:] = 1.0
    return Graph.of(W)


def features(rank: int) -> Nystroem:
    atoms = np.random.default_rng(1).normal(size=(128, DIM)) * 1.5
    made = Nystroem(Dictionary(atoms, 0.4), tol=0.0, rank=rank)
    assert made.rank == rank
    return made


def full(n_nodes: int, rank: int, degree: int) -> WindowBank:
    """A bank whose windows are full: 40 different nodes' samples, repeated."""
    graph, psi = ring(n_nodes, degree), features(rank)
    bank = WindowBank(graph, psi, coupling=0.3 / graph.mean_degree, ridge=0.01)
    rng, n = np.random.default_rng(2), min(40, n_nodes)
    small = WindowBank(Graph.empty(n), psi)
    for _ in range(451):
        small.slide(np.arange(n, dtype=np.int32), rng.normal(size=(n, DIM)))
    rows = np.arange(n_nodes) % n
    for name in ("ref_psi", "ref_z", "test_psi", "test_z", "ref_head", "ref_count", "test_head", "test_count",
                 "G", "m"):  # fmt: skip
        for v in range(n):
            getattr(bank, name)[v::n] = getattr(small, name)[v]
    bank.moves[:] = rows % bank._every  # factorisations fall due at different ticks
    bank._factor(bank._everyone)
    return bank


def least_time(call: Callable[[], object], repeats: int) -> float:
    """Processor time of the fastest call: what others do on the machine only ever adds to it."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return min(times)


def moved(bank: WindowBank) -> float:
    """Bytes that a tick must fetch and store: sums and parameters both ways, steps one way."""
    return 2.0 * (bank.G.nbytes + bank.m.nbytes + bank.theta.nbytes) + bank.P.nbytes


def copy_time(bank: WindowBank, repeats: int) -> float:
    """Seconds to copy as many bytes (read and written ones both counted) from arrays of that size."""
    target = np.empty_like(bank.G)
    spent = least_time(lambda: np.copyto(target, bank.G), repeats)
    return spent * moved(bank) / (2.0 * bank.G.nbytes)


def bytes_per_node(bank: WindowBank) -> float:
    arrays = [a for a in vars(bank).values() if isinstance(a, np.ndarray) and len(a) == bank.n_nodes]
    return sum(a.nbytes for a in arrays) / bank.n_nodes


def measure(n_nodes: int, rank: int, degree: int, repeats: int, numpy_too: bool) -> list[object]:
    bank, rng = full(n_nodes, rank, degree), np.random.default_rng(3)
    nodes, unit = bank._everyone, 1e9 / (n_nodes * SCALES)
    z = rng.normal(size=(n_nodes, DIM)).astype(np.float32)
    mapped = bank.features(z)
    bank.features = lambda _: mapped  # type: ignore[assignment]  # timed by itself
    bank.step(nodes, z, nodes)
    tick = least_time(lambda: bank.step(nodes, z, nodes), repeats)
    map_time = least_time(lambda: features_of(z, rank), max(repeats // 4, 3))
    share: float | str = copy_time(bank, repeats) / tick if bank.G.nbytes > CACHE else ""
    plain = unit * least_time(plain_tick(bank, z), 3) if numpy_too else ""
    return [n_nodes, rank, degree, tick * unit, map_time * unit, plain, bytes_per_node(bank) / 1e3,
            moved(bank) / tick / 1e9, share]  # fmt: skip


_MAPS: dict[int, Nystroem] = {}


def features_of(z: np.ndarray, rank: int) -> np.ndarray:
    if rank not in _MAPS:
        _MAPS[rank] = features(rank)
    return _MAPS[rank](z)


def plain_tick(bank: WindowBank, z: np.ndarray) -> Callable[[], None]:
    """The tick in numpy: rank-one moves, gradient, step and score of all nodes and scales at once."""
    psi, unit = bank.features(z), bank.unit
    n_ref, lengths, everyone = bank.ref_psi.shape[1], bank.lengths, np.arange(bank.n_nodes)
    G, m, theta, W = bank.G * unit**2, bank.m * unit, bank.theta.copy(), bank.graph.matrix()
    alpha, c = bank.alpha, bank.coupling
    diagonal = (c * bank.graph.degree + bank.ridge)[:, None, None]

    def swap(slot: int, new: np.ndarray, old: np.ndarray) -> None:
        G[:, slot] += new[:, :, None] * new[:, None] - old[:, :, None] * old[:, None]
        m[:, slot] += new - old

    def tick() -> None:
        at = bank.test_head + bank.test_count
        for s, length in enumerate(lengths):
            swap(s + 1, psi, bank.test_psi[everyone, (at - length) % bank.test_psi.shape[1]] * unit)
        leaving = bank.test_psi[everyone, bank.test_head] * unit
        swap(0, leaving, bank.ref_psi[everyone, bank.ref_head] * unit)
        b = (1.0 - alpha) * (m[:, 1:] / lengths[:, None] - m[:, :1] / n_ref)
        near = (W @ theta.reshape(len(theta), -1)).reshape(theta.shape)
        g = product(theta) + diagonal * theta - c * near - b
        theta[:] -= np.einsum("nij,nsj->nsi", bank.P, g)
        np.einsum("nsi,nsi->ns", theta, b - 0.5 * product(theta))
        np.einsum("nsi,nij,nsj->ns", near, G[:, 0], near, optimize=True)

    def product(x: np.ndarray) -> np.ndarray:
        test = np.einsum("nsij,nsj->nsi", G[:, 1:], x) / lengths[:, None]
        return (1.0 - alpha) / n_ref * np.einsum("nij,nsj->nsi", G[:, 0], x) + alpha * test

    return tick


HEADER = ["nodes", "rank", "degree", "ns", "features", "numpy", "kB/node", "GB/s", "of copy"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few sizes, few repeats")
    quick = parser.parse_args().quick
    cases = [(100, rank, 10) for rank in (8, 11, 16, 24, 32, 48, 64)]
    cases += [(n, 16, 10) for n in (1000, 10_000, 100_000)] + [(10_000, 16, d) for d in (4, 50)]
    cases += [(10_000, 8, 10), (10_000, 11, 10), (10_000, 32, 10), (4000, 64, 10)]
    if quick:
        cases = [(100, 8, 4), (100, 16, 10), (2000, 16, 10), (2000, 16, 50)]
    print(machine())
    rows = []
    for n_nodes, rank, degree in cases:
        size = n_nodes * (450 * (2.0 * rank + 4.0 * DIM) + 32.0 * rank * rank)
        if size > MEMORY:
            continue
        repeats = int(np.clip(4e8 / (n_nodes * rank * rank * SCALES), 5, 200))
        rows.append(measure(n_nodes, rank, degree, repeats, n_nodes * rank * rank <= 3_000_000))
        print(".", end="", flush=True)
    print("\n" + table(HEADER, rows))
    steady(quick)


def steady(quick: bool) -> None:
    """Growth with the number of nodes: nanoseconds at the largest over those out of cache before it."""
    sizes = (1000, 4000) if quick else (5000, 20_000, 80_000)
    spent = []
    for n in sizes:
        bank = full(n, 11, 10)
        z = np.random.default_rng(3).normal(size=(n, DIM)).astype(np.float32)
        mapped = bank.features(z)
        bank.features = lambda _, mapped=mapped: mapped  # type: ignore[assignment,misc]
        spent.append(least_time(lambda: bank.step(bank._everyone, z, bank._everyone), 7) / n)  # noqa: B023
    growth = ", ".join(f"{n}: {t * 1e6:.2f} µs" for n, t in zip(sizes, spent, strict=True))
    print(f"\nper node and tick at rank 11: {growth}")


if __name__ == "__main__":
    main()
