"""Adaptation under covariate shift: exact ratios, a weighted regression, aggregation, novelty.

    OPENBLAS_NUM_THREADS=1 python benchmarks/adapt.py [--quick] [--first-seed N] [--plots DIRECTORY]

"General regularization in covariate shift adaptation" has no experiments; these are the plainest that its
statements allow. Everything is judged on 20,000 fresh points per draw.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tables import machine, table

from detector.engines.coverage import known
from estimators import Christoffel, Dictionary, Grulsif, Iwrls, Kliep, SpectralRatio, Ulsif
from estimators.core.kernels import median_distance
from estimators.core.types import Floats
from estimators.spectral.aggregation import plain
from estimators.spectral.filters import SCHEMES, Filter, iterated_tikhonov
from estimators.spectral.iwrls import effective_sample_size

POINTS = 20_000
NOISE = 0.1
MOVES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
ORDERS = (1, 2, 3, 5, 10)
LAMBDAS = tuple(np.geomspace(2.0, 1e-5, 54).tolist())  # ten per decade
Rows = dict[Any, list[float]]


class Shift(NamedTuple):
    """Source N(mean, spread^2) and target; the target is narrower, so the ratio is bounded."""

    source: tuple[float, float]
    target: tuple[float, float]

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        return rng.normal(*self.source, (n, 1)), rng.normal(*self.target, (n, 1))

    def beta(self, x: Floats) -> Floats:
        """The exact ratio."""
        (a, b), (c, d) = self.source, self.target
        return np.asarray(np.exp(0.5 * ((x - a) / b) ** 2 - 0.5 * ((x - c) / d) ** 2) * b / d)[:, 0]


SHIFTS = {
    "narrower": Shift((0.5, 0.5), (0.0, 0.3)),
    "slight": Shift((0.0, 1.0), (0.2, 0.95)),
    "small": Shift((0.0, 1.0), (0.5, 0.9)),
    "large": Shift((0.0, 1.0), (2.0, 0.5)),
    "none": Shift((0.0, 1.0), (0.0, 1.0)),
}
SINC = SHIFTS["narrower"]


def square(a: Floats, b: Floats) -> float:
    """Mean square difference."""
    return float(np.mean(np.square(a - b)))


def ratios(seeds: range, sizes: tuple[int, ...]) -> Rows:
    """Errors of the ratio, by (shift, n, method, what)."""
    rows: Rows = defaultdict(list)
    for name, shift in SHIFTS.items():
        for n in sizes:
            for seed in seeds:
                rng = np.random.default_rng([seed, n])
                x, t = shift.draw(n, rng)
                z = rng.normal(*shift.source, (POINTS, 1))
                truth = shift.beta(z)
                for method, scheme in SCHEMES.items():
                    fit = SpectralRatio(scheme=scheme).fit(x, t)
                    rows[name, n, method].append(square(fit.ratio(z), truth))
                    rows[name, n, method, "best"].append(best(scheme, x, t, z, truth))
                    rows[name, n, method, "printed"].append(square(printed(fit, x, t)(z), truth))
                for order in ORDERS:
                    found = best(iterated_tikhonov(order), x, t, z, truth)
                    rows[name, n, "order", order].append(found)
                for method, rival in (("ulsif", Ulsif), ("kliep", Kliep)):
                    other = rival.select([x], [t], seed=seed)
                    rows[name, n, method].append(square(np.maximum(other.ratio(0, z), 0.0), truth))
                rows[name, n, "one"].append(square(np.ones(POINTS), truth))
    return rows


def best(scheme: Filter, x: Floats, t: Floats, z: Floats, truth: Floats) -> float:
    """Error of the best of many single lambda, which only the truth can tell."""
    fit = SpectralRatio(scheme=scheme, lams=LAMBDAS).fit(x, t)
    return min(square(np.maximum(f, 0.0), truth) for f in fit.candidates(z).T)


def printed(fit: SpectralRatio, x: Floats, t: Floats) -> Callable[[Floats], Floats]:
    """The aggregate as it is printed: c = G^-1 g on the points that made the candidates, no bound on c."""
    f = fit.candidates(x)
    c = plain(f.T @ f / len(f), fit.candidates(t).mean(axis=0))
    return lambda z: np.maximum(fit.candidates(z) @ c, 0.0)


def regressions(seeds: range, sizes: tuple[int, ...]) -> Rows:
    """Errors of sinc at the target, by (n, model, weights, what)."""
    rows: Rows = defaultdict(list)
    for n in sizes:
        for seed in seeds:
            rng = np.random.default_rng([seed, n, 1])
            x, t = SINC.draw(n, rng)
            y = np.sinc(x[:, 0]) + NOISE * rng.normal(size=n)
            z = rng.normal(*SINC.target, (POINTS, 1))
            truth = np.sinc(z[:, 0])
            for weights, w in weightings(x, t).items():
                if w is not None:
                    rows[n, "size", weights].append(effective_sample_size(w))
                for model, linear in (("line", True), ("kernels", False)):
                    fit = Iwrls(linear=linear).fit(x, y, w)
                    each = [square(f, truth) for f in fit.candidates(z).T]
                    rows[n, model, weights, "ours"].append(square(fit.predict(z), truth))
                    rows[n, model, weights, "best"].append(min(each))
                    rows[n, model, weights, "worst"].append(max(each))
    return rows


def weightings(x: Floats, t: Floats) -> dict[str, Floats | None]:
    """Weights of the source points x: none, the exact ones, and estimates."""
    relative = Grulsif(alpha=0.1).fit([x], [t], np.zeros((1, 1)))
    r = np.clip(relative.ratio(0, x), 0.0, 0.99 / 0.1)
    return {
        "none": None,
        "exact": SINC.beta(x),
        "spectral": SpectralRatio().fit(x, t).ratio(x),
        "GRULSIF": 0.9 * r / (1.0 - 0.1 * r),
    }


def coverage(seed: int) -> list[tuple[Any, ...]]:
    """How far values of 100 nodes are covered, moved or not: by the nearest atom, and by Christoffel."""
    rng, rows = np.random.default_rng(seed), []
    for law, dim in (("normal", 1), ("t(3)", 1), ("normal", 3), ("t(3)", 3)):
        history, fresh = (
            rng.standard_t(3, (300, 100, dim)) if law == "t(3)" else rng.normal(size=(300, 100, dim))
            for _ in range(2)
        )
        nodes = [history[:, v] for v in range(100)]
        width = 0.6 * float(np.median([median_distance(z) for z in nodes]))
        dictionary = Dictionary.build(nodes, sigma=width)
        for name, score in (("nearest atom", dictionary), ("Christoffel", known(history, dictionary, seed))):
            moved = (score.coverage(fresh.reshape(-1, dim) + shift).mean() for shift in MOVES)
            rows.append((law, dim, len(dictionary.atoms), name, *(f"{value:.2f}" for value in moved)))
    return rows


def mean(rows: Rows, *key: Any) -> float:
    return float(np.mean(rows[key]))


def report(ratio: Rows, regression: Rows, seeds: range, sizes: tuple[int, ...]) -> None:
    """Print the tables."""
    print(machine())
    cases = [(name, n) for name in SHIFTS for n in sizes]
    print(f"\nRatio: mean square error, mean of {len(seeds)} draws; in brackets the best single lambda")
    rivals = ("one", "ulsif", "kliep")
    print(table(("shift", "n", *SCHEMES, "beta = 1", "ulsif", "kliep"),
                [(*case, *(f"{mean(ratio, *case, m):.3g} ({mean(ratio, *case, m, 'best'):.3g})"
                           for m in SCHEMES), *(mean(ratio, *case, m) for m in rivals))
                 for case in cases]))  # fmt: skip
    print("\nThe same with the aggregation as it is printed, on the points that made the candidates")
    print(table(("shift", "n", *SCHEMES),
                [(*case, *(mean(ratio, *case, m, "printed") for m in SCHEMES))
                 for case in cases]))  # fmt: skip
    print("\nError at the best lambda against the order of iterated Tikhonov (1 is KuLSIF)")
    print(table(("shift", "n", *map(str, ORDERS)),
                [(*case, *(mean(ratio, *case, "order", k) for k in ORDERS)) for case in cases]))  # fmt: skip
    print(f"\nsinc with noise {NOISE}: mean square error at the target, and effective sample size")
    names = ("none", "exact", "spectral", "GRULSIF")
    print(table(("n", "model", *names, *(f"size {w}" for w in names[1:])),
                [(n, model, *(mean(regression, n, model, w, "ours") for w in names),
                  *(mean(regression, n, "size", w) for w in names[1:]))
                 for n in sizes for model in ("line", "kernels")]))  # fmt: skip
    print("\nAggregation of the regression, spectral weights: error of predicting a noisy label")
    print(table(("n", "model", "aggregated", "best lambda", "worst lambda", "above the best"),
                [(n, model, *found, f"{100.0 * (found[0] / found[1] - 1.0):.1f} %")
                 for n in sizes for model in ("line", "kernels")
                 for found in [[mean(regression, n, model, "spectral", what) + NOISE**2
                                for what in ("ours", "best", "worst")]]]))  # fmt: skip
    print("\nCoverage of values that moved by so much")
    print(table(("values", "components", "atoms", "by", *map(str, MOVES)), coverage(seeds.start)))


def plot(seed: int, directory: Path) -> None:
    """Two pictures: ratios, their paths and novelty; the regression with its weights."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    grid = np.linspace(-1.5, 2.5, 400)[:, None]

    figure, axes = plt.subplots(1, 3, figsize=(14, 4))
    x, t = SINC.draw(400, rng)
    z = rng.normal(*SINC.source, (POINTS, 1))
    axes[0].plot(grid, SINC.beta(grid), "k", lw=2, label="exact")
    for name in SCHEMES:
        fit = SpectralRatio(scheme=name).fit(x, t)
        (line,) = axes[0].plot(grid, fit.ratio(grid), label=name, lw=1)
        each = [square(f, SINC.beta(z)) for f in fit.candidates(z).T]
        axes[1].plot(fit.lams_ / fit.filter.gamma_1, each, "o-", ms=3, color=line.get_color(), label=name)
        axes[1].axhline(square(fit.ratio(z), SINC.beta(z)), color=line.get_color(), ls=":")
    axes[0].set(title="ratio of N(0, 0.3²) over N(0.5, 0.5²), n = 400", xlabel="x", ylim=(-0.1, 4))
    axes[1].set(title="error against λ/γ; dotted: aggregated", xlabel="λ / γ", xscale="log", yscale="log")
    score = Christoffel.of(x, Dictionary.build([x], mu_node=0.5))
    axes[2].plot(grid, score.novelty(grid), label="λ C(x)")
    axes[2].plot(grid, 1.0 - score.dictionary.coverage(grid), label="1 − nearest atom")
    axes[2].hist(x[:, 0], 40, density=True, alpha=0.3, label="reference")
    axes[2].set(title="novelty", xlabel="x", xlim=(-1.5, 2.5))
    for axis in axes:
        axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(directory / "adapt-ratio.png", dpi=90)
    plt.close(figure)

    figure, axes = plt.subplots(1, 3, figsize=(14, 4), sharex=True)
    x, t = SINC.draw(150, rng)
    y = np.sinc(x[:, 0]) + NOISE * rng.normal(size=len(x))
    found = weightings(x, t)
    for axis, linear in ((axes[0], True), (axes[1], False)):
        assert found["spectral"] is not None
        axis.scatter(x[:, 0], y, s=4 + 15 * found["spectral"], color="0.6", label="labelled, size by weight")
        axis.plot(grid, np.sinc(grid), "k", lw=2, label="sinc")
        for name, w in found.items():
            axis.plot(grid, Iwrls(linear=linear).fit(x, y, w).predict(grid), label=f"weights: {name}", lw=1)
        axis.axvspan(-0.6, 0.6, color="C2", alpha=0.1, label="target, two spreads")
        axis.set(title="a line" if linear else "kernels", xlabel="x", ylim=(-0.7, 1.6))
    axes[2].plot(grid, SINC.beta(grid), "k", lw=2, label="exact")
    order = np.argsort(x[:, 0])
    for name in ("spectral", "GRULSIF"):
        weight = found[name]
        assert weight is not None
        axes[2].plot(x[order, 0], weight[order], ".-", ms=3, lw=1, label=name)
    axes[2].set(title="weights of the labelled points", xlabel="x", ylim=(-0.1, 6))
    for axis in axes:
        axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(directory / "adapt-sinc.png", dpi=90)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two draws of one size")
    parser.add_argument("--first-seed", type=int, default=0, help="of twenty")
    parser.add_argument("--plots", type=Path, help="directory for the pictures")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + (2 if options.quick else 20))
    sizes = (100,) if options.quick else (100, 400, 1600)
    report(ratios(seeds, sizes), regressions(seeds, sizes), seeds, sizes)
    if options.plots:
        plot(options.first_seed, options.plots)


if __name__ == "__main__":
    main()
