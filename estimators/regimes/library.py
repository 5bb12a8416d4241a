"""Naming a regime, or saying that it is none of the known ones, by distances alone.

A regime is a machine of its samples and the distances that its own samples have to machines that were built
without them (5-fold): the scale for "too far". Whoever holds regimes answers a question, a few points, with a
table of distances; tables of several holders are combined by a minimum (18), (63), so neither order nor
repetition matters, and a missing answer is an infinite distance. No sample leaves its holder.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from estimators.core.base import check_range
from estimators.core.kernels import as_points
from estimators.core.types import Floats
from estimators.regimes.kahm import KahmGroup

FORMAT = 1  # of the stored form
FOLDS = 5
MIN_SAMPLES = 25
FLOOR = 1e-3  # smallest distance that counts, times sqrt(p): a stuck sensor is a regime of almost no spread


class Reading(NamedTuple):
    """How near points are to one regime."""

    gamma: float  # mean distance
    rho: float  # the distance over the threshold: above one is too far
    pvalue: float  # share of the regime's own points that lie at least as far


Table = Mapping[str, Reading]  # label -> reading


@dataclass(frozen=True)
class RegimeVerdict:
    """The regime of some points, or why there is none.

    Parameters
    ----------
    label : str or None
        The regime. None: novel, or nothing is known at all.
    nearest : str or None
        The nearest regime, also if it is too far; None: no answer holds a regime.
    gamma : float
        Mean distance to the nearest one.
    rho : float
        That distance over the regime's threshold: above one is too far.
    pvalue : float
        Share of the regime's own points that lie at least as far.
    margin : float
        Distance of the second regime minus that of the nearest.
    owner : str or None
        Who holds the nearest one.
    answered, missing : tuple of str
        Who has answered, and who was asked in vain.

    Examples
    --------
    >>> from estimators import RegimeLibrary
    >>> RegimeLibrary().predict([[0.0]]).nearest is None  # it holds no regime
    True
    """

    label: str | None
    nearest: str | None
    gamma: float
    rho: float
    pvalue: float
    margin: float
    owner: str | None
    answered: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def novel(self) -> bool:
        """Regimes are known, and it is none of them."""
        return self.label is None and self.nearest is not None


@dataclass(frozen=True)
class RegimeStructure:
    """One regime: its machine, and the distances of its samples, each to a machine that has not seen it.

    Made by ``RegimeStructure.fit``, or by ``RegimeLibrary.enrol``.

    Parameters
    ----------
    label : str
        Name of the regime.
    spec : str
        What the samples' features mean; distances of other features do not compare.
    group : KahmGroup
        The machine.
    calibration : ndarray of shape (N,), float64
        Held-out distances of the samples, ascending.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import RegimeStructure
    >>> Y = np.random.default_rng(0).normal(size=(60, 2))
    >>> regime = RegimeStructure.fit("normal running", Y)
    >>> gamma, rho, pvalue = regime.score([[0.0, 0.0], [9.0, 9.0]])
    >>> rho > 1.0  # too far?
    array([False,  True])
    """

    label: str
    spec: str
    group: KahmGroup
    calibration: Floats

    @classmethod
    def fit(cls, label: str, Y: ArrayLike, spec: str = "", *, groups: Sequence[Hashable] | None = None,
            min_samples: int = MIN_SAMPLES, seed: int = 0, **machine: Any) -> Self:  # fmt: skip
        """Machine of the samples, and its calibration by refits on four fifths of them.

        Parameters
        ----------
        label : str
            Name of the regime.
        Y : array_like of shape (N, p)
            The samples.
        spec : str, default=""
            What their features mean.
        groups : sequence of N hashable, optional
            Which samples came about together: they are left out together, as the next ones will be of another
            group.
        min_samples : int, default=25
            Fewer are refused.
        seed : int, default=0
            Of the folds and of k-means.
        **machine
            Parameters of KahmGroup.

        Returns
        -------
        RegimeStructure

        Raises
        ------
        ValueError
            If there are too few samples.
        """
        Y = as_points(Y, f"regime {label!r}: Y")
        if len(Y) < max(min_samples, 2):
            raise ValueError(f"regime {label!r}: {len(Y)} samples, at least {max(min_samples, 2)} are needed")
        parts = _folds(len(Y), groups, seed)
        held_out = [KahmGroup(seed=seed, **machine).fit(np.delete(Y, rows, axis=0)).distance(Y[rows])
                    for rows in parts]  # fmt: skip
        group = KahmGroup(seed=seed, **machine).fit(Y)
        return cls(label, spec, group, np.sort(np.maximum(np.concatenate(held_out), floor(Y.shape[1]))))

    def threshold(self, alpha: float) -> float:
        """Distance that own points exceed with a given probability: a quantile of the calibration.

        Parameters
        ----------
        alpha : float in (0, 1)

        Returns
        -------
        float
        """
        check_range("alpha", alpha, 0.0, 1.0, open_low=True, open_high=True)
        return float(np.quantile(self.calibration, 1.0 - alpha))

    def score(self, y: ArrayLike, alpha: float = 0.05) -> tuple[Floats, Floats, Floats]:
        """How near each point is.

        Parameters
        ----------
        y : array_like of shape (M, p)
        alpha : float in (0, 1), default=0.05
            Share of own points that may be too far.

        Returns
        -------
        gamma, rho, pvalue : ndarray of shape (M,), float64
            Distance; distance over the threshold; share of own points at least as far.
        """
        gamma = self.group.distance(y)
        return gamma, gamma / self.threshold(alpha), self._pvalue(gamma)

    def reading(self, y: ArrayLike, alpha: float = 0.05) -> Reading:
        """How near some points are together: their mean distance, held against that of single ones.

        A mean strays less than what it is made of, so several points raise fewer false novelties than alpha.

        Parameters
        ----------
        y : array_like of shape (M, p)
        alpha : float in (0, 1), default=0.05
            Share of own points that may be too far.

        Returns
        -------
        Reading
            ``gamma``, ``rho`` and ``pvalue``, as of ``score``.

        Raises
        ------
        ValueError
            If there is no point.
        """
        gammas = self.group.distance(y)
        if not len(gammas):
            raise ValueError("y: no point")
        gamma = gammas.mean(keepdims=True)
        rho = gamma / self.threshold(alpha)
        return Reading(float(gamma[0]), float(rho[0]), float(self._pvalue(gamma)[0]))

    def _pvalue(self, gamma: Floats) -> Floats:
        N = len(self.calibration)
        below = np.searchsorted(self.calibration, gamma, side="left").astype(np.float64)
        return (1.0 + N - below) / (N + 1.0)

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """What restores the regime. It holds the samples, so it stays with its holder.

        Returns
        -------
        meta : dict
            JSON-ready.
        arrays : dict of str to ndarray
        """
        group = self.group
        meta = {"format": FORMAT, "label": self.label, "spec": self.spec, "block": group.block,
                "seed": group.seed, "machine": group.machine}  # fmt: skip
        return meta, {"samples": group.Y_, "sizes": group.sizes_, "calibration": self.calibration}

    @classmethod
    def restore(cls, meta: Mapping[str, Any], arrays: Mapping[str, ArrayLike]) -> Self:
        """The regime of ``state``.

        Parameters
        ----------
        meta : mapping
        arrays : mapping of str to array_like

        Returns
        -------
        RegimeStructure

        Raises
        ------
        ValueError
            If it is not such a state; says what is wrong with it.
        """
        if meta.get("format") != FORMAT:
            raise ValueError(f"regime: format {meta.get('format')!r}, this version reads {FORMAT}")
        missing = [key for key in ("label", "spec", "block", "seed", "machine") if key not in meta]
        missing += [key for key in ("samples", "sizes", "calibration") if key not in arrays]
        if missing:
            raise ValueError(f"regime: {', '.join(missing)} missing")
        label, spec = meta["label"], meta["spec"]
        if (
            not isinstance(label, str)
            or not isinstance(spec, str)
            or not isinstance(meta["machine"], Mapping)
        ):
            raise ValueError("regime: label and spec must be text, machine a mapping")
        calibration = as_points(arrays["calibration"], f"regime {label!r}: calibration")[:, 0]
        samples = as_points(arrays["samples"], f"regime {label!r}: samples")
        if len(calibration) != len(samples) or (np.diff(calibration) < 0.0).any() or not calibration.size:
            raise ValueError(f"regime {label!r}: calibration must be {len(samples)} ascending distances")
        try:
            group = KahmGroup(block=meta["block"], seed=meta["seed"], **meta["machine"])
        except TypeError as error:
            raise ValueError(f"regime {label!r}: machine: {error}") from None
        return cls(label, spec, group.fit(samples, arrays["sizes"]), calibration)


class RegimeLibrary:
    """The regimes that one holder knows, all of one feature specification.

    A question is a few points, the answer a table of distances: no sample leaves its holder, and tables of
    several holders are combined by a minimum (Eq. 18 and 63).

    Parameters
    ----------
    spec : str, default=""
        What the features of the samples mean, such as ``FeatureSpec().spec_id``.
    seed : int, default=0
        Of folds and k-means.
    **machine
        Parameters of KahmGroup.

    Attributes
    ----------
    structures : dict of str to RegimeStructure
        The regimes by label.

    References
    ----------
    M. Kumar et al., JAIR 83:16, 2025: Eq. 18, 63 and 64.

    Examples
    --------
    >>> import numpy as np
    >>> from estimators import RegimeLibrary
    >>> rng = np.random.default_rng(0)
    >>> library = RegimeLibrary()
    >>> for label, centre in (("idle", 0.0), ("full load", 5.0)):
    ...     regime = library.enrol(label, rng.normal(centre, 1.0, size=(60, 2)))
    >>> library.predict([[5.1, 4.8]]).label
    'full load'
    >>> verdict = library.predict([[-9.0, 14.0]])
    >>> verdict.label is None, verdict.novel
    (True, True)
    """

    def __init__(self, spec: str = "", *, seed: int = 0, **machine: Any) -> None:
        KahmGroup(seed=seed, **machine)
        self.spec, self.seed, self.machine = spec, seed, machine
        self.structures: dict[str, RegimeStructure] = {}

    def enrol(self, label: str, Y: ArrayLike, min_samples: int = MIN_SAMPLES,
              groups: Sequence[Hashable] | None = None) -> RegimeStructure:  # fmt: skip
        """Learn a regime from its samples; one of the same label is replaced.

        Parameters
        ----------
        label : str
            Name of the regime.
        Y : array_like of shape (N, p)
            The samples.
        min_samples : int, default=25
            Fewer are refused.
        groups : sequence of N hashable, optional
            Which samples came about together.

        Returns
        -------
        RegimeStructure

        Raises
        ------
        ValueError
            If there are too few samples, or of another dimension than those of the other regimes.
        """
        found = RegimeStructure.fit(label, Y, self.spec, groups=groups, min_samples=min_samples,
                                    seed=self.seed, **self.machine)  # fmt: skip
        self.add(found)
        return found

    def add(self, structure: RegimeStructure) -> None:
        """Take a regime that was learnt before.

        Parameters
        ----------
        structure : RegimeStructure

        Raises
        ------
        ValueError
            If its features are not those of the library.
        """
        if structure.spec != self.spec:
            raise ValueError(f"regime {structure.label!r}: features {structure.spec!r}, "
                             f"the library has {self.spec!r}")  # fmt: skip
        p = structure.group.Y_.shape[1]
        for other in self.structures.values():
            if other.group.Y_.shape[1] != p:
                raise ValueError(f"regime {structure.label!r}: dimension {p}, "
                                 f"but {other.label!r} has {other.group.Y_.shape[1]}")  # fmt: skip
        self.structures[structure.label] = structure

    def distances(self, y: ArrayLike, alpha: float = 0.05) -> dict[str, Reading]:
        """Answer to a question.

        Parameters
        ----------
        y : array_like of shape (k, p)
        alpha : float in (0, 1), default=0.05
            Share of own points that may be too far.

        Returns
        -------
        dict of str to Reading
            One reading per regime.
        """
        return {label: found.reading(y, alpha) for label, found in sorted(self.structures.items())}

    def predict(self, y: ArrayLike, alpha: float = 0.05) -> RegimeVerdict:
        """Verdict on some points from this library alone (Eq. 64).

        Parameters
        ----------
        y : array_like of shape (k, p)
        alpha : float in (0, 1), default=0.05
            Share of own points that may be too far.

        Returns
        -------
        RegimeVerdict
        """
        return combine({"": self.distances(y, alpha)})


def combine(tables: Mapping[str, Table], asked: Iterable[str] = ()) -> RegimeVerdict:
    """Verdict of the answers of several holders: the nearest regime over all (18), (63), if near enough.

    ``asked`` names all who were asked; who has not answered counts as infinitely far and is listed.
    """
    nearest: dict[str, tuple[float, str, Reading]] = {}  # per label, the smallest; ties by the holder's name
    for owner, table in tables.items():
        for label, reading in table.items():
            if not reading.gamma >= 0.0:
                raise ValueError(f"table of {owner!r}: {label!r}: no distance: {reading.gamma}")
            candidate = (reading.gamma, owner, reading)
            nearest[label] = min(nearest.get(label, candidate), candidate)
    answered, missing = tuple(sorted(tables)), tuple(sorted(set(asked) - set(tables)))
    ranked = sorted((gamma, label, owner, reading) for label, (gamma, owner, reading) in nearest.items())
    if not ranked or not np.isfinite(ranked[0][0]):
        return RegimeVerdict(None, None, np.inf, np.inf, np.nan, np.nan, None, answered, missing)
    gamma, label, owner, reading = ranked[0]
    margin = ranked[1][0] - gamma if len(ranked) > 1 else np.inf
    known = label if reading.rho <= 1.0 else None
    return RegimeVerdict(known, label, gamma, reading.rho, reading.pvalue, margin, owner, answered, missing)


def _folds(N: int, groups: Sequence[Hashable] | None, seed: int) -> list[NDArray[np.intp]]:
    """Rows of each fold; one group alone is taken apart."""
    if groups is not None and len(groups) != N:
        raise ValueError(f"groups: {len(groups)}, but there are {N} samples")
    number = {group: i for i, group in enumerate(dict.fromkeys(groups or ()))}
    if len(number) < 2:
        groups, number = range(N), {i: i for i in range(N)}
    assert groups is not None
    row_groups = np.array([number[group] for group in groups])
    order = np.random.default_rng(seed).permutation(len(number))
    dealt = np.array_split(order, min(FOLDS, len(number)))
    return [np.flatnonzero(np.isin(row_groups, part)) for part in dealt]


def floor(p: int) -> float:
    """Smallest calibration distance in dimension p."""
    return FLOOR * float(np.sqrt(p))
