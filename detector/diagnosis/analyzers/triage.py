"""Whether an incident is like those that people called false, and of which type: learnt here or by many.

A margin classifier of case features with critical samples (Peifer 2021, Ch. 3; estimators/sparse/margin.py).
"""

from __future__ import annotations

from typing import Any

from detector.diagnosis.actions import Action
from detector.diagnosis.analyzer import AnalyzerSettings, Finding
from detector.diagnosis.analyzers.triage_exchange import answer_peers, gather, share, withdraw
from detector.diagnosis.analyzers.triage_model import (
    KIND,
    Asked,
    Export,
    Merge,
    export,
    forget,
    load,
    merge_files,
    show,
    train,
    usable,
)
from detector.diagnosis.case_features import features
from detector.diagnosis.repository import Repository
from detector.incidents.case import Case, Stage
from estimators.core.types import Floats
from estimators.sparse.margin import UNKNOWN, PairwiseClassifier

SURE, WORTH = 0.9, 0.1  # margins: from the first on it "looks like", below the second there is no finding
WORDS = {"true": "a real event", "false": "a false alarm"}


class Settings(AnalyzerSettings):
    """Whether an incident is real or false, and of which type, by a model learnt from labels."""


class TriageAnalyzer:
    """Answers with the models there are."""

    kind = KIND
    stages: frozenset[Stage] = frozenset(("settled",))

    def __init__(self, models: dict[str, tuple[PairwiseClassifier, dict[str, Any]]]) -> None:
        self.models = models

    def analyze(self, case: Case) -> Finding | None:
        x, said, data = features(case)[None], [], {}
        for question, (model, meta) in self.models.items():
            answer, margin = opinion(model, x)
            if answer == UNKNOWN or margin < WORTH:
                continue
            verb = "looks like" if margin >= SURE else "may be"
            what = WORDS[answer] if question == "alarm" else f"type {answer!r}"
            said.append(f"{verb} {what}")
            data[question] = {"answer": answer, "margin": round(margin, 3), "learnt_from": meta["samples"],
                              "sites": meta["sites"], "model": meta["version"]}  # fmt: skip
        if not said:
            return None
        basis = max(entry["learnt_from"] for entry in data.values())
        return Finding(KIND, f"{', '.join(said)} (by {basis} labelled incidents)", data)


def opinion(model: PairwiseClassifier, x: Floats) -> tuple[str, float]:
    """The class of one point, and by how much: the smallest margin of the pairs that it wins."""
    answer = model.predict(x)[0]
    margins = [
        float(part.decision_function(x)[0]) * (1.0 if answer == pair[0] else -1.0)
        for pair, part in model.pairs_.items()
        if answer in pair
    ]
    return answer, min((margin for margin in margins if margin > 0.0), default=0.0)


ACTIONS: dict[str, Action] = {
    "train": Action("Learn from the labels of this site alone.", train, Asked),
    "export": Action("Write this site's critical samples, for others to merge.", export, Export, file=True),
    "merge": Action("Learn from what sites have exported, and use it here.", merge_files, Merge),
    "share": Action("Allow peers to fetch this site's critical samples.", share, Asked),
    "withdraw": Action("Stop sharing; peers keep what they have learnt so far.", withdraw, Asked),
    "gather": Action("Learn from what peers have shared, and from the labels here.", gather, Asked),
    "show": Action("Show the available labels, and what was learnt from them.", show),
    "forget": Action("Delete a model.", forget, Asked),
}


def analyzer(settings: Settings, repository: Repository) -> TriageAnalyzer | None:
    """None as long as no model was learnt."""
    answer_peers(repository)
    models = {
        m.name: (load(m), dict(m.meta) | {"version": m.version}) for m in repository.models(KIND) if usable(m)
    }
    return TriageAnalyzer(models) if models else None
