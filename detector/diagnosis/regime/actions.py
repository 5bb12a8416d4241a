"""What people can have done with regimes: look at them, enrol them from labels, name, and forget them."""

from __future__ import annotations

import math
from typing import Annotated, Any

from msgspec import Meta

from detector.diagnosis.actions import Action, ActionError, Arguments, NotThere
from detector.diagnosis.regime import library
from detector.diagnosis.regime.features import points_of, spec_of
from detector.diagnosis.regime.library import Regime, is_unknown
from detector.diagnosis.repository import Repository
from detector.events.model import iso, rounded
from detector.events.wording import counted
from estimators.regimes.guarantees import Guarantees, guarantees, risk_deviation
from estimators.regimes.library import MIN_SAMPLES

ALPHA = 0.05  # of the threshold that `show` tells
ACCURACIES = (0.5, 0.25, 0.1)  # for which the windows that are missing are told

Name = Annotated[str, Meta(min_length=1, max_length=100, description="Name of the regime.")]


class Named(Arguments):
    name: Name


class Enrol(Arguments):
    name: Annotated[
        str | None, Meta(description="Only this type of label; otherwise all with enough windows.")
    ] = None


class Rename(Named):
    to: Annotated[str, Meta(min_length=1, max_length=100, description="Its new name.")]


def list_regimes(repository: Repository, given: Arguments) -> dict[str, Any]:
    regimes = library.load(repository)
    gathered, _ = _labelled(repository, regimes)
    types = [
        {"type": name, "incidents": len(one.incidents), "windows": len(one.points),
         "needed": max(0, MIN_SAMPLES - len(one.points)), "enrolled": name in regimes}
        for name, one in sorted(gathered.items())
    ]  # fmt: skip
    exchange = {} if repository.exchange is None else {"exchange": repository.exchange.describe()}
    rows = [_row(one) for _, one in sorted(regimes.items())]
    return {"regimes": rows, "labels": types, **_card(regimes), **exchange}


def show(repository: Repository, given: Named) -> dict[str, Any]:
    regimes = library.load(repository)
    regime = _find(regimes, given.name)
    told: dict[str, Any] = {**_row(regime), "features": regime.spec, "was": list(regime.was)}
    others = []
    if regime.structure is not None:
        told["threshold"] = rounded(regime.structure.threshold(ALPHA))
        for other in regimes.values():
            if other.structure is not None and other.spec == regime.spec and other.name != regime.name:
                _, rho, _ = other.structure.score(regime.points, ALPHA)
                others.append({"regime": other.name, "windows_within": int((rho <= 1.0).sum()),
                               "nearest_ratio": rounded(float(rho.min()))})  # fmt: skip
        known = _guarantees(regimes, regime.spec)
        seen, bound = known.empirical[regime.name], known.bound(regime.name)
        guaranteed = _told(known, _library(regimes, regime.spec))
        guaranteed["in_words"].append(
            f"For {regime.name} the mean square error seen is {seen:.2g}, and so at most {bound:.2g}"
            + (", which says nothing: it cannot exceed 1." if bound >= 1.0 else ".")
        )
        told["guarantees"] = {"mean_square_error": rounded(seen), "risk_bound": rounded(bound), **guaranteed}
    return {**told, "incidents": regime.incidents, "others": others}


def _card(regimes: dict[str, Regime]) -> dict[str, Any]:
    """What can be said of each library (regimes with the same features) as a whole."""
    specs = sorted({one.spec for one in regimes.values() if one.structure is not None})
    rows = [{"features": spec, "regimes": len(known.empirical), **_told(known, _library(regimes, spec))}
            for spec in specs for known in [_guarantees(regimes, spec)]]  # fmt: skip
    return {"guarantees": rows} if rows else {}


def _library(regimes: dict[str, Regime], spec: str) -> dict[str, Regime]:
    """The regimes with the same features that have been learnt."""
    return {name: one for name, one in regimes.items() if one.structure is not None and one.spec == spec}


