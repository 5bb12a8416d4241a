"""Simple rivals on recordings: each learns from the history and gives a statistic (T, N) for a stream.

EWMA and Page–Hinkley see the values that the detector sees (`product.PREPROCESS`); PCA, the regression and
the isolation forest see levels in robust units, as their users have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from recordings.product import PREPROCESS
from recordings.sets import Recording
from rivals import averaging
from scipy.signal import lfilter

from detector.preprocessing.preprocessor import Preprocessor, PreprocessSettings
from estimators.core.graph import Graph
from estimators.timeseries.robust_scale import borrow, centre_and_scale

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]  # stream (T, N, d) -> (T, N)

RATE = 0.1  # of the averages
WARM_UP = 20  # ticks of the history before averages count
CLIP = 20.0
NAMED = 3  # nodes that an alarm of a network-wide statistic names


def _prepared(rec: Recording) -> Statistic:
    steps = Preprocessor(PreprocessSettings(**PREPROCESS))
    steps.learn(rec.history, np.arange(len(rec.history), dtype=float))
    return lambda x: np.nan_to_num(steps.transform(x))


def _levels(rec: Recording, clip: float = CLIP) -> Statistic:
    centre, scale, source = centre_and_scale(rec.history)
    scale, _ = borrow(scale, source)
    return lambda x: np.clip(np.nan_to_num((x - centre) / scale), -clip, clip)


def _chart(quiet: Floats, rate: float) -> Statistic:
    """EWMA T² per node of values like ``quiet`` (T, N, d), in units of its quiet mean and spread."""
    centre = quiet.mean(axis=0)
    x = quiet - centre
    cov = np.einsum("tnc,tne->nce", x, x) / len(x) + 1e-6 * np.eye(x.shape[2])
    inverse = np.linalg.inv(cov) * (2.0 - rate) / rate

    def squared(z: Floats) -> Floats:
        average = lfilter([rate], [1.0, rate - 1.0], z - centre, axis=0)
        return np.asarray(np.einsum("tnc,nce,tne->tn", average, inverse, average))

    learnt = squared(quiet)[WARM_UP:]
    mean, spread = learnt.mean(axis=0), learnt.std(axis=0) + 1e-12
    return lambda z: (squared(z) - mean) / spread


def ewma(rec: Recording) -> Statistic:
    """EWMA T² of every node by itself."""
    prepare = _prepared(rec)
    chart = _chart(prepare(rec.history), RATE)
    return lambda x: chart(prepare(x))


def ewma_neighbours(rec: Recording) -> Statistic:
    """The same, averaged over neighbours."""
    own, near = ewma(rec), averaging(Graph.of(rec.network))
    return lambda x: own(x) @ near.T


def pca(rec: Recording) -> Statistic:
    """Hotelling's T² in the components of 90 % of the variance and Q beside them, over their 99 % points."""
    levels = _levels(rec, 50.0)
    flat = levels(rec.history).reshape(len(rec.history), -1)
    centre, spread = flat.mean(axis=0), flat.std(axis=0) + 1e-9

    def scaled(x: Floats) -> Floats:
        return np.clip((levels(x).reshape(len(x), -1) - centre) / spread, -50.0, 50.0)

    Y = scaled(rec.history)
    _, s, V = np.linalg.svd(Y, full_matrices=False)
    kept = int(np.searchsorted(np.cumsum(s**2) / np.sum(s**2), 0.9)) + 1
    P, variance = V[:kept].T, s[:kept] ** 2 / len(Y)

    def parts(Y: Floats) -> tuple[Floats, Floats]:
        """Contributions of every channel to T² and to Q; the sums over channels are these."""
        scores = Y @ P
        return Y * ((scores / variance) @ P.T), np.square(Y - scores @ P.T)

    limits = [np.quantile(part.sum(axis=1), 0.99) + 1e-12 for part in parts(Y)]

    def statistic(x: Floats) -> Floats:
        T2, Q = (part / limit for part, limit in zip(parts(scaled(x)), limits, strict=True))
        blame = (np.abs(T2) + Q).reshape(x.shape).sum(axis=2)
        return _blamed(T2.sum(axis=1) + Q.sum(axis=1), blame)

    return statistic


def _blamed(S: Floats, blame: Floats) -> Floats:
    """A network's statistic S (T,) given to the nodes that contribute most."""
    least = -np.sort(-blame, axis=1)[:, min(NAMED, blame.shape[1]) - 1]
    return np.where(blame >= least[:, None], S[:, None], -np.inf)


def ridge(rec: Recording) -> Statistic:
    """Residuals of each node on its neighbours, now and before, and on its own past: slow and fast charts."""
    levels = _levels(rec, 8.0)
    Z = levels(rec.history)
    graph = Graph.of(rec.network)
    models = [_regression(Z, v, _strongest(graph, v, Z.shape[2])) for v in range(Z.shape[1])]
    quiet = np.stack([residual for _, residual in models], axis=1)
    centre, scale, source = centre_and_scale(quiet)
    scale, _ = borrow(scale, source)

    def residuals(E: Floats) -> Floats:
        return np.clip((E - centre) / scale, -CLIP, CLIP)

    charts = [_chart(residuals(quiet), rate) for rate in (RATE, 0.9)]

    def statistic(x: Floats) -> Floats:
        z = levels(x)
        E = residuals(np.stack([predict(z) for predict, _ in models], axis=1))
        return np.maximum(*(chart(E) for chart in charts))

    return statistic


