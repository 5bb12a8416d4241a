"""The whole story after an alarm: two sites, three types of events, a scripted operator, a corrupt sensor.

    OPENBLAS_NUM_THREADS=1 python benchmarks/story.py [--quick] [--seeds N]

Two sites of 50 nodes each run the configurations of examples/story as their daemons would: samples, pipeline,
case files, labels, learning after them, findings. What the first n events taught is judged on later
ones. Thresholds are the plain fallback.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from story_site import SITES, Line, Memory, Site, Told, renamed
from tables import machine, table

from connectors.simulation.source import Truth
from detector.adaptation.actions import ACTIONS as ADAPT
from detector.adaptation.actions import Fit
from detector.adaptation.model_file import AdaptedModel
from detector.diagnosis.analyzer import Analyzer, Finding
from detector.diagnosis.footprint.features import by_thresholds
from detector.diagnosis.registry import build_analyzer, diagnosis_model
from detector.incidents.case import Case
from detector.settings.diagnosis import DiagnosisSettings
from estimators import Iwrls
from estimators.core.types import Floats

CONDITIONS = {"sound": (False, False), "corrupt": (True, False), "screened": (True, True)}
WAYS = ("thresholds", "always", "alone", "together")

Figures = dict[tuple[Any, ...], float]
Rows = dict[tuple[Any, ...], list[float]]


# ------------------------------------------------------------------------------------------ judging


def right_and_wrong(said: set[str], case: Case, truth: Truth, corrupt: set[str]) -> dict[str, float]:
    true = set(truth.nodes)
    return {
        "wrong": float(len(said ^ true)),
        "overlap": len(said & true) / len(said | true),
        "accused": float(bool((said & corrupt) - true)),
    }


def footprint(finding: Finding, case: Case, truth: Truth, corrupt: set[str]) -> dict[str, float]:
    """Errors of the nodes that are named, and whether the type is said and right."""
    said = {node["name"] for node in finding.data["nodes"]}
    unlike = finding.data.get("why", "").startswith("unlike")
    return {
        **right_and_wrong(said, case, truth, corrupt),
        "type": float(finding.data.get("type") == truth.type),
        "unlike": float(unlike),
    }


def regime(finding: Finding | None, truth: Truth) -> dict[str, float]:
    name = None if finding is None else finding.data["regime"]
    return {"regime": float(name == truth.type), "no name": float(name is None)}


class Analyzers:
    """What the daemons of both sites know after some labels, alone and together."""

    def __init__(self, folder: Path, given: Sequence[Told]) -> None:
        own = {name: [one for one in given if one.site.name == name] for name in SITES}
        lines = {name: Line(name) for name in SITES}
        for name, line in lines.items():
            for other in SITES:
                if other != name:
                    line.meet(lines[other])
        self._alone = {name: Memory(folder / f"alone-{name}", own[name]) for name in SITES}
        self._linked = {name: Memory(folder / f"linked-{name}", own[name], lines[name]) for name in SITES}
        self._both = Memory(folder / "both", given)  # one daemon that watches both sites
        for memory in (*self._alone.values(), *self._linked.values(), self._both):
            memory.learn()
        always = diagnosis_model(["footprint"])(footprint={"use": "always"})
        self.footprints: dict[tuple[str, str], Analyzer] = {}
        self.regimes: dict[tuple[str, str], Analyzer] = {}
        for name in SITES:
            self.footprints["alone", name] = _built("footprint", self._alone[name])
            self.footprints["always", name] = _built("footprint", self._alone[name], always)
            self.footprints["together", name] = _built("footprint", self._both)
            self.regimes["alone", name] = _built("regime", self._alone[name])
            self.regimes["together", name] = _built("regime", self._linked[name])

    def judge(self, later: Sequence[Told]) -> Rows:
        rows: Rows = {}

        def add(who: str, figures: Mapping[str, float], there: str) -> None:
            for what, value in figures.items():
                rows.setdefault((who, what), []).append(value)
                if what in ("wrong", "unlike"):
                    rows.setdefault((who, what, there), []).append(value)

        for told in later:
            site, truth, case = told.site, told.truth, told.settled
            assert truth is not None
            assert case is not None
            known = {pattern["type"] for pattern in site.patterns}
            there = "known there" if truth.type in known else "new there"
            corrupt = {site.source.names[v] for v in site.source.corrupt}
            usual = {case.names[v] for v in np.flatnonzero(by_thresholds(case))}
            add("thresholds", right_and_wrong(usual, case, truth, corrupt), there)
            case = renamed(case, site.name)
            for who in ("always", "alone", "together"):
                finding = self.footprints[who, site.name].analyze(case)
                assert finding is not None
                add(who, footprint(finding, case, truth, corrupt), there)
            for who in ("alone", "together"):
                add(who, regime(self.regimes[who, site.name].analyze(case), truth), there)
        return rows

    def close(self) -> None:
        for memory in (*self._alone.values(), *self._linked.values(), self._both):
            memory.close()


def _built(kind: str, memory: Memory, settings: DiagnosisSettings | None = None) -> Analyzer:
    """The analyzers of a daemon with this store."""
    if settings is not None:
        memory.repository.settings = settings
    try:
        built = build_analyzer(kind, memory.repository.settings, memory.repository)
    finally:
        memory.repository.settings = DiagnosisSettings()
    assert built is not None
    return built


# ------------------------------------------------------------------------------------------ soft sensor


def response(u: Floats) -> Floats:
    """What the soft sensor stands for: saturates."""
    y: Floats = 3.0 * np.tanh(u / 2.0)
    return y


def soft_sensor(told: Told, folder: Path, seed: Sequence[int]) -> dict[tuple[str, str], float]:
    """Errors where the values of the strongest node are since the leak, of a line and of kernels.

    Pairs: 300 of quiet operation, from which the model in use was made, and 100 over the whole range.
    """
    rng, site, truth, case = np.random.default_rng(seed), told.site, told.truth, told.settled
    assert truth is not None
    assert case is not None
    node = truth.nodes[0]
    offset, gain = site.units(node)
    u = np.concatenate([rng.normal(size=300), rng.uniform(-3.0, 6.0, 100)])
    x, y = offset + gain * u, response(u) + 0.2 * rng.normal(size=len(u))
    pairs = "reading,quantity\n" + "".join(
        f"{a!r},{b!r}\n" for a, b in zip(x.tolist(), y.tolist(), strict=True)
    )
    fresh = site.shift(truth, node) + rng.normal(size=2000)
    memory, errors = Memory(folder, [told]), {}
    for kind, linear in (("line", True), ("kernels", False)):
        result = ADAPT["fit"].run(memory.repository, Fit(
            pairs=pairs.encode(), target="quantity", incident=f"{site.name}-{case.incident}", node=node,
            model="line" if linear else "kernels",
        ))  # fmt: skip
        adapted = AdaptedModel.decode(result["file"], "model")
        for how, predict in (
            ("in use", Iwrls(linear=linear).fit(x[:300, None], y[:300]).predict),
            ("all pairs alike", Iwrls(linear=linear).fit(x[:, None], y).predict),
            ("adapted", adapted.predict),
        ):
            miss = predict((offset + gain * fresh)[:, None]) - response(fresh)
            errors[kind, how] = float(np.sqrt(np.mean(miss**2)))
    memory.close()
    return errors


# ------------------------------------------------------------------------------------------ the story


def story(seed: int, steps: Sequence[int], later: int, folder: Path) -> Figures:
    """All figures of one seed, by (condition, labels, who, what)."""
    figures: Figures = {}
    for condition, (corrupt, screen) in CONDITIONS.items():
        sites = {name: Site(name, seed, corrupt, screen) for name in SITES}
        every = list({one["type"]: one for site in sites.values() for one in site.patterns}.values())
        for site in sites.values():
            site.run(steps[-1] // 2, site.patterns)
            site.run(later // 2, every)
        begins = {name: [one.begin for one in site.truths] for name, site in sites.items()}
        test = [one for name in SITES for one in judged(sites[name], begins[name][steps[-1] // 2])]
        found = {(one.site.name, one.truth.begin): one for site in sites.values() for one in judged(site, 0.0)
                 if one.truth is not None}  # fmt: skip
        happened = [(name, truth) for name, site in sites.items() for truth in site.truths]
        figures[condition, "found"] = float(np.mean([(name, one.begin) in found for name, one in happened]))
        for kind in (one["type"] for one in every):
            figures[condition, "found", kind] = float(
                np.mean([(name, one.begin) in found for name, one in happened if one.type == kind])
            )
        told = [one for site in sites.values() for one in site.incidents.values()]
        figures[condition, "false"] = float(
            sum(one.label is not None and one.truth is None and one.settled is not None for one in told)
        )
        for n in steps:
            counts = {"east": (n + 1) // 2, "west": n // 2}
            given = [
                one for name in SITES for one in sites[name].incidents.values()
                if n and one.opened < [*begins[name], np.inf][counts[name]] and one.label is not None
            ]  # fmt: skip
            analyzers = Analyzers(folder / f"{seed}-{condition}-{n}", given)
            for key, values in analyzers.judge(test).items():
                figures[condition, n, *key] = float(np.mean(values))
            analyzers.close()
        if condition == "screened":
            _adapt(test, folder, seed, figures)
    return figures


def judged(site: Site, since: float) -> list[Told]:
    """One incident for each event since then: of those with a settled case file the one that shares most."""
    best: dict[float, Told] = {}
    for one in site.incidents.values():
        truth, case = one.truth, one.settled
        if truth is None or case is None or truth.begin < since:
            continue
        shared = len(set(case.members) & set(truth.nodes))
        old = best.get(truth.begin)
        if old is None or shared > len(set(old.settled.members if old.settled else ()) & set(truth.nodes)):
            best[truth.begin] = one
    return list(best.values())


def _adapt(test: Sequence[Told], folder: Path, seed: int, figures: Figures) -> None:
    """The soft sensor at the centre of each leak whose case file has its values; mean of the errors."""
    leaks = [one for one in test if one.truth is not None and one.truth.type == "leak"]
    held = [one for one in leaks if one.settled is not None and one.truth is not None
            and one.truth.nodes[0] in one.settled.recent]  # fmt: skip
    rows: Rows = {}
    refused = 0
    for i, told in enumerate(held):
        try:
            for key, value in soft_sensor(told, folder / f"{seed}-soft-{i}", [seed, 9, i]).items():
                rows.setdefault(key, []).append(value)
        except ValueError:  # the pairs cannot tell
            refused += 1
    for key, values in rows.items():
        figures["soft", *key] = float(np.mean(values))
    figures["soft", "leaks"], figures["soft", "refused"] = float(len(held)), float(refused)


# ------------------------------------------------------------------------------------------ telling


def cell(runs: Sequence[Figures], *key: Any) -> str:
    """Median over the seeds, and the range."""
    values = [run[key] for run in runs]
    return f"{np.median(values):.2f} ({min(values):.2f} - {max(values):.2f})"


def curves(runs: Sequence[Figures], condition: str, steps: Sequence[int],
           columns: Sequence[tuple[str, ...]]) -> str:  # fmt: skip
    """Figures as labels arrive."""
    return table(
        ("events", *(f"{', '.join(what)}, {who}" for who, *what in columns)),
        [(n, *(cell(runs, condition, n, *column) for column in columns)) for n in steps],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, few events")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    steps, later = ((0, 5, 20), 12) if given.quick else ((0, 5, 10, 20, 40), 48)
    seeds = range(1 if given.quick else given.seeds)
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        runs = [story(seed, steps, later, Path(folder)) for seed in seeds]
    print(machine())
    print(f"\n{len(runs)} seeds, {later} later events each. Median over the seeds (least - largest)")
    for condition in CONDITIONS:
        print(f"\n== {condition}")
        print(f"events with a settled case file: {cell(runs, condition, 'found')}; ", end="")
        print(
            ", ".join(f"{kind} {cell(runs, condition, 'found', kind)}" for kind in ("leak", "jam", "noise"))
        )
        print(f"settled incidents that were none: {cell(runs, condition, 'false')}")
        print("\nFootprint: wrong nodes of 50, and overlap (Jaccard)")
        who = ("thresholds", "alone", "together")
        print(curves(runs, condition, steps, [(one, what) for what in ("wrong", "overlap") for one in who]))
        print("\nWrong nodes at events of a type that was labelled at the site, and of one that was not")
        for there in ("known there", "new there"):
            print(curves(runs, condition, steps, [(one, "wrong", there) for one in WAYS]))
        print("\nShare of events that are unlike all labelled ones, and left to thresholds")
        print(curves(runs, condition, steps, [(one, "unlike", there) for one in ("alone", "together")
                                              for there in ("known there", "new there")]))  # fmt: skip
        if condition != "sound":
            print("\nShare of events of which the corrupt sensor is said to be a node, and is not")
            print(curves(runs, condition, steps, [(one, "accused") for one in who]))
        print("\nType by the footprint, share right; regime: share named right, share without a name")
        print(curves(runs, condition, steps, [(one, what) for what in ("type", "regime", "no name")
                                              for one in ("alone", "together")]))  # fmt: skip
    print("\nSoft sensor at the centre of a leak: error since then (noise of a label 0.2)")
    ways = ("in use", "all pairs alike", "adapted")
    print(table(("model", *ways), [(kind, *(cell(runs, "soft", kind, way) for way in ways))
                                   for kind in ("line", "kernels")]))  # fmt: skip
    print(f"leaks: {cell(runs, 'soft', 'leaks')}, refused: {cell(runs, 'soft', 'refused')}")
    print(f"\n{time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main()
