"""Footprints of settled incidents by what labels at other sites have taught.

Names of nodes mean nothing in another network, but a part does: its descriptor is made of multiples of
thresholds and of quiet spreads around a node, whichever graph it is of. So the parts of an incident are sent,
and their scores by predictors learnt elsewhere come back (Eq. 9 of "Localized structured prediction"; each
site has its own sum over its own labelled parts). Inference, Eq. 6, is done where the graph is. Only settled
incidents are asked about: early, what one network teaches served others worse than thresholds
(docs/benchmarks/diagnosis.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from detector.diagnosis.exchange.messages import (
    MOST_PARTS,
    MOST_TYPES,
    FootprintAnswer,
    FootprintQuestion,
    OtherSpec,
    rows,
)
from detector.diagnosis.footprint.features import FEATURES, features, focus
from detector.diagnosis.footprint.model import FootprintModel
from detector.diagnosis.footprint.novelty import summary
from detector.diagnosis.footprint.settings import Settings
from detector.incidents.case import Case
from estimators.core.types import Floats, Indices
from estimators.structured.egonet import ego_features
from estimators.structured.footprint import Footprint
from estimators.structured.footprint_losses import FootprintCosts
from estimators.structured.labelling import miss_cost

if TYPE_CHECKING:
    from detector.diagnosis.exchange.peers import PeerExchange

RADIUS = 2  # of the ego-networks, as `FootprintPredictor` has it
SPEC = f"footprint {FEATURES} {RADIUS}"
DIGITS = 3


@dataclass(frozen=True)
class Elsewhere:
    """A footprint, and who has taught it."""

    said: Footprint
    types: list[str]  # "": no type was told
    events: int  # labelled incidents of all who know something like it
    by: list[str]
    missing: list[str]


def answer(model: FootprintModel | None, question: FootprintQuestion) -> dict[str, Any]:
    """What the model of this site says of the parts of an incident of another one."""
    if question.spec != SPEC:
        raise OtherSpec(question.spec)
    if model is None or len(model.facts.types) > MOST_TYPES:
        return question.nothing()
    if model.known.novel(model.known.pvalue(np.array(question.incident))):
        return {"events": model.facts.events, "novel": True}
    scores, support = model.predictor.scores(rows(question.parts))
    return {
        "events": model.facts.events,
        "novel": False,
        "types": model.facts.types,
        "scores": scores.round(DIGITS).tolist(),
        "support": support.round(DIGITS).tolist(),
    }


def ask(exchange: PeerExchange, case: Case, settings: Settings) -> Elsewhere | None:
    """None if nobody knows an incident like this one."""
    found = features(case)
    where = np.flatnonzero(focus(case))
    if len(where) > MOST_PARTS:
        strongest = np.argsort(-np.nan_to_num(case.statistic[where], nan=-np.inf), kind="stable")
        where = np.sort(where[strongest[:MOST_PARTS]])
    parts = ego_features(found, case.graph, RADIUS, where)
    answers = exchange.ask(
        FootprintQuestion, spec=SPEC, parts=parts.round(DIGITS).tolist(),
        incident=summary(case, found).round(DIGITS).tolist(),
    )  # fmt: skip
    useful = {peer: given for peer, given in sorted(answers.items()) if given.scores}
    if not useful:
        return None
    missing = [peer for peer in exchange.peers if peer not in answers]
    types = sorted({name for given in useful.values() for name in given.types or [""]})
    scores, support = together(list(useful.values()), types)
    said = _labelled(scores, support, where, len(case.names), settings)
    return Elsewhere(said, types, sum(given.events for given in useful.values()), list(useful), missing)


def together(answers: list[FootprintAnswer], types: list[str]) -> tuple[Floats, Floats]:
    """Scores (n, 1 + types) and support (n,): means, by labelled incidents and by how familiar a part is."""
    n = len(answers[0].support)
    total, scores, support = np.zeros(n), np.zeros((n, 1 + len(types))), np.zeros(n)
    for given in answers:
        familiar = np.clip(given.support, 0.0, 1.0)
        weight = given.events * familiar
        columns = [0, *(1 + types.index(name) for name in given.types or [""])]
        scores[:, columns] += weight[:, None] * np.array(given.scores)
        total += weight
        support = np.maximum(support, familiar)
    return scores / np.where(total > 0.0, total, 1.0)[:, None], support


def _labelled(scores: Floats, support: Floats, where: Indices, n: int, settings: Settings) -> Footprint:
    """Inference by the costs of this site."""
    T = scores.shape[1]
    z = FootprintCosts(T, miss_cost(T, settings.miss_cost), settings.one_type).minimise(
        scores, np.ones(len(scores))
    )
    labels, g, familiar = np.zeros(n, np.int64), np.zeros((n, T)), np.zeros(n)
    labels[where], g[where], familiar[where] = z, scores, support
    kinds = np.bincount(z[z > 0], minlength=T)
    return Footprint(labels, int(kinds.argmax()) if kinds.any() else 0, g, familiar, float("nan"))