def _guarantees(regimes: dict[str, Regime], spec: str) -> Guarantees:
    mine = _library(regimes, spec)
    structures = {name: one.structure for name, one in mine.items() if one.structure is not None}
    return guarantees(structures, {name: one.points for name, one in mine.items()})


def _told(known: Guarantees, library: dict[str, Regime]) -> dict[str, Any]:
    """JSON-ready, with how many more windows, and so labelled incidents, each accuracy would take."""
    each = known.n / max(1, len({id for one in library.values() for id in one.incidents}))
    windows = {epsilon: known.more_samples(epsilon) for epsilon in ACCURACIES}
    labels = {epsilon: math.ceil(more / each) for epsilon, more in windows.items()}
    return {
        "library_windows": known.n, "nearest_is_own": rounded(known.accuracy), "e1": rounded(known.e1),
        "e2": rounded(known.e2) if known.e2 == known.e2 else None,
        "deviation": rounded(risk_deviation(known.n)),
        **{f"more_windows_for_{epsilon:g}": more for epsilon, more in windows.items()},
        **{f"more_labels_for_{epsilon:g}": more for epsilon, more in labels.items()},
        "in_words": _sentences(known, len(library), windows, labels),
    }  # fmt: skip


def _sentences(
    known: Guarantees, regimes: int, windows: dict[float, int], labels: dict[float, int]
) -> list[str]:
    """What the numbers mean."""
    others = (
        "" if known.e2 != known.e2 else f", and membership in other regimes is {known.e2:.2g} on average (E2)"
    )
    deviation = f"{risk_deviation(known.n, known.delta):.2g}"
    said = [
        f"The library has {counted(known.n, 'window')} of {counted(regimes, 'regime')}.",
        f"{known.accuracy:.0%} of the windows are nearest to their own regime.",
        f"Membership in the own regime falls short of 1 by at most {known.e1:.2g} (E1){others}.",
        "The document assumes that E1 and E2 are near 0.",
        f"With {1.0 - known.delta:.0%} their mean square error is at most {deviation} above the one seen.",
    ]
    for epsilon in ACCURACIES:
        more = f"about {counted(labels[epsilon], 'more label')} ({counted(windows[epsilon], 'window')})"
        said.append(f"Until that is {epsilon:g}: {more if windows[epsilon] else 'there are enough labels'}.")
    return said


def enrol(repository: Repository, given: Enrol) -> dict[str, Any]:
    """From the settled case files of labelled incidents; windows it has of incidents without a label stay."""
    regimes = library.load(repository)
    gathered, said = _labelled(repository, regimes)
    names = {*gathered, *(one.name for one in regimes.values() if not one.unknown)}
    if given.name is not None:
        _check_type(given.name, regimes, gathered)
        names = {given.name}
    done, few = [], []
    for name in sorted(names):
        old, new = regimes.get(name), gathered.get(name)
        regime = _merged(name, old, new, said)
        if len(regime.points) < MIN_SAMPLES:
            few.append(f"{name}: {len(regime.points)} windows of {len(regime.incidents)} incidents")
        if old is not None and old.same_windows(regime):
            continue
        if old is not None or len(regime.points) >= MIN_SAMPLES:
            learnt = library.save(repository, regime.learnt())
            _leave_unknown(repository, regimes, regime.incidents)
            if learnt.structure is not None:
                done.append(_row(learnt))
    if given.name is not None and few:
        raise ActionError(f"{few[0]}, at least {MIN_SAMPLES} are needed; label more incidents with this type")
    return {"enrolled": done, "too_few": few}


def _check_type(name: str, regimes: dict[str, Regime], gathered: dict[str, Regime]) -> None:
    if is_unknown(name):
        raise ActionError(f"{name} has no name yet: rename it")
    now = next((one.name for one in regimes.values() if name in one.was), None)
    if now is not None and name not in regimes:
        raise ActionError(f"{name} is called {now} now")
    if name not in gathered:
        known = ", ".join(sorted(gathered)) or "none"
        raise ActionError(f"no settled incident is labelled with the type {name!r}; there are: {known}")


