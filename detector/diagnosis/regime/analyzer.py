"""Which known regime the nodes of an incident have turned to, or that it is none of them.

Regimes are enrolled from the windows of incidents that people labelled with a type. What nobody knows yet is
kept as unknown-1, unknown-2 and so on, to be named later. Other daemons can be asked, by distances alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from detector.diagnosis.actions import Action
from detector.diagnosis.analyzer import Analyzer, Finding
from detector.diagnosis.exchange.messages import MOST_GROUPS, RegimeQuestion
from detector.diagnosis.regime import library
from detector.diagnosis.regime.actions import ACTIONS
from detector.diagnosis.regime.features import points_of, spec_of
from detector.diagnosis.regime.library import Regime, is_unknown
from detector.diagnosis.regime.settings import Settings
from detector.diagnosis.repository import Repository
from detector.events.model import rounded
from detector.incidents.case import Case, Stage
from estimators.core.types import Floats
from estimators.regimes.library import Reading, RegimeVerdict, combine

__all__ = ["ACTIONS", "Settings", "analyzer", "relearn"]

NAMED = 20  # nodes listed in the data
Tables = dict[str, Mapping[str, Reading]]  # owner: label: reading
HERE = ""  # the owner of what this daemon knows


def analyzer(settings: Settings, repository: Repository) -> Analyzer:
    return RegimeAnalyzer(settings, repository)


def relearn(settings: Settings) -> Action | None:
    return ACTIONS["enrol"] if settings.enrol else None


class RegimeAnalyzer:
    """Holds the regimes of the store as they were when it was made, and what it has kept since."""

    kind = "regime"
    stages: frozenset[Stage] = frozenset({"settled"})

    def __init__(self, settings: Settings, repository: Repository) -> None:
        self._alpha, self._repository = settings.alpha, repository
        self._regimes = library.load(repository)
        self._learn()

    def _learn(self) -> None:
        self._libraries = library.libraries(self._regimes)
        if self._repository.exchange is not None:
            self._repository.exchange.hold(RegimeQuestion, partial(library.tables, self._libraries))

    def analyze(self, case: Case) -> Finding | None:
        points = points_of(case)
        if not points:
            return None
        spec = spec_of(case)
        tables: dict[str, Tables] = {name: {HERE: self._here(spec, y)} for name, y in points.items()}
        peers = self._ask(spec, points, tables)
        verdicts = {name: combine(table, peers) for name, table in tables.items()}
        names, verdict = _together(verdicts)
        kept = None
        if verdict.label is None or is_unknown(verdict.label):
            kept = self._keep(case.incident, spec, [points[name] for name in names], verdict.label)
            if verdict.nearest is None and len(kept.incidents) == 1:
                return None  # the first of its kind, and nothing to compare it with
        return self._finding(points, verdicts, names, verdict, kept)

    def _here(self, spec: str, points: Floats) -> dict[str, Any]:
        known = self._libraries.get(spec)
        return {} if known is None else known.distances(points, self._alpha)

    def _ask(self, spec: str, points: Mapping[str, Floats], tables: dict[str, Tables]) -> list[str]:
        """Add what the other daemons say of nodes that are not named here; who was asked."""
        exchange = self._repository.exchange
        lost = [name for name, table in tables.items() if not _named(combine(table))][:MOST_GROUPS]
        if exchange is None or not lost:
            return []
        groups = [points[name].tolist() for name in lost]
        answers = exchange.ask(RegimeQuestion, spec=spec, alpha=self._alpha, groups=groups)
        for owner, given in answers.items():
            for name, table in zip(lost, given.readings(), strict=True):
                tables[name] = tables[name] | {owner: table}
        return exchange.peers

    def _keep(self, incident: str, spec: str, points: list[Floats], label: str | None) -> Regime:
        """The unknown regime that these windows are of; nothing changes if it has them already."""
        regimes = self._regimes
        old = next((one for one in regimes.values() if one.unknown and incident in one.origin), None)
        if old is not None:
            return old
        found = regimes[label] if label is not None else None
        found = found or library.alike(regimes.values(), spec, np.concatenate(points))
        found = found or library.empty(library.next_unknown(regimes.values()), spec)
        kept = library.save(self._repository, found.with_windows(incident, points).learnt())
        regimes[kept.name] = kept
        for name in library.surplus(list(regimes.values())):
            self._repository.forget_model(library.KIND, name)
            del regimes[name]
        self._learn()
        return kept

    def _finding(
        self, points: Mapping[str, Floats], verdicts: Mapping[str, RegimeVerdict], names: list[str],
        verdict: RegimeVerdict, kept: Regime | None,
    ) -> Finding:  # fmt: skip
        asked = sorted({*verdict.answered, *verdict.missing} - {HERE})
        told = [{"name": name, "windows": len(points[name]), **_told(verdicts[name])} for name in points]
        data = {
            **_told(verdict),
            "unknown": None if kept is None else kept.name,
            "seen": 0 if kept is None else len(kept.incidents),
            "agree": len(names),
            "asked": asked,
            "missing": list(verdict.missing),
            "nodes": told[:NAMED],
        }
        where = f"at {len(names)} of {len(points)} nodes" if len(points) > 1 else f"at {names[0]}"
        text = _words(verdict, kept, where)
        if verdict.missing:
            text += f"; no answer from {', '.join(verdict.missing)}"
        return Finding(self.kind, text, data)


def _named(verdict: RegimeVerdict) -> bool:
    return verdict.label is not None and not is_unknown(verdict.label)


def _together(verdicts: Mapping[str, RegimeVerdict]) -> tuple[list[str], RegimeVerdict]:
    """The nodes that say what most say, and the one of them whose p-value is the median."""
    count = Counter(verdict.label for verdict in verdicts.values())
    # Equal numbers: a name before none, then the alphabet.
    label = min(count, key=lambda one: (-count[one], one is None or is_unknown(one), one or ""))
    names = [name for name, verdict in verdicts.items() if verdict.label == label]
    ranked = sorted((verdicts[name] for name in names), key=lambda one: (one.pvalue, one.rho))
    return names, ranked[(len(ranked) - 1) // 2]


def _told(verdict: RegimeVerdict) -> dict[str, Any]:
    return {
        "regime": verdict.label if _named(verdict) else None,
        "novel": verdict.novel or (verdict.label is not None and not _named(verdict)),
        "nearest": verdict.nearest,
        "pvalue": rounded(verdict.pvalue),
        "rho": rounded(verdict.rho),
        "distance": rounded(verdict.gamma),
        "margin": rounded(verdict.margin),
        "by": verdict.owner or None,
    }


def _words(verdict: RegimeVerdict, kept: Regime | None, where: str) -> str:
    p = f"p = {verdict.pvalue:.2g}"
    if kept is None:
        by = f", known to {verdict.owner}" if verdict.owner else ""
        return f"regime {verdict.label} ({p}) {where}{by}"
    before = len(kept.incidents) - 1
    again = f"the same as {kept.name}, seen in {before} incident{'s' if before > 1 else ''} before"
    if verdict.nearest is None or is_unknown(verdict.nearest):
        return f"an unknown regime {where}: {again if before else f'kept as {kept.name}'}"
    kind = f"a novel regime {where} ({p}, nearest {verdict.nearest}): "
    return kind + (again if before else f"kept as {kept.name}")
