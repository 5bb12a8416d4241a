"""How a change went on since its onset: stays as it came, grows, fades, or is over.

With y_i the deviation from quiet of a node, in baseline spreads, at the time u_i since the onset:

    step      y_i = b + e_i
    trend     y_i = b + s u_i + e_i        growing if the level moves away from quiet, else fading
    burst     y_i = b [u_i < w] + e_i      over after the time w

Each node has its own b, s and noise; the shape and w are common. Shapes are compared by

    BIC = sum_v n_v log(RSS_v / m_v) + p log n,    n_v = m_v / inflation_v

where the inflation tells how many correlated samples stand for one, and p log n adds up per node for b and s,
and once for w. An onset is known to a few samples only: the first tenth of each node's samples is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from estimators.core.types import Floats

Shape = Literal["step", "growing", "fading", "burst"]
MIN_SAMPLES = 8
LEFT_OUT = 10  # one of so many samples, at the onset
MIN_SIDE = 4  # samples of a node before and after the end of a burst, for it to say anything about it
CANDIDATES = 200  # ends of a burst that are tried
FLOOR = 1e-6  # of a mean square, so that a constant has a likelihood
MAX_ODDS = 1e6


@dataclass(frozen=True)
class Course:
    """The likeliest shape. Arrays (k,) over the nodes: fitted levels in baseline spreads, their change."""

    shape: Shape
    odds: float  # against the next likely shape
    first: Floats  # level at the onset
    last: Floats  # level at the latest sample; of a burst: 0
    rate: Floats  # change of the level per unit of time; 0 but for a trend
    lasted: float | None  # of a burst


def inflation(reference: Floats) -> float:
    """How many samples stand for an independent one, by the autocorrelation at lag 1 of quiet values (n,)."""
    w = reference - reference.mean()
    square = float(w @ w)
    lagged = float(w[1:] @ w[:-1]) / square if square > 0.0 else 0.0
    rho = min(max(lagged, 0.0), 0.98)
    return (1.0 + rho) / (1.0 - rho)


def course(y: Sequence[Floats], u: Sequence[Floats], inflations: Sequence[float]) -> Course | None:
    """The shape of k nodes together; None if all have too few samples.

    y : k arrays (m_v,)    u : k arrays (m_v,), increasing, from 0 on    inflations : (k,)
    """
    use = [v for v in range(len(y)) if len(y[v]) >= MIN_SAMPLES]
    if not use:
        return None
    y, u = ([part[-(-len(part) // LEFT_OUT) :] for part in parts] for parts in (y, u))
    m = np.array([len(y[v]) for v in use], dtype=float)
    n = np.maximum(m / np.array([inflations[v] for v in use]), 2.0)
    flat = np.array([y[v].mean() for v in use])
    lines = np.array([_line(y[v], u[v]) for v in use])  # b, s, RSS
    steps = np.array([((y[v] - b) ** 2).sum() for v, b in zip(use, flat, strict=True)])
    ends, bursts = _bursts([y[v] for v in use], [u[v] for v in use])

    def fit(rss: Floats) -> Floats:
        score: Floats = (n * np.log(np.maximum(rss / m, FLOOR))).sum(axis=-1)
        return score

    one = float(np.log(n).sum())  # the price of a parameter of each node
    bic = {"step": float(fit(steps)) + one, "trend": float(fit(lines[:, 2])) + 2.0 * one}
    if len(ends):
        each = fit(bursts)
        at = int(each.argmin())
        bic["burst"] = float(each[at]) + one + float(np.log(n.sum()))
    best, second = sorted(bic.values())[:2]
    odds = min(float(np.exp(min((second - best) / 2.0, 50.0))), MAX_ODDS)
    winner = min(bic, key=lambda name: bic[name])
    first, last, rate = flat, flat, np.zeros(len(use))
    if winner == "burst":
        inside = [u[v] < ends[at] for v in use]
        first = np.array(
            [y[v][part].mean() if part.any() else 0.0 for v, part in zip(use, inside, strict=True)]
        )
        return _of(len(y), use, "burst", odds, first, np.zeros(len(use)), rate, float(ends[at]))
    if winner == "trend":
        first, rate = lines[:, 0], lines[:, 1]
        last = first + rate * np.array([u[v][-1] for v in use])
        # By the nodes together, each as sure as it has samples: away from quiet, or back to it?
        moved = float((n * (np.abs(last) - np.abs(first))).sum())
        return _of(len(y), use, "growing" if moved > 0.0 else "fading", odds, first, last, rate, None)
    return _of(len(y), use, "step", odds, first, last, rate, None)


def _line(y: Floats, u: Floats) -> tuple[float, float, float]:
    """Least squares b + s u: b, s, RSS."""
    centred = u - u.mean()
    square = float(centred @ centred)
    s = float(centred @ y) / square if square > 0.0 else 0.0
    b = float(y.mean()) - s * float(u.mean())
    return b, s, float(((y - b - s * u) ** 2).sum())


def _bursts(y: Sequence[Floats], u: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Ends w that are tried, and the RSS (w, k) of each node for them."""
    times = np.unique(np.concatenate([part[MIN_SIDE : len(part) - MIN_SIDE + 1] for part in u]))
    if len(times) > CANDIDATES:
        times = times[np.linspace(0, len(times) - 1, CANDIDATES).astype(int)]
    rss = np.empty((len(times), len(y)))
    for v, (values, since) in enumerate(zip(y, u, strict=True)):
        count = np.searchsorted(since, times)  # samples before w
        total = np.append(0.0, np.cumsum(values))[count]
        rss[:, v] = (values**2).sum() - total**2 / np.maximum(count, 1)
    return times, rss


def _of(k: int, use: Sequence[int], shape: Shape, odds: float, first: Floats, last: Floats, rate: Floats,
        lasted: float | None) -> Course:  # fmt: skip
    """With NaN for the nodes that had too few samples."""
    full = np.full((3, k), np.nan)
    full[:, list(use)] = first, last, rate
    return Course(shape, odds, full[0], full[1], full[2], lasted)