def _merged(name: str, old: Regime | None, new: Regime | None, said: dict[str, str | None]) -> Regime:
    """What the labels give, and what was there before of incidents that nobody labelled otherwise."""
    if old is None or (new is not None and new.spec != old.spec):
        assert new is not None
        return new
    kept = old.without([one for one in old.incidents if said.get(one, name) != name])
    for incident in dict.fromkeys(new.origin if new is not None else ()):
        assert new is not None
        rows = [i for i, origin in enumerate(new.origin) if origin == incident]
        kept = kept.with_windows(incident, [new.points[rows]])
    return kept


def _leave_unknown(repository: Repository, regimes: dict[str, Regime], incidents: list[str]) -> None:
    """What has a name now is no longer among the unknown."""
    for unknown in [one for one in regimes.values() if one.unknown and set(incidents) & set(one.origin)]:
        rest = regimes[unknown.name] = unknown.without(incidents)
        if len(rest.points):
            library.save(repository, rest.learnt())
        else:
            repository.forget_model(library.KIND, unknown.name)


def rename(repository: Repository, given: Rename) -> dict[str, Any]:
    regimes = library.load(repository)
    regime = _find(regimes, given.name)
    if is_unknown(given.to):
        raise ActionError(f"{given.to} is what regimes without a name are called")
    if given.to in regimes:
        raise ActionError(
            f"there is a regime {given.to!r} already: label the incidents of {given.name} with that type and "
            "enrol it again, or forget one of the two"
        )
    renamed = library.save(repository, regime.called(given.to))
    repository.forget_model(library.KIND, given.name)
    return _row(renamed)


def forget(repository: Repository, given: Named) -> dict[str, Any]:
    if not repository.forget_model(library.KIND, given.name):
        _find(library.load(repository), given.name)
    return {"forgotten": given.name}


def _find(regimes: dict[str, Regime], name: str) -> Regime:
    if name not in regimes:
        raise NotThere(f"there is no regime {name!r}; known: {', '.join(sorted(regimes)) or 'none'}")
    return regimes[name]


def _labelled(
    repository: Repository, regimes: dict[str, Regime]
) -> tuple[dict[str, Regime], dict[str, str | None]]:
    """What labels make of each type, and which regime each labelled incident is of; None: of none.

    A type that was the name of a regime teaches the regime under its present name. Where incidents of one
    type have different features, those with most windows count.
    """
    now = {old: one.name for one in regimes.values() for old in one.was if not is_unknown(old)}
    found: dict[tuple[str, str], Regime] = {}
    said: dict[str, str | None] = {}
    for case, labels in repository.labelled_cases("settled"):
        name = None if labels.alarm == "false" or labels.type is None else labels.type
        if name is not None and name not in regimes:
            name = now.get(name, name)
        if name is None and labels.alarm != "false":
            continue  # a label that says nothing about the regime
        said[case.incident] = None if name is None or is_unknown(name) else name
        if name is None or is_unknown(name):
            continue
        key = name, spec_of(case)
        points = list(points_of(case, labels.nodes).values())
        regime = found.get(key) or library.empty(*key)
        found[key] = regime.with_windows(case.incident, points) if points else regime
    most: dict[str, Regime] = {}
    for (name, _), regime in found.items():
        if name not in most or len(regime.points) > len(most[name].points):
            most[name] = regime
    return most, said


def _row(regime: Regime) -> dict[str, Any]:
    state = "gathering" if regime.structure is None else "enrolled"
    return {
        "name": regime.name, "state": state, "windows": len(regime.points),
        "incidents": len(regime.incidents), "since": iso(regime.created) if regime.created else None,
    }  # fmt: skip


ACTIONS: dict[str, Action] = {
    "list": Action("List the regimes, and the changes that the present labels would make.", list_regimes),
    "show": Action("Show one regime, and its distance from the others.", show, Named),
    "enrol": Action("Enrol regimes from the labelled incidents of their type.", enrol, Enrol),
    "rename": Action("Name or rename a regime.", rename, Rename),
    "forget": Action(
        "Delete a regime. Its labels stay, and enrol it again unless they are changed.", forget, Named
    ),
}
