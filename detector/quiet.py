"""What quiet looks like at each node: everything preprocessing learns from the learning period.

``auto`` decides by the median, over nodes and components, of the lag-one autocorrelation r: difference with
lag 1 where r > 0.98 (a level that wanders), then whiten where |r| > 0.3 (below, the calibration takes care).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from detector.robust import borrow, centre_and_scale
from detector.samples import Floats
from detector.seasonal import MIN_PERIODS, at_time, learn_profile
from detector.whiten import burg, lag_one

DIFFERENCE_ABOVE = 0.98
WHITEN_ABOVE = 0.3
MIN_SAMPLES = 10  # of a node in the learning period; fewer say nothing about its spread
FAR = 1e9  # scaled values are kept within: sums stay finite, and a level may still wander
TAIL = 5.0  # autocorrelations are learnt from values within, so that outliers do not make them
BLOCK_VALUES = 4_000_000  # learnt at once: bounds the memory of learning


@dataclass(frozen=True)
class PreprocessSettings:
    """How values become comparable: units of quiet spread. 0 and null switch a step off."""

    seasonal: float | None = field(
        default=None,
        metadata={
            "help": "Period of a profile that is learnt and taken off, for example 24h; null: none.",
            "unit": "s",
        },
    )
    screen: Literal["off", "on"] = field(
        default="off",
        metadata={
            "help": "on: isolated corrupt readings, at most two in a row and a tenth of the longest test "
            "window, never enter the windows; a single node that jumps is seen up to two readings later.",
        },
    )
    seasonal_bins: int = field(default=48, metadata={"help": "Steps of the seasonal profile."})
    difference: int | str = field(
        default=0,
        metadata={
            "help": "Differences at this lag in samples instead of values; 0: none; auto: lag 1 where the "
            "level wanders.",
        },
    )
    whiten: int | str = field(
        default=0,
        metadata={
            "help": "Order of the autoregression that is taken off; 0: none; aic: chosen per node and "
            "component; auto: aic where samples are correlated.",
        },
    )
    max_order: int = field(default=8, metadata={"help": "Largest order for aic and auto."})
    embed: int = field(default=1, metadata={"help": "Samples of a node put together to one vector; 1: none."})
    clip: float = field(
        default=20.0, metadata={"help": "Values beyond so many robust standard deviations are cut."}
    )

    def __post_init__(self) -> None:
        if self.seasonal is not None and not 0.0 < self.seasonal < math.inf:
            raise ValueError(f"seasonal: must be a period in seconds > 0, got {self.seasonal}")
        if self.screen not in ("off", "on"):
            raise ValueError(f"screen: must be off or on, got {self.screen!r}")
        for name, words in (("difference", ("auto",)), ("whiten", ("auto", "aic"))):
            value = getattr(self, name)
            if value not in words and (not isinstance(value, int) or value < 0):
                choice = " or ".join(words)
                raise ValueError(f"{name}: must be a whole number >= 0 or {choice}, got {value!r}")
        for name, least in (("seasonal_bins", 2), ("max_order", 1), ("embed", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: must be at least {least}, got {getattr(self, name)}")
        if not 1.0 <= self.clip <= 1e6:
            raise ValueError(f"clip: must be from 1 to 1e6, got {self.clip}")


@dataclass
class Quiet:
    """Arrays are (N, d) unless said otherwise."""

    learnt: NDArray[np.bool_]  # (N,) whether the node had enough samples
    centre: Floats  # original units
    scale: Floats  # original units
    source: NDArray[np.int8]  # which of robust.SOURCES gave the scale
    profile: Floats  # (N, bins, d) original units; bins is 1 without a season
    centre_difference: Floats
    scale_difference: Floats
    ar: Floats  # (order, N, d)
    order: NDArray[np.int16]
    centre_white: Floats
    scale_white: Floats
    period: float = 0.0  # of the season in use, 0 is none
    lag: int = 0  # of the differencing in use, 0 is none
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def unknown(cls, n_nodes: int, dim: int, bins: int, order: int) -> Quiet:
        """Neutral values for nodes of which nothing is known."""
        zero, one = np.zeros((3, n_nodes, dim)), np.ones((3, n_nodes, dim))
        return cls(np.zeros(n_nodes, np.bool_), zero[0], one[0], np.zeros((n_nodes, dim), np.int8),
                   np.zeros((n_nodes, bins, dim)), zero[1], one[1], np.zeros((order, n_nodes, dim)),
                   np.zeros((n_nodes, dim), np.int16), zero[2], one[2])  # fmt: skip


def learn(settings: PreprocessSettings, X: ArrayLike, times: ArrayLike | None = None) -> Quiet:
    """Learn from X (T, N, d), NaN = missing, at ``times`` (T,), which a seasonal profile needs."""
    x = np.asarray(X, dtype=np.float64)
    if x.ndim != 3 or 0 in x.shape:
        raise ValueError(f"X: expected (T, N, d) with none of them 0, got shape {x.shape}")
    if times is None and settings.seasonal:
        raise ValueError("times: a seasonal profile needs the time of each row")
    clock = np.arange(len(x), dtype=np.float64) if times is None else np.asarray(times, dtype=np.float64)
    if clock.shape != (len(x),) or not np.isfinite(clock).all():
        raise ValueError(f"times: expected {len(x)} finite numbers, got shape {clock.shape}")
    return _Learner(settings, x, clock).quiet


class _Learner:
    """The steps in their order; each passes over the data in blocks of nodes."""

    def __init__(self, settings: PreprocessSettings, x: Floats, clock: Floats) -> None:
        self.settings, self.x, self.clock = settings, x, clock
        whiten = settings.whiten
        n_nodes, dim = x.shape[1:]
        bins = settings.seasonal_bins if settings.seasonal else 1
        order = whiten if isinstance(whiten, int) else settings.max_order
        self.quiet = Quiet.unknown(n_nodes, dim, bins, order)
        self._season()
        self._level()
        self._difference()
        self._whiten()
        untaught = int(np.count_nonzero(~self.quiet.learnt))
        if untaught:
            self.quiet.warnings.append(
                f"{untaught} of {n_nodes} nodes have fewer than {MIN_SAMPLES} samples to learn from: "
                "nothing can be said about them"
            )

    def _season(self) -> None:
        period, span = self.settings.seasonal, float(self.clock.max() - self.clock.min())
        if period and span < MIN_PERIODS * period:
            self.quiet.warnings.append(
                f"seasonal: the learning period covers {span / period:.2g} periods, but {MIN_PERIODS:g} are "
                "needed: no profile is used"
            )
        elif period:
            self.quiet.period = period

    def _level(self) -> None:
        q = self.quiet
        for part, block, times in self._blocks():
            q.learnt[part] = np.count_nonzero(~np.isnan(block[:, :, 0]), axis=0) >= MIN_SAMPLES
            if q.period:
                centre = centre_and_scale(block)[0]
                q.profile[part] = learn_profile(block, times, centre, q.period, self.settings.seasonal_bins)
                block = block - self._usual(part, times)
            q.centre[part], q.scale[part], q.source[part] = centre_and_scale(block)
        q.scale, q.source = self._complete(q.centre, q.scale, q.source)

    def _difference(self) -> None:
        q, wanted = self.quiet, self.settings.difference
        if wanted == "auto":
            q.lag = 1 if self._typical_lag_one(w for _, w in self._levels()) > DIFFERENCE_ABOVE else 0
        else:
            q.lag = int(wanted)
        source = np.zeros_like(q.source)
        if not 0 < q.lag < len(self.x):
            return
        for part, w in self._levels():
            v = w[q.lag :] - w[: -q.lag]
            q.centre_difference[part], q.scale_difference[part], source[part] = centre_and_scale(v)
        q.scale_difference, _ = self._complete(q.centre_difference, q.scale_difference, source)

    def _whiten(self) -> None:
        q, wanted = self.quiet, self.settings.whiten
        if wanted == "auto":
            wanted = "aic" if abs(self._typical_lag_one(v for _, v in self._stable())) > WHITEN_ABOVE else 0
        if not wanted:
            q.ar = q.ar[:0]
            return
        source, most = np.zeros_like(q.source), len(q.ar)
        for part, v in self._stable():
            a, q.order[part] = burg(np.clip(v, -TAIL, TAIL), most, choose=wanted == "aic")
            q.ar[:, part] = a
            if len(v) <= most:
                continue
            e = v[most:].copy()
            for j in range(1, most + 1):
                e -= a[j - 1] * v[most - j : len(v) - j]
            q.centre_white[part], q.scale_white[part], source[part] = centre_and_scale(e)
        q.scale_white, _ = self._complete(q.centre_white, q.scale_white, source)

    def _blocks(self) -> Iterator[tuple[slice, Floats, Floats]]:
        """Nodes a few at a time: each node's own samples moved together, then NaN; and their times (T, n)."""
        n_nodes, dim = self.x.shape[1:]
        size = max(1, BLOCK_VALUES // (len(self.x) * dim))
        for first in range(0, n_nodes, size):
            part = slice(first, min(first + size, n_nodes))
            block = self.x[:, part]
            whole = np.isfinite(block).all(axis=2)
            if whole.all():
                yield part, block, np.broadcast_to(self.clock[:, None], whole.shape)
                continue
            order = np.argsort(~whole, axis=0, kind="stable")
            there = np.take_along_axis(whole, order, axis=0)
            block = np.where(there[:, :, None], np.take_along_axis(block, order[:, :, None], axis=0), np.nan)
            yield part, block, np.where(there, self.clock[order], np.nan)

    def _usual(self, part: slice, times: Floats) -> Floats:
        nodes = np.arange(part.start, part.stop, dtype=np.int32)
        return at_time(self.quiet.profile, nodes, np.nan_to_num(times), self.quiet.period)

    def _levels(self) -> Iterator[tuple[slice, Floats]]:
        """Scaled values (T, n, d) of a block of nodes."""
        for part, block, times in self._blocks():
            if self.quiet.period:
                block = block - self._usual(part, times)
            with np.errstate(over="ignore"):
                yield part, np.clip((block - self.quiet.centre[part]) / self.quiet.scale[part], -FAR, FAR)

    def _stable(self) -> Iterator[tuple[slice, Floats]]:
        """What is to be whitened: differenced if so decided, scaled and clipped."""
        q, clip = self.quiet, self.settings.clip
        for part, w in self._levels():
            v = w[q.lag :] - w[: max(len(w) - q.lag, 0)] if q.lag else w
            yield part, np.clip((v - q.centre_difference[part]) / q.scale_difference[part], -clip, clip)

    def _typical_lag_one(self, parts: Iterator[Floats]) -> float:
        r = np.concatenate([lag_one(np.clip(part, -TAIL, TAIL)) for part in parts])
        return float(np.median(r[self.quiet.learnt])) if self.quiet.learnt.any() else 0.0

    def _complete(self, centre: Floats, scale: Floats, source: NDArray[np.int8]) -> tuple[Any, Any]:
        """Neutral values for nodes with too few samples, the peers' scale for constant ones."""
        unknown = ~self.quiet.learnt[:, None] | np.isnan(centre) | np.isnan(scale)
        centre[unknown] = 0.0
        scale, source = borrow(np.where(unknown, np.nan, scale), source)
        return np.where(unknown, 1.0, scale), source
