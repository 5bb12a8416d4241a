"""Localized structured prediction: footprints of events on a graph, and the document's simulation (Sec. 6.1).

    OPENBLAS_NUM_THREADS=1 python benchmarks/footprint.py [--quick]

Events have a known footprint and one of two types; every method learns from the same n labelled events and is
judged on 60 others of the same graph. The simulation sets least squares on whole inputs against parts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
from tables import machine, table

from estimators import FootprintPredictor, Graph, LabelledEvent, PartRidge
from estimators.core.types import Floats
from estimators.datasets.events import correlated_parts, draw_events, geometric_graph
from estimators.structured.labelling import Labels
from estimators.structured.locality import correlation_by_distance

Events = list[LabelledEvent]
Rule = Callable[[Floats], Labels]
Learner = Callable[[Graph, Events], Rule]

TYPES = 3  # none, and two


def jaccard(said: Labels, true: Labels) -> float:
    """Shared part of two footprints, whatever the type."""
    return float(((said > 0) & (true > 0)).sum() / max(((said > 0) | (true > 0)).sum(), 1))


def nothing(graph: Graph, train: Events) -> Rule:
    return lambda signal: np.zeros(len(signal), dtype=np.int64)


def threshold(smooth: bool, overlap: bool) -> Learner:
    """One number per node, a feature or their mean, over a level; both as is best on the training events.

    ``smooth`` averages it over the node and its neighbours; ``overlap`` tunes for the Jaccard index, not for
    the error. The type is that of the feature that has moved more at the nodes over the level.
    """

    def learn(graph: Graph, train: Events) -> Rule:
        A = graph.matrix().toarray() > 0
        S = (A + np.eye(len(A))) / (1.0 + A.sum(axis=1, keepdims=True)) if smooth else np.eye(len(A))

        def rule(weights: Floats, level: float) -> Rule:
            def say(signal: Floats) -> Labels:
                x = S @ signal
                over = x @ weights > level
                kind = 1 + int((x[over] @ np.array([1.0, -1.0])).sum() < 0.0)  # which feature moved more
                return np.where(over, kind, 0)

            return say

        rules = [rule(np.array(w), level) for w in ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5))
                 for level in np.linspace(-0.5, 3.0, 71)]  # fmt: skip

        def price(say: Rule) -> float:
            said = [(say(e.signal), e.labels) for e in train]
            return float(np.mean([-jaccard(z, y) if overlap else (z != y).mean() for z, y in said]))

        return min(rules, key=price)

    return learn


def whole_inputs(graph: Graph, train: Events) -> Rule:
    """The estimator without parts (Eq. 13): all labels of the graph from all signals of the graph."""
    x = np.stack([e.signal.ravel() for e in train])
    mean, spread = x.mean(axis=0), x.std(axis=0)
    H = np.stack([np.eye(TYPES)[e.labels].ravel() for e in train])
    model = PartRidge.select((x - mean) / spread, H, [e.event_id for e in train], lams=np.logspace(-4, 1, 6))
    return lambda signal: (
        model.embed((signal.ravel()[None] - mean) / spread)[0].reshape(-1, TYPES).argmax(axis=1)
    )


def predictor(**params: object) -> Learner:
    def learn(graph: Graph, train: Events) -> Rule:
        model = FootprintPredictor(TYPES, **{"m_max": 10_000, **params}).fit(train)  # type: ignore[arg-type]
        return lambda signal: model.predict(signal, graph).labels

    return learn


EVEN = 1.0 - np.eye(TYPES)
METHODS: dict[str, Learner] = {
    "nothing affected": nothing,
    "threshold, tuned for error": threshold(smooth=False, overlap=False),
    "threshold, tuned for overlap": threshold(smooth=False, overlap=True),
    "neighbours' mean, tuned for error": threshold(smooth=True, overlap=False),
    "neighbours' mean, tuned for overlap": threshold(smooth=True, overlap=True),
    "whole inputs (Eq. 13)": whole_inputs,
    "own signal only": predictor(radius=0, centres=300),
    "ego-networks, equal costs, any types": predictor(cost=EVEN, one_type=False, centres=300),
    "ego-networks, equal costs": predictor(cost=EVEN, centres=300),
    "ego-networks (the default)": predictor(centres=300),
}
VARIANTS: dict[str, Learner] = {
    "exact, 1500 parts": predictor(m_max=1500),
    "exact, 300 parts": predictor(m_max=300),
    "25 centres": predictor(centres=25),
    "100 centres": predictor(centres=100),
    "300 centres": predictor(centres=300),
    "300 centres, edges .1": predictor(centres=300, edge_weight=0.1),
    "300 centres, edges .5": predictor(centres=300, edge_weight=0.5),
    "300 centres, radius 1": predictor(centres=300, radius=1),
}


def judge(learn: Learner, n: int, seed: int) -> tuple[float, ...]:
    """Node error, overlap, share of types told right, seconds to learn: one graph, n training events."""
    graph = geometric_graph(60, 0.2, seed)
    train, test = draw_events(graph, n, 100 * seed + 1), draw_events(graph, 60, 100 * seed + 2)
    began = time.process_time()
    rule = learn(graph, train)
    seconds = time.process_time() - began
    said = [(rule(e.signal), e.labels) for e in test]
    error = np.mean([(z != y).mean() for z, y in said])
    right = np.mean([z.max() == y.max() for z, y in said])
    return float(error), float(np.mean([jaccard(z, y) for z, y in said])), float(right), seconds


def footprints(methods: dict[str, Learner], sizes: Sequence[int], seeds: range) -> str:
    rows = []
    for n in sizes:
        for name, learn in methods.items():
            found = np.array([judge(learn, n, seed) for seed in seeds])
            mean, low, high = found.mean(axis=0), found.min(axis=0), found.max(axis=0)
            spans = [f"{mean[i]:.3f} ({low[i]:.3f} - {high[i]:.3f})" for i in (0, 1)]
            rows.append((n, name, *spans, mean[2], mean[3]))
    return table(("events", "method", "node error", "overlap", "type", "seconds"), rows)


def simulation(n: int, k: int, runs: int, numbers: Sequence[int], n_test: int = 200) -> str:
    """Test error of least squares on whole inputs and on parts; the noise alone is .25."""
    rows, lams = [], np.logspace(-6, 1, 15)
    for gamma in (0.0, 10.0, 1e6):
        for P in numbers:
            errors = []
            for run in range(runs):
                rng = np.random.default_rng(1000 + run)
                w = rng.normal(size=k)
                w *= rng.uniform() ** (1 / k) / np.linalg.norm(w)  # even in the unit ball
                x = correlated_parts(n, P, k, gamma, run)
                x_ = correlated_parts(n_test, P, k, gamma, 500 + run)
                y, y_ = (a @ w + 0.5 * rng.normal(size=a.shape[:2]) for a in (x, x_))
                inputs = np.arange(n)
                whole = PartRidge.select(x.reshape(n, -1), y, inputs, lams=lams, kernel="linear")
                local = PartRidge.select(x.reshape(-1, k), y.reshape(-1, 1), np.repeat(inputs, P), lams=lams,
                                         kernel="linear", centres=np.eye(k))  # fmt: skip
                said = whole.embed(x_.reshape(n_test, -1))[0], local.embed(x_.reshape(-1, k))[0]
                errors.append([((z.reshape(y_.shape) - y_) ** 2).mean() for z in said])
            rows.append((f"{gamma:g}", P, *np.mean(errors, axis=0).tolist()))
    return table(("gamma", "parts", "LS", "Local-LS"), rows)


def correlations(n: int, P: int, k: int) -> str:
    """Measured C_pq (Eq. 21) over its value, by distance of the parts."""
    rows = []
    p, groups = np.tile(np.arange(P), n), np.repeat(np.arange(n), P)
    for gamma in (0.0, 2.0, 10.0):
        x = correlated_parts(n, P, k, gamma, 0).reshape(n * P, k)
        C = correlation_by_distance(x @ x.T, groups, np.abs(p[:, None] - p[None, :]))
        rows.append((f"{gamma:g}", *C[:4].tolist()))
        rows.append(("exact", *((k**2 + k) * np.exp(-2 * gamma * np.arange(4) / P)).tolist()))
    return table(("gamma", *(f"distance {h}/{P}" for h in range(4))), rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer seeds and sizes: under a minute")
    quick = parser.parse_args().quick
    print(machine())
    print(
        f"\nFootprints, {2 if quick else 8} graphs of 60 nodes: mean (least - largest); overlap is Jaccard's"
    )
    print(footprints(METHODS, (20,) if quick else (5, 10, 20, 40), range(2 if quick else 8)))
    print("\nVariants of the default, 20 events:")
    print(footprints(VARIANTS, (20,), range(1 if quick else 4)))
    print("\nSimulation of Sec. 6.1, k = 100, n = 50, mean squared error:")
    print(simulation(50, 100, 1 if quick else 5, (1, 20) if quick else (1, 5, 20, 50)))
    print("\nCorrelation of parts C_pq, k = 100, 10 parts, 200 inputs:")
    print(correlations(200, 10, 100))


if __name__ == "__main__":
    main()
