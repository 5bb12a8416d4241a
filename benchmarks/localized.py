"""Losses by parts and kernels of localized prediction: what the right loss, and the right kernel, are worth.

    OPENBLAS_NUM_THREADS=1 python benchmarks/localized.py [--quick]

Losses: sets of neighbouring parts in noise, predicted for the Hamming loss and for F1, judged by both;
directions without sign, predicted for sin^2 and for squares (Sec. 6.2 in small). Kernels (Remark 3): labels
that depend on the part alone, or also on another part; local, universal and both, by number of inputs.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from tables import machine, table

from estimators import Angular, FOne, Hamming, LocalizedPredictor, SquaredParts

P = 20  # parts of an input
PI = np.full(P, 1.0 / P)
Draw = tuple[list[np.ndarray], list[np.ndarray]]


def sets(rng: np.random.Generator, n: int) -> Draw:
    """Three to six parts in a row are members; a part shows itself and its two neighbours, in noise."""
    X, Y = [], []
    for _ in range(n):
        y = np.roll(np.arange(P) < rng.integers(3, 7), rng.integers(P)).astype(int)
        seen = 1.0 * y + rng.normal(0.0, 0.8, P)
        X.append(np.column_stack([seen, np.roll(seen, 1), np.roll(seen, -1)]))
        Y.append(y)
    return X, Y


def directions(rng: np.random.Generator, n: int) -> Draw:
    """A part shows (cos 2a, sin 2a) in noise; its label is the direction a, between -pi/2 and pi/2."""
    X, Y = [], []
    for _ in range(n):
        angle = rng.uniform(-np.pi / 2, np.pi / 2) + np.cumsum(rng.normal(0.0, 0.2, P))
        seen = np.column_stack([np.cos(2.0 * angle), np.sin(2.0 * angle)]) + rng.normal(0.0, 0.3, (P, 2))
        X.append(seen)
        Y.append((angle + np.pi / 2) % np.pi - np.pi / 2)
    return X, Y


def signs(rng: np.random.Generator, n: int, alone: bool) -> Draw:
    """The label is the sign of the part, or that times the sign of the first part."""
    X = [rng.normal(size=(4, 1)) + np.sign(rng.normal(size=(4, 1))) for _ in range(n)]
    return X, [(np.sign(x[:, 0]) * (1.0 if alone else np.sign(x[0, 0])) > 0.0).astype(int) for x in X]


def mean_loss(model: LocalizedPredictor, test: Draw, loss: Any) -> float:
    pi = np.full(len(test[1][0]), 1.0 / len(test[1][0]))
    return float(np.mean([loss.value(model.predict(x), y, pi) for x, y in zip(*test, strict=True)]))


def spread(values: list[float]) -> str:
    return f"{np.mean(values):.3f} ({min(values):.3f}–{max(values):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed")
    options = parser.parse_args()
    seeds = range(1 if options.quick else 5)
    print(machine())

    rows = []
    for n in (5, 20):
        found: dict[str, list[tuple[float, float]]] = {"Hamming": [], "F1": []}
        for seed in seeds:
            rng = np.random.default_rng([seed, n])
            train, test = sets(rng, n), sets(rng, 60)
            for name, loss in (("Hamming", Hamming(2)), ("F1", FOne(6))):
                model = LocalizedPredictor(loss, sigma=1.5, lam=1e-2).fit(*train)
                found[name].append((mean_loss(model, test, Hamming(2)), mean_loss(model, test, FOne(6))))
        rows += [(n, name, spread([f[0] for f in figures]), spread([f[1] for f in figures]))
                 for name, figures in found.items()]  # fmt: skip
    print(f"\nSets of parts, {len(seeds)} seeds: mean and range of both losses, by the loss predicted for")
    print(table(("inputs", "predicted for", "Hamming", "1 - F1"), rows))

    rows = []
    for n in (5, 20):
        errors: dict[str, list[float]] = {"sin² (Eq. 24)": [], "squares": []}
        for seed in seeds:
            rng = np.random.default_rng([seed, n, 1])
            train, test = directions(rng, n), directions(rng, 40)
            for name, loss in zip(errors, (Angular(), SquaredParts()), strict=True):
                model = LocalizedPredictor(loss, sigma=0.7, lam=1e-2).fit(*train)
                errors[name].append(mean_loss(model, test, Angular()))
        rows += [(n, name, spread(values)) for name, values in errors.items()]
    print("\nDirections without sign: sin² of the error, by the loss predicted for")
    print(table(("inputs", "predicted for", "sin²"), rows))

    rows = []
    kernels = {"local": {}, "universal": {"local": 0.0, "universal": 1.0}, "both": {"universal": 1.0}}
    for alone in (True, False):
        for n in (10, 40, 160):
            risks: dict[str, list[float]] = {name: [] for name in kernels}
            for seed in seeds:
                rng = np.random.default_rng([seed, n, 2])
                train, test = signs(rng, n, alone), signs(rng, 60, alone)
                for name, weights in kernels.items():
                    model = LocalizedPredictor(
                        Hamming(2), sigma=1.0, sigma_universal=2.0, lam=1e-3, **weights
                    )
                    risks[name].append(mean_loss(model.fit(*train), test, Hamming(2)))
            needs = "the part" if alone else "another part, too"
            rows.append((needs, n, *(spread(risks[name]) for name in kernels)))
    print("\nKernels of Remark 3: share of wrong labels")
    print(table(("the label needs", "inputs", *kernels), rows))


if __name__ == "__main__":
    main()
