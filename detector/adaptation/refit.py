"""Refit a model to labelled pairs under the shift that was seen: what `detector adapt` computes.

Pairs (x, y) are weighted by how much likelier x has become, the model is fitted again with the weights, and
both models are judged where the values are now: by held-out errors of the pairs, weighted. Pure: no file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from detector.adaptation.csv_table import Columns, complete, thinned
from detector.adaptation.model_file import AdaptedModel
from estimators.core.types import Floats
from estimators.ratio.grulsif import Grulsif
from estimators.spectral.iwrls import Iwrls, effective_sample_size
from estimators.spectral.ratio import SpectralRatio
from estimators.spectral.support import units, within

RATIOS = ("spectral", "grulsif")
MODELS = ("kernels", "line")
LEAST_SIZE = 30.0
MOST_OUTSIDE = 0.5
MOST_ROWS = 20_000  # of pairs, and of values; more are thinned
LEAST_VALUES = 20  # since the change, and before it
MOST_TARGETS = 8  # of one model
ALPHA = 0.1  # share of the new values in GRULSIF's denominator
MOST_RATIO = 0.99 / ALPHA  # of an estimated relative ratio, which is at most 1 / alpha

Weigh = Callable[[Floats], Floats]  # values (n, d) in sensor units to weights (n,)


class Refused(ValueError):
    """The pairs cannot tell what the model should be where the values are now."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Labelled observations."""

    features: tuple[str, ...]
    targets: tuple[str, ...]
    x: Floats  # (n, d)
    y: Floats  # (n, k)
    present: Floats | None = None  # (n, k) what the model in use predicts


@dataclass(frozen=True)
class Options:
    """How to adapt, and when not to."""

    ratio: str = "spectral"
    model: str = "kernels"
    scheme: str = "iterated"  # of the regularisation, and its order where it has one
    order: int | None = None
    least_size: float = LEAST_SIZE
    most_outside: float = MOST_OUTSIDE
    seed: int = 0

    def regularisation(self) -> dict[str, Any]:
        """Parameters of the estimators by spectral regularisation."""
        return {"scheme": self.scheme, "order": self.order, "seed": self.seed}


@dataclass(frozen=True, eq=False)
class Adaptation:
    """The adapted model, and what speaks for it. Errors are roots of weighted mean squares, in units of y.

    Several targets have one model: the same weights, features and shares of the lambdas. How good it is, is
    said of each.
    """

    model: AdaptedModel
    pairs: Pairs
    values: Floats  # (m, d) since the change
    weights: Floats  # (n,) mean one
    size: float  # effective sample size of the weights
    among: int  # pairs that lie among the values, as 90 % of the values do
    outside: float  # share of the values that lie farther from the pairs than 99 % of the pairs
    before: Floats  # (n, k) held-out predictions of the model without weights
    after: Floats  # (n, k) and with them
    unit: Floats  # (k,) of the errors of the lambdas: 1 for a single target, else the spread of each
    lams: Floats  # (l,)
    errors: Floats  # (l,) of each lambda alone, over all targets
    shares: Floats  # (l,) in the aggregate

    def error(self, predicted: Floats) -> list[float]:
        """Of each target where the values are now."""
        squares = np.average(np.square(self.pairs.y - predicted), axis=0, weights=self.weights)
        found: list[float] = np.sqrt(squares).tolist()
        return found

    @property
    def gains(self) -> list[tuple[float, float]]:
        """Of each target: the mean square error before less that after, and the standard error of that."""
        y, w = self.pairs.y, self.weights[:, None]
        each = w * (np.square(y - self.before) - np.square(y - self.after))
        doubts = each.std(axis=0, ddof=1) / np.sqrt(len(each))
        return list(zip(each.mean(axis=0).tolist(), doubts.tolist(), strict=True))

    def facts(self) -> dict[str, Any]:
        """JSON-ready. What is of one target is a number, of several a number for each by its name."""
        present = self.pairs.present
        gains, doubts = zip(*self.gains, strict=True)
        return {
            "pairs": len(self.weights),
            "values": len(self.values),
            "effective_size": self.size,
            "pairs_among_values": self.among,
            "outside": self.outside,
            "error_present": None if present is None else self._told(self.error(present)),
            "error_before": self._told(self.error(self.before)),
            "error_after": self._told(self.error(self.after)),
            "gain": self._told(gains),
            "gain_standard_error": self._told(doubts),
            "verdict": self._told(self.verdicts),
        }

    @property
    def verdicts(self) -> list[str]:
        """Of each target."""
        return [_verdict(gain, doubt) for gain, doubt in self.gains]

    def _told(self, each: Sequence[Any]) -> Any:
        return each[0] if len(each) == 1 else dict(zip(self.pairs.targets, each, strict=True))


def _verdict(gain: float, doubt: float) -> str:
    if gain > 2.0 * doubt:
        return "the adapted model is better where the values are now"
    if gain < -2.0 * doubt:
        return "the model without weights is better: keep it"
    return "no clear difference: the model without weights serves as well"


