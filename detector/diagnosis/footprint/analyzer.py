"""Which nodes an incident really affects, and its type: by thresholds, until labels have taught better."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from detector.diagnosis.actions import Action, ActionError, Arguments
from detector.diagnosis.analyzer import Analyzer, Finding
from detector.diagnosis.exchange.messages import FootprintQuestion
from detector.diagnosis.footprint import elsewhere
from detector.diagnosis.footprint.features import by_thresholds
from detector.diagnosis.footprint.model import FAMILIAR, KIND, Facts, FootprintModel, lessons, train
from detector.diagnosis.footprint.settings import Settings
from detector.diagnosis.repository import Repository
from detector.events.model import rounded
from detector.incidents.case import STAGES, Case, Stage
from estimators.core.types import Indices
from estimators.structured.footprint import Footprint

__all__ = ["ACTIONS", "Settings", "analyzer", "relearn"]

log = logging.getLogger("detector.diagnosis")
NAMED = 200  # nodes listed in the data, the most probable first
SPOKEN = 4  # nodes in the summary


def analyzer(settings: Settings, repository: Repository) -> Analyzer:
    return FootprintAnalyzer(settings, repository)


def relearn(settings: Settings) -> Action | None:
    return ACTIONS["train"] if settings.retrain else None


class FootprintAnalyzer:
    """By the model of the case's stage, if there is one that is to be used."""

    kind = KIND
    stages: frozenset[Stage] = frozenset(STAGES)

    def __init__(self, settings: Settings, repository: Repository) -> None:
        self._models: dict[str, tuple[FootprintModel, int]] = {}
        self._why: dict[str, str] = {}  # a stage has none
        self._always = settings.use == "always"
        self._settings = settings
        self._exchange = repository.exchange if settings.peers and settings.use != "never" else None
        for model in repository.models(KIND):
            try:
                made = FootprintModel.of(model)
            except ValueError as error:
                log.warning(
                    "%s; thresholds are used instead", error, extra={"repeat": f"{KIND} {model.name}"}
                )
                self._why[model.name] = str(error)
                continue
            if self._always or (settings.use == "better" and made.facts.better):
                self._models[model.name] = made, model.version
            elif settings.use == "better":
                self._why[model.name] = f"{made.facts.events} labelled incidents teach nothing better"
            else:
                self._why[model.name] = "models are not used"
        if self._exchange is not None:
            own = self._models["settled"][0] if "settled" in self._models else None
            self._exchange.hold(FootprintQuestion, partial(elsewhere.answer, own))

    def analyze(self, case: Case) -> Finding:
        if case.stage not in self._models:
            why = self._why.get(case.stage, "too few incidents are labelled")
            return self._by_peers(case) or _usual(case, why)
        model, version = self._models[case.stage]
        pvalue, novel = model.novelty(case)
        if novel and not self._always:
            why = f"unlike all {model.facts.events} labelled incidents (p = {pvalue:.2g})"
            return self._by_peers(case) or _usual(case, why, True)
        facts = model.facts
        taught = f"learnt from {facts.events} labelled incidents"
        return _learnt(case, model.predict(case), facts.types, taught, events=facts.events, model=version)

    def _by_peers(self, case: Case) -> Finding | None:
        """By what others have learnt; None if they know nothing like it."""
        if self._exchange is None or case.stage != "settled":
            return None
        if (found := elsewhere.ask(self._exchange, case, self._settings)) is None:
            return None
        taught = f"learnt from {found.events} labelled incidents of {', '.join(found.by)}"
        if found.missing:
            taught += f"; no answer from {', '.join(found.missing)}"
        return _learnt(
            case, found.said, found.types, taught, events=found.events, by=found.by, missing=found.missing
        )


def _usual(case: Case, why: str, novel: bool = False) -> Finding:
    """By thresholds."""
    order = np.flatnonzero(by_thresholds(case))
    order = order[np.argsort(-np.nan_to_num(case.statistic[order]), kind="stable")]
    data: dict[str, Any] = {
        "source": "threshold",
        "why": why,
        "count": len(order),
        "nodes": [{"name": case.names[v]} for v in order[:NAMED]],
    }
    new = ", being unlike all labelled incidents" if novel else ""
    return Finding(KIND, f"{_spoken(case, order)}; by thresholds{new}", data)


