"""Whether points lie where a reference lies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estimators.core.dictionary import Dictionary
from estimators.core.types import Floats
from estimators.spectral.christoffel import Christoffel
from estimators.timeseries.robust_scale import centre_and_scale


def units(x: Floats) -> tuple[Floats, Floats]:
    """Robust centre and scale (d,) of x (n, d)."""
    centre, scale, _ = centre_and_scale(x[:, None, :])
    return centre[0], scale[0]


def within(reference: Floats, x: Floats, level: float) -> NDArray[np.bool_]:
    """Whether each x has as much in common with the reference as this share of the reference itself.

    An effective sample size alone does not see that all values lie elsewhere: the estimated ratio is smooth,
    and far from the values it is the same for all pairs.
    """
    centre, scale = units(reference)
    z = (reference - centre) / scale
    novelty = Christoffel.of(z, Dictionary.build([z], mu_node=0.5)).novelty
    return novelty((x - centre) / scale) <= np.quantile(novelty(z), level) + 1e-9