def _strongest(graph: Graph, v: int, dim: int, columns: int = 60) -> NDArray[np.intp]:
    """The neighbours by weight, few enough for ``columns`` of three lags each."""
    span = slice(int(graph.indptr[v]), int(graph.indptr[v + 1]))
    most = max(1, min(8, columns // (3 * dim)))
    return np.asarray(graph.indices[span][np.argsort(-graph.weights[span], kind="stable")][:most], np.intp)


def _regression(Z: Floats, v: int, near: NDArray[np.intp]) -> tuple[Statistic, Floats]:
    """What a stream leaves unexplained at v, and what the history did, each quarter by the other three."""
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import KFold, cross_val_predict

    def regressors(z: Floats) -> Floats:
        def lag(part: Floats, k: int) -> Floats:
            return np.concatenate([np.repeat(part[:1], k, axis=0), part[: len(part) - k]]).reshape(len(z), -1)

        return np.concatenate(
            [lag(z[:, near], k) for k in range(3)] + [lag(z[:, v], k) for k in (1, 2, 3)], 1
        )

    A, Y = regressors(Z), Z[:, v]
    tried = []
    for penalty in (1e-3, 1e-2, 1e-1, 1.0, 10.0):
        model = Ridge(penalty * len(A))
        left = Y - cross_val_predict(model, A, Y, cv=KFold(4)).reshape(Y.shape)
        tried.append((float(np.minimum(np.square(left), 25.0).sum()), penalty, model, left))
    _, _, model, left = min(tried, key=lambda one: one[:2])
    model.fit(A, Y)
    return lambda z: z[:, v] - model.predict(regressors(z)).reshape(len(z), -1), left


def forest(rec: Recording, memory: int = 10) -> Statistic:
    """An isolation forest per node on value, mean and spread of the latest ten values."""
    from sklearn.ensemble import IsolationForest

    levels = _levels(rec)

    def features(x: Floats) -> Floats:
        z = levels(x)
        total, squares = (
            np.cumsum(np.concatenate([np.zeros((1, *z.shape[1:])), part]), axis=0) for part in (z, z * z)
        )
        ends = np.arange(1, len(z) + 1)
        first = np.maximum(ends - memory, 0)
        n = (ends - first)[:, None, None]
        mean = (total[ends] - total[first]) / n
        spread = np.sqrt(np.maximum((squares[ends] - squares[first]) / n - mean**2, 0.0))
        return np.concatenate([z, mean, spread], axis=2)

    quiet = features(rec.history)[memory:]
    forests = [IsolationForest(random_state=0).fit(quiet[:, v]) for v in range(quiet.shape[1])]
    middle, upper = np.quantile(
        np.stack([-f.score_samples(quiet[:, v]) for v, f in enumerate(forests)], 1), (0.5, 0.99), axis=0
    )

    def statistic(x: Floats) -> Floats:
        F = features(x)
        scores = np.stack([-f.score_samples(F[:, v]) for v, f in enumerate(forests)], axis=1)
        return (scores - middle) / (upper - middle + 1e-9)

    return statistic


def page_hinkley(rec: Recording) -> Statistic:
    """river's, one per node and component: the highest of a ladder of thresholds that alarms in a tick."""
    from river.drift import PageHinkley

    prepare = _prepared(rec)
    ladder = np.geomspace(5.0, 5000.0, 12).tolist()

    def statistic(x: Floats) -> Floats:
        Z = prepare(x)
        S = np.zeros(Z.shape[:2])
        for v in range(Z.shape[1]):
            for series in Z[:, v].T.tolist():
                for threshold in ladder:
                    detector = PageHinkley(threshold=threshold)
                    alarms = 0
                    for t, value in enumerate(series):
                        detector.update(value)
                        if detector.drift_detected:
                            S[t, v] = max(S[t, v], threshold)
                            alarms += 1
                    if not alarms:  # nor would any higher one
                        break
        return S

    return statistic


def dummies(recordings: list[Recording], periodic: bool, seed: int, gap: int = 60) -> Iterator[Floats]:
    """A statistic that knows nothing: peaks at random or even times, at a random node and two linked ones.

    As the threshold falls there are more of them; those of the periodic one stay evenly spaced.
    """
    rng = np.random.default_rng(seed)
    for rec in recordings:
        graph = Graph.of(rec.network)
        for x, _ in rec.streams:
            T, N = x.shape[:2]
            n = max(T // gap, 1)
            S = np.zeros((T, N))
            times = np.arange(n) * gap + rng.integers(gap) if periodic else rng.integers(0, T, n)
            # Turned and lifted at random, else all streams of a set would alarm together at their beginning.
            turned = np.roll(_halving(n), rng.integers(n)) + rng.random() / n
            heights = turned if periodic else rng.random(n)
            for t, height in zip(times, heights, strict=True):
                v = int(rng.integers(N))
                near = rng.permutation(graph.neighbours(v))[: NAMED - 1]
                S[min(int(t), T - 1), [v, *near]] = 1.0 + height
            yield S


def _halving(n: int) -> Floats:
    """Heights of n peaks such that those above any level are about evenly spaced: van der Corput's order."""
    order = [int(f"{k:b}"[::-1], 2) / 2 ** k.bit_length() if k else 0.0 for k in range(n)]
    ranks = np.argsort(np.argsort(order, kind="stable"))
    heights = np.empty(n)
    heights[ranks] = np.linspace(1.0, 0.0, n, endpoint=False)
    return heights


RIVALS: dict[str, Callable[[Recording], Statistic]] = {
    "EWMA T² (own)": ewma,
    "EWMA T² (neighbours)": ewma_neighbours,
    "PCA T² + Q": pca,
    "ridge residual chart": ridge,
    "river Page–Hinkley": page_hinkley,
    "isolation forest": forest,
}
SLOW = {"ridge residual chart", "river Page–Hinkley", "isolation forest"}
