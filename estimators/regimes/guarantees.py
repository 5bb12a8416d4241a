"""What can be guaranteed of a library of regimes: risk bound (51), sample size (56), checks E1 and E2 (68).

The membership exp(-Gamma_c(y) / p) of (44) stands for the probability that y is of class c. With probability
1 - delta its mean square error is at most the empirical one plus 4 / sqrt(N) + sqrt(log(1 / delta) / 2 N).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from estimators.core.base import check_range
from estimators.core.kernels import as_points
from estimators.regimes.library import RegimeStructure


def risk_deviation(n: int, delta: float = 0.05) -> float:
    """The part of the risk bound (51) that falls with the number of samples.

    Parameters
    ----------
    n : int >= 1
        Samples of all classes together.
    delta : float in (0, 1), default=0.05
        Probability with which the bound may fail.

    Returns
    -------
    float
        4 / sqrt(n) + sqrt(log(1 / delta) / (2 n)).

    Examples
    --------
    >>> from estimators import risk_deviation
    >>> round(risk_deviation(1000), 3)
    0.165
    """
    check_range("n", n, 1)
    check_range("delta", delta, 0.0, 1.0, open_low=True, open_high=True)
    return float((4.0 + np.sqrt(np.log(1.0 / delta) / 2.0)) / np.sqrt(n))


def samples_needed(epsilon: float, delta: float = 0.05) -> int:
    """Samples from which on the deviation is at most epsilon (56).

    Parameters
    ----------
    epsilon : float > 0
        Wanted accuracy.
    delta : float in (0, 1), default=0.05
        Probability with which it may fail.

    Returns
    -------
    int
        Of all classes together.

    Examples
    --------
    >>> from estimators import samples_needed
    >>> samples_needed(0.05), samples_needed(0.25)
    (10916, 437)
    """
    check_range("epsilon", epsilon, 0.0, open_low=True)
    check_range("delta", delta, 0.0, 1.0, open_low=True, open_high=True)
    return int(np.ceil((4.0 + np.sqrt(np.log(1.0 / delta) / 2.0)) ** 2 / epsilon**2))


@dataclass(frozen=True)
class Guarantees:
    """What is known of a library before it is asked anything; made by `guarantees`.

    Parameters
    ----------
    n : int
        Samples of all classes.
    delta : float
        Probability with which a bound may fail.
    empirical : dict of str to float
        Mean square of membership minus truth over all samples, by class.
    e1 : float
        Largest 1 - membership of a sample in its own class: near 0 if Assumption 1 holds.
    e2 : float
        Mean membership of samples in other classes: near 0 if Assumption 2 holds; NaN with one class.
    accuracy : float
        Share of the samples that are nearest to their own class (63).

    Examples
    --------
    See `guarantees`.
    """

    n: int
    delta: float
    empirical: dict[str, float]
    e1: float
    e2: float
    accuracy: float

    def bound(self, label: str) -> float:
        """Bound (51) of the mean square error of a class's membership.

        Parameters
        ----------
        label : str
            Of the class.

        Returns
        -------
        float
            Above 1 it says nothing: memberships and probabilities differ by at most 1.
        """
        return self.empirical[label] + risk_deviation(self.n, self.delta)

    def more_samples(self, epsilon: float) -> int:
        """How many more labelled samples until the deviation is at most epsilon (56).

        Parameters
        ----------
        epsilon : float > 0

        Returns
        -------
        int
            0 if there are enough. The empirical part is not made smaller by them.
        """
        return max(samples_needed(epsilon, self.delta) - self.n, 0)


def guarantees(structures: Mapping[str, RegimeStructure], samples: Mapping[str, ArrayLike],
               delta: float = 0.05) -> Guarantees:  # fmt: skip
    """Check the assumptions of a library, and bound its risk.

    Parameters
    ----------
    structures : mapping of str to RegimeStructure
        The classes.
    samples : mapping of str to array_like of shape (n_c, p)
        Labelled samples of the same classes, as a rule those they were learnt from.
    delta : float in (0, 1), default=0.05
        Probability with which a bound may fail.

    Returns
    -------
    Guarantees

    Raises
    ------
    ValueError
        If there is no class, or a class has no samples.

    References
    ----------
    M. Kumar et al., "Geometrically inspired kernel machines for collaborative learning beyond gradient
    descent", JAIR 83:16, 2025: (44), (51), (56), (63), (68).

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import RegimeStructure, guarantees
    >>> rng = np.random.default_rng(0)
    >>> samples = {name: np.tanh(rng.normal(at, 0.1, (40, 3))) for name, at in (("low", -0.7), ("high", 0.7))}
    >>> known = guarantees({name: RegimeStructure.fit(name, y) for name, y in samples.items()}, samples)
    >>> known.n, known.accuracy, known.e1 < 0.1, known.more_samples(0.25)
    (80, 1.0, True, 357)
    """
    check_range("delta", delta, 0.0, 1.0, open_low=True, open_high=True)
    if not structures:
        raise ValueError("structures: there is no class")
    points = {}
    for label in structures:
        given = as_points(samples.get(label, np.empty((0, 1))), f"samples[{label!r}]")
        if not len(given):
            raise ValueError(f"samples: none of class {label!r}")
        points[label] = given
    y = np.concatenate(list(points.values()))
    truth = np.repeat(np.arange(len(points)), [len(x) for x in points.values()])
    distance = np.stack([structures[label].group.distance(y) for label in points], axis=1)  # (N, C)
    membership = np.exp(-distance / y.shape[1])  # (44)
    own = truth[:, None] == np.arange(len(points))
    empirical = np.square(own - membership).mean(axis=0)
    others = membership[~own]
    return Guarantees(
        n=len(y), delta=delta, empirical=dict(zip(points, empirical.tolist(), strict=True)),
        e1=float((1.0 - membership[own]).max()), e2=float(others.mean()) if others.size else float("nan"),
        accuracy=float((distance.argmin(axis=1) == truth).mean()),
    )  # fmt: skip
