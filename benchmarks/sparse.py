"""Sparse, resilient, federated: kernels found, spikes and wrong labels withstood, uploads, dictionaries.

    OPENBLAS_NUM_THREADS=1 python benchmarks/sparse.py [--quick] [--tables NAME ...]

Experiments of M. Peifer, "Balancing fit and complexity in learned representations" (thesis, 2021), Ch. 2 to
4, where they can be made again from what it says, and of what we make of it: a multi-width dictionary and a
sparse density ratio. The table of digits needs scikit-learn, for its data.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2
from scipy.stats import rankdata
from tables import machine, table

from detector import NetworkDetector
from estimators.core.atoms import Atoms
from estimators.core.dictionary import coherent_subset
from estimators.sparse.dictionary import SparseDictionary
from estimators.sparse.federated import critical_samples, merge_critical_samples
from estimators.sparse.grid import MultiScaleGrid
from estimators.sparse.margin import PairwiseClassifier, SparseMarginClassifier
from estimators.sparse.ratio import SparseRatioExplainer
from estimators.sparse.regression import SparseMultiScaleRegressor
from estimators.sparse.relaxation import Relaxation

Floats = NDArray[np.float64]
NOISE = np.sqrt(1e-3)


def chirp(x: Floats) -> Floats:
    """(2.28): extrema at the square roots of the odd numbers, 26 of them within 5."""
    return np.asarray(np.sin(0.5 * np.pi * x**2))


def sine(quick: bool) -> None:
    """Kernels on (2.28); the 26 extrema are what should be found, whatever the number of samples."""
    rows = []
    points = np.random.default_rng(1).uniform(-5.0, 5.0, 1000)
    extrema = np.concatenate([-np.sqrt(np.arange(25, 0, -2)), np.sqrt(np.arange(1, 26, 2))])
    plan = [(201, 7, gamma) for gamma in ((50.0,) if quick else (50.0, 500.0, 5000.0))]
    plan += [] if quick else [(n, 0, 500.0) for n in (51, 101, 401)]
    for n, seed, gamma in plan:
        x = np.linspace(-5.0, 5.0, n)
        y = chirp(x) + np.random.default_rng(seed).normal(0.0, NOISE, n)
        grid = MultiScaleGrid.regular(-5.2, 5.2, 417, np.geomspace(0.06, 1.0, 24), "lebesgue")
        began = time.process_time()
        plain, moved = (
            SparseMultiScaleRegressor(tol=0.1, gamma=gamma, relaxation=Relaxation.hard(), refine=refine,
                                      grid=grid, max_iter=600).fit(x, y)
            for refine in (False, True))  # fmt: skip
        errors = [float(((m.predict(points) - chirp(points)) ** 2).mean()) for m in (plain, moved)]
        far = np.abs(plain.atoms_.centers[:, 0] - extrema[:, None]).min(axis=1)
        found, s = int((far <= 0.05).sum()), plain.solution_
        rows.append((n, gamma, len(plain.atoms_), found, *errors, s.dual, s.primal, s.n_iter,
                     (time.process_time() - began) / 2.0))  # fmt: skip
    print("\nsin(pi x^2 / 2) on [-5, 5]: kernels, extrema among them (of 26), test error without and with")
    print("variable projection, dual and primal value, iterations, CPU seconds")
    print(table(("N", "gamma", "kernels", "extrema", "error", "moved", "dual", "primal", "iter", "s"), rows))


PRICES = {
    "hard": Relaxation.hard(),
    "quadratic c=100": Relaxation.quadratic(100.0),
    "linear cap 30": Relaxation.linear(30.0),
    "huber c=100 cap 30": Relaxation.huber(100.0, 0.3),
}


def spikes(quick: bool) -> None:
    """A signal with spikes of 2 to 5 times its size (Ch. 4 on Ch. 2)."""
    grid = MultiScaleGrid.regular(-4.2, 4.2, 169, np.geomspace(0.08, 1.5, 16), "lebesgue")
    shares = (0.0, 0.2) if quick else (0.0, 0.1, 0.2, 0.3)
    rows, judged = [], []
    for name, price in PRICES.items():
        errors = []
        for share in shares:
            runs, hits = [], []
            for seed in range(2 if quick else 5):
                rng = np.random.default_rng([seed, 5])
                x, test = np.sort(rng.uniform(-4.0, 4.0, 200)), rng.uniform(-4.0, 4.0, 1000)
                bad = rng.permutation(200) < 200 * share
                y = _half(x) + rng.normal(0.0, 0.05, 200)
                y[bad] += rng.choice([-1.0, 1.0], bad.sum()) * rng.uniform(2.0, 5.0, bad.sum())
                model = SparseMultiScaleRegressor(tol=0.1, gamma=50.0, relaxation=price, refine=False,
                                                  grid=grid).fit(x, y)  # fmt: skip
                runs.append(float(((model.predict(test) - _half(test)) ** 2).mean()))
                told = model.slack_ > 0.5
                hits.append(
                    (told[bad].mean() if bad.any() else np.nan, bad[told].mean() if told.any() else np.nan)
                )
            errors.append(float(np.median(runs)))
            if name.startswith("huber") and share:
                recall, precision = np.nanmean(hits, axis=0)
                judged.append((f"{share:.0%}", float(recall), float(precision)))
        rows.append((name, *errors))
    print("\nSpikes: median error of the refit on the noiseless curve, by share of corrupt samples")
    print(table(("price", *(f"{share:.0%}" for share in shares)), rows))
    print("\nSpikes told by a relaxation above 0.5 (huber): recall and precision")
    print(table(("spikes", "recall", "precision"), judged))


def _half(x: Floats) -> Floats:
    return np.where(x <= 0.0, np.tanh(x), chirp(x))


def ellipses(rng: np.random.Generator, n: int, cell: int | None = None, noise: float = 0.2
             ) -> tuple[Floats, list[str]]:  # fmt: skip
    """(3.37) on [-20, 10] x [-10, 20]; a cell is one of 3 x 3, enlarged by 2."""
    low, high = np.array([-20.0, -10.0]), np.array([10.0, 20.0])
    if cell is not None:
        corner = low + 10.0 * np.array([cell % 3, cell // 3])
        low, high = np.maximum(low, corner - 2.0), np.minimum(high, corner + 12.0)
    x = rng.uniform(low, high, (n, 2))
    inside = np.zeros(n, np.bool_)
    for r, c in ((9.0, (3.0, 0.0)), (30.0, (-10.0, 6.0))):
        inside |= ((x - np.array(c)) ** 2 @ np.array([1.0, 0.25])) <= r
    return x + rng.normal(0.0, np.sqrt(noise), (n, 2)), ["in" if i else "out" for i in inside]


def federated(quick: bool) -> None:
    """Nine sites, one upload each, beside the learner that has everything (Ch. 3)."""
    grid = MultiScaleGrid.regular(
        (-20.0, -10.0), (10.0, 20.0), (25, 25), (1.0, 1.5, 2.0, 3.0, 4.0), "probability"
    )
    prices = {"hard": Relaxation.hard(), "linear cap 100": Relaxation.linear(100.0),
              "quadratic c=300": Relaxation.quadratic(300.0)}  # fmt: skip
    rows = []
    for n in (90, 360) if quick else (90, 360, 900):
        for name, price in prices.items():
            runs = [_round(grid, price, n, seed) for seed in range(1 if quick else 3)]
            rows.append((n, name, *(float(figure) for figure in np.mean(runs, axis=0))))
    print(
        "\nNine sites, two ellipses: accuracy of the learner of all samples and of the merged one, share of"
    )
    print(
        "samples sent, share of all samples' critical ones among them, CPU seconds of a site and of merging"
    )
    print(table(("N", "price", "central", "federated", "sent", "recalled", "site s", "merge s"), rows))


def _round(grid: MultiScaleGrid, price: Relaxation, n: int, seed: int) -> tuple[float, ...]:
    rng = np.random.default_rng([seed, n])
    sites = [ellipses(rng, n // 9, cell) for cell in range(9)]
    test, truth = ellipses(rng, 1000, noise=0.0)
    X, labels = np.concatenate([x for x, _ in sites]), [name for _, names in sites for name in names]
    central = PairwiseClassifier(grid, relaxation=price).fit(X, labels)
    began = time.process_time()
    sent = []
    for k, (x, names) in enumerate(sites):
        try:
            sent.append(critical_samples(PairwiseClassifier(grid, relaxation=price), x, names,
                                         site=str(k), features="xy"))  # fmt: skip
        except ValueError as error:
            print(f"N={n} seed={seed} site {k}: {error}")
    half = time.process_time()
    merged = merge_critical_samples(PairwiseClassifier(grid, relaxation=price), sent, features="xy")
    end = time.process_time()
    told = {x.tobytes() for message in sent for x in message.X}
    mine = [x.tobytes() in told for x in X[central.critical_]]
    right = [float(np.mean([a == b for a, b in zip(model.predict(test), truth, strict=True)]))
             for model in (central, merged)]  # fmt: skip
    return (*right, sum(len(m.X) for m in sent) / n, float(np.mean(mine)), (half - began) / 9.0, end - half)


def flips(quick: bool) -> None:
    """Ellipses with wrong labels: how a price of relaxation takes them."""
    grid = MultiScaleGrid.regular(
        (-20.0, -10.0), (10.0, 20.0), (25, 25), (1.0, 1.5, 2.0, 3.0, 4.0), "probability"
    )
    prices = {"hard": Relaxation.hard(), "linear cap 100": Relaxation.linear(100.0),
              "quadratic c=100": Relaxation.quadratic(100.0)}  # fmt: skip
    shares = (0.0, 0.2) if quick else (0.0, 0.1, 0.2, 0.3)
    rows = []
    for name, price in prices.items():
        cells = []
        for share in shares:
            right = []
            for seed in range(1 if quick else 3):
                rng = np.random.default_rng([seed, 6])
                x, names = ellipses(rng, 540)
                test, truth = ellipses(rng, 1000, noise=0.0)
                y = np.where(np.array(names) == "in", 1.0, -1.0)
                y[rng.permutation(540) < 540 * share] *= -1.0
                model = SparseMarginClassifier(grid, relaxation=price).fit(x, y)
                right.append(
                    float((np.where(model.predict(test) > 0, "in", "out") == np.array(truth)).mean())
                )
            cells.append(float(np.mean(right)))
        rows.append((name, *cells))
    print("\nWrong labels, two ellipses, 540 samples: accuracy on clean ones by share of wrong labels")
    print(table(("price", *(f"{share:.0%}" for share in shares)), rows))


def digits(quick: bool) -> None:
    """Ten classes, one against one, on the digits that come with scikit-learn; wrong labels as well."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        print("\nDigits: left out, scikit-learn is not installed")
        return
    data = load_digits()
    X, y = data.data / 16.0, data.target
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[: len(X) // 2], order[len(X) // 2 :]
    clean = [str(k) for k in y[train]]
    places = np.concatenate([kmeans2(X[train][y[train] == k], 20, seed=0, minit="++")[0] for k in range(10)])
    grid = MultiScaleGrid.candidates(places, np.linspace(0.6, 2.4, 7))
    rng = np.random.default_rng(1)
    wrong = rng.permutation(len(train))
    other = [str((k + 1) % 10) for k in y[train]]
    rows = []
    plan = [(0.0, 0.2, Relaxation.linear(1000.0), "linear cap 1000"),
            (0.0, 0.6, Relaxation.linear(1000.0), "linear cap 1000")]  # fmt: skip
    for share in () if quick else (0.2, 0.4):
        plan += [(share, 0.0, Relaxation.hard(), "hard"),
                 (share, 0.0, Relaxation.quadratic(30.0), "quadratic c=30"),
                 (share, 0.0, Relaxation.huber(100.0, 0.3), "huber c=100 cap 30"),
                 (share, 0.0, Relaxation.huber(30.0, 0.1), "huber c=30 cap 3")]  # fmt: skip
    for share, rho, price, name in plan:
        labels = [other[k] if wrong[k] < share * len(train) else clean[k] for k in range(len(train))]
        began = time.process_time()
        model = PairwiseClassifier(grid, rho=rho, relaxation=price).fit(X[train], labels)
        right = float(np.mean([a == str(b) for a, b in zip(model.predict(X[test]), y[test], strict=True)]))
        critical = float(np.mean([len(m.critical_) / len(m.nu_) for m in model.pairs_.values()]))
        kernels = float(np.mean([m.n_kernels for m in model.pairs_.values()]))
        rows.append((f"{share:.0%}", name, rho, right, kernels, critical, time.process_time() - began))
    print("\nDigits, half to learn from, wrong labels systematic (each class taken for the next): accuracy,")
    print("places in use and critical share per pair, CPU seconds")
    print(table(("wrong", "price", "rho", "accuracy", "places", "critical", "s"), rows))


def family_a(rng: np.random.Generator, n: int, shift: float = 0.0, spread: float = 1.0, wide: float = 0.0
             ) -> Floats:  # fmt: skip
    """A wide and a narrow mode."""
    return np.where(rng.random(n) < 0.5, rng.normal(wide, 1.0, n), rng.normal(4.0 + shift, 0.05 * spread, n))


def family_b(rng: np.random.Generator, n: int, shift: float = 0.0, spread: float = 1.0, wide: float = 0.0
             ) -> Floats:  # fmt: skip
    """Three modes, widths 0.05, 0.3 and 1."""
    mode = rng.integers(0, 3, n)
    parts = (rng.normal(3.0 + shift, 0.05 * spread, n), rng.normal(-3.0, 0.3, n), rng.normal(wide, 1.0, n))
    return np.choose(mode, parts)


CHANGES = {"narrow mode +2 sd": {"shift": 0.1}, "narrow mode spread x 2": {"spread": 2.0},
           "wide mode +0.5 sd": {"wide": 0.5}}  # fmt: skip


def auc(quiet: Floats, changed: Floats) -> float:
    ranks = rankdata(np.concatenate([quiet, changed]))[len(quiet) :]
    return float((ranks.sum() - len(changed) * (len(changed) + 1) / 2) / (len(quiet) * len(changed)))


def divergence(atoms: Atoms, ref: Floats, test: Floats, alpha: float = 0.1, ridge: float = 0.01) -> float:
    """Centred relative ratio of one node on the atoms, penalty of the direct sum over widths."""
    P, Q = atoms.transform(ref), atoms.transform(test)
    A = (1.0 - alpha) * P.T @ P / len(P) + alpha * Q.T @ Q / len(Q)
    h = (1.0 - alpha) * (Q.mean(axis=0) - P.mean(axis=0))
    G = atoms.transform(atoms.centers).T * (atoms.widths[:, None] == atoms.widths)
    theta = np.linalg.solve(A + ridge * G + 1e-9 * np.eye(len(A)), h)
    return float(h @ theta - 0.5 * theta @ A @ theta)


def dictionary(quick: bool) -> None:
    """One node, windows 100 + 100: power against the number of atoms."""
    rows = []
    for family, draw in {"A": family_a, "B": family_b}.items():
        methods: dict[str, Callable[[Floats], Atoms]] = {
            "coherence, width .025 sd": lambda x: _single(x, 0.025),
            "coherence, width .1 sd": lambda x: _single(x, 0.1),
            "coherence, width .5 sd": lambda x: _single(x, 0.5),
            "coherence, median distance": lambda x: _single(x, 0.0),
            "union of six widths": _union,
            "sparse": lambda x: SparseDictionary().fit(x),
        }
        for name, make in methods.items():
            found: dict[str, list[float]] = {kind: [] for kind in CHANGES}
            counts = []
            for seed in range(1 if quick else 4):
                rng = np.random.default_rng([seed, 8])
                atoms = make(draw(rng, 1000))
                counts.append(len(atoms))
                quiet = np.array([divergence(atoms, draw(rng, 100), draw(rng, 100)) for _ in range(60)])
                for kind, change in CHANGES.items():
                    changed = [divergence(atoms, draw(rng, 100), draw(rng, 100, **change)) for _ in range(60)]
                    found[kind].append(auc(quiet, np.array(changed)))
            rows.append((family, name, float(np.mean(counts)), *(float(np.mean(v)) for v in found.values())))
    print("\nDictionaries, one node, windows of 100: atoms, and AUC of quiet against changed windows")
    print(table(("family", "dictionary", "atoms", *CHANGES), rows))


def _single(x: Floats, width: float) -> Atoms:
    w = width * x.std() if width else float(np.median(np.abs(x[:500, None] - x[:500])))
    centers = coherent_subset(x[:250], 0.5, w)
    return Atoms(centers, np.full(len(centers), w))


def _union(x: Floats) -> Atoms:
    parts = [_single(x, width) for width in np.geomspace(0.025, 0.7, 6)]
    return Atoms(np.concatenate([p.centers for p in parts]), np.concatenate([p.widths for p in parts]))


def ratio(quick: bool) -> None:
    """The explainer: is there an atom, and where?"""
    rows = []
    for name, gamma in {"90": 90.0, "360": 360.0, "from the reference": None}.items():
        rng = np.random.default_rng(9)
        runs = {}
        began, fits = time.process_time(), 0
        for kind, change in {"quiet": {}, **CHANGES}.items():
            models = [SparseRatioExplainer(gamma=gamma).fit(family_a(rng, 100), family_a(rng, 100, **change))
                      for _ in range(10 if quick else 40)]  # fmt: skip
            fits += len(models)
            runs[kind] = models
        quiet = np.array([m.score_ for m in runs["quiet"]])
        silent = float(np.mean([not m.components_ for m in runs["quiet"]]))
        cells = []
        for kind in CHANGES:
            tops = [m.components_[0] for m in runs[kind] if m.components_]
            where, wide = np.median([t.center[0] for t in tops]), np.median([t.width for t in tops])
            cells.append(
                f"{auc(quiet, np.array([m.score_ for m in runs[kind]])):.2f} ({where:.2f}, {wide:.2f})"
            )
        rows.append((name, silent, *cells, (time.process_time() - began) / fits))
    print(
        "\nSparse ratio, family A, windows of 100: share of quiet pairs without an atom, AUC and median place"
    )
    print("and width of the largest component, CPU seconds per pair")
    print(table(("gamma", "silent", *CHANGES, "s"), rows))


def screen(quick: bool) -> None:
    """The whole detector on readings with isolated spikes, without and with `preprocess.screen`."""
    n, learn, watch, runs = 20, 2000, (1500 if quick else 4000), (2 if quick else 4)
    network = nx.connected_watts_strogatz_graph(n, 4, 0.2, seed=1)
    linked = list(nx.bfs_tree(network, 3, depth_limit=1))[:4]
    changes = {"4 linked +1": (linked, 1.0), "4 linked +3": (linked, 3.0), "4 linked +20": (linked, 20.0),
               "one +3": ([3], 3.0), "one +20": ([3], 20.0)}  # fmt: skip

    def stream(seed: int, T: int, rate: float) -> Floats:
        rng = np.random.default_rng([seed, 12])
        x = rng.normal(size=(T, n))
        bad = rng.random((T, n)) < rate
        x[bad] += rng.choice([-1.0, 1.0], bad.sum()) * rng.uniform(15.0, 100.0, bad.sum())
        return x

    rows = []
    for rate in (0.0, 0.02) if quick else (0.0, 0.01, 0.03):
        for on in (False, True):
            switch = {"screen": "on" if on else "off"}
            watcher = NetworkDetector(network, preprocess=switch, alarm={"budget": "1 per 5000 ticks"})
            report = watcher.learn(stream(0, learn, rate))
            arrays, meta = watcher.state()
            began = time.process_time()
            events = [event for row in stream(1, watch, rate) for event in watcher.update(row)]
            cost = 1e6 * (time.process_time() - began) / (watch * n)
            false = sum(event.event == "incident.opened" for event in events)
            cells = []
            for nodes, size in changes.values():
                delays = []
                for run in range(runs):
                    twin = NetworkDetector.from_state(network, arrays, meta, preprocess=switch,
                                                      alarm={"budget": "1 per 5000 ticks"})  # fmt: skip
                    x = stream(100 + run, 160, rate)
                    x[60:, nodes] += size
                    delays.append(_delay(twin, x, {str(v) for v in nodes}))
                cells.append(float(np.median(delays)))
            rows.append(
                (
                    f"{rate:.0%}",
                    "on" if on else "off",
                    report.event_threshold,
                    report.threshold,
                    false,
                    *cells,
                    cost,
                )
            )
    print(f"\nScreen, 20 nodes, budget 1 per 5000 ticks: thresholds, false incidents in {watch} ticks,")
    print("median delay in ticks of changes in standard deviations, µs per reading")
    print(table(("spikes", "screen", "event", "node", "false", *changes, "µs"), rows))


def _delay(watcher: NetworkDetector, x: Floats, nodes: set[str]) -> float:
    for t, row in enumerate(x):
        watcher.update(row)
        if t >= 60 and any(nodes & i.members.keys() for i in watcher.pipeline.incidents.open.values()):
            return t - 59.0
    return np.inf


TABLES = {"sine": sine, "spikes": spikes, "federated": federated, "flips": flips, "digits": digits,
          "dictionary": dictionary, "ratio": ratio, "screen": screen}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer sizes and seeds")
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES), help="only these")
    options = parser.parse_args()
    print(machine())
    for name in options.tables:
        TABLES[name](options.quick)


if __name__ == "__main__":
    main()
