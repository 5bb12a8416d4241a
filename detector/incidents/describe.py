"""What changed, in numbers and plain words.

Each statement (mean, spread, tails, asymmetry, correlation) is a difference of two estimates with a standard
error from their influence functions, which holds for heavy tails too; serial correlation is taken in by an
effective sample size. Only what passes a level corrected for the number of statements is said.

Values in original units belong to one node. Several nodes have in common only the size of their change, in
their own standard deviations: a statement about them gives its median and range, never a mean of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from detector.events.model import Change, ChangeKind, rounded
from detector.incidents.phrases import Sizes, phrase
from estimators.core.types import Floats

MIN_SAMPLES = 8  # below, no standard error is worth its name
SHAPE_SAMPLES = 30  # below, silence of the simple tests is no evidence of a change of shape
LEVEL = 0.001  # chance of one wrong statement on unchanged values, over all statements
MAX_CORRELATED = 32  # components whose pairs are looked at: the number of pairs grows with the square
MAX_Z = 1000.0
CONSTANT = 1e-3  # of the usual spread: what varies less counts as constant, and is no unit to measure in
TINY = 1e-9


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
    units. Values are in units of the node's usual spread. Rows with a missing component are left out.
    """
    x, y = (np.asarray(side, float) for side in (reference, after))
    x, y = x[np.isfinite(x).all(axis=1)], y[np.isfinite(y).all(axis=1)]
    if min(len(x), len(y)) < MIN_SAMPLES:
        return None
    p, q = _side(x), _side(y)
    d = x.shape[1]
    still = p.spread < CONSTANT
    unit = np.where(still, 1.0, p.spread)  # a reference that stood still is no unit: the usual spread is
    effect = np.concatenate([
        (q.mean - p.mean) / unit,
        np.log(np.maximum(q.spread, TINY) / np.maximum(p.spread, TINY)),
        q.shape - p.shape,
        q.correlation - p.correlation,
    ])  # fmt: skip
    p.influence[:, :d] *= np.maximum(p.spread, TINY) / unit
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
    z[:d][np.abs(effect[:d]) < CONSTANT] = 0.0
    z[d : 2 * d][still & (q.spread < CONSTANT)] = 0.0  # what stands still has no spread to change
    centre, size = (np.asarray(part, float) for part in scale)
    return Comparison(
        z, effect,
        np.concatenate([centre + size * p.mean, size * p.spread, p.shape, p.correlation]),
        np.concatenate([centre + size * q.mean, size * q.spread, q.shape, q.correlation]),
        len(y),
    )  # fmt: skip


def pool(
    comparisons: Sequence[Comparison], components: Sequence[str], units: Sequence[str] = ()
) -> list[Change]:
    """The supported statements about one node or several, strongest first; empty: too few samples to say.

    ``units`` of the components in original units, of a single node.
    """
    if not comparisons:
        return []
    k = len(comparisons)
    z, effect = (np.stack([comparison[i] for comparison in comparisons]) for i in range(2))
    joint = z.sum(axis=0) / np.sqrt(k)
    # Nodes may change in opposite directions: the sum of squares sees that, the sum does not.
    either = ((z**2).sum(axis=0) - k) / np.sqrt(2.0 * k)
    level = float(ndtri(1.0 - LEVEL / (2.0 * z.shape[1])))
    changes = []
    for c, (kind, at) in enumerate(_layout(len(components))):
        sizes = effect[:, c]
        agreed = abs(joint[c]) >= level and joint[c] * np.median(sizes) > 0.0
        if not agreed and (k == 1 or either[c] < level):
            continue
        one = comparisons[0] if k == 1 else None
        values = (float(one.before[c]), float(one.after[c])) if one else (np.nan, np.nan)
        names = [components[j] for j in at]
        unit = units[at[0]] if units and kind in ("mean", "spread") else ""
        mixed = not agreed and 0 < np.count_nonzero(sizes > 0.0) < k
        size = float(np.median(np.abs(sizes) if mixed else sizes))
        low, high = float(sizes.min()), float(sizes.max())
        if kind == "spread":
            size, low, high = (float(np.exp(part)) for part in (size, low, high))
        said = Sizes(size, low, high, int((sizes > 0.0).sum()), k, *values, unit)
        changes.append(
            Change(
                kind=kind, text=phrase(kind, names, said, agreed), components=names, effect=rounded(size),
                low=rounded(low) if k > 1 else None, high=rounded(high) if k > 1 else None,
                before=rounded(values[0]), after=rounded(values[1]), unit=unit or None,
                z=rounded(float(joint[c] if agreed else either[c])), nodes=k,
            )
        )  # fmt: skip
    if not changes and max(comparison.samples for comparison in comparisons) >= SHAPE_SAMPLES:
        changes = [Change(kind="distribution", text="distribution changed (shape)", components=[], nodes=k)]
    return sorted(changes, key=lambda change: -abs(change.z or 0.0))


def describe(reference: NDArray[Any], after: NDArray[Any], scale: tuple[NDArray[Any], NDArray[Any]],
             components: Sequence[str], units: Sequence[str] = ()) -> list[Change]:  # fmt: skip
    """What is supported about one node, strongest first; empty: too few samples to say."""
    comparison = compare(reference, after, scale)
    return [] if comparison is None else pool([comparison], components, units)
