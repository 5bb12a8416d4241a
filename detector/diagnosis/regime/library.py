"""Regimes as the store holds them: windows, the incident each came from, and a machine once they are enough.

A regime has a name that people gave it, or it is ``unknown-N`` and waits for one. Windows gather until 25
make a machine that can be asked for distances.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector.diagnosis.exchange.messages import OtherSpec, RegimeQuestion, rows
from detector.diagnosis.regime.features import dimension
from detector.diagnosis.repository import Repository
from detector.storage.cases import Model
from estimators.core.types import Floats
from estimators.regimes.library import MIN_SAMPLES, RegimeLibrary, RegimeStructure

log = logging.getLogger("detector.diagnosis")
KIND = "regime"
MOST_WINDOWS = 250  # of one regime, the newest: a machine of one block
MOST_UNKNOWN = 100  # regimes without a name, the newest
NEAR = 0.9  # distance to the nearest window, per root of the components, up to which unknowns are one


@dataclass(frozen=True, eq=False)
class Regime:
    """One regime. ``structure`` is None while it gathers."""

    name: str
    spec: str
    points: Floats  # (N, p)
    origin: tuple[str, ...]  # (N,) the incident of each
    structure: RegimeStructure | None = None
    created: float = 0.0  # of the stored version
    was: tuple[str, ...] = ()  # names it had

    @property
    def unknown(self) -> bool:
        """Nobody has named it."""
        return is_unknown(self.name)

    @property
    def incidents(self) -> list[str]:
        return list(dict.fromkeys(self.origin))

    def with_windows(self, incident: str, points: Iterable[Floats]) -> Regime:
        """The same with the windows of one more incident, which replace those it may have had of it."""
        kept = [i for i, origin in enumerate(self.origin) if origin != incident]
        new = list(points)
        rows = np.concatenate([self.points[kept], *new])
        origin = [self.origin[i] for i in kept] + [incident] * sum(map(len, new))
        return replace(self, points=rows[-MOST_WINDOWS:], origin=tuple(origin[-MOST_WINDOWS:]))

    def same_windows(self, other: Regime) -> bool:
        """Whether there is nothing to learn anew."""
        mine, theirs = (sorted(zip(one.origin, one.points.tolist(), strict=True)) for one in (self, other))
        return self.spec == other.spec and mine == theirs

    def without(self, incidents: Iterable[str]) -> Regime:
        """The same without the windows of some incidents; it must be learnt again."""
        left = [i for i, origin in enumerate(self.origin) if origin not in set(incidents)]
        origin = tuple(self.origin[i] for i in left)
        return replace(self, points=self.points[left], origin=origin, structure=None)

    def learnt(self) -> Regime:
        """The same with a machine, if there are enough windows."""
        if len(self.points) < MIN_SAMPLES:
            return replace(self, structure=None)
        made = RegimeStructure.fit(self.name, self.points, self.spec, groups=self.origin)
        return replace(self, structure=made)

    def called(self, name: str) -> Regime:
        made = None if self.structure is None else replace(self.structure, label=name)
        return replace(self, name=name, structure=made, was=(*self.was, self.name))

    def nearness(self, points: Floats) -> float:
        """Mean distance of points to the nearest of its windows."""
        apart = np.linalg.norm(points[:, None, :] - self.points[None, :, :], axis=2)
        return float(apart.min(axis=1).mean())


def is_unknown(name: str) -> bool:
    return re.fullmatch(r"unknown-\d+", name) is not None


def empty(name: str, spec: str) -> Regime:
    return Regime(name, spec, np.empty((0, dimension(spec))), ())


def load(repository: Repository) -> dict[str, Regime]:
    """All regimes by name; one that cannot be read is left out, and logged."""
    found = {}
    for model in repository.models(KIND):
        try:
            found[model.name] = _restored(model)
        except (KeyError, TypeError, ValueError) as error:
            log.warning(
                "regime %s cannot be used: %s", model.name, error, extra={"repeat": f"regime {model.name}"}
            )
    return found


def save(repository: Repository, regime: Regime) -> Regime:
    """Keep it; as it is stored now."""
    incidents = regime.incidents
    meta: dict[str, Any] = {
        "spec": regime.spec,
        "incidents": incidents,
        "was": list(regime.was),
        "structure": None,
    }
    number = {incident: i for i, incident in enumerate(incidents)}
    arrays: dict[str, NDArray[Any]] = {
        "points": regime.points,
        "origin": np.array([number[incident] for incident in regime.origin], np.int32),
    }
    if regime.structure is not None:
        meta["structure"], more = regime.structure.state()
        arrays |= {f"structure.{name}": array for name, array in more.items() if name != "samples"}
    repository.save_model(KIND, regime.name, meta, arrays)
    return replace(regime, created=time.time())


def _restored(model: Model) -> Regime:
    meta, arrays = model.meta, model.arrays
    points, incidents = np.asarray(arrays["points"], np.float64), list(meta["incidents"])
    if points.ndim != 2 or points.shape[1] != dimension(meta["spec"]) or len(arrays["origin"]) != len(points):
        raise ValueError(f"{points.shape} windows of {meta['spec']} do not fit together")
    structure = None
    if meta["structure"] is not None:
        parts = {name.removeprefix("structure."): array for name, array in arrays.items()}
        structure = RegimeStructure.restore(meta["structure"], parts | {"samples": points})
    origin = tuple(str(incidents[i]) for i in arrays["origin"])
    return Regime(model.name, meta["spec"], points, origin, structure, model.created, tuple(meta["was"]))


def libraries(regimes: Mapping[str, Regime]) -> dict[str, RegimeLibrary]:
    """What can be asked for distances, by the specification of the points."""
    found: dict[str, RegimeLibrary] = {}
    for regime in regimes.values():
        if regime.structure is not None:
            found.setdefault(regime.spec, RegimeLibrary(regime.spec)).add(regime.structure)
    return found


def tables(known: Mapping[str, RegimeLibrary], question: RegimeQuestion) -> dict[str, Any]:
    """What the regimes that people here have named say to a question of another daemon."""
    mine = known.get(question.spec)
    if mine is None:
        if known:
            raise OtherSpec(question.spec)
        return question.nothing()
    told = [mine.distances(rows(group), question.alpha) for group in question.groups]
    return {
        "tables": [
            {label: (*numbers,) for label, numbers in said.items() if not is_unknown(label)} for said in told
        ]
    }


def next_unknown(regimes: Iterable[Regime]) -> str:
    """A number that no regime has or had."""
    names = [name for regime in regimes for name in (regime.name, *regime.was) if is_unknown(name)]
    return f"unknown-{1 + max((int(name.split('-')[1]) for name in names), default=0)}"


def alike(regimes: Iterable[Regime], spec: str, points: Floats) -> Regime | None:
    """The unknown regime that these windows belong to, as far as the few windows it has can tell."""
    gathering = [one for one in regimes if one.unknown and one.structure is None and one.spec == spec]
    near = [(one.nearness(points), one.name, one) for one in gathering if len(one.points)]
    distance, _, nearest = min(near, default=(np.inf, "", None), key=lambda entry: entry[:2])
    return nearest if distance <= NEAR * np.sqrt(points.shape[1] / 10) else None


def surplus(regimes: Sequence[Regime]) -> list[str]:
    """Unknown regimes beyond the number that is kept, the oldest."""
    unknown = sorted((one for one in regimes if one.unknown), key=lambda one: one.created, reverse=True)
    return [one.name for one in unknown[MOST_UNKNOWN:]]
