"""Naming regimes: digits beside 1-NN and SVC, label-skewed clients, novelty, simulated sensors.

    OPENBLAS_NUM_THREADS=1 python benchmarks/regimes.py [--quick]

Digits are scikit-learn's, tanh(pixel / 16), five stratified folds. A client or daemon answers with distances
only; the smallest decides (63). "literal" is the document's machine, without guard and cap.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.svm import SVC
from tables import machine, table

from estimators.regimes.kahm import KahmGroup
from estimators.regimes.library import RegimeLibrary, combine
from estimators.regimes.window_features import FeatureSpec

LITERAL: dict[str, Any] = {"support": None, "guard": None, "block": 1000}
SPEC = FeatureSpec()
W, REFERENCE = SPEC.window, 250
KNOWN = ("shifted", "noisy", "stuck", "swinging", "sluggish", "spiky")
COLUMNS = ("named right", "nearest right", "false novelty", "unknown found", "pooled 1-NN")
UNKNOWN = ("drifting", "switching")
HELD = {"a": KNOWN[:3], "b": KNOWN[2:5], "c": KNOWN[4:]}  # daemon -> regimes it has seen


def accuracies(Y: np.ndarray, z: np.ndarray, folds: int) -> list[tuple[object, ...]]:
    """Mean and spread over the folds of every classifier."""
    found: dict[str, list[float]] = {}
    for train, test in list(StratifiedKFold(5, shuffle=True, random_state=0).split(Y, z))[:folds]:
        for name, settings in (("KAHM", {}), ("KAHM literal", LITERAL)):
            distances = [
                KahmGroup(**settings).fit(Y[train][z[train] == c]).distance(Y[test]) for c in range(10)
            ]
            found.setdefault(name, []).append(float(np.mean(np.argmin(distances, axis=0) == z[test])))
        for name, rival in (("1-NN", KNeighborsClassifier(1)), ("SVC", SVC())):
            found.setdefault(name, []).append(float(rival.fit(Y[train], z[train]).score(Y[test], z[test])))
    return [(name, f"{np.mean(a):.4f}", f"{np.std(a):.4f}") for name, a in found.items()]


def skewed(Y: np.ndarray, z: np.ndarray, clients: int, share: float, seed: int) -> tuple[float, float]:
    """Accuracy of all clients together, and of clients alone on their classes; each knows a share of them."""
    train, test = next(iter(StratifiedKFold(5, shuffle=True, random_state=0).split(Y, z)))
    rng = np.random.default_rng(seed)
    each = round(10 * share)
    # Every class has a client; the rest is drawn.
    owned = [set(rng.choice(10, each, replace=False)) for _ in range(clients)]
    for c in range(10):
        if not any(c in classes for classes in owned):
            owned[c].add(c)
    tables = np.full((clients, 10, len(test)), np.inf)  # a class that a client lacks is infinitely far
    for c in range(10):
        owners = [q for q in range(clients) if c in owned[q]]
        for q, rows in zip(
            owners, np.array_split(rng.permutation(train[z[train] == c]), len(owners)), strict=True
        ):
            if len(rows):
                tables[q, c] = KahmGroup().fit(Y[rows]).distance(Y[test])
    together = float(np.mean(tables.min(axis=0).argmin(axis=0) == z[test]))
    alone = []
    for q in range(clients):
        mine = np.isin(z[test], [c for c in owned[q] if np.isfinite(tables[q, c, 0])])
        alone.append(tables[q][:, mine].argmin(axis=0) == z[test][mine])
    return together, float(np.mean(np.concatenate(alone)))


def novelty(Y: np.ndarray, z: np.ndarray, alpha: float) -> tuple[float, ...]:
    """One digit is held out at a time: area under the curve, 1-NN's, false novelty, share found."""
    train, test = next(iter(StratifiedKFold(5, shuffle=True, random_state=0).split(Y, z)))
    rows = []
    for unknown in range(10):
        library = RegimeLibrary()
        known = train[z[train] != unknown]
        for c in range(10):
            if c != unknown:
                library.enrol(str(c), Y[known[z[known] == c]])
        scores = [found.score(Y[test], alpha)[:2] for found in library.structures.values()]
        gammas, rhos = (np.stack(part) for part in zip(*scores, strict=True))
        rho = rhos[gammas.argmin(axis=0), np.arange(len(test))]
        novel = z[test] == unknown
        nn = NearestNeighbors(n_neighbors=1).fit(Y[known]).kneighbors(Y[test])[0][:, 0]
        rows.append((roc_auc_score(novel, gammas.min(axis=0)), roc_auc_score(novel, nn),
                     np.mean(rho[~novel] > 1.0), np.mean(rho[novel] > 1.0)))  # fmt: skip
    return tuple(float(value) for value in np.mean(rows, axis=0))