def _learnt(case: Case, said: Footprint, types: list[str], taught: str, **about: Any) -> Finding:
    """By scores; ``about`` says what they rest on."""
    usual = by_thresholds(case)
    strange = said.support < FAMILIAR  # like nothing seen: nobody has taught better
    named = np.where(strange, usual, said.labels > 0)
    shown = said.probabilities
    sure = shown[:, 1:].sum(axis=1)
    order = np.flatnonzero(named)
    order = order[np.argsort(-sure[order], kind="stable")]
    kind, share = _type(types, said.event_type, shown[order])
    nodes = [
        {
            "name": case.names[v],
            "probability": rounded(float(sure[v])),
            "support": rounded(float(np.clip(said.support[v], 0.0, 1.0))),
            "source": "threshold" if strange[v] else "learnt",
        }
        for v in order[:NAMED]
    ]
    data: dict[str, Any] = {
        "source": "learnt",
        **about,
        "type": kind,
        "type_probability": share,
        "count": len(order),
        "nodes": nodes,
        "beyond_thresholds": [case.names[v] for v in np.flatnonzero(named & ~usual)[:NAMED]],
        "not_affected": [case.names[v] for v in np.flatnonzero(usual & ~named)[:NAMED]],
    }
    if not len(order):
        return Finding(KIND, f"no node affected: like a false alarm; {taught}", data, "learnt")
    said_type = f", type {kind}" if kind else ""
    return Finding(KIND, f"{_spoken(case, order)}{said_type}; {taught}", data, "learnt")


def _type(types: list[str], event_type: int, shown: NDArray[np.float64]) -> tuple[str | None, float | None]:
    """Name of the type, and its share in the probability of all types at the nodes of the footprint."""
    if event_type < 1 or not types or not types[event_type - 1]:
        return None, None
    mass = shown[:, 1:].sum(axis=0)
    return types[event_type - 1], rounded(float(mass[event_type - 1] / max(mass.sum(), 1e-9)))


def _spoken(case: Case, order: Indices) -> str:
    names = ", ".join(case.names[v] for v in order[:SPOKEN])
    more = f" and {len(order) - SPOKEN} more" if len(order) > SPOKEN else ""
    return f"{len(order)} node{'' if len(order) == 1 else 's'} affected: {names}{more}"


# ------------------------------------------------------------------------------------------ actions


def _train(repository: Repository, arguments: Arguments) -> dict[str, Any]:
    """Nothing stored changes unless a model was made; then it is the next version."""
    settings: Settings = repository.settings_of(KIND)
    table, refused = _Table(settings.use), []
    for stage in STAGES:
        taught, left = lessons(repository.labelled_cases(stage))
        refused += [one for one in left if one not in refused]
        try:
            made = train(stage, taught, settings)
        except ValueError as error:
            table.without(stage, None, str(error))
        else:
            table.add(made.facts, repository.save_model(KIND, stage, *made.state()))
    if not table.left_out:
        why = "; ".join(f"{row['stage']}: {row['why']}" for row in table.stages)
        raise ActionError(f"nothing was learnt: {why}{_count(refused)}")
    return table.told() | ({"teach_nothing": refused} if refused else {})


def _show(repository: Repository, arguments: Arguments) -> dict[str, Any]:
    settings: Settings = repository.settings_of(KIND)
    told: dict[str, Any] = {"use": settings.use, "needed": settings.min_events}
    if repository.exchange is not None and settings.peers:
        told["exchange"] = repository.exchange.describe()
    for stage in STAGES:
        told[f"labelled_{stage}"] = len(lessons(repository.labelled_cases(stage))[0])
    table = _Table(settings.use)
    for model in repository.models(KIND):
        try:
            table.add(FootprintModel.of(model).facts, model.version)
        except ValueError as error:
            table.without(model.name, model.version, str(error))
    return told | table.told()


class _Table:
    """What people are told: a row per model, and how well it and thresholds do on incidents left out."""

    def __init__(self, use: str) -> None:
        self.use = use
        self.stages: list[dict[str, Any]] = []
        self.left_out: list[dict[str, Any]] = []

    def add(self, facts: Facts, version: int) -> None:
        self.stages.append({
            "stage": facts.stage,
            "version": version,
            "incidents": facts.events,
            "false_alarms": facts.false_alarms,
            "novel": facts.novel,
            "types": ", ".join(facts.types),
            "used": self.use == "always" or (self.use == "better" and facts.better),
        })  # fmt: skip
        for by, score in (("learnt", facts.learnt), ("thresholds", facts.thresholds)):
            numbers = {name: round(value, 3) for name, value in msgspec.structs.asdict(score).items()}
            types = facts.types_right if by == "learnt" else None
            right = None if types is None else round(types, 3)
            self.left_out.append({"stage": facts.stage, "by": by, **numbers, "types_right": right})

    def without(self, stage: str, version: int | None, why: str) -> None:
        self.stages.append({"stage": stage, "version": version, "used": False, "why": why})

    def told(self) -> dict[str, Any]:
        found = {"stages": self.stages, "left_out": self.left_out}
        return {name: rows for name, rows in found.items() if rows}


def _count(refused: list[dict[str, str]]) -> str:
    return f"; {len(refused)} labelled incidents teach nothing" if refused else ""


ACTIONS: dict[str, Action] = {
    "train": Action(
        "Learn from the labelled incidents, and compare the result with thresholds on held-out incidents.",
        _train,
    ),
    "show": Action("Show what was learnt, and how accurate it is.", _show),
}
