"""What labelled incidents teach of footprints: one model per stage, judged on incidents it has not seen."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from detector.diagnosis.footprint.features import FEATURES, by_thresholds, features, focus, truth
from detector.diagnosis.footprint.novelty import KnownPatterns, summary
from detector.diagnosis.footprint.settings import Settings
from detector.events.model import Labels
from detector.incidents.case import Case, Stage
from detector.storage.cases import Model
from estimators import FootprintPredictor, LabelledEvent
from estimators.core.types import Bools, Floats
from estimators.structured.footprint import Footprint
from estimators.structured.kernel import NOBODY
from estimators.structured.labelling import miss_cost

KIND = "footprint"
MOST_EVENTS = 300  # the latest labelled ones
CENTRES, MOST_PARTS = 200, 10_000
FAMILIAR = 0.3  # support; a node that is like nothing seen is judged by thresholds


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """How well nodes are named: means over incidents."""

    missed: float  # nodes
    too_many: float  # nodes
    overlap: float  # shared over all, 1 where both are empty
    cost: float  # a missed node counts `miss_cost`
    f1: float = 0.0  # 1 where both are empty

    @classmethod
    def of(cls, said: Sequence[Bools], true: Sequence[Bools], miss: float) -> Score:
        missed = float(np.mean([(t & ~s).sum() for s, t in zip(said, true, strict=True)]))
        extra = float(np.mean([(s & ~t).sum() for s, t in zip(said, true, strict=True)]))
        shared = [
            (s & t).sum() / (s | t).sum() if (s | t).any() else 1.0 for s, t in zip(said, true, strict=True)
        ]
        f1 = float(np.mean([2.0 * overlap / (1.0 + overlap) for overlap in shared]))
        return cls(missed=missed, too_many=extra, overlap=float(np.mean(shared)), cost=miss * missed + extra,
                   f1=f1)  # fmt: skip


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a model says of itself."""

    features: int
    stage: Stage
    events: int  # labelled incidents it learnt from
    false_alarms: int  # of these
    novel: int  # of these, unlike all the others: left out, thresholds would judge them
    types: list[str]
    nodes: list[str]  # that it tells apart; none unless `node_identity` is on
    worth: float  # independent samples that all nodes together are worth
    learnt: Score  # of incidents left out
    thresholds: Score
    types_right: float | None  # share, of incidents left out whose type was told
    loss: str = "costs"  # what it was learnt for, and is judged by

    @property
    def better(self) -> bool:
        if self.loss == "f1":
            return self.learnt.f1 > self.thresholds.f1
        return self.learnt.cost < self.thresholds.cost


@dataclass(frozen=True, eq=False)
class Lesson:
    """One labelled incident."""

    event: LabelledEvent
    names: tuple[str, ...]
    affected: Bools  # (N,)
    thresholds: Bools  # (N,)
    type: str | None
    false_alarm: bool
    point: Floats  # (2,) of the incident as a whole


class FootprintModel:
    """A predictor with the names of its types, and the incidents that it knows."""

    def __init__(self, predictor: FootprintPredictor, facts: Facts, known: KnownPatterns) -> None:
        self.predictor, self.facts, self.known = predictor, facts, known

    def novelty(self, case: Case) -> tuple[float, bool]:
        """p-value of the incident among the labelled ones, and whether it is unlike all of them."""
        pvalue = self.known.pvalue(summary(case, features(case)))
        return pvalue, self.known.novel(pvalue)

    def predict(self, case: Case) -> Footprint:
        return self.predictor.predict(
            features(case), case.graph, _ids(case.names, self.facts.nodes), focus(case)
        )

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        meta, arrays = self.predictor.state()
        facts = msgspec.to_builtins(self.facts)
        return {"facts": facts, "predictor": meta}, {**arrays, "incidents": self.known.rows}

    @classmethod
    def of(cls, model: Model) -> FootprintModel:
        """ValueError if it cannot be used; it says why."""
        facts = facts_of(model)
        if facts.features != FEATURES:
            raise ValueError(
                f"footprint model {model.name}, version {model.version}, was made for features of version "
                f"{facts.features}, this detector has {FEATURES}: train it again"
            )
        try:
            predictor = FootprintPredictor.of_state(model.meta["predictor"], model.arrays)
            return cls(predictor, facts, KnownPatterns.of_rows(model.arrays["incidents"]))
        except (KeyError, ValueError) as error:
            raise ValueError(f"footprint model {model.name}, version {model.version}: {error}") from None