def behaviour(regime: str, length: int, rng: np.random.Generator) -> np.ndarray:
    """Values of one sensor in a regime, in units of its quiet noise; size and pace differ every time."""
    noise, t = rng.normal(size=length), np.arange(length)
    sign = rng.choice((-1.0, 1.0))
    if regime == "shifted":
        return noise + rng.uniform(1.5, 4.0)
    if regime == "noisy":
        return noise * rng.uniform(2.0, 4.0)
    if regime == "stuck":
        return rng.normal() + 0.01 * noise
    if regime == "swinging":
        return noise + rng.uniform(1.5, 3.0) * np.sin(
            2 * np.pi * (rng.uniform(0.05, 0.2) * t + rng.uniform())
        )
    if regime == "sluggish":
        return smooth(noise, rng.uniform(0.9, 0.97))
    if regime == "spiky":
        return noise + (rng.uniform(size=length) < 0.08) * rng.choice((-1, 1), length) * rng.uniform(
            5, 10, length
        )
    if regime == "drifting":
        return noise + sign * rng.uniform(2.0, 5.0) / W * t
    if regime == "switching":
        return noise + 2.0 * np.where(np.cumsum(rng.uniform(size=length) < 0.03) % 2, 1.0, -1.0)
    return noise


def smooth(noise: np.ndarray, phi: float) -> np.ndarray:
    """Autoregression of order one and unit variance."""
    out = np.empty_like(noise)
    out[0] = noise[0]
    for i in range(1, len(noise)):
        out[i] = phi * out[i - 1] + np.sqrt(1.0 - phi * phi) * noise[i]
    return out


def points(regime: str, windows: int, rng: np.random.Generator) -> np.ndarray:
    """Feature points (windows, 10) of consecutive windows at one sensor of its own offset and gain."""
    offset, gain = rng.uniform(-50.0, 50.0), np.exp(rng.normal())
    quiet = offset + gain * rng.normal(size=REFERENCE)
    now = offset + gain * behaviour(regime, windows * W, rng)
    return np.stack([SPEC.transform(now[i * W : (i + 1) * W], quiet) for i in range(windows)])


def sensors(samples: int, windows: int, seed: int, alpha: float, trials: int) -> dict[str, float]:
    """Three daemons, each with some regimes; new sensors in known and unknown ones are named by distances."""
    rng = np.random.default_rng([seed, samples, windows])
    daemons = {name: RegimeLibrary(SPEC.spec_id) for name in HELD}
    pooled: list[np.ndarray] = []
    labels: list[str] = []
    for name, regimes in HELD.items():
        for regime in regimes:
            Y = np.concatenate([points(regime, 1, rng) for _ in range(samples)])
            daemons[name].enrol(regime, Y)
            pooled.append(Y)
            labels += [regime] * len(Y)
    rival = KNeighborsClassifier(1).fit(np.concatenate(pooled), labels)
    count: dict[str, list[bool]] = {name: [] for name in COLUMNS}
    alone: Mapping[str, list[bool]] = {name: [] for name in HELD}
    for regime in KNOWN + UNKNOWN:
        for _ in range(trials):
            Y = points(regime, windows, rng)
            verdict = combine({name: library.distances(Y, alpha) for name, library in daemons.items()}, HELD)
            if regime in UNKNOWN:
                count["unknown found"].append(verdict.novel)
                continue
            count["named right"].append(verdict.label == regime)
            count["nearest right"].append(verdict.nearest == regime)
            count["false novelty"].append(verdict.novel)
            count["pooled 1-NN"].append(rival.predict(Y[:1])[0] == regime)
            for name, library in daemons.items():
                alone[name].append(library.predict(Y, alpha).label == regime)
    return {
        name: float(np.mean(values))
        for name, values in (count | {f"{k} alone": v for k, v in alone.items()}).items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one fold, one seed")
    quick = parser.parse_args().quick
    digits = load_digits()
    Y, z = np.tanh(digits.data / 16.0), digits.target
    seeds = range(1) if quick else range(5)
    print(machine())
    print("\nDigits, accuracy over the folds")
    print(table(("method", "accuracy", "sd"), accuracies(Y, z, 1 if quick else 5)))
    print("\nDigits, first fold, every client with a share of the classes: mean over the seeds (smallest)")
    rows = []
    for clients, share in ((20, 0.2),) if quick else ((20, 0.2), (20, 0.3), (50, 0.2), (50, 0.3)):
        got = np.array([skewed(Y, z, clients, share, seed) for seed in seeds])
        told = (
            f"{mean:.3f} ({least:.3f})" for mean, least in zip(got.mean(axis=0), got.min(axis=0), strict=True)
        )
        rows.append((clients, share, *told))
    print(table(("clients", "share", "together (63)", "alone, own classes (64)"), rows))
    print("\nDigits, first fold, one digit unknown: mean over the digits")
    rows = [
        (alpha, *(f"{value:.3f}" for value in novelty(Y, z, alpha)))
        for alpha in ((0.05,) if quick else (0.02, 0.05))
    ]
    print(table(("alpha", "AUC", "AUC of 1-NN", "false novelty", "unknown found"), rows))
    print("\nSimulated sensors, three daemons, alpha 0.05: mean over the seeds (worst)")
    names = (*COLUMNS, *(f"{name} alone" for name in HELD))
    rows = []
    for samples, windows in ((25, 1), (25, 3), (40, 1), (40, 3), (100, 1), (100, 3))[: 1 if quick else None]:
        runs = [sensors(samples, windows, seed, 0.05, 20 if quick else 100) for seed in seeds]
        worst = {name: (max if name == "false novelty" else min)(run[name] for run in runs) for name in names}
        told = (f"{np.mean([run[name] for run in runs]):.3f} ({worst[name]:.3f})" for name in names)
        rows.append((samples, windows, *told))
    print(table(("samples", "windows", *names), rows))


if __name__ == "__main__":
    main()
