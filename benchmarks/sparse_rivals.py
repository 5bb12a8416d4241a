"""Sparse multi-scale models beside kernel orthogonal matching pursuit, and on the localisation of a receiver.

    OPENBLAS_NUM_THREADS=1 python benchmarks/sparse_rivals.py [--quick] [--tables NAME ...]

M. Peifer's thesis (2021), Sec. 2.4.2 and 2.4.3. The pursuit is the destructive one (P. Vincent and Y. Bengio,
2002): kernels on all samples, of one width, and the least useful is removed until as many are left as the
sparse model has. Its width is the best of five in hindsight, which favours it. The recordings of Wi-Fi levels
that the thesis uses are not at hand: a floor with four rooms and seven routers is simulated, with path loss,
walls and shadowing. Needs scikit-learn for the rivals there.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2
from tables import machine, table

from estimators import MultiScaleGrid, PairwiseClassifier, Relaxation, SparseMultiScaleRegressor
from estimators.core.kernels import gaussian

Floats = NDArray[np.float64]
NOISE = np.sqrt(1e-3)
WIDTHS = (0.06, 0.1, 0.15, 0.25, 0.4)
RIDGE = 1e-6


def komp(x: Floats, y: Floats, width: float, kept: int) -> tuple[Floats, Floats]:
    """Destructive pursuit: centres and coefficients of the kernels that are left.

    Without kernel i the squared error grows by c_i^2 / (G^-1)_ii, with G the Gram matrix of the kernels: one
    inverse, brought down by one row at each step.
    """
    K = gaussian(x[:, None], x[:, None], width)
    inverse = np.linalg.inv(K @ K + RIDGE * np.eye(len(x)))
    left, b = np.arange(len(x)), K @ y
    while len(left) > kept:
        c = inverse @ b[left]
        out = int(np.argmin(c**2 / np.diag(inverse)))
        rest = np.delete(np.arange(len(left)), out)
        inverse = (
            inverse[np.ix_(rest, rest)] - np.outer(inverse[rest, out], inverse[out, rest]) / inverse[out, out]
        )
        left = left[rest]
    P = K[:, left]
    return x[left], np.linalg.solve(P.T @ P + RIDGE * np.eye(len(left)), P.T @ y)


def chirp(x: Floats) -> Floats:
    return np.asarray(np.sin(0.5 * np.pi * x**2))


def pursuit(quick: bool) -> None:
    """Fig. 9: test error at equal numbers of kernels, on (2.28)."""
    rows = []
    for n in (101,) if quick else (51, 101, 201, 401):
        runs = []
        for seed in range(1 if quick else 5):
            rng = np.random.default_rng([seed, n])
            x = np.linspace(-5.0, 5.0, n)
            y, points = chirp(x) + rng.normal(0.0, NOISE, n), rng.uniform(-5.0, 5.0, 1000)
            grid = MultiScaleGrid.regular(-5.2, 5.2, 209, np.geomspace(0.06, 1.0, 12), "lebesgue")
            began = time.process_time()
            model = SparseMultiScaleRegressor(
                tol=0.1, gamma=500.0, relaxation=Relaxation.hard(), grid=grid
            ).fit(x, y)
            middle = time.process_time()
            errors = {}
            for width in WIDTHS:
                centres, coef = komp(x, y, width, len(model.atoms_))
                found = gaussian(points[:, None], centres[:, None], width) @ coef
                errors[width] = float(((found - chirp(points)) ** 2).mean())
            best = min(errors, key=errors.__getitem__)
            own = float(((model.predict(points) - chirp(points)) ** 2).mean())
            runs.append((len(model.atoms_), own, errors[best], errors[0.15], best, middle - began,
                         (time.process_time() - middle) / len(WIDTHS)))  # fmt: skip
        found = np.array(runs)
        rows.append((n, float(found[:, 0].mean()), *(float(np.median(found[:, k])) for k in range(1, 5)),
                     f"{int((found[:, 1] < found[:, 2]).sum())}/{len(runs)}",
                     *(float(np.median(found[:, k])) for k in (5, 6))))  # fmt: skip
    print("\nsin(pi x^2 / 2): kernels, median test error with as many kernels, CPU seconds")
    print(table(("N", "kernels", "sparse", "KOMP, best width", "KOMP, width .15", "best width",
                 "sparse better", "sparse s", "KOMP s"), rows))  # fmt: skip


ROOMS = np.array([[0.0, 0.0, 9.0, 6.0], [9.0, 0.0, 18.0, 6.0], [0.0, 6.0, 9.0, 12.0], [9.0, 6.0, 18.0, 12.0]])


def floor(rng: np.random.Generator, per_room: int) -> tuple[Floats, list[str]]:
    """Levels of seven routers in dBm at random places of four rooms; a wall costs 5 dB, shadowing 4."""
    routers = rng.uniform([0.0, 0.0], [18.0, 12.0], (7, 2))
    levels, names = [], []
    for k, (left, low, right, high) in enumerate(ROOMS):
        at = rng.uniform([left, low], [right, high], (per_room, 2))
        distance = np.maximum(np.linalg.norm(at[:, None] - routers, axis=2), 0.5)
        walls = ((routers[:, 0] < 9.0) != (left < 9.0)).astype(float) + ((routers[:, 1] < 6.0) != (low < 6.0))
        levels.append(-40.0 - 30.0 * np.log10(distance) - 5.0 * walls + rng.normal(0.0, 4.0, distance.shape))
        names += [f"room {k + 1}"] * per_room
    return np.concatenate(levels), names


def localisation(quick: bool) -> None:
    """Sec. 2.4.3: which of four rooms, from the levels of seven routers; 5 folds, several floors."""
    try:
        from sklearn.model_selection import StratifiedKFold
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.svm import SVC
    except ImportError:
        print("\nLocalisation: left out, scikit-learn is not installed")
        return
    rows = []
    for seed in range(1 if quick else 4):
        X, names = floor(np.random.default_rng(seed), 60 if quick else 150)
        y = np.array(names)
        hits: dict[str, list[float]] = {}
        kernels: dict[str, list[float]] = {}
        for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
            centre, scale = X[train].mean(axis=0), X[train].std(axis=0)
            Z, T = (X[train] - centre) / scale, (X[test] - centre) / scale
            places = np.concatenate(
                [kmeans2(Z[y[train] == name], 20, seed=seed, minit="++")[0] for name in set(y)]
            )
            grid = MultiScaleGrid.candidates(places, np.geomspace(0.7, 4.0, 5), "probability")
            for rho in (0.0, 0.2, 0.5):
                model = PairwiseClassifier(grid, rho=rho).fit(Z, y[train].tolist())
                label = f"sparse, rho {rho:g}"
                hits.setdefault(label, []).append(np.mean(np.array(model.predict(T)) == y[test]))
                kernels.setdefault(label, []).append(
                    np.mean([one.n_kernels for one in model.pairs_.values()])
                )
            svm = SVC(C=1.0).fit(Z, y[train])
            for label, rival in (("SVM", svm), ("5 nearest", KNeighborsClassifier(5).fit(Z, y[train]))):
                hits.setdefault(label, []).append(rival.score(T, y[test]))
                used = float(svm.n_support_.sum()) / 2.0 if label == "SVM" else float(len(train))
                kernels.setdefault(label, []).append(used)
        rows += [(seed, label, float(np.mean(hits[label])), float(np.mean(kernels[label]))) for label in hits]
    labels = list(dict.fromkeys(row[1] for row in rows))
    means = [(label, float(np.mean([r[2] for r in rows if r[1] == label])),
              min(r[2] for r in rows if r[1] == label), float(np.mean([r[3] for r in rows if r[1] == label])))
             for label in labels]  # fmt: skip
    print("\nFour rooms by seven levels: accuracy (mean and worst floor), places or samples in use per pair")
    print(table(("method", "accuracy", "worst floor", "in use"), means))


TABLES = {"pursuit": pursuit, "localisation": localisation}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, small")
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES), help="only these")
    options = parser.parse_args()
    print(machine())
    for name in options.tables:
        TABLES[name](options.quick)


if __name__ == "__main__":
    main()