def facts_of(model: Model) -> Facts:
    try:
        return msgspec.convert(model.meta["facts"], Facts)
    except (KeyError, msgspec.ValidationError) as error:
        raise ValueError(f"footprint model {model.name}, version {model.version}: {error}") from None


def lessons(cases: Iterable[tuple[Case, Labels]]) -> tuple[list[Lesson], list[dict[str, str]]]:
    """What the latest `MOST_EVENTS` labelled incidents teach; and which teach nothing, and why."""
    found: deque[Lesson] = deque(maxlen=MOST_EVENTS)
    refused = []
    for case, labels in cases:
        try:
            affected = truth(case, labels)
        except ValueError as error:
            refused.append({"incident": case.incident, "why": str(error)})
            continue
        signal = features(case)
        event = LabelledEvent(case.incident, signal, case.graph, affected.astype(np.int64), focus(case))
        kind = (labels.type or "").strip() or None
        found.append(Lesson(event, case.names, affected, by_thresholds(case), kind, labels.alarm == "false",
                            summary(case, signal)))  # fmt: skip
    return list(found), refused


def train(stage: Stage, taught: Sequence[Lesson], settings: Settings) -> FootprintModel:
    """Learn, and judge by leaving out one incident after the other; ValueError if there is too little."""
    types = sorted({lesson.type for lesson in taught if lesson.type and lesson.affected.any()}) or [""]
    nodes = sorted({name for lesson in taught for name in lesson.names}) if settings.node_identity else []
    T = 1 + len(types)
    cost = miss_cost(T, settings.miss_cost) if settings.loss == "costs" else None
    predictor = FootprintPredictor(
        T, loss=settings.loss, cost=cost, one_type=settings.one_type, identity=settings.node_identity,
        edge_weight=settings.edge_weight, min_events=settings.min_events, centres=CENTRES, m_max=MOST_PARTS,
    )  # fmt: skip
    predictor.fit([_labelled(lesson, types, nodes) for lesson in taught])
    events = np.array([bool(lesson.affected.any()) for lesson in taught])
    known = KnownPatterns(np.array([lesson.point for lesson in taught]), events)
    novel = known.left_out()
    said, usual, true, right = [], [], [], []
    for lesson, out, strange in zip(taught, predictor.left_out_, novel, strict=True):
        named = np.zeros(len(lesson.affected), np.bool_)
        doubtful = strange | (out.support < FAMILIAR)
        named[out.node] = np.where(doubtful, lesson.thresholds[out.node], out.labels > 0)
        judged = ~np.asarray(lesson.event.mask)  # nobody looks there: what is affected is missed
        judged[out.node] = True
        said.append(named[judged])
        usual.append(lesson.thresholds[judged])
        true.append(lesson.affected[judged])
        if lesson.type and not strange and (kinds := np.bincount(out.labels[out.labels > 0])).any():
            right.append(types[kinds.argmax() - 1] == lesson.type)
    facts = Facts(
        features=FEATURES, stage=stage, events=len(taught), types=[name for name in types if name],
        nodes=nodes, false_alarms=sum(lesson.false_alarm for lesson in taught),
        worth=predictor.locality_["n_eff"], learnt=Score.of(said, true, settings.miss_cost),
        thresholds=Score.of(usual, true, settings.miss_cost),
        types_right=float(np.mean(right)) if right else None, novel=sum(novel),
        loss=settings.loss,
    )  # fmt: skip
    return FootprintModel(predictor, facts, known)


def _labelled(lesson: Lesson, types: list[str], nodes: list[str]) -> LabelledEvent:
    """An affected node whose type was not told is of each type with the same probability."""
    known = [lesson.type == name for name in types]
    share = np.array(known if any(known) else [True] * len(types), np.float64)
    H = np.where(lesson.affected[:, None], np.append(0.0, share / share.sum()), np.eye(1 + len(types))[0])
    return replace(lesson.event, labels=H, nodes=_ids(lesson.names, nodes))


def _ids(names: tuple[str, ...], known: list[str]) -> NDArray[np.int64]:
    at = {name: number for number, name in enumerate(known)}
    return np.array([at.get(name, NOBODY) for name in names], np.int64)
