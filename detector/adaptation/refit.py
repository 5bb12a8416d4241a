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
ALPHA = 0.1  # share of the new values in GRULSIF's denominator
MOST_RATIO = 0.99 / ALPHA  # of an estimated relative ratio, which is at most 1 / alpha

Weigh = Callable[[Floats], Floats]  # values (n, d) in sensor units to weights (n,)


class Refused(ValueError):
    """The pairs cannot tell what the model should be where the values are now."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Labelled observations."""

    features: tuple[str, ...]
    target: str
    x: Floats  # (n, d)
    y: Floats  # (n,)
    present: Floats | None = None  # (n,) what the model in use predicts


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
    """The adapted model, and what speaks for it. Errors are roots of weighted mean squares, in units of y."""

    model: AdaptedModel
    pairs: Pairs
    values: Floats  # (m, d) since the change
    weights: Floats  # (n,) mean one
    size: float  # effective sample size of the weights
    among: int  # pairs that lie among the values, as 90 % of the values do
    outside: float  # share of the values that lie farther from the pairs than 99 % of the pairs
    before: Floats  # (n,) held-out predictions of the model without weights
    after: Floats  # (n,) and with them
    lams: Floats  # (l,)
    errors: Floats  # (l,) of each lambda alone
    shares: Floats  # (l,) in the aggregate

    def error(self, predicted: Floats) -> float:
        """Where the values are now."""
        return float(np.sqrt(np.average(np.square(self.pairs.y - predicted), weights=self.weights)))

    @property
    def gain(self) -> tuple[float, float]:
        """Mean square error of the model before less that of the one after, and its standard error."""
        y, w = self.pairs.y, self.weights
        each = w * (np.square(y - self.before) - np.square(y - self.after))
        return float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each)))

    def facts(self) -> dict[str, Any]:
        """JSON-ready."""
        gain, doubt = self.gain
        present = self.pairs.present
        return {
            "pairs": len(self.weights),
            "values": len(self.values),
            "effective_size": self.size,
            "pairs_among_values": self.among,
            "outside": self.outside,
            "error_present": None if present is None else self.error(present),
            "error_before": self.error(self.before),
            "error_after": self.error(self.after),
            "gain": gain,
            "gain_standard_error": doubt,
            "verdict": self.verdict,
        }

    @property
    def verdict(self) -> str:
        gain, doubt = self.gain
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
    before, after = (_fit(z, pairs.y, w, options) for w in (None, weights))
    return Adaptation(
        model=AdaptedModel.of(after, pairs.target, pairs.features, centre, scale, {}), pairs=pairs,
        values=values, weights=weights, size=size, among=among, outside=outside, before=before.held_out_,
        after=after.held_out_, lams=after.lams_, errors=np.sqrt(after.losses_), shares=after.coefficients_,
    )  # fmt: skip


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


def pairs_of(columns: Columns, target: str, features: Sequence[str] = (),
             present: str | None = None) -> tuple[Pairs, int]:  # fmt: skip
    """The labelled pairs of a table, and how many rows had a missing cell. No features: all other columns."""
    others = [name for name in columns.names if name not in (target, present)]
    names = tuple(features) or tuple(others)
    if target in names:
        raise ValueError(f"{columns.where}: {target!r} cannot be target and feature")
    if not names:
        raise ValueError(f"{columns.where}: there is no column beside {target!r} to predict from")
    wanted = [*names, target, *([present] if present else [])]
    values, dropped = complete(columns.numbers(wanted))
    if not len(values):
        raise ValueError(f"{columns.where}: no complete row: there are no labelled pairs")
    values, d = thinned(values, MOST_ROWS), len(names)
    shown = values[:, d + 1] if present else None
    return Pairs(names, target, values[:, :d], values[:, d], shown), dropped