def adapt(pairs: Pairs, values: Floats, weigh: Weigh, options: Options) -> Adaptation:
    """`Refused` if the pairs are too few there, or the values lie elsewhere."""
    if len(values) < LEAST_VALUES:
        raise Refused(f"only {len(values)} values since the change; at least {LEAST_VALUES} are needed")
    if len(pairs.y) < options.least_size:
        raise Refused(f"only {len(pairs.y)} labelled pairs; at least {options.least_size:g} are needed")
    outside = 1.0 - float(within(pairs.x, values, 0.99).mean())
    if outside > options.most_outside:
        raise Refused(
            f"{outside:.0%} of the values since the change lie where no labelled pair is (at most "
            f"{options.most_outside:.0%} may): label some of them, no weights can replace that"
        )
    among = int(np.count_nonzero(within(values, pairs.x, 0.9)))
    if among < options.least_size:
        raise Refused(
            f"only {among} of {len(pairs.y)} labelled pairs lie among the values since the change, below "
            f"{options.least_size:g}: label more of them"
        )
    weights = weigh(pairs.x)
    if not weights.any():
        raise Refused("no labelled pair is likely where the values are now")
    weights = weights / weights.mean()
    size = effective_sample_size(weights)
    if size < options.least_size:
        raise Refused(
            f"the effective sample size is {size:.1f} of {len(weights)} labelled pairs, below "
            f"{options.least_size:g}: too few of them lie where the values are now; label more there"
        )
    centre, scale = units(pairs.x)
    z = (pairs.x - centre) / scale
    unit = _unit(pairs.y, weights)
    before, after = (_fit(z, pairs.y / unit, w, options) for w in (None, weights))
    return Adaptation(
        model=AdaptedModel.of(after, unit, pairs.targets, pairs.features, centre, scale, {}), pairs=pairs,
        values=values, weights=weights, size=size, among=among, outside=outside,
        before=before.held_out_ * unit, after=after.held_out_ * unit, unit=unit, lams=after.lams_,
        errors=np.sqrt(after.losses_), shares=after.coefficients_,
    )  # fmt: skip


def _unit(y: Floats, weights: Floats) -> Floats:
    """(k,) by what errors of several targets are divided, so that they can be added; 1 for a single one."""
    if y.shape[1] == 1:
        return np.ones(1)
    spread = np.sqrt(
        np.average(np.square(y - np.average(y, axis=0, weights=weights)), axis=0, weights=weights)
    )
    return np.where(spread > 0.0, spread, 1.0)


def _fit(z: Floats, y: Floats, weights: Floats | None, options: Options) -> Iwrls:
    if options.model == "line":
        return Iwrls(linear=True, **options.regularisation()).fit(z, y, weights)
    return Iwrls.select(z, y, weights, **options.regularisation())


def spectral(reference: Floats, values: Floats, options: Options | None = None) -> Weigh:
    """Weights by the plain ratio of the values over the reference; estimated when they are asked for."""

    def weigh(x: Floats) -> Floats:
        _enough(reference)
        centre, scale = units(reference)
        model = SpectralRatio(**(options or Options()).regularisation())
        fit = model.fit((reference - centre) / scale, (values - centre) / scale)
        return fit.ratio((x - centre) / scale)

    return weigh


def grulsif(reference: Sequence[Floats], values: Sequence[Floats], links: Any, node: int,
            centre: Floats, scale: Floats) -> Weigh:  # fmt: skip
    """Weights by the ratio that GRULSIF finds for one node of a network, all windows in units of z."""

    def weigh(x: Floats) -> Floats:
        _enough(reference[node])
        fit = Grulsif(alpha=ALPHA).fit(reference, values, links)
        r = np.clip(fit.ratio(node, (x - centre) / scale), 0.0, MOST_RATIO)
        return np.asarray((1.0 - ALPHA) * r / (1.0 - ALPHA * r))  # from relative to plain

    return weigh


def alone(reference: Floats, values: Floats) -> Weigh:
    """`grulsif` of a node without neighbours."""
    centre, scale = units(reference)
    before, now = ([(part - centre) / scale] for part in (reference, values))
    return grulsif(before, now, np.zeros((1, 1)), 0, centre, scale)


def _enough(reference: Floats) -> None:
    if len(reference) < LEAST_VALUES:
        raise Refused(f"only {len(reference)} values before the change; at least {LEAST_VALUES} are needed")


def pairs_of(columns: Columns, targets: Sequence[str], features: Sequence[str] = (),
             present: Sequence[str] = ()) -> tuple[Pairs, int]:  # fmt: skip
    """The labelled pairs of a table, and how many rows had a missing cell. No features: all other columns."""
    names = tuple(features) or tuple(name for name in columns.names if name not in (*targets, *present))
    if len(set(targets)) != len(targets) or not 1 <= len(targets) <= MOST_TARGETS:
        raise ValueError(f"{columns.where}: give 1 to {MOST_TARGETS} targets, each once")
    for target in targets:
        if target in names:
            raise ValueError(f"{columns.where}: {target!r} cannot be target and feature")
    if present and len(present) != len(targets):
        raise ValueError(
            f"{columns.where}: {len(present)} columns of present predictions, but {len(targets)} targets"
        )
    if not names:
        beside = ", ".join(map(repr, targets))
        raise ValueError(f"{columns.where}: there is no column beside {beside} to predict from")
    values, dropped = complete(columns.numbers([*names, *targets, *present]))
    if not len(values):
        raise ValueError(f"{columns.where}: no complete row: there are no labelled pairs")
    d, k = len(names), len(targets)
    x, y, shown = np.split(thinned(values, MOST_ROWS), [d, d + k], axis=1)
    return Pairs(names, tuple(targets), x, y, shown if present else None), dropped
