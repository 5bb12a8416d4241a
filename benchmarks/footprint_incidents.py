"""Footprints of incidents through the whole pipeline: raw samples to case files, labels, training, findings.

    OPENBLAS_NUM_THREADS=1 python benchmarks/footprint_incidents.py [--quick] [--elsewhere]

Networks of 60 nodes with two components learn what quiet is; then changes of known nodes come: levels shift,
noise grows, components lose their correlation, and single nodes have glitches, which are labelled as false
alarms. Sizes differ from node to node, many near what can be seen. Findings are judged on later incidents.
With --elsewhere networks of different sizes teach each other by the messages of the daemons.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import msgspec
import numpy as np
from scipy.sparse import csgraph
from tables import machine, table

from detector.alignment.samples import Columns
from detector.diagnosis.exchange import messages
from detector.diagnosis.footprint import elsewhere
from detector.diagnosis.footprint.features import by_thresholds, rows, truth
from detector.diagnosis.footprint.model import FAMILIAR, FootprintModel, Score, lessons, train
from detector.diagnosis.footprint.settings import Settings as FootprintSettings
from detector.events.model import Labels
from detector.incidents.case import STAGES, Case, Stage
from detector.network.network import Network
from detector.pipeline.pipeline import Pipeline
from detector.settings.core import Settings
from estimators.core.types import Bools, Floats
from estimators.datasets.events import geometric_graph

N, LEARN, QUIET, AFTER = 60, 1500, 30, 160
SITES = ((1, 60), (2, 40), (3, 90))  # seed and nodes of networks that teach each other
KINDS = ("level", "noise", "decoupled", "glitch")
SETTINGS = Settings.of(
    align={"lateness": 0.0}, windows={"reference": 200, "tests": [5, 10, 25, 100]},
    alarm={"learn": LEARN, "budget": "1 per 20000 ticks"}, incidents={"clear_after": 20},
)  # fmt: skip


@dataclass(frozen=True)
class Known:
    """An incident and what really happened."""

    labels: Labels
    cases: dict[Stage, Case]


def quiet(ticks: int, rng: np.random.Generator, n: int) -> Floats:
    """Two components of n nodes with a correlation of one half."""
    x: Floats = rng.normal(size=(ticks, n, 2))
    x[..., 1] = 0.5 * x[..., 0] + np.sqrt(0.75) * x[..., 1]
    return x


def changed(kind: str, nodes: Sequence[int], rng: np.random.Generator, n: int) -> Floats:
    x = quiet(QUIET + AFTER, rng, n)
    for v in nodes:
        after = x[QUIET:, v]
        if kind == "level":
            after += rng.uniform(0.5, 1.5) * np.array([1.0, 0.4])
        elif kind == "noise":
            after *= rng.uniform(1.4, 2.2)
        elif kind == "decoupled":
            after[:, 1] = 1.2 * rng.normal(size=AFTER)
        else:
            after[: int(rng.integers(4, 9))] += 5.0
    return x


def incidents(seed: int, wanted: int, n: int = N) -> list[Known]:
    """Incidents of one network, each met by the same pipeline as it was when it had learnt."""
    graph = geometric_graph(n, 0.2, seed)
    names = [f"n{v:02d}" for v in range(n)]
    network = Network.from_edges([(names[u], names[v]) for u, v in graph.edges()], names)
    first = Pipeline(network, 2, SETTINGS)
    first.learn(quiet(LEARN, np.random.default_rng([seed, 0]), n))
    arrays, meta = first.state()
    text = msgspec.json.encode(meta)
    found: list[Known] = []
    number = 0
    while len(found) < wanted:
        number += 1
        rng = np.random.default_rng([seed, number])
        kind = str(rng.choice(KINDS, p=[0.35, 0.3, 0.2, 0.15]))
        order = csgraph.breadth_first_order(graph.matrix(), int(rng.integers(n)), return_predecessors=False)
        nodes = order[: 1 if kind == "glitch" else int(rng.integers(4, 13))]
        copy = {name: array.copy() for name, array in arrays.items()}
        made = Pipeline.from_state(network, 2, SETTINGS, copy, msgspec.json.decode(text))
        made.cases = []
        begin = first.learnt_until or 0.0
        for tick, row in enumerate(changed(kind, nodes, rng, n), 1):
            made.push_columns(Columns(np.arange(n, dtype=np.int32), np.full(n, begin + tick), row))
        made.flush()
        told = {names[v] for v in nodes}
        hit = [case for case in made.cases if case.stage == "settled" and told & set(case.members)]
        if hit:
            own = [case for case in made.cases if case.incident == hit[0].incident]
            said = {"alarm": "false"} if kind == "glitch" else {"type": kind, "nodes": sorted(told)}
            labels = msgspec.convert({"time": 0.0, "alarm": "true", **said}, Labels)
            found.append(
                Known(labels, {case.stage: replace(case, incident=f"{seed}-{number}") for case in own})
            )
    print(f"network {seed}: {wanted} incidents of {number} changes", file=sys.stderr, flush=True)
    return found


def members(case: Case) -> Bools:
    named = np.zeros(len(case.names), np.bool_)
    named[rows(case, case.members)] = True
    return named


def learnt(model: FootprintModel, case: Case) -> tuple[Bools, str | None]:
    """What the analyzer says."""
    if model.novelty(case)[1]:
        return by_thresholds(case), None
    said = model.predict(case)
    named: Bools = np.where(said.support < FAMILIAR, by_thresholds(case), said.labels > 0)
    return named, model.facts.types[said.event_type - 1] if said.event_type else None


def judge(
    known: list[Known], stage: Stage, numbers: Sequence[int], last: int
) -> dict[tuple[str, str], list[float]]:
    """Figures of all rules for one network and stage, judged on its ``last`` incidents."""
    test = [(one.cases[stage], one.labels) for one in known[-last:]]
    true = [truth(case, labels) for case, labels in test]

    def figures(said: list[Bools], types: float, used: float) -> list[float]:
        score = Score.of(said, true, FootprintSettings().miss_cost)
        return [score.missed, score.too_many, score.overlap, score.cost, types, used]

    found = {
        ("", "all members"): figures([members(case) for case, _ in test], np.nan, np.nan),
        ("", "by thresholds"): figures([by_thresholds(case) for case, _ in test], np.nan, np.nan),
    }
    for n in numbers:
        taught, _ = lessons((one.cases[stage], one.labels) for one in known[:n])
        model = train(stage, taught, FootprintSettings())
        said = [learnt(model, case) for case, _ in test]
        right = [
            kind == labels.type for (_, kind), (_, labels) in zip(said, test, strict=True) if labels.type
        ]
        named = [mask for mask, _ in said]
        found[str(n), "learnt"] = figures(named, float(np.mean(right)), float(model.facts.better))
    return found


class Line:
    """What an analyzer needs of an exchange, without a broker: the same messages, answered at once."""

    def __init__(self, models: dict[str, FootprintModel]) -> None:
        self.peers, self._models = sorted(models), models

    def ask(self, kind: type[messages.Question], **asked: Any) -> dict[str, messages.Message]:
        question = messages.parse(
            msgspec.json.encode(messages.record(kind(id="q", sender="a", until=0.0, **asked)))
        )
        assert isinstance(question, messages.FootprintQuestion)
        self.asked = len(msgspec.json.encode(messages.record(question)))
        held = {peer: model if model.facts.better else None for peer, model in self._models.items()}
        return {peer: messages.answer(question, peer, elsewhere.answer(model, question))
                for peer, model in held.items()}  # fmt: skip


def by_others(models: dict[str, FootprintModel], case: Case) -> tuple[Bools, str | None]:
    """What the analyzer of a site without labels says."""
    found = elsewhere.ask(cast(Any, Line(models)), case, FootprintSettings())
    if found is None:
        return by_thresholds(case), None
    named: Bools = np.where(found.said.support < FAMILIAR, by_thresholds(case), found.said.labels > 0)
    return named, found.types[found.said.event_type - 1] if found.said.event_type else None


def labels_of(stage: Stage, known: list[Known]) -> list[tuple[Case, Labels]]:
    return [(one.cases[stage], one.labels) for one in known if stage in one.cases]


def taught_elsewhere(networks: dict[str, list[Known]], stage: Stage, labelled: int) -> None:
    """Each network judged by thresholds, by its own labels, and by those of the others."""
    own, f1 = (
        {
            name: train(stage, lessons(labels_of(stage, known[:labelled]))[0], settings)
            for name, known in networks.items()
        }
        for settings in (FootprintSettings(), FootprintSettings(loss="f1"))
    )
    found = []
    for name, known in networks.items():
        test = labels_of(stage, known[labelled:])
        true = [truth(case, labels) for case, labels in test]
        others = {other: model for other, model in own.items() if other != name}
        ways: dict[str, Callable[[Case], tuple[Bools, str | None]]] = {
            "thresholds": lambda case: (by_thresholds(case), None),
            "own labels": partial(learnt, own[name]),
            "own labels, loss f1": partial(learnt, f1[name]),
            **{f"labels of {other}": partial(by_others, {other: model}) for other, model in others.items()},
            "labels of both": partial(by_others, others),
        }
        for way, say in ways.items():
            said = [say(case) for case, _ in test]
            score = Score.of([named for named, _ in said], true, FootprintSettings().miss_cost)
            right = [
                kind == labels.type for (_, kind), (_, labels) in zip(said, test, strict=True) if labels.type
            ]
            figures = (score.missed, score.too_many, score.overlap, score.f1, score.cost)
            found.append(
                (name, len(test), way, *figures, float(np.mean(right)) if "labels" in way else np.nan)
            )
    head = ("network", "incidents", "nodes by", "missed", "too many", "overlap", "F1", "cost", "types")
    print(f"\n{stage}, {labelled} labelled at each; nodes per incident:")
    print(table(head, found))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one network, few incidents")
    parser.add_argument("--elsewhere", action="store_true", help="sites that teach each other")
    given = parser.parse_args()
    quick = given.quick
    if given.elsewhere:
        sizes, wanted, labelled = (
            ((1, 60), (2, 40)) if quick else SITES,
            20 if quick else 36,
            8 if quick else 20,
        )
        sites = {f"{n} nodes": incidents(seed, wanted, n) for seed, n in sizes}
        print(machine())
        for stage in STAGES:
            taught_elsewhere(sites, stage, labelled)
        return
    seeds, wanted, numbers = ((1,), 20, (8,)) if quick else ((1, 2, 3), 60, (5, 10, 20, 40))
    networks = [incidents(seed, wanted) for seed in seeds]
    print(machine())
    for stage in STAGES:
        each = [judge(known, stage, numbers, wanted - max(numbers)) for known in networks]
        print(f"\n{stage}, mean of {len(seeds)} networks; nodes per incident:")
        rows = [(*key, *np.mean([one[key] for one in each], axis=0).tolist()) for key in each[0]]
        print(table(("labelled", "nodes", "missed", "too many", "overlap", "cost", "types", "used"), rows))


if __name__ == "__main__":
    main()
