"""How a change looks: since when, and what changed, in numbers and plain words.

**Onset.** With l_i the log-ratio of "after" to "before" at sample i, the log-likelihood of a change at sample
k is the suffix sum S_k = l_k + ... + l_m, up to a constant. The onset is its maximum, the interval holds 95 %
of exp(S_k) read as a posterior over k. Nodes are pooled by adding their suffix sums over common time.

**Description.** Each statement (mean, spread, tails, asymmetry, correlation) is a difference of two estimates
with a standard error from their influence functions, which holds for heavy tails too; serial correlation is
taken in by an effective sample size. Only what passes a level corrected for the number of statements is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from detector.events import Change, ChangeKind, rounded

Floats = NDArray[np.float64]

MIN_SAMPLES = 8  # below, no standard error is worth its name
SHAPE_SAMPLES = 30  # below, silence of the simple tests is no evidence of a change of shape
LEVEL = 0.001  # chance of one wrong statement on unchanged values, over all statements
MAX_LOG_RATIO = 5.0  # no single sample may decide the onset
MAX_CORRELATED = 32  # components whose pairs are looked at: the number of pairs grows with the square
MAX_Z = 1000.0
HUGE = 1000.0  # standard deviations, or a ratio, beyond which the number means "was constant"
TINY = 1e-9


class Onset(msgspec.Struct, frozen=True):
    """Time of the first changed sample, with a 95 % interval; earliest None: maybe before the window."""

    time: float
    earliest: float | None
    latest: float


def onset(log_ratio: NDArray[Any], times: NDArray[Any]) -> Onset | None:
    """Maximum-likelihood change point of one node; None if no suffix speaks for a change.

    log_ratio : (m,) at the recent samples, NaN where unknown    times : (m,) increasing
    """
    return pooled_onset([(log_ratio, times)])


def pooled_onset(series: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> Onset | None:
    """One change point for several nodes (log_ratio, times), which may sample at different times.

    A node without samples in some stretch (gap, silence) adds nothing there: its sum stays constant.
    """
    usable = [(np.asarray(ratio, float), np.asarray(times, float)) for ratio, times in series if len(times)]
    if not usable:
        return None
    candidates = np.unique(np.concatenate([times for _, times in usable]))
    total = np.zeros(len(candidates))
    for ratio, times in usable:
        clipped = np.clip(np.nan_to_num(ratio, nan=0.0), -MAX_LOG_RATIO, MAX_LOG_RATIO)
        suffix = np.append(np.cumsum(clipped[::-1])[::-1], 0.0)
        total += suffix[np.searchsorted(times, candidates)]
    best = int(total.argmax())
    if not total[best] > 0.0:
        return None
    posterior = np.exp(total - total[best])
    cumulated = np.cumsum(posterior) / posterior.sum()
    first = min(best, int(np.searchsorted(cumulated, 0.025)))
    last = max(best, min(int(np.searchsorted(cumulated, 0.975)), len(candidates) - 1))
    return Onset(
        float(candidates[best]), None if first == 0 else float(candidates[first]), float(candidates[last])
    )


class Comparison(NamedTuple):
    """All statements about one node, tested or not worth saying; arrays of one layout, see `_layout`."""

    z: Floats  # signed strength
    effect: Floats  # signed size; the logarithm of the ratio for a spread
    before: Floats
    after: Floats
    samples: int  # after the onset


class _Side(NamedTuple):
    """Estimates of one sample and their influence functions (n, c), which carry the standard errors."""

    mean: Floats
    spread: Floats
    shape: Floats  # tails, asymmetry
    correlation: Floats
    influence: Floats


def _layout(d: int) -> list[tuple[ChangeKind, tuple[int, ...]]]:
    kinds: tuple[ChangeKind, ...] = ("mean", "spread", "tails", "asymmetry")
    first, second = _pairs(d)
    return [(kind, (j,)) for kind in kinds for j in range(d)] + [
        ("correlation", (int(i), int(j))) for i, j in zip(first, second, strict=True)
    ]


def _pairs(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    first, second = np.triu_indices(min(d, MAX_CORRELATED), k=1)
    return first, second


def _side(x: Floats) -> _Side:
    mean, spread = x.mean(axis=0), x.std(axis=0, ddof=1)
    w = (x - mean) / np.maximum(spread, TINY)
    tails = np.abs(w).mean(axis=0)  # Geary: 0.80 for a normal, 0.87 for a uniform distribution
    signed = w * np.abs(w)
    asymmetry = signed.mean(axis=0)
    first, second = _pairs(x.shape[1])
    product = w[:, first] * w[:, second]
    correlation = product.mean(axis=0)
    square = w**2 - 1.0
    influence = np.hstack([
        w,
        square / 2.0,
        np.abs(w) - tails - tails * square / 2.0,
        signed - asymmetry - 2.0 * tails * w - asymmetry * square,
        product - correlation - correlation * (square[:, first] + square[:, second]) / 2.0,
    ])  # fmt: skip
    return _Side(mean, spread, np.concatenate([tails, asymmetry]), correlation, influence)


def compare(
    reference: NDArray[Any], after: NDArray[Any], scale: tuple[NDArray[Any], NDArray[Any]]
) -> Comparison | None:
    """Test every statement about one node; None if there are too few samples.

    reference : (n, d)    after : (m, d), from the onset on    scale : centre (d,), scale (d,) to original
    units. Rows with a missing component are left out.
    """
    x, y = (np.asarray(side, float) for side in (reference, after))
    x, y = x[np.isfinite(x).all(axis=1)], y[np.isfinite(y).all(axis=1)]
    if min(len(x), len(y)) < MIN_SAMPLES:
        return None
    p, q = _side(x), _side(y)
    d = x.shape[1]
    unit = np.maximum(p.spread, TINY)
    effect = np.concatenate([
        (q.mean - p.mean) / unit,
        np.log(np.maximum(q.spread, TINY) / unit),
        q.shape - p.shape,
        q.correlation - p.correlation,
    ])  # fmt: skip
    q.influence[:, :d] *= q.spread / unit  # a mean is counted in the reference's standard deviations
    variance_p, variance_q = (side.influence.var(axis=0) for side in (p, q))
    lagged = (p.influence[1:] * p.influence[:-1]).mean(axis=0) / np.maximum(variance_p, TINY)
    inflation = (1.0 + np.clip(lagged, 0.0, 0.98)) / (1.0 - np.clip(lagged, 0.0, 0.98))
    # The larger variance for the few samples after the onset: theirs alone is too uncertain to be trusted.
    error = np.sqrt(inflation * (variance_p / len(x) + np.maximum(variance_p, variance_q) / len(y)))
    z = np.clip(effect / np.maximum(error, TINY), -MAX_Z, MAX_Z)
    flat = (p.spread <= TINY) | (q.spread <= TINY)  # a constant has no tails and no correlation
    first, second = _pairs(d)
    z[2 * d :][np.concatenate([flat, flat, flat[first] | flat[second]])] = 0.0
    centre, size = (np.asarray(part, float) for part in scale)
    return Comparison(
        z, effect,
        np.concatenate([centre + size * p.mean, size * p.spread, p.shape, p.correlation]),
        np.concatenate([centre + size * q.mean, size * q.spread, q.shape, q.correlation]),
        len(y),
    )  # fmt: skip


def pool(comparisons: Sequence[Comparison], components: Sequence[str]) -> list[Change]:
    """The supported statements about one node or several, strongest first; empty: too few samples to say."""
    if not comparisons:
        return []
    k = len(comparisons)
    z, effect, before, after = (
        np.stack([comparison[i] for comparison in comparisons]) for i in range(4)
    )  # each (k, statements)
    joint = z.sum(axis=0) / np.sqrt(k)
    # Nodes may change in opposite directions: the sum of squares sees that, the sum does not.
    either = ((z**2).sum(axis=0) - k) / np.sqrt(2.0 * k)
    level = float(ndtri(1.0 - LEVEL / (2.0 * z.shape[1])))
    changes = []
    for c, (kind, at) in enumerate(_layout(len(components))):
        agreed = abs(joint[c]) >= level
        if not agreed and (k == 1 or either[c] < level):
            continue
        size = float(effect[:, c].mean() if agreed else np.abs(effect[:, c]).mean())
        values = (float(before[:, c].mean()), float(after[:, c].mean()))
        names = [components[j] for j in at]
        strength = float(joint[c] if agreed else either[c])
        changes.append(
            Change(
                kind=kind, text=_words(kind, names, size, values, agreed), components=names,
                effect=rounded(float(np.exp(size)) if kind == "spread" else size),
                before=rounded(values[0]) if agreed else None, after=rounded(values[1]) if agreed else None,
                z=rounded(strength), nodes=k,
            )
        )  # fmt: skip
    if not changes and max(comparison.samples for comparison in comparisons) >= SHAPE_SAMPLES:
        changes = [Change(kind="distribution", text="distribution changed (shape)", components=[], nodes=k)]
    return sorted(changes, key=lambda change: -abs(change.z or 0.0))


def describe(reference: NDArray[Any], after: NDArray[Any], scale: tuple[NDArray[Any], NDArray[Any]],
             components: Sequence[str]) -> list[Change]:  # fmt: skip
    """What is supported about one node, strongest first; empty: too few samples to say."""
    comparison = compare(reference, after, scale)
    return [] if comparison is None else pool([comparison], components)


def _words(kind: ChangeKind, names: list[str], size: float, values: tuple[float, float], agreed: bool) -> str:
    before, after = values
    change = f" ({before:.3g} → {after:.3g})" if np.isfinite(before) and np.isfinite(after) else ""
    one, pair = names[0], " and ".join(names)
    if not agreed:
        typical = (
            f"×{np.exp(size):.2g} or its inverse"
            if kind == "spread"
            else f"{size:.2g}{' sd' * (kind == 'mean')}"
        )
        return f"{kind} of {pair} changed in different directions (typically {typical})"
    if kind == "mean":
        amount = f" {abs(size):.2g} sd" if abs(size) < HUGE else ""
        return f"mean of {one} {'up' if size > 0 else 'down'}{amount}{change}"
    if kind == "spread":
        if abs(size) > np.log(HUGE):
            return f"{one} {'was' if size > 0 else 'is'} almost constant{change}"
        return f"spread of {one} ×{np.exp(size):.2g}{change}"
    if kind == "tails":
        return f"tails of {one} {'shorter' if size > 0 else 'longer'}"
    if kind == "asymmetry":
        return f"{one} leans more to {'high' if size > 0 else 'low'} values"
    return f"correlation of {pair} {_correlation_verb(before, after)}{change}"


def _correlation_verb(before: float, after: float) -> str:
    weak, clear = 0.3, 0.5
    if abs(before) >= clear and abs(after) < weak:
        return "lost"
    if abs(before) < weak and abs(after) >= clear:
        return "appeared"
    if before * after < 0.0 and min(abs(before), abs(after)) >= weak:
        return "reversed"
    return "stronger" if abs(after) > abs(before) else "weaker"
